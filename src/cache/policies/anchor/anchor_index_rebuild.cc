// Coded rows as they are attended, for measurements.

#include <algorithm>

#include "backend/ops/anchored_side.h"
#include "cache/key_turn.h"
#include "cache/policies/anchor/anchor_index.h"

namespace vestige::anchor {

Status AnchorIndex::rebuild(const RebuiltRows& out, Stream& stream) const {
  const int64_t d = this->d();
  for (const Segment& segment : segments_) {
    const int64_t n = segment.n();
    std::vector<float> key(static_cast<size_t>(n * d)), value(key.size());
    const CodedLayer& code = segment.code;
    VESTIGE_TRY(decode_side(code, code.key, 0, {key.data(), DType::kF32, {n, d}}, stream));
    VESTIGE_TRY(decode_side(code, code.value, 0, {value.data(), DType::kF32, {n, d}}, stream));
    turn_keys(key.data(), n, d, rotation_, segment.first, 1, 1);
    const AnchoredHead head = code.head(0);
    uint8_t* finely = out.finely.as<uint8_t>() + segment.first;
    for (int64_t t = 0; t < n; ++t) {
      float* row = out.rows.as<float>() + (segment.first + t) * 2 * d;
      std::copy_n(value.data() + t * d, d, row);
      std::copy_n(key.data() + t * d, d, row + d);
      finely[t] = residual_row(head.key, t) >= 0 ? 1 : 0;
    }
    for (int64_t a = 0; a < code.plan.shape.n_selected(); ++a) finely[code.anchor_position(0, a)] = 1;
  }
  return {};
}

}  // namespace vestige::anchor
