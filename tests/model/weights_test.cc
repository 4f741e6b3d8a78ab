#include "model/weights.h"

#include <gtest/gtest.h>

#include "checkpoint.h"

namespace vestige {
namespace {

class WeightsTest : public testing::Test {
 protected:
  WeightsTest() : checkpoint_(Checkpoint::moe_tiny()) {}
  Result<Weights> open() { return Weights::open(folder_.path()); }
  void expect_open_fails(StatusCode code, const std::string& message) {
    const Status status = open().status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
  void edit_index(const std::string& from, const std::string& to) {
    const std::string path = folder_.path() + "/model.safetensors.index.json";
    std::string text = read_text(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    write_text(path, text.replace(at, from.size(), to));
  }

  TestFolder folder_;
  Checkpoint checkpoint_;
};

TEST_F(WeightsTest, OneFileAndShardsHoldTheSame) {
  checkpoint_.write(folder_.path() + "/one");
  checkpoint_.write_sharded(folder_.path() + "/many");
  auto one = Weights::open(folder_.path() + "/one"), many = Weights::open(folder_.path() + "/many");
  ASSERT_TRUE(one.ok() && many.ok()) << many.status().message();
  for (const auto& [name, t] : checkpoint_.tensors) {
    if (t.shape.size() != 2) continue;
    const auto a = one->get(name, t.shape), b = many->get(name, t.shape);
    ASSERT_TRUE(a.ok() && b.ok()) << name;
    EXPECT_EQ(0, std::memcmp(a->data.data, b->data.data, t.bytes.size())) << name;
  }
  EXPECT_EQ(one->n_params(), many->n_params());
  EXPECT_EQ(one->n_bytes(), one->n_params() * 2);
}

TEST_F(WeightsTest, IdentityFollowsEveryByte) {
  checkpoint_.write(folder_.path());
  const std::string first = *open()->identity();
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(*open()->identity(), first);
  checkpoint_.tensors.begin()->second.bytes.back() ^= std::byte{1};
  checkpoint_.write(folder_.path());
  const std::string second = *open()->identity();
  EXPECT_NE(second, first);
  checkpoint_.config += " ";
  checkpoint_.write(folder_.path());
  EXPECT_NE(*open()->identity(), second);
}

TEST_F(WeightsTest, MissingFiles) {
  expect_open_fails(StatusCode::kNotFound, "model.safetensors: no such file");
  checkpoint_.write_sharded(folder_.path());
  std::filesystem::remove(folder_.path() + "/model-00002-of-00002.safetensors");
  expect_open_fails(StatusCode::kNotFound, "model-00002-of-00002.safetensors");
}

TEST_F(WeightsTest, IndexThatLies) {
  checkpoint_.write_sharded(folder_.path());
  edit_index("\"model.norm.weight\":\"model-00002", "\"model.norm.weight\":\"model-00001");
  expect_open_fails(StatusCode::kDataLoss, "\"model.norm.weight\" is not in model-00001-of-00002.safetensors");
  checkpoint_.write_sharded(folder_.path());
  edit_index("\"model.norm.weight\":\"model-00002", "\"model.norm.weight\":\"../model-00002");
  expect_open_fails(StatusCode::kDataLoss, "plain name");
  write_text(folder_.path() + "/model.safetensors.index.json", "{\"weight_map\":{}}");
  expect_open_fails(StatusCode::kDataLoss, "weight_map is empty");
  write_text(folder_.path() + "/model.safetensors.index.json", "{\"weight_map\":");
  expect_open_fails(StatusCode::kDataLoss, "index.json");
}

TEST_F(WeightsTest, CutFileIsNamed) {
  checkpoint_.write(folder_.path());
  const std::string path = folder_.path() + "/model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  expect_open_fails(StatusCode::kDataLoss, path);
}

TEST_F(WeightsTest, WrongShapeDtypeAndName) {
  checkpoint_.tensors["ints"] = {DType::kI32, {2}, std::vector<std::byte>(8)};
  checkpoint_.write(folder_.path());
  auto weights = open();
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(weights->get("nothing", {1}).status().code(), StatusCode::kNotFound);
  const Status shape = weights->get("model.norm.weight", {33}).status();
  EXPECT_EQ(shape.code(), StatusCode::kDataLoss);
  EXPECT_NE(shape.message().find("\"model.norm.weight\" has shape [32], want [33]"), std::string::npos);
  const Status dtype = weights->get("ints", {2}).status();
  EXPECT_EQ(dtype.code(), StatusCode::kDataLoss);
  EXPECT_NE(dtype.message().find("is I32"), std::string::npos);
}

TEST_F(WeightsTest, DimensionsOfOneAreFree) {
  checkpoint_.write(folder_.path());
  auto weights = open();
  auto a_log = weights->get_f32("model.layers.0.self_attn.A_log", {2});
  ASSERT_TRUE(a_log.ok()) << a_log.status().message();
  EXPECT_EQ(describe(*a_log), "[2] F32");
  auto conv = weights->get_stacked(
      {"model.layers.0.self_attn.q_conv1d.weight", "model.layers.0.self_attn.k_conv1d.weight"}, {32, 4});
  ASSERT_TRUE(conv.ok()) << conv.status().message();
  EXPECT_EQ(describe(*conv), "[64, 4] F32");
  EXPECT_EQ(conv->as<float>()[32 * 4], checkpoint_.tensors["model.layers.0.self_attn.k_conv1d.weight"].floats()[0]);
}

TEST_F(WeightsTest, Float8IsWidenedByBlock) {
  constexpr int64_t kRows = 130, kColumns = 260;
  StoredTensor codes{DType::kF8E4M3, {kRows, kColumns}, {}};
  for (int64_t i = 0; i < kRows * kColumns; ++i) codes.bytes.push_back(static_cast<std::byte>(i * 7 % 0x7f));
  checkpoint_.tensors["f8.weight"] = codes;
  checkpoint_.tensors["f8.weight_scale_inv"] = StoredTensor::from_floats({2, 3}, {1, 2, 4, 8, 16, 32});
  checkpoint_.write(folder_.path());
  auto weights = open();
  const auto stored = weights->get("f8.weight", {kRows, kColumns});
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  EXPECT_EQ(describe(stored->scale), "[2, 3] F32");
  const auto wide = weights->get_wide("f8.weight", {kRows, kColumns});
  ASSERT_TRUE(wide.ok()) << wide.status().message();
  const std::vector<float> plain = codes.floats();
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const float scale = static_cast<float>(1 << (i / kColumns / 128 * 3 + i % kColumns / 128));
    ASSERT_EQ(wide->as<float>()[i], plain[static_cast<size_t>(i)] * scale) << i;
  }
}

TEST_F(WeightsTest, Float8NeedsItsScales) {
  checkpoint_.tensors["f8.weight"] = {DType::kF8E4M3, {130, 4}, std::vector<std::byte>(520)};
  checkpoint_.write(folder_.path());
  EXPECT_EQ(open()->get("f8.weight", {130, 4}).status().code(), StatusCode::kNotFound);
  checkpoint_.tensors["f8.weight_scale_inv"] = StoredTensor::from_floats({1, 1}, {1});
  checkpoint_.write(folder_.path());
  const Status status = open()->get("f8.weight", {130, 4}).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("want [2, 1] F32"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace vestige
