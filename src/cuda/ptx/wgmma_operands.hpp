#pragma once

// The operand lists of wgmma.mma_async: n columns of D are n / 2 registers of each lane, and an asm statement must name
// every one. Lists for n are the lists for n - 8 and four more.

// "%0, %1, ...": names of the accumulator's registers in the asm text.
#define MM_WGMMA_NAMES_8 "%0, %1, %2, %3"
#define MM_WGMMA_NAMES_16 MM_WGMMA_NAMES_8 ", %4, %5, %6, %7"
#define MM_WGMMA_NAMES_24 MM_WGMMA_NAMES_16 ", %8, %9, %10, %11"
#define MM_WGMMA_NAMES_32 MM_WGMMA_NAMES_24 ", %12, %13, %14, %15"
#define MM_WGMMA_NAMES_40 MM_WGMMA_NAMES_32 ", %16, %17, %18, %19"
#define MM_WGMMA_NAMES_48 MM_WGMMA_NAMES_40 ", %20, %21, %22, %23"
#define MM_WGMMA_NAMES_56 MM_WGMMA_NAMES_48 ", %24, %25, %26, %27"
#define MM_WGMMA_NAMES_64 MM_WGMMA_NAMES_56 ", %28, %29, %30, %31"
#define MM_WGMMA_NAMES_72 MM_WGMMA_NAMES_64 ", %32, %33, %34, %35"
#define MM_WGMMA_NAMES_80 MM_WGMMA_NAMES_72 ", %36, %37, %38, %39"
#define MM_WGMMA_NAMES_88 MM_WGMMA_NAMES_80 ", %40, %41, %42, %43"
#define MM_WGMMA_NAMES_96 MM_WGMMA_NAMES_88 ", %44, %45, %46, %47"
#define MM_WGMMA_NAMES_104 MM_WGMMA_NAMES_96 ", %48, %49, %50, %51"
#define MM_WGMMA_NAMES_112 MM_WGMMA_NAMES_104 ", %52, %53, %54, %55"
#define MM_WGMMA_NAMES_120 MM_WGMMA_NAMES_112 ", %56, %57, %58, %59"
#define MM_WGMMA_NAMES_128 MM_WGMMA_NAMES_120 ", %60, %61, %62, %63"
#define MM_WGMMA_NAMES_136 MM_WGMMA_NAMES_128 ", %64, %65, %66, %67"
#define MM_WGMMA_NAMES_144 MM_WGMMA_NAMES_136 ", %68, %69, %70, %71"
#define MM_WGMMA_NAMES_152 MM_WGMMA_NAMES_144 ", %72, %73, %74, %75"
#define MM_WGMMA_NAMES_160 MM_WGMMA_NAMES_152 ", %76, %77, %78, %79"
#define MM_WGMMA_NAMES_168 MM_WGMMA_NAMES_160 ", %80, %81, %82, %83"
#define MM_WGMMA_NAMES_176 MM_WGMMA_NAMES_168 ", %84, %85, %86, %87"
#define MM_WGMMA_NAMES_184 MM_WGMMA_NAMES_176 ", %88, %89, %90, %91"
#define MM_WGMMA_NAMES_192 MM_WGMMA_NAMES_184 ", %92, %93, %94, %95"
#define MM_WGMMA_NAMES_200 MM_WGMMA_NAMES_192 ", %96, %97, %98, %99"
#define MM_WGMMA_NAMES_208 MM_WGMMA_NAMES_200 ", %100, %101, %102, %103"
#define MM_WGMMA_NAMES_216 MM_WGMMA_NAMES_208 ", %104, %105, %106, %107"
#define MM_WGMMA_NAMES_224 MM_WGMMA_NAMES_216 ", %108, %109, %110, %111"
#define MM_WGMMA_NAMES_232 MM_WGMMA_NAMES_224 ", %112, %113, %114, %115"
#define MM_WGMMA_NAMES_240 MM_WGMMA_NAMES_232 ", %116, %117, %118, %119"
#define MM_WGMMA_NAMES_248 MM_WGMMA_NAMES_240 ", %120, %121, %122, %123"
#define MM_WGMMA_NAMES_256 MM_WGMMA_NAMES_248 ", %124, %125, %126, %127"

// "+f"(d[0]), "+f"(d[1]), ...: the same registers as operands.
#define MM_WGMMA_D4(first) "+f"(d[(first)]), "+f"(d[(first) + 1]), "+f"(d[(first) + 2]), "+f"(d[(first) + 3])
#define MM_WGMMA_D_8 MM_WGMMA_D4(0)
#define MM_WGMMA_D_16 MM_WGMMA_D_8, MM_WGMMA_D4(4)
#define MM_WGMMA_D_24 MM_WGMMA_D_16, MM_WGMMA_D4(8)
#define MM_WGMMA_D_32 MM_WGMMA_D_24, MM_WGMMA_D4(12)
#define MM_WGMMA_D_40 MM_WGMMA_D_32, MM_WGMMA_D4(16)
#define MM_WGMMA_D_48 MM_WGMMA_D_40, MM_WGMMA_D4(20)
#define MM_WGMMA_D_56 MM_WGMMA_D_48, MM_WGMMA_D4(24)
#define MM_WGMMA_D_64 MM_WGMMA_D_56, MM_WGMMA_D4(28)
#define MM_WGMMA_D_72 MM_WGMMA_D_64, MM_WGMMA_D4(32)
#define MM_WGMMA_D_80 MM_WGMMA_D_72, MM_WGMMA_D4(36)
#define MM_WGMMA_D_88 MM_WGMMA_D_80, MM_WGMMA_D4(40)
#define MM_WGMMA_D_96 MM_WGMMA_D_88, MM_WGMMA_D4(44)
#define MM_WGMMA_D_104 MM_WGMMA_D_96, MM_WGMMA_D4(48)
#define MM_WGMMA_D_112 MM_WGMMA_D_104, MM_WGMMA_D4(52)
#define MM_WGMMA_D_120 MM_WGMMA_D_112, MM_WGMMA_D4(56)
#define MM_WGMMA_D_128 MM_WGMMA_D_120, MM_WGMMA_D4(60)
#define MM_WGMMA_D_136 MM_WGMMA_D_128, MM_WGMMA_D4(64)
#define MM_WGMMA_D_144 MM_WGMMA_D_136, MM_WGMMA_D4(68)
#define MM_WGMMA_D_152 MM_WGMMA_D_144, MM_WGMMA_D4(72)
#define MM_WGMMA_D_160 MM_WGMMA_D_152, MM_WGMMA_D4(76)
#define MM_WGMMA_D_168 MM_WGMMA_D_160, MM_WGMMA_D4(80)
#define MM_WGMMA_D_176 MM_WGMMA_D_168, MM_WGMMA_D4(84)
#define MM_WGMMA_D_184 MM_WGMMA_D_176, MM_WGMMA_D4(88)
#define MM_WGMMA_D_192 MM_WGMMA_D_184, MM_WGMMA_D4(92)
#define MM_WGMMA_D_200 MM_WGMMA_D_192, MM_WGMMA_D4(96)
#define MM_WGMMA_D_208 MM_WGMMA_D_200, MM_WGMMA_D4(100)
#define MM_WGMMA_D_216 MM_WGMMA_D_208, MM_WGMMA_D4(104)
#define MM_WGMMA_D_224 MM_WGMMA_D_216, MM_WGMMA_D4(108)
#define MM_WGMMA_D_232 MM_WGMMA_D_224, MM_WGMMA_D4(112)
#define MM_WGMMA_D_240 MM_WGMMA_D_232, MM_WGMMA_D4(116)
#define MM_WGMMA_D_248 MM_WGMMA_D_240, MM_WGMMA_D4(120)
#define MM_WGMMA_D_256 MM_WGMMA_D_248, MM_WGMMA_D4(124)

// X(n, numbers of the eight operands that follow the accumulator's n / 2).
// clang-format off
#define MM_WGMMA_FOR_EACH_N(X) \
  X(8, 4, 5, 6, 7, 8, 9, 10, 11) \
  X(16, 8, 9, 10, 11, 12, 13, 14, 15) \
  X(24, 12, 13, 14, 15, 16, 17, 18, 19) \
  X(32, 16, 17, 18, 19, 20, 21, 22, 23) \
  X(40, 20, 21, 22, 23, 24, 25, 26, 27) \
  X(48, 24, 25, 26, 27, 28, 29, 30, 31) \
  X(56, 28, 29, 30, 31, 32, 33, 34, 35) \
  X(64, 32, 33, 34, 35, 36, 37, 38, 39) \
  X(72, 36, 37, 38, 39, 40, 41, 42, 43) \
  X(80, 40, 41, 42, 43, 44, 45, 46, 47) \
  X(88, 44, 45, 46, 47, 48, 49, 50, 51) \
  X(96, 48, 49, 50, 51, 52, 53, 54, 55) \
  X(104, 52, 53, 54, 55, 56, 57, 58, 59) \
  X(112, 56, 57, 58, 59, 60, 61, 62, 63) \
  X(120, 60, 61, 62, 63, 64, 65, 66, 67) \
  X(128, 64, 65, 66, 67, 68, 69, 70, 71) \
  X(136, 68, 69, 70, 71, 72, 73, 74, 75) \
  X(144, 72, 73, 74, 75, 76, 77, 78, 79) \
  X(152, 76, 77, 78, 79, 80, 81, 82, 83) \
  X(160, 80, 81, 82, 83, 84, 85, 86, 87) \
  X(168, 84, 85, 86, 87, 88, 89, 90, 91) \
  X(176, 88, 89, 90, 91, 92, 93, 94, 95) \
  X(184, 92, 93, 94, 95, 96, 97, 98, 99) \
  X(192, 96, 97, 98, 99, 100, 101, 102, 103) \
  X(200, 100, 101, 102, 103, 104, 105, 106, 107) \
  X(208, 104, 105, 106, 107, 108, 109, 110, 111) \
  X(216, 108, 109, 110, 111, 112, 113, 114, 115) \
  X(224, 112, 113, 114, 115, 116, 117, 118, 119) \
  X(232, 116, 117, 118, 119, 120, 121, 122, 123) \
  X(240, 120, 121, 122, 123, 124, 125, 126, 127) \
  X(248, 124, 125, 126, 127, 128, 129, 130, 131) \
  X(256, 128, 129, 130, 131, 132, 133, 134, 135)
// clang-format on
