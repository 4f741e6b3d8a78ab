#pragma once

// One sequence over a model with the `full` policy, which attends every row.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "vestige/model.h"
#include "vestige/policy.h"

namespace vestige {

/// Saved f32 tensors by name, to look at and to load again.
class MapStore final : public TensorSink, public TensorSource {
 public:
  Status put(const std::string& name, const ConstTensorView& value) override {
    values[name].assign(value.as<float>(), value.as<float>() + value.n_elements());
    return {};
  }
  Result<ConstTensorView> get(const std::string& name, DType dtype, std::vector<int64_t> shape) const override {
    const auto at = values.find(name);
    if (at == values.end()) return not_found("no tensor \"%s\"", name.c_str());
    EXPECT_EQ(dtype, DType::kF32);
    int64_t n = 1;
    for (int64_t dim : shape) n *= dim;
    if (n != static_cast<int64_t>(at->second.size())) return data_loss("tensor \"%s\": wrong size", name.c_str());
    return ConstTensorView(at->second.data(), DType::kF32, {n});
  }
  std::map<std::string, std::vector<float>> values;
};

/// The sequence, and everything its passes showed.
struct SequenceRun {
  const Model& model;
  Stream& stream;
  std::unique_ptr<ModelState> state;
  std::vector<std::unique_ptr<LayerCache>> caches;
  std::vector<LayerCache*> cache_pointers;
  std::vector<std::vector<float>> hidden;  // [n_layers + 2] of [t, d]: embedding, layers, final norm
  std::vector<float> last;
  StepRecord record;
  int64_t n_tokens = 0;

  SequenceRun(const Model& model_in, Stream& stream_in) : model(model_in), stream(stream_in) {
    const ModelInfo& info = model.info();
    state = std::move(model.create_state()).value();
    PolicyConfig config;
    config.name = "full";
    config.block_rows = 64;  // so that the prompt crosses block borders
    for (const CacheLayer& layer : info.cache_layers) {
      auto policy = create_policy(config, layer.layout);
      EXPECT_TRUE(policy.ok()) << policy.status().message();
      auto cache = LayerCache::create(layer.layout, layer.h_q, layer.scale, *policy);
      EXPECT_TRUE(cache.ok()) << cache.status().message();
      caches.push_back(std::move(cache).value());
      cache_pointers.push_back(caches.back().get());
    }
    hidden.resize(static_cast<size_t>(info.n_layers) + 2);
    last.resize(static_cast<size_t>(info.d_model));
  }

  void feed(std::span<const int32_t> tokens, bool prefill) {
    ForwardParams p;
    p.tokens = tokens;
    p.position = n_tokens;
    p.state = state.get();
    p.caches = cache_pointers;
    p.prefill = prefill;
    p.record = &record;
    p.hidden_tap = [&](int32_t layer, const ConstTensorView& x) {
      auto& to = hidden[static_cast<size_t>(layer + 1)];
      to.insert(to.end(), x.as<float>(), x.as<float>() + x.n_elements());
    };
    p.last_hidden = TensorView(last.data(), DType::kF32, {static_cast<int64_t>(last.size())});
    const Status status = model.forward(p, stream);
    ASSERT_TRUE(status.ok()) << status.message();
    n_tokens += static_cast<int64_t>(tokens.size());
  }

  std::vector<float> logits(const float* final_hidden) const {
    std::vector<float> out(static_cast<size_t>(model.info().n_vocab));
    const Status status = model.logits(ConstTensorView(final_hidden, DType::kF32, {model.info().d_model}),
                                       TensorView(out.data(), DType::kF32, {model.info().n_vocab}), stream);
    EXPECT_TRUE(status.ok()) << status.message();
    return out;
  }
};

}  // namespace vestige
