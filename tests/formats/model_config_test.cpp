#include "formats/model_config.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace megamoe {
namespace {

TEST(ModelConfig, ReadsEveryKey) {
  const Result<ModelConfig> config = parse_model_config(
      R"({"model_type":"deepseek_v3","hidden_size":7168,"moe_intermediate_size":2048,"intermediate_size":18432,
          "n_routed_experts":256,"num_experts_per_tok":8,"n_shared_experts":1,"n_group":8,"topk_group":4,"scoring_func":"sigmoid",
          "topk_method":"noaux_tc","norm_topk_prob":true,"routed_scaling_factor":2.5,"swiglu_limit":10,"hidden_act":"silu",
          "quantization_config":{"quant_method":"fp8","weight_block_size":[128,64]},"other":[1,{"a":null}]})",
      "c");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->model_type, "deepseek_v3");
  EXPECT_EQ(config->hidden, 7168U);
  EXPECT_EQ(config->moe_intermediate, 2048U);
  EXPECT_EQ(config->intermediate, 18432U);
  EXPECT_EQ(config->num_experts, 256U);
  EXPECT_TRUE(config->counts_routed_experts);
  EXPECT_EQ(config->top_k, 8U);
  EXPECT_EQ(config->num_shared_experts, 1U);
  EXPECT_EQ(config->num_groups, 8U);
  EXPECT_EQ(config->num_top_groups, 4U);
  EXPECT_EQ(config->scoring, ScoringFunction::sigmoid);
  EXPECT_EQ(config->topk_method, "noaux_tc");
  EXPECT_EQ(config->renormalise, true);
  EXPECT_EQ(config->routed_scale, 2.5F);
  EXPECT_EQ(config->swiglu_limit, 10.0F);
  EXPECT_EQ(config->weight_block, (ScaleBlock{128, 64}));
}

TEST(ModelConfig, AbsentAndNullKeysAreAbsent) {
  for (const char* text :
       {"{}", R"({"hidden_size":null,"n_group":null,"quantization_config":null,"scoring_func":null})",
        R"({"quantization_config":{"quant_method":"mxfp4"}})",
        R"({"quantization_config":{"weight_block_size":null}})"}) {
    const Result<ModelConfig> config = parse_model_config(text, "c");
    ASSERT_TRUE(config.ok()) << config.status().to_string();
    EXPECT_FALSE(config->hidden || config->num_groups || config->weight_block || config->scoring ||
                 config->num_experts);
  }
}

TEST(ModelConfig, OtherWordsForExperts) {
  for (const char* text : {R"({"num_experts":8})", R"({"num_local_experts":8})"}) {
    const Result<ModelConfig> config = parse_model_config(text, "c");
    ASSERT_TRUE(config.ok());
    EXPECT_EQ(config->num_experts, 8U);
    EXPECT_FALSE(config->counts_routed_experts);
  }
}

TEST(ModelConfig, NestedTextConfig) {
  const Result<ModelConfig> config = parse_model_config(R"({"model_type":"x","text_config":{"hidden_size":64}})", "c");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->hidden, 64U);
}

TEST(ModelConfig, BadValues) {
  struct Row {
    const char* text;
    const char* rule;
    const char* value;
    const char* remedy = "correct it or remove the key";
  };
  const char* block_rule = "quantization_config.weight_block_size must be two integers from 1 to 1048576";
  const char* block_remedy = "write [rows, columns]";
  for (const Row& row : {
           Row{R"({"hidden_size":0})", "hidden_size must be an integer from 1 to 1048576", "got 0"},
           Row{R"({"hidden_size":"256"})", "hidden_size must be an integer", "got \"256\""},
           Row{R"({"hidden_size":256.0})", "hidden_size must be an integer", "got 256.0"},
           Row{R"({"hidden_size":1048577})", "hidden_size must be an integer", "got 1048577"},
           Row{R"({"hidden_size":4294967552})", "hidden_size must be an integer", "got 4294967552"},
           Row{R"({"moe_intermediate_size":-8})", "moe_intermediate_size must be an integer", "got -8"},
           Row{R"({"intermediate_size":[1]})", "intermediate_size must be an integer", "got [1]"},
           Row{R"({"num_experts":0})", "num_experts must be an integer from 1 to 1024", "got 0"},
           Row{R"({"n_routed_experts":1025})", "n_routed_experts must be an integer from 1 to 1024", "got 1025"},
           Row{R"({"num_local_experts":true})", "num_local_experts must be an integer", "got true"},
           Row{R"({"num_experts_per_tok":33})", "num_experts_per_tok must be an integer from 1 to 32", "got 33"},
           Row{R"({"num_experts":4,"num_experts_per_tok":5})",
               "num_experts_per_tok must be at most the number of experts, 4", "got 5", "correct one of the two"},
           Row{R"({"n_shared_experts":-1})", "n_shared_experts must be an integer from 0", "got -1"},
           Row{R"({"num_experts":10,"n_group":4})", "n_group must be a divisor of the number of experts, 10", "got 4",
               "one of the two"},
           Row{R"({"num_experts":8,"n_group":4,"topk_group":5})", "topk_group must be at most n_group, 4", "got 5",
               "one of the two"},
           Row{R"({"scoring_func":"tanh"})", "scoring_func must be softmax, sigmoid or sqrtsoftplus", "tanh",
               "route outside"},
           Row{R"({"scoring_func":1})", "scoring_func must be a string", "got 1"},
           Row{R"({"norm_topk_prob":1})", "norm_topk_prob must be true or false", "got 1"},
           Row{R"({"routed_scaling_factor":0})", "routed_scaling_factor must be a positive number", "got 0"},
           Row{R"({"routed_scaling_factor":1e300})", "routed_scaling_factor must be a positive number within FP32",
               "1e+300"},
           Row{R"({"swiglu_limit":-7})", "swiglu_limit must be a positive number", "got -7"},
           Row{R"({"swiglu_limit":"7"})", "swiglu_limit must be a positive number", "got \"7\""},
           Row{R"({"quantization_config":7})", "quantization_config must be an object", "got 7"},
           Row{R"({"quantization_config":{"weight_block_size":128}})", block_rule, "got 128", block_remedy},
           Row{R"({"quantization_config":{"weight_block_size":[128]}})", block_rule, "got [128]", block_remedy},
           Row{R"({"quantization_config":{"weight_block_size":[0,128]}})", block_rule, "got [0,128]", block_remedy},
           Row{R"({"model_type":7})", "model_type must be a string", "got 7"},
           Row{R"({"hidden_size":1,"hidden_size":2})", "JSON must not repeat a key", "'hidden_size'", "keep one"},
           Row{"[1]", "JSON must be an object at its top level", "got array", "right file"},
           Row{"{\"hidden_size\":", "JSON must be valid", "syntax error at byte", "again"},
       }) {
    expect_error(parse_model_config(row.text, "c.json").status(), StatusCode::invalid_file,
                 {"c.json: ", row.rule, row.value, row.remedy});
  }
  expect_error(parse_model_config(R"({"hidden_act":"gelu"})", "c.json").status(), StatusCode::unsupported,
               {"hidden_act must be silu", "gelu", "only SwiGLU layers are supported"});
}

}  // namespace
}  // namespace megamoe
