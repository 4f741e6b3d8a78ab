// Keys and values as Lloyd-Max codes of their coordinates after a random rotation. Source: TurboQuant,
// arXiv:2504.19874, Algorithm 1 (the variant for squared error), with a Hadamard rotation.

#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "cache/policies/quantised_policy.h"
#include "vestige/ops.h"

namespace vestige {

namespace {

/// A row's bytes: codes of the value and of the key (encode_rotated), then their scales, f16. The scale is that of the
/// least squared error, which takes the place of the norm.
class RotatedQuantiser final : public RowQuantiser {
 public:
  RotatedQuantiser(int32_t bits, uint64_t seed, int64_t d) : bits_(bits), seed_(seed), d_(d) {}
  int64_t group_rows() const override { return 1; }
  int64_t group_bytes() const override { return 2 * code_bytes() + 4; }

  // The value and the key of a row lie side by side, and so do their codes: 2 n vectors.
  Status encode(const ConstTensorView& rows, const TensorView& codes, Stream& stream) const override {
    const int64_t n = rows.dim(0);
    Apart apart(n, code_bytes());
    VESTIGE_TRY(ops::encode_rotated({.x = {rows.data, DType::kF32, {2 * n, d_}},
                                     .bits = bits_,
                                     .seed = seed_,
                                     .codes = apart.code_view(),
                                     .scale = apart.scale_view()},
                                    stream));
    VESTIGE_TRY(stream.synchronize());
    for (int64_t t = 0; t < n; ++t) {
      uint8_t* to = codes.as<uint8_t>() + t * group_bytes();
      std::memcpy(to, apart.code(t), static_cast<size_t>(2 * code_bytes()));
      std::memcpy(to + 2 * code_bytes(), apart.scales(t), 4);
    }
    return {};
  }

  Status decode(const ConstTensorView& codes, const TensorView& rows, Stream& stream) const override {
    const int64_t n = rows.dim(0);
    Apart apart(n, code_bytes());
    for (int64_t t = 0; t < n; ++t) {
      const uint8_t* from = codes.as<uint8_t>() + t * group_bytes();
      std::memcpy(apart.code(t), from, static_cast<size_t>(2 * code_bytes()));
      std::memcpy(apart.scales(t), from + 2 * code_bytes(), 4);
    }
    VESTIGE_TRY(ops::decode_rotated({.codes = apart.code_view(),
                                     .scale = apart.scale_view(),
                                     .bits = bits_,
                                     .seed = seed_,
                                     .x = {rows.data, DType::kF32, {2 * n, d_}}},
                                    stream));
    return stream.synchronize();
  }

  bool check(const ConstTensorView& codes) const override {
    for (int64_t t = 0; t < codes.dim(0); ++t) {
      uint16_t scale[2];
      std::memcpy(scale, codes.as<uint8_t>() + t * group_bytes() + 2 * code_bytes(), sizeof scale);
      for (const uint16_t s : scale) {
        if (!std::isfinite(f16_to_f32(s)) || f16_to_f32(s) < 0) return false;
      }
    }
    return true;
  }

 private:
  /// Codes and scales of n rows, as the ops want them.
  struct Apart {
    Apart(int64_t n_rows, int64_t bytes)
        : n(n_rows), code_bytes(bytes), codes(static_cast<size_t>(2 * n * bytes)), scale(static_cast<size_t>(2 * n)) {}
    uint8_t* code(int64_t t) { return codes.data() + 2 * t * code_bytes; }
    uint16_t* scales(int64_t t) { return scale.data() + 2 * t; }
    TensorView code_view() { return {codes.data(), DType::kU8, {2 * n, code_bytes}}; }
    TensorView scale_view() { return {scale.data(), DType::kF16, {2 * n}}; }
    int64_t n, code_bytes;
    std::vector<uint8_t> codes;
    std::vector<uint16_t> scale;
  };
  int64_t code_bytes() const { return d_ * bits_ / 8; }

  int32_t bits_;
  uint64_t seed_;
  int64_t d_;
};

class TurboQuantPolicy final : public QuantisedPolicy {
 public:
  TurboQuantPolicy(PolicyConfig config, const CodedSpan& span, int32_t bits)
      : QuantisedPolicy(std::move(config), span), bits_(bits) {}

 protected:
  std::unique_ptr<const RowQuantiser> create_quantiser(int64_t d) const override {
    return std::make_unique<RotatedQuantiser>(bits_, config().seed, d);
  }

 private:
  int32_t bits_;
};

}  // namespace

PolicyInfo turboquant_info() {
  return {.name = "turboquant",
          .sentence = "attends every row by Lloyd-Max codes of its coordinates after a random rotation",
          .source = "TurboQuant, arXiv:2504.19874, Algorithm 1",
          .settings = {{"bits", 4, 2, 4, "of a coordinate"}, window_setting()},
          .takes_ratio = false};
}

Result<std::shared_ptr<const CachePolicy>> create_turboquant(const PolicyConfig& config, const RowLayout& layout) {
  VESTIGE_ASSIGN(PolicyConfig complete, complete_config(config, turboquant_info()));
  VESTIGE_ASSIGN(const int32_t bits, whole_setting(complete, "bits"));
  VESTIGE_ASSIGN(const CodedSpan span, coded_span(complete, 1));
  VESTIGE_TRY(check_coded_layout("turboquant", layout));
  const int32_t d = layout.d_content;
  if (d < 8 || d > 4096 || !std::has_single_bit(static_cast<uint32_t>(d))) {
    return unsupported("policy turboquant: heads are %d wide, want a power of two, 8 to 4096", d);
  }
  return std::shared_ptr<const CachePolicy>(std::make_shared<TurboQuantPolicy>(std::move(complete), span, bits));
}

}  // namespace vestige
