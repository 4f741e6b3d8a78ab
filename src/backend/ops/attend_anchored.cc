#include "backend/ops/check_anchor.h"
#include "vestige/ops/anchor.h"

namespace vestige {

namespace {

constexpr const char* kOp = "attend_anchored";

Status check_side(const AnchoredSide& s, int64_t n, int64_t d, int32_t bits) {
  VESTIGE_TRY(check::tensor({kOp, "anchors"}, s.anchors, {DType::kBF16, DType::kF32}, {-1, d}));
  if (s.anchors.dim(0) < 1) return invalid_argument("%s: anchors has no rows, want at least 1", kOp);
  VESTIGE_TRY(check::tensor({kOp, "index"}, s.index, {DType::kU8}, {n, -1}));
  if (s.index.dim(1) != 1 && s.index.dim(1) != 2) {
    return invalid_argument("%s: index has %" PRId64 " bytes a token, want 1 or 2", kOp, s.index.dim(1));
  }
  VESTIGE_TRY(check::tensor({kOp, "gamma"}, s.gamma, {DType::kBF16, DType::kU8, DType::kF32}, {n}));
  VESTIGE_TRY(check::tensor({kOp, "mask"}, s.mask, {DType::kI64}, {(n + 63) / 64}));
  VESTIGE_TRY(check::tensor({kOp, "prefix"}, s.prefix, {DType::kI32}, {(n + 63) / 64}));
  VESTIGE_TRY(check::tensor({kOp, "codes"}, s.codes, {DType::kU8}, {-1, d * bits / 8}));
  VESTIGE_TRY(check::tensor({kOp, "scale"}, s.scale, {DType::kF16, DType::kF32}, {s.codes.dim(0)}));
  for (const auto& [name, view] : {std::pair{"anchors", s.anchors}, {"index", s.index}, {"codes", s.codes}}) {
    VESTIGE_TRY(check::dense({kOp, name}, view));
  }
  return {};
}

}  // namespace

Status attend_anchored_check(const AttendAnchoredParams& p) {
  VESTIGE_TRY(check::step_queries(kOp, p.q, p.scale, p.heads.size()));
  const int64_t n_heads = p.q.dim(0), m = p.q.dim(1), d = p.q.dim(2);
  VESTIGE_TRY(check::rotated_width(kOp, "q", d));
  if (n_heads < 1) return invalid_argument("%s: q is %s, want at least one head", kOp, describe(p.q).c_str());
  if (p.bits < 2 || p.bits > 4) return invalid_argument("%s: bits = %d, want 2, 3 or 4", kOp, p.bits);
  const ConstTensorView& first = p.heads[0].key.gamma;
  if (first.rank != 1) return invalid_argument("%s: gamma is %s, want [n]", kOp, describe(first).c_str());
  const int64_t n = first.dim(0);
  if (n < 0 || n > INT32_MAX) return invalid_argument("%s: n = %" PRId64 ", want 0 to %d", kOp, n, INT32_MAX);
  for (const AnchoredHead& head : p.heads) {
    VESTIGE_TRY(check_side(head.key, n, d, p.bits));
    VESTIGE_TRY(check_side(head.value, n, d, p.bits));
  }
  if (p.frequencies.data != nullptr) {
    VESTIGE_TRY(check::tensor({kOp, "frequencies"}, p.frequencies, {DType::kF32}, {-1}));
    if (p.frequencies.dim(0) > d / 2) {
      return invalid_argument("%s: frequencies has %" PRId64 " entries, want at most %" PRId64, kOp,
                              p.frequencies.dim(0), d / 2);
    }
  }
  if (p.positions.data != nullptr) {
    VESTIGE_TRY(check::tensor({kOp, "positions"}, p.positions, {DType::kI32}, {n}));
  }
  VESTIGE_TRY(check::tensor({kOp, "out"}, p.out, {DType::kF32}, {n_heads, m, d}));
  VESTIGE_TRY(check::dense({kOp, "out"}, p.out));
  VESTIGE_TRY(check::tensor({kOp, "lse"}, p.lse, {DType::kF32}, {n_heads, m}));
  VESTIGE_TRY(check::dense({kOp, "lse"}, p.lse));
  if (p.scores.data == nullptr) return {};
  VESTIGE_TRY(check::tensor({kOp, "scores"}, p.scores, {DType::kF32}, {n_heads, m, n}));
  return check::dense({kOp, "scores"}, p.scores);
}

}  // namespace vestige
