#include "formats/safetensors.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <thread>

#include "checkpoint_builder.hpp"
#include "expect_error.hpp"
#include "formats/tensor_values.hpp"
#include "temp_folder.hpp"

namespace megamoe {
namespace {

/// A file in memory: the length of `header`, `header`, then `num_data_bytes` bytes 0, 1, 2, ...
std::vector<std::byte> file_of(std::string_view header, size_t num_data_bytes) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(header.size() >> (8 * i) & 0xFF));
  for (const char c : header) bytes.push_back(static_cast<std::byte>(c));
  for (size_t i = 0; i < num_data_bytes; ++i) bytes.push_back(static_cast<std::byte>(i));
  return bytes;
}

TEST(SafeTensors, ReadsTensorsAndMetadata) {
  const auto bytes =
      file_of(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2,3],"data_offsets":[4,10]},)"
              R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}   )",
              10);
  const Result<SafeTensors> file = SafeTensors::parse(bytes, "x");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  ASSERT_EQ(file->tensors().size(), 2U);
  EXPECT_EQ(file->tensors()[0].name, "a");
  EXPECT_TRUE(file->tensors()[0].shape.empty());
  const TensorView* b = file->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(b->bytes[0], std::byte{4});
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->find("c"), nullptr);
}

TEST(SafeTensors, EmptyFilesAndEmptyTensorsAreFine) {
  EXPECT_TRUE(SafeTensors::parse(file_of("{}", 0), "x").ok());
  const auto bytes = file_of(R"({"e":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]},)"
                             R"("f":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                             2);
  const Result<SafeTensors> file = SafeTensors::parse(bytes, "x");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_TRUE(file->find("e")->bytes.empty());
}

TEST(SafeTensors, PackedFourBitElements) {
  const auto bytes = file_of(R"({"e":{"dtype":"F4","shape":[2,4],"data_offsets":[0,4]}})", 4);
  EXPECT_TRUE(SafeTensors::parse(bytes, "x").ok());
}

TEST(SafeTensors, EveryDtypeMakesTheRoundTrip) {
  const TempFolder folder;
  CheckpointBuilder builder;
  for (const char* name : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "I16", "U16", "F16", "BF16", "I32",
                           "U32", "F32", "I64", "U64", "F64", "C64", "F4"}) {
    ASSERT_TRUE(parse_dtype(name).has_value()) << name;
    builder.add(name, *parse_dtype(name), {3, 2});
  }
  ASSERT_TRUE(builder.write(folder / "all.safetensors").ok());
  const Result<SafeTensors> file = SafeTensors::open(folder / "all.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->tensors().size(), 18U);
  for (const TensorView& tensor : file->tensors()) {
    EXPECT_EQ(to_string(tensor.dtype), tensor.name);
    const std::vector<std::byte>& written = builder.bytes(tensor.name);
    EXPECT_TRUE(std::equal(written.begin(), written.end(), tensor.bytes.begin(), tensor.bytes.end())) << tensor.name;
    const uint32_t element_bytes = std::max(1U, num_bits(tensor.dtype) / 8);
    EXPECT_EQ(std::bit_cast<uintptr_t>(tensor.bytes.data()) % element_bytes, 0U) << tensor.name;
  }
}

TEST(SafeTensors, MetadataMakesTheRoundTrip) {
  const TempFolder folder;
  const std::vector<std::byte> data(4, std::byte{7});
  const TensorView tensor{"odd \"name\"\n", Dtype::u8, {4}, data};
  ASSERT_TRUE(write_safetensors(folder / "m.safetensors", {&tensor, 1}, {{"who", "a \\ test"}}).ok());
  const Result<SafeTensors> file = SafeTensors::open(folder / "m.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->metadata().at("who"), "a \\ test");
  EXPECT_NE(file->find("odd \"name\"\n"), nullptr);
}

TEST(SafeTensors, ViewsSurviveAMove) {
  const TempFolder folder;
  CheckpointBuilder builder;
  builder.add("t", Dtype::f32, {5});
  ASSERT_TRUE(builder.write(folder / "t.safetensors").ok());
  Result<SafeTensors> file = SafeTensors::open(folder / "t.safetensors");
  ASSERT_TRUE(file.ok());
  const std::byte* before = file->find("t")->bytes.data();
  const SafeTensors moved = *std::move(file);
  EXPECT_EQ(moved.find("t")->bytes.data(), before);
  EXPECT_EQ(moved.find("t")->bytes[0], builder.bytes("t")[0]);
}

TEST(SafeTensors, WriterReplacesWholeFilesAndLeavesNothingElse) {
  const TempFolder folder;
  CheckpointBuilder small;
  small.add("a", Dtype::u8, {1});
  CheckpointBuilder large;
  large.add("b", Dtype::u8, {5000});
  const std::string path = folder / "out.safetensors";
  ASSERT_TRUE(large.write(path).ok());
  ASSERT_TRUE(small.write(path).ok());
  const Result<SafeTensors> file = SafeTensors::open(path);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->find("b"), nullptr);
  const std::filesystem::directory_iterator entries(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

// cases.md 35: writers that start together must not see or leave partial files.
TEST(SafeTensors, Case35WritersTogether) {
  const TempFolder folder;
  const std::string path = folder / "out.safetensors";
  std::vector<std::thread> writers;
  for (uint64_t size = 1000; size < 1008; ++size) {
    writers.emplace_back([&, size] {
      CheckpointBuilder builder;
      builder.add("t", Dtype::u8, {size});
      EXPECT_TRUE(builder.write(path).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(SafeTensors::open(path).ok());
}

TEST(SafeTensors, WriterErrors) {
  const TempFolder folder;
  const std::vector<std::byte> data(4);
  const auto write = [&](std::vector<TensorView> tensors) {
    return write_safetensors(folder / "w.safetensors", tensors);
  };
  expect_error(write({{"a", Dtype::f32, {2}, data}}), StatusCode::invalid_argument,
               {"tensor 'a' must hold the 8 bytes of F32 [2]", "got 4 bytes", "pass all of its bytes"});
  expect_error(write({{"a", Dtype::f32, {1}, data}, {"a", Dtype::f32, {1}, data}}), StatusCode::invalid_argument,
               {"tensor names must differ", "'a'", "rename one"});
  expect_error(write({{"__metadata__", Dtype::f32, {1}, data}}), StatusCode::invalid_argument,
               {"must not be named __metadata__", "'__metadata__'", "rename it"});
  expect_error(write({{"\xFF", Dtype::f32, {1}, data}}), StatusCode::invalid_argument,
               {"UTF-8", "other bytes", "rename"});
  expect_error(write_safetensors(folder / "no/such/folder.safetensors", {}), StatusCode::invalid_argument,
               {"must be creatable", "No such file", "check the folder"});
  EXPECT_FALSE(std::filesystem::exists(folder / "w.safetensors"));
}

TEST(TensorValues, MisalignedFloatsAreCopied) {
  alignas(8) std::array<std::byte, 13> storage{};
  const float value = 1.5F;
  std::memcpy(&storage[1], &value, sizeof value);
  const TensorView tensor{"t", Dtype::f32, {1}, std::span(storage).subspan(1, 4)};
  const Result<TensorValues<float>> values = float_values(tensor);
  ASSERT_TRUE(values.ok());
  EXPECT_EQ(values->values()[0], 1.5F);
  EXPECT_EQ(std::bit_cast<uintptr_t>(values->values().data()) % alignof(float), 0U);
}

// Found by fuzz_safetensors: an empty tensor between bytes copied nothing to a null pointer.
TEST(TensorValues, EmptyTensorAtAnOddAddress) {
  alignas(8) const std::array<std::byte, 3> storage{};
  const TensorView tensor{"t", Dtype::i32, {0, 7}, std::span(storage).subspan(1, 0)};
  const Result<TensorValues<int64_t>> values = int64_values(tensor);
  ASSERT_TRUE(values.ok());
  EXPECT_TRUE(values->values().empty());
}

TEST(TensorValues, AlignedFloatsAreNot) {
  const std::array<float, 2> source{1.0F, 2.0F};
  const TensorView tensor{"t", Dtype::f32, {2}, std::as_bytes(std::span(source))};
  EXPECT_EQ(float_values(tensor)->values().data(), source.data());
}

TEST(TensorValues, Conversions) {
  const std::array<uint16_t, 2> halves{0x3F80, 0xC000};
  const TensorView bf16{"t", Dtype::bf16, {2}, std::as_bytes(std::span(halves))};
  EXPECT_EQ(float_values(bf16)->values()[1], -2.0F);
  EXPECT_EQ(bf16_values(bf16)->values()[0], Bf16{0x3F80});
  const std::array<int32_t, 2> ids{-1, 7};
  const TensorView i32{"ids", Dtype::i32, {2}, std::as_bytes(std::span(ids))};
  EXPECT_EQ(int64_values(i32)->values()[0], -1);
  expect_error(float_values(i32).status(), StatusCode::invalid_file,
               {"tensor 'ids' must be F32 or BF16", "I32 [2]", "convert"});
  expect_error(bf16_values(i32).status(), StatusCode::invalid_file, {"must be BF16", "I32 [2]", "convert"});
  expect_error(int64_values(bf16).status(), StatusCode::invalid_file, {"must be I64 or I32", "BF16 [2]", "convert"});
}

}  // namespace
}  // namespace megamoe
