// The coded rows to a file and back. What comes from a file is held against its own sizes by CodedHead::check.

#include <cmath>
#include <cstring>
#include <limits>

#include "cache/policies/klt/klt_index.h"
#include "cache/policies/load_array.h"

namespace vestige::klt {

namespace {

template <class T>
Status put(TensorSink& sink, const std::string& name, const std::vector<T>& x, DType dtype, int64_t n, int64_t width) {
  if (x.empty()) return {};
  return sink.put(name, ConstTensorView(x.data(), dtype, {n, width}));
}

const char* const kSide[] = {"klt_key_", "klt_value_"};

Status load_side(const std::string& name, const TensorSource& source, int64_t d, CodedSide* side) {
  VESTIGE_TRY(load_array(source, name + "mean", DType::kF32, 1, d, &side->mean));
  VESTIGE_TRY(load_array(source, name + "planes", DType::kI32, kClasses, kMaxBits, &side->n_planes));
  // The rank is that of the widest class.
  for (size_t c = 0; c < kClasses; ++c) side->rank = std::max<int64_t>(side->rank, side->n_planes[c * kMaxBits]);
  if (side->rank > d)
    return data_loss("%splanes: %lld coefficients, want at most %lld", name.c_str(), static_cast<long long>(side->rank),
                     static_cast<long long>(d));
  VESTIGE_TRY(load_array(source, name + "basis", DType::kU8, side->rank, d, &side->basis));
  VESTIGE_TRY(load_array(source, name + "basis_scale", DType::kF32, 1, side->rank, &side->basis_scale));
  return load_array(source, name + "range", DType::kU8, kClasses, side->rank, &side->range);
}

}  // namespace

Status KltIndex::save(const std::string& prefix, TensorSink& sink) const {
  VESTIGE_TRY(save_state(prefix, "klt_norm", sink));
  if (!ready_) return {};
  for (size_t s = 0; s < 2; ++s) {
    const CodedSide& side = head_.side[s];
    const std::string name = prefix + kSide[s];
    VESTIGE_TRY(put(sink, name + "mean", side.mean, DType::kF32, 1, d()));
    VESTIGE_TRY(put(sink, name + "planes", side.n_planes, DType::kI32, kClasses, kMaxBits));
    VESTIGE_TRY(put(sink, name + "basis", side.basis, DType::kU8, side.rank, d()));
    VESTIGE_TRY(put(sink, name + "basis_scale", side.basis_scale, DType::kF32, 1, side.rank));
    VESTIGE_TRY(put(sink, name + "range", side.range, DType::kU8, kClasses, side.rank));
  }
  VESTIGE_TRY(sink.put(prefix + "klt_limits", ConstTensorView(head_.limits.data(), DType::kF32, {kClasses - 1})));
  VESTIGE_TRY(sink.put(prefix + "klt_unit", ConstTensorView(head_.unit, DType::kF32, {2})));
  const auto size = [](const auto& x) { return static_cast<int64_t>(x.size()); };
  VESTIGE_TRY(put(sink, prefix + "klt_class", head_.row_class, DType::kU8, 1, size(head_.row_class)));
  VESTIGE_TRY(
      put(sink, prefix + "klt_start", head_.run_start, DType::kI32, size(head_.run_start) / kClasses, kClasses));
  return put(sink, prefix + "klt_codes", head_.codes, DType::kU8, 1, size(head_.codes));
}

Status KltIndex::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  KltIndex loaded(layout_, rotation_, settings_);
  VESTIGE_TRY(loaded.load_state(prefix, "klt_norm", std::numeric_limits<float>::infinity(), source, n_closed));
  if (loaded.ready_) {
    if (loaded.n_coded() < 1) {
      return data_loss("%sindex_ready = 1 with %lld closed rows, want more than %lld", prefix.c_str(),
                       static_cast<long long>(n_closed), static_cast<long long>(span().n_sinks + span().window));
    }
    CodedHead& head = loaded.head_;
    head.d = d();
    head.n_rows = loaded.n_coded();
    for (size_t s = 0; s < 2; ++s) VESTIGE_TRY(load_side(prefix + kSide[s], source, d(), &head.side[s]));
    VESTIGE_ASSIGN(const ConstTensorView limits, source.get(prefix + "klt_limits", DType::kF32, {kClasses - 1}));
    std::memcpy(head.limits.data(), limits.data, sizeof head.limits);
    VESTIGE_ASSIGN(const ConstTensorView unit, source.get(prefix + "klt_unit", DType::kF32, {2}));
    std::memcpy(head.unit, unit.data, sizeof head.unit);
    const int64_t n_runs = (head.n_rows - 1) / kPlaneRun + 1;
    VESTIGE_TRY(load_array(source, prefix + "klt_class", DType::kU8, 1, (head.n_rows - 1) / 4 + 1, &head.row_class));
    VESTIGE_TRY(load_array(source, prefix + "klt_start", DType::kI32, n_runs, kClasses, &head.run_start));
    const auto codes = source.get(prefix + "klt_codes", DType::kU8, {1, -1});
    if (!codes.ok() && codes.status().code() != StatusCode::kNotFound) return codes.status();
    if (codes.ok()) VESTIGE_TRY(load_array(source, prefix + "klt_codes", DType::kU8, 1, codes->dim(1), &head.codes));
    VESTIGE_TRY(head.check(prefix + "klt"));
  }
  *this = std::move(loaded);
  return {};
}

}  // namespace vestige::klt
