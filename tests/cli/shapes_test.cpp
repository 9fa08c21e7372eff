// The table of named shapes, and numbers as people type them.

#include "check/shapes.hpp"

#include <gtest/gtest.h>

#include <set>

#include "check/numbers.hpp"
#include "megamoe/megamoe.hpp"

namespace megamoe {
namespace {

TEST(Shapes, NamesDifferAndParseToThemselves) {
  std::set<std::string_view> names;
  for (const NamedShape& named : named_shapes()) {
    EXPECT_TRUE(names.insert(named.name).second) << named.name;
    const auto parsed = parse_shape(named.name);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->shape.hidden, named.shape.hidden);
    EXPECT_EQ(parsed->shape.num_experts, named.shape.num_experts);
    EXPECT_NE(shape_names().find(named.name), std::string::npos);
  }
  EXPECT_EQ(names.size(), 8U);
}

TEST(Shapes, EveryNamedShapeCanBePlanned) {
  for (const NamedShape& named : named_shapes()) {
    LayerConfig config;
    config.shape = named.shape;
    config.activation = named.activation;
    config.max_tokens_per_rank = 128;
    const auto planned = plan(config, 8);
    EXPECT_TRUE(planned.ok()) << named.name << ": " << planned.status().message();
  }
}

TEST(Shapes, FourNumbersAreHiddenIntermediateExpertsTopK) {
  const auto parsed = parse_shape("64,32,8,2");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->shape.hidden, 64U);
  EXPECT_EQ(parsed->shape.intermediate, 32U);
  EXPECT_EQ(parsed->shape.num_experts, 8U);
  EXPECT_EQ(parsed->shape.top_k, 2U);
}

TEST(Shapes, ListsMayMixNamesAndNumbers) {
  const auto shapes = parse_shapes("v3,64,32,8,2,v4-pro,128,32,8,2");
  ASSERT_TRUE(shapes.ok()) << shapes.status().message();
  ASSERT_EQ(shapes->size(), 4U);
  EXPECT_EQ((*shapes)[0].name, "v3");
  EXPECT_EQ((*shapes)[1].shape.hidden, 64U);
  EXPECT_EQ((*shapes)[2].name, "v4-pro");
  EXPECT_EQ((*shapes)[3].shape.hidden, 128U);
  for (const char* text : {"", "v3,", ",v3", "v3,,v4-pro", "64,32,8", "64,32,8,2,", "v3,64", "64,32,8,v3"}) {
    EXPECT_FALSE(parse_shapes(text).ok()) << "'" << text << "'";
  }
}

TEST(Numbers, WholeNumbersAreDigitsInRange) {
  EXPECT_EQ(*parse_whole("x", "0", {}), 0U);
  EXPECT_EQ(*parse_whole("x", "4294967295", {}), 4294967295U);
  for (const char* text : {"", " 1", "1 ", "+1", "-1", "1.0", "0x10", "4294967296", "99999999999999999999", "one"}) {
    EXPECT_FALSE(parse_whole("x", text, {}).ok()) << "'" << text << "'";
  }
}

TEST(Numbers, ListsKeepTheirOrder) {
  EXPECT_EQ(*parse_whole_list("x", "16,1,256", {}), (std::vector<uint32_t>{16, 1, 256}));
  for (const char* text : {"", ",", "1,", ",1", "1,,2", "1;2", "1, 2"}) {
    EXPECT_FALSE(parse_whole_list("x", text, {}).ok()) << "'" << text << "'";
  }
}

TEST(Numbers, RealNumbersAreFiniteAndLargeEnough) {
  EXPECT_EQ(*parse_real("x", "0.5", 0), 0.5);
  EXPECT_EQ(*parse_real("x", "1e-3", 0), 1e-3);
  for (const char* text : {"", "nan", "inf", "-0.1", "1e999", "0,5", "half"}) {
    EXPECT_FALSE(parse_real("x", text, 0).ok()) << "'" << text << "'";
  }
}

}  // namespace
}  // namespace megamoe
