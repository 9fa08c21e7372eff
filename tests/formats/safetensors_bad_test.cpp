// Files that must be refused, each with the message that says why.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "expect_error.hpp"
#include "formats/safetensors.hpp"
#include "formats/strict_json.hpp"
#include "temp_folder.hpp"

namespace megamoe {
namespace {

struct BadHeader {
  const char* name;
  std::string header;
  size_t num_data_bytes;
  const char* rule;
  const char* value;
  const char* remedy;
};

// GoogleTest would print the object's bytes, which differ from run to run.
void PrintTo(const BadHeader& one, std::ostream* out) { *out << one.name; }

constexpr const char* kAgain = "download or write the file again";

std::string nested(size_t depth) {
  std::string text = "{\"a\":";
  text.append(depth, '[');
  text.append(depth, ']');
  return text + "}";
}

std::vector<BadHeader> bad_headers() {
  const auto entry = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return "{\"t\":{\"dtype\":" + std::string(dtype) + ",\"shape\":" + std::string(shape) +
           ",\"data_offsets\":" + std::string(offsets) + "}}";
  };
  const std::string u8 = "\"U8\"";
  const char* offsets_rule = "data_offsets must be two non-negative integers";
  const char* shape_rule = "tensor 't': shape must be a list of at most 8 non-negative integers";
  return {
      {"NotAnObject", "[1]", 0, "header must begin with '{'", "'[1]'", "check that this is a safetensors file"},
      {"LeadingSpace", " {}", 0, "header must begin with '{'", "' {}'", "check that this is a safetensors file"},
      {"EmptyHeader", "", 0, "header must begin with '{'", "''", "check that this is a safetensors file"},
      {"CutJson", "{\"t\":", 0, "JSON must be valid", "syntax error at byte", kAgain},
      {"TrailingText", "{} x", 0, "JSON must be valid", "syntax error at byte 4", kAgain},
      {"BadUtf8", "{\"\xFF\":1}", 0, "JSON must be valid", "syntax error", kAgain},
      {"HugeNumber", entry(u8, "[1e999]", "[0,1]"), 1, "JSON must be valid", "syntax error", kAgain},
      {"DuplicateTensor", R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{}})", 1,
       "JSON must not repeat a key", "'t'", "keep one of the entries"},
      {"DuplicateField", R"({"t":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1,
       "JSON must not repeat a key", "'dtype'", "keep one of the entries"},
      {"DuplicateMetadata", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "JSON must not repeat a key", "'a'",
       "keep one"},
      {"TooDeep", nested(100), 0, "JSON must nest at most 32 levels", "more", "flatten"},
      {"MetadataNotText", R"({"__metadata__":{"a":1}})", 0, "__metadata__ must map strings to strings", "'a': 1",
       kAgain},
      {"MetadataNotObject", R"({"__metadata__":7})", 0, "__metadata__ must map strings to strings", "got 7", kAgain},
      {"EntryNotObject", R"({"t":7})", 0, "tensor 't': entry must be an object", "got 7", kAgain},
      {"NoDtype", R"({"t":{"shape":[1],"data_offsets":[0,1]}})", 1, "entry must have dtype", "got none", kAgain},
      {"NoShape", R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", 1, "entry must have shape", "got none", kAgain},
      {"NoOffsets", R"({"t":{"dtype":"U8","shape":[1]}})", 1, "entry must have data_offsets", "got none", kAgain},
      {"ExtraField", R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0}})", 1,
       "entry must have dtype, shape and data_offsets only", "\"x\":0", "remove the other keys"},
      {"UnknownDtype", entry("\"F9\"", "[1]", "[0,1]"), 1, "dtype must be one of BOOL", "\"F9\"", "convert it"},
      {"DtypeNotText", entry("8", "[1]", "[0,1]"), 1, "dtype must be one of BOOL", "got 8", "convert it"},
      {"NegativeShape", entry(u8, "[-1]", "[0,1]"), 1, shape_rule, "[-1]", kAgain},
      {"FractionalShape", entry(u8, "[1.5]", "[0,1]"), 1, shape_rule, "[1.5]", kAgain},
      {"ShapeBeyond64Bits", entry(u8, "[18446744073709551616]", "[0,1]"), 1, shape_rule, "1.8446744073709552e+19",
       kAgain},
      {"ShapeNotList", entry(u8, "3", "[0,1]"), 1, shape_rule, "got 3", kAgain},
      {"RankNine", entry(u8, "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, shape_rule, "[1,1,1,1,1,1,1,1,1]", kAgain},
      {"ShapeOverflow", entry("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, "shape must not overflow 64 bits",
       "4294967296 x 4294967296", kAgain},
      {"HalfByte", entry("\"F4\"", "[3]", "[0,2]"), 2, "packed elements must fill whole bytes", "12 bits", "pad"},
      {"OffsetsNotPair", entry(u8, "[1]", "[0]"), 1, offsets_rule, "[0]", kAgain},
      {"OffsetsThree", entry(u8, "[1]", "[0,1,2]"), 1, offsets_rule, "[0,1,2]", kAgain},
      {"OffsetsNegative", entry(u8, "[1]", "[-1,0]"), 1, offsets_rule, "[-1,0]", kAgain},
      {"OffsetsReversed", entry(u8, "[1]", "[1,0]"), 1, "data_offsets must begin before they end", "[1,0]", kAgain},
      {"OffsetsBeyondFile", entry(u8, "[9]", "[0,9]"), 8, "data_offsets must end within the 8 data bytes", "[0,9]",
       "truncated"},
      {"OffsetsHuge", entry(u8, "[9]", "[18446744073709551600,18446744073709551615]"), 8,
       "data_offsets must end within the 8 data bytes", "18446744073709551615", "truncated"},
      {"SizeMismatch", entry("\"F32\"", "[2]", "[0,7]"), 7, "data_offsets must span the 8 bytes of F32 [2]", "7 bytes",
       kAgain},
      {"Overlap",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       6, "tensors must not overlap tensor 'b'", "begin 2, previous end 4", kAgain},
      {"SharedBytes",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})",
       4, "tensors must not overlap tensor 'b'", "begin 0, previous end 4", kAgain},
      {"Hole",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5, "tensors must not leave a hole before tensor 'b'", "begin 3, previous end 2", kAgain},
      {"HoleAtFront", entry(u8, "[1]", "[1,2]"), 2, "tensors must not leave a hole before tensor 't'", "begin 1",
       kAgain},
      {"TrailingBytes", entry(u8, "[1]", "[0,1]"), 3, "tensors must cover all 3 data bytes", "2 trailing bytes",
       kAgain},
      {"EscapeCodesInName", R"({"\u001b[2J":7})", 0, "tensor '\\x1b[2J': entry must be an object", "got 7", kAgain},
  };
}

std::vector<std::byte> to_bytes(uint64_t header_length, std::string_view header, size_t num_data_bytes) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(header_length >> (8 * i) & 0xFF));
  for (const char c : header) bytes.push_back(static_cast<std::byte>(c));
  bytes.resize(bytes.size() + num_data_bytes);
  return bytes;
}

class BadSafeTensors : public testing::TestWithParam<BadHeader> {};

TEST_P(BadSafeTensors, IsRefused) {
  const BadHeader& bad = GetParam();
  const std::vector<std::byte> bytes = to_bytes(bad.header.size(), bad.header, bad.num_data_bytes);
  expect_error(SafeTensors::parse(bytes, "bad.safetensors").status(), StatusCode::invalid_file,
               {"bad.safetensors: ", bad.rule, bad.value, bad.remedy});
}

INSTANTIATE_TEST_SUITE_P(Headers, BadSafeTensors, testing::ValuesIn(bad_headers()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(BadSafeTensorsFile, ShorterThanItsLength) {
  const std::vector<std::byte> bytes(7);
  expect_error(SafeTensors::parse(bytes, "x").status(), StatusCode::invalid_file,
               {"file must be at least 8 bytes", "got 7", "check that this is a safetensors file"});
}

TEST(BadSafeTensorsFile, HeaderLongerThanTheFile) {
  expect_error(SafeTensors::parse(to_bytes(3, "{}", 0), "x").status(), StatusCode::invalid_file,
               {"header must fit into the file of 10 bytes", "a header of 3 bytes", "truncated"});
}

TEST(BadSafeTensorsFile, HeaderLengthAbsurd) {
  expect_error(SafeTensors::parse(to_bytes(~uint64_t{0}, "{}", 0), "x").status(), StatusCode::invalid_file,
               {"header length must be at most 104857600 bytes", "18446744073709551615", "check that this is"});
}

TEST(BadSafeTensorsFile, EveryTruncationOfAGoodFile) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  const std::vector<std::byte> good = to_bytes(header.size(), header, 4);
  ASSERT_TRUE(SafeTensors::parse(good, "x").ok());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(SafeTensors::parse(std::span(good).first(size), "x").status().code(), StatusCode::invalid_file) << size;
  }
}

TEST(BadSafeTensorsFile, PathsThatAreNoFile) {
  const TempFolder folder;
  expect_error(SafeTensors::open(folder / "none").status(), StatusCode::not_found,
               {"must be readable", "No such file", "check the path"});
  expect_error(SafeTensors::open(folder.path()).status(), StatusCode::invalid_file,
               {"must be a regular file", "a folder", "name a file"});
  folder.write("empty", "");
  expect_error(SafeTensors::open(folder / "empty").status(), StatusCode::invalid_file,
               {"must not be empty", "0 bytes", "again"});
}

TEST(StrictJson, LimitsTheNumberOfValues) {
  std::string text = "{\"a\":[0";
  for (uint64_t i = 0; i < kMaxJsonValues; ++i) text += ",0";
  text += "]}";
  expect_error(parse_strict_json(text, "x").status(), StatusCode::invalid_file,
               {"must hold at most 8388608 values", "more", "split"});
}

}  // namespace
}  // namespace megamoe
