// The transform code to a file and back. Rows, transform and codes are views of the file's memory.

#include <array>
#include <cmath>

#include "cache/policies/vestige/row_codec.h"

namespace vestige {

namespace {

constexpr int64_t kMostGroups = 1024;
constexpr float kMostBase = 1e30f;  // what the ops take

std::string staged(const std::string& name, size_t stage) { return name + std::to_string(stage); }

Status check_plan(const std::string& prefix, const CodePlan& plan, int32_t code_bytes) {
  for (size_t j = 0; j < plan.bits.size(); ++j) {
    if (plan.bits[j] < 0 || plan.bits[j] > CodeStage::kMaxBits ||
        (plan.bits[j] > 0 && !(plan.step[j] > 0 && std::isfinite(plan.step[j])))) {
      return data_loss("%scode: coordinate %zu has %d bits of step %g", prefix.c_str(), j, plan.bits[j],
                       double(plan.step[j]));
    }
  }
  if (!(plan.norm_base > 0 && plan.norm_base < kMostBase)) {
    return data_loss("%scode_norm = %g, want above 0", prefix.c_str(), double(plan.norm_base));
  }
  const int64_t bytes = plan.stage().row_bytes(0);
  if (bytes <= code_bytes) return {};
  return data_loss("%scode: %lld bytes a row, want at most %d", prefix.c_str(), static_cast<long long>(bytes),
                   code_bytes);
}

}  // namespace

Status RowCodec::save(const std::string& prefix, TensorSink& sink) const {
  const int64_t shape[] = {state_.n_groups, state_.rank};
  const int64_t n_floats = transform_floats(d(), state_.n_groups, state_.rank);
  const int64_t n_blocks = state_.n_indexed / block_rows_;
  VESTIGE_TRY(sink.put(prefix + "code_shape", ConstTensorView(shape, DType::kI64, {2})));
  VESTIGE_TRY(sink.put(prefix + "code_transform", ConstTensorView(state_.transform, DType::kF32, {n_floats})));
  const float numbers[] = {state_.value_base, state_.max_norm[0], state_.max_norm[1]};
  VESTIGE_TRY(sink.put(prefix + "code_numbers", ConstTensorView(numbers, DType::kF32, {3})));
  for (size_t s = 0; s < state_.plans.size(); ++s) {
    const CodePlan& plan = state_.plans[s];
    VESTIGE_TRY(sink.put(prefix + staged("code_bits", s), ConstTensorView(plan.bits.data(), DType::kI32, {d()})));
    VESTIGE_TRY(sink.put(prefix + staged("code_step", s), ConstTensorView(plan.step.data(), DType::kF32, {d()})));
    VESTIGE_TRY(sink.put(prefix + staged("code_norm", s), ConstTensorView(&plan.norm_base, DType::kF32, {1})));
    if (n_blocks == 0) continue;
    const int64_t row_bytes = plan.stage().row_bytes(state_.n_groups);
    std::vector<ConstTensorView> parts;
    for (const void* page : state_.codes[s]) {
      parts.push_back(ConstTensorView(page, DType::kU8, {CodeStage::padded_rows(block_rows_), row_bytes}));
    }
    VESTIGE_TRY(sink.put_rows(prefix + staged("code", s), parts));
  }
  if (!settings_.values || n_blocks == 0) return {};
  std::vector<ConstTensorView> parts;
  for (const void* page : state_.value_norm) parts.push_back(ConstTensorView(page, DType::kU8, {block_rows_}));
  return sink.put_rows(prefix + "code_value", parts);
}

Status RowCodec::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  State state;
  VESTIGE_ASSIGN(const ConstTensorView shape, source.get(prefix + "code_shape", DType::kI64, {2}));
  int64_t sizes[2];
  std::memcpy(sizes, shape.data, sizeof sizes);
  if (sizes[0] < 1 || sizes[0] > kMostGroups || sizes[1] < 1 || sizes[1] > d()) {
    return data_loss("%scode_shape: %lld groups of rank %lld, want 1 to %lld of 1 to %lld", prefix.c_str(),
                     static_cast<long long>(sizes[0]), static_cast<long long>(sizes[1]),
                     static_cast<long long>(kMostGroups), static_cast<long long>(d()));
  }
  state.n_groups = sizes[0];
  state.rank = sizes[1];
  VESTIGE_ASSIGN(const ConstTensorView transform, source.get(prefix + "code_transform", DType::kF32,
                                                             {transform_floats(d(), state.n_groups, state.rank)}));
  state.transform = transform.as<float>();
  VESTIGE_ASSIGN(const ConstTensorView numbers, source.get(prefix + "code_numbers", DType::kF32, {3}));
  std::array<float, 3> values;
  std::memcpy(values.data(), numbers.data, sizeof values);
  if (!(values[0] > 0 && values[0] < kMostBase && values[1] >= 0 && values[2] >= 0)) {
    return data_loss("%scode_numbers: %g, %g, %g, want positive numbers", prefix.c_str(), double(values[0]),
                     double(values[1]), double(values[2]));
  }
  state.value_base = values[0];
  state.max_norm[0] = values[1];
  state.max_norm[1] = values[2];
  const int64_t n_blocks = n_closed / block_rows_;
  for (int32_t s = 0; s < n_stages(); ++s) {
    const auto at = static_cast<size_t>(s);
    CodePlan plan;
    VESTIGE_ASSIGN(const ConstTensorView bits, source.get(prefix + staged("code_bits", at), DType::kI32, {d()}));
    VESTIGE_ASSIGN(const ConstTensorView step, source.get(prefix + staged("code_step", at), DType::kF32, {d()}));
    VESTIGE_ASSIGN(const ConstTensorView norm, source.get(prefix + staged("code_norm", at), DType::kF32, {1}));
    plan.bits.assign(bits.as<int32_t>(), bits.as<int32_t>() + d());
    plan.step.assign(step.as<float>(), step.as<float>() + d());
    plan.norm_base = *norm.as<float>();
    for (int32_t& b : plan.bits) {
      if (b < 0 || b > CodeStage::kMaxBits) {
        return data_loss("%scode_bits: %d bits, want 0 to %d", prefix.c_str(), b, CodeStage::kMaxBits);
      }
    }
    plan.count_units();
    plan.place_entries();
    VESTIGE_TRY(check_plan(prefix, plan, s == 0 ? settings_.code_bytes : settings_.refine_bytes));
    const int64_t row_bytes = plan.stage().row_bytes(state.n_groups);
    state.plans.push_back(std::move(plan));
    if (n_blocks == 0) continue;
    VESTIGE_ASSIGN(const ConstTensorView codes,
                   source.get(prefix + staged("code", at), DType::kU8,
                              {n_blocks * CodeStage::padded_rows(block_rows_), row_bytes}));
    for (int64_t b = 0; b < n_blocks; ++b) {
      state.codes[at].push_back(
          codes.slice(b * CodeStage::padded_rows(block_rows_), CodeStage::padded_rows(block_rows_)).data);
    }
  }
  if (settings_.values && n_blocks > 0) {
    VESTIGE_ASSIGN(const ConstTensorView value, source.get(prefix + "code_value", DType::kU8, {n_closed}));
    for (int64_t b = 0; b < n_blocks; ++b) state.value_norm.push_back(value.slice(b * block_rows_, block_rows_).data);
  }
  state.n_indexed = n_closed;
  state_ = std::move(state);
  return {};
}

}  // namespace vestige
