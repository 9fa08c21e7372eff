# Compile options that every target of the project shares, and one helper to declare a module.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(mm_options INTERFACE)
# -Wrestrict of GCC 12 fires on "text" + std::string in optimised code, where nothing overlaps.
target_compile_options(mm_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
# Results must not depend on the compiler's taste: no contraction, no reassociation.
set(MM_CXX_OPTIONS -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off
                   $<$<BOOL:${MM_WERROR}>:-Werror>)
target_compile_options(mm_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:${MM_CXX_OPTIONS}>)
# nvcc: device code without contraction too; what ptxas spills or serialises fails the build.
target_compile_options(mm_options INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra -Xptxas=--warn-on-spills,--warn-on-local-memory-usage
  $<$<BOOL:${MM_WERROR}>:-Werror=all-warnings>>)
target_include_directories(mm_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
if(MM_SANITIZE)
  string(REPLACE ";" "," MM_SANITIZE_LIST "${MM_SANITIZE}")
  target_compile_options(mm_options INTERFACE -fsanitize=${MM_SANITIZE_LIST} -fno-omit-frame-pointer
                                              -fno-sanitize-recover=all)
  target_link_options(mm_options INTERFACE -fsanitize=${MM_SANITIZE_LIST})
endif()

# mm_module(name sources...): one folder of src/ as an object library.
function(mm_module name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PUBLIC mm_options Threads::Threads PRIVATE ${MM_FMT}
                                                                            nlohmann_json::nlohmann_json)
  # What is hot runs optimised under sanitizers too; the rest need not, and compiles in two thirds of the time.
  if(MM_SANITIZE AND NOT name MATCHES "^mm_cpu")
    target_compile_options(${name} PRIVATE -O0)
  endif()
endfunction()
