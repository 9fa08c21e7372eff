// Routing files are text that nobody vouches for.

#include "routing_file.hpp"

#include <gtest/gtest.h>

#include <string>

#include "cli_process.hpp"

namespace megamoe::cli {
namespace {

TEST(RoutingFile, RowsOfIds) {
  const auto table = parse_routing_json(R"({"topk_idx": [[3, 7], [0, -1], [5, 5]]})", "ids.json");
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->num_tokens, 3U);
  EXPECT_EQ(table->top_k, 2U);
  EXPECT_EQ(table->ids, (std::vector<int64_t>{3, 7, 0, -1, 5, 5}));
}

TEST(RoutingFile, IdsOfATokenFile) {
  // The probe holds ids of two layers: no telling which is meant.
  const auto ambiguous = read_routing_file(megamoe::testing::tiny_model_file("probe.safetensors"));
  ASSERT_FALSE(ambiguous.ok());
  EXPECT_NE(ambiguous.status().message().find("one tensor named topk_idx (got 2"), std::string::npos)
      << ambiguous.status().message();
}

TEST(RoutingFile, RefusesWhatIsNotATable) {
  for (const std::string text :
       {"", "[]", "{}", "[[1]]", R"({"topk_idx": 3})", R"({"topk_idx": []})", R"({"topk_idx": [3, 4]})",
        R"({"topk_idx": [[]]})", R"({"topk_idx": [[1, 2], [3]]})", R"({"topk_idx": [[1.5]]})",
        R"({"topk_idx": [["1"]]})", R"({"topk_idx": [[-2]]})", R"({"topk_idx": [[4294967297]]})",
        R"({"topk_idx": [[18446744073709551615]]})", R"({"topk_idx": [[null]]})", R"({"topk_idx": [[[1]]]})",
        R"({"topk_idx": [[1]], "topk_idx": [[2]]})", R"({"topk_idx": [[1]]} trailing)"}) {
    const auto table = parse_routing_json(text, "ids.json");
    ASSERT_FALSE(table.ok()) << text;
    const std::string& message = table.status().message();
    EXPECT_EQ(message.rfind("ids.json", 0), 0U) << message;
    EXPECT_NE(message.find("(got "), std::string::npos) << message;
    EXPECT_NE(message.find("; "), std::string::npos) << message;
  }
}

TEST(RoutingFile, RefusesMoreThan32IdsPerToken) {
  std::string row = "0";
  for (int i = 1; i < 33; ++i) row += ", 0";
  EXPECT_FALSE(parse_routing_json(R"({"topk_idx": [[)" + row + "]]}", "ids.json").ok());
}

}  // namespace
}  // namespace megamoe::cli
