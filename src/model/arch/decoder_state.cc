#include "model/arch/decoder_state.h"

#include <cstring>

namespace vestige {

namespace {

int64_t view_bytes(const ConstTensorView& view) {
  return view.n_elements() * static_cast<int64_t>(dtype_bytes(view.dtype));
}

Status load_into(const TensorView& to, const std::string& name, const TensorSource& source) {
  const std::vector<int64_t> shape(to.shape.begin(), to.shape.begin() + to.rank);
  VESTIGE_ASSIGN(const ConstTensorView from, source.get(name, to.dtype, shape));
  std::memcpy(to.data, from.data, static_cast<size_t>(view_bytes(to)));
  return {};
}

}  // namespace

Result<std::unique_ptr<DecoderState>> DecoderState::create(const KdaDims& dims, const std::vector<int32_t>& layers) {
  auto out = std::make_unique<DecoderState>();
  const int64_t n_conv = (dims.n_taps - 1) * 3 * dims.n_heads * dims.d_head;
  const int64_t n_state = dims.n_heads * dims.d_head * dims.d_head;
  const size_t n_floats = static_cast<size_t>(n_conv + n_state) * layers.size();
  if (n_floats > 0) {
    VESTIGE_ASSIGN(out->memory_, Buffer::create(n_floats * sizeof(float)));
  }
  float* at = reinterpret_cast<float*>(out->memory_.data());
  for (size_t i = 0; i < layers.size(); ++i, at += n_conv + n_state) {
    KdaState& kda = out->kda_.emplace_back();
    kda.state = TensorView(at, DType::kF32, {dims.n_heads, dims.d_head, dims.d_head});
    kda.conv = TensorView(at + n_state, DType::kF32, {dims.n_taps - 1, 3 * dims.n_heads * dims.d_head});
  }
  out->layers_ = layers;
  return out;
}

Status DecoderState::save(const std::string& prefix, TensorSink& sink) const {
  for (size_t i = 0; i < kda_.size(); ++i) {
    const std::string name = prefix + "kda." + std::to_string(layers_[i]);
    VESTIGE_TRY(sink.put(name + ".state", kda_[i].state));
    VESTIGE_TRY(sink.put(name + ".conv", kda_[i].conv));
  }
  return {};
}

Status DecoderState::load(const std::string& prefix, const TensorSource& source) {
  for (size_t i = 0; i < kda_.size(); ++i) {
    const std::string name = prefix + "kda." + std::to_string(layers_[i]);
    VESTIGE_TRY(load_into(kda_[i].state, name + ".state", source));
    VESTIGE_TRY(load_into(kda_[i].conv, name + ".conv", source));
  }
  return {};
}

}  // namespace vestige
