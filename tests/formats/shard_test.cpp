#include <gtest/gtest.h>

#include "checkpoint_builder.hpp"
#include "expect_error.hpp"
#include "formats/tensor_store.hpp"
#include "temp_folder.hpp"

namespace megamoe {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

void write_shard(const TempFolder& folder, std::string_view file, std::initializer_list<const char*> tensors) {
  CheckpointBuilder builder;
  for (const char* name : tensors) builder.add(name, Dtype::u8, {4});
  ASSERT_TRUE(builder.write(folder / file).ok());
}

TEST(Shards, IndexJoinsItsFiles) {
  const TempFolder folder;
  write_shard(folder, "m-1.safetensors", {"a", "c"});
  write_shard(folder, "m-2.safetensors", {"b"});
  folder.write(kIndex, R"({"metadata":{"total_size":12},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors",)"
                       R"("c":"m-1.safetensors"}})");
  for (const std::string& path : {folder / kIndex, folder.path()}) {
    const Result<TensorStore> store = TensorStore::open(path);
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    EXPECT_EQ(store->tensors().size(), 3U);
    EXPECT_EQ(store->num_bytes(), 12U);
    ASSERT_NE(store->find("b"), nullptr);
    EXPECT_EQ(store->find("d"), nullptr);
    EXPECT_EQ(store->folder(), folder.path());
  }
}

TEST(Shards, FolderWithOneFile) {
  const TempFolder folder;
  write_shard(folder, "only.safetensors", {"a"});
  EXPECT_TRUE(TensorStore::open(folder.path()).ok());
  write_shard(folder, "model.safetensors", {"b"});
  const Result<TensorStore> store = TensorStore::open(folder.path());
  ASSERT_TRUE(store.ok());
  EXPECT_NE(store->find("b"), nullptr);
}

TEST(Shards, MissingThings) {
  const TempFolder folder;
  expect_error(TensorStore::open(folder.path()).status(), StatusCode::not_found,
               {"must hold model.safetensors.index.json", "got none", "name the checkpoint's file"});
  expect_error(TensorStore::open(folder / "nothing").status(), StatusCode::not_found,
               {"must be readable", "No such file"});
  folder.write(kIndex, R"({"weight_map":{"a":"m-1.safetensors"}})");
  expect_error(TensorStore::open(folder.path()).status(), StatusCode::not_found,
               {"every shard must exist", "'m-1.safetensors'", "download the missing shard"});
  write_shard(folder, "m-1.safetensors", {"b"});
  expect_error(TensorStore::open(folder.path()).status(), StatusCode::invalid_file,
               {"shard 'm-1.safetensors' must hold tensor 'a'", "none of that name", "one revision"});
}

TEST(Shards, ATensorInTwoShards) {
  const TempFolder folder;
  write_shard(folder, "m-1.safetensors", {"a", "b"});
  write_shard(folder, "m-2.safetensors", {"b"});
  folder.write(kIndex, R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  expect_error(TensorStore::open(folder.path()).status(), StatusCode::invalid_file,
               {"a tensor must stand in one shard only", "'b'", "remove it from one"});
}

TEST(Shards, ATruncatedShardIsNamed) {
  const TempFolder folder;
  folder.write("m-1.safetensors", "short");
  folder.write(kIndex, R"({"weight_map":{"a":"m-1.safetensors"}})");
  expect_error(TensorStore::open(folder.path()).status(), StatusCode::invalid_file,
               {"m-1.safetensors: file must be at least 8 bytes", "got 5"});
}

TEST(ShardIndex, RefusesNamesThatLeaveTheFolder) {
  for (const char* name : {"../m.safetensors", "/etc/m.safetensors", "a/m.safetensors", "a\\\\m.safetensors",
                           ".safetensors", "..safetensors", "m.bin", "", "m\\u0000.safetensors"}) {
    const std::string text = std::string(R"({"weight_map":{"t":")") + name + R"("}})";
    expect_error(parse_shard_index(text, "i.json").status(), StatusCode::invalid_file,
                 {"i.json: shard of tensor 't' must be the plain name of a .safetensors file", "got \"",
                  "put the shards beside the index"});
  }
}

TEST(ShardIndex, RefusesWrongForms) {
  struct Row {
    const char* text;
    const char* rule;
    const char* value;
    const char* remedy;
  };
  const char* map_rule = "weight_map must map tensor names to shard names";
  for (const Row& row :
       {Row{"{}", map_rule, "got none", "again"}, Row{R"({"weight_map":[]})", map_rule, "got []", "again"},
        Row{R"({"weight_map":{}})", map_rule, "got {}", "again"},
        Row{R"({"weight_map":{"t":3}})", "must be the plain name", "got 3", "beside"},
        Row{R"({"weight_map":{"t":"a.safetensors","t":"b.safetensors"}})", "must not repeat a key", "'t'", "keep one"},
        Row{"[]", "must be an object at its top level", "array", "right file"},
        Row{"{", "must be valid", "syntax error", "again"}}) {
    expect_error(parse_shard_index(row.text, "i.json").status(), StatusCode::invalid_file,
                 {"i.json: ", row.rule, row.value, row.remedy});
  }
}

}  // namespace
}  // namespace megamoe
