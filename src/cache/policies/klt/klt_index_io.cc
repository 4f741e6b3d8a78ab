// The coded rows to a file and back. What comes from a file is held against its own sizes by CodedHead::check.

#include <cmath>
#include <cstring>

#include "cache/policies/klt/klt_index.h"

namespace vestige::klt {

namespace {

template <class T>
Status put(TensorSink& sink, const std::string& name, const std::vector<T>& x, DType dtype, int64_t n, int64_t width) {
  if (x.empty()) return {};
  return sink.put(name, ConstTensorView(x.data(), dtype, {n, width}));
}

/// A matrix of n rows into `out`; nothing is taken before the source has it.
template <class T>
Status take(const TensorSource& source, const std::string& name, DType dtype, int64_t n, int64_t width,
            std::vector<T>* out) {
  out->clear();
  if (n * width == 0) return {};
  VESTIGE_ASSIGN(const ConstTensorView view, source.get(name, dtype, {n, width}));
  out->resize(static_cast<size_t>(n * width));
  std::memcpy(out->data(), view.data, out->size() * sizeof(T));
  return {};
}

const char* const kSide[] = {"klt_key_", "klt_value_"};

Status load_side(const std::string& name, const TensorSource& source, int64_t d, CodedSide* side) {
  VESTIGE_TRY(take(source, name + "mean", DType::kF32, 1, d, &side->mean));
  VESTIGE_TRY(take(source, name + "planes", DType::kI32, kClasses, kMaxBits, &side->n_planes));
  // The rank is that of the widest class.
  for (size_t c = 0; c < kClasses; ++c) side->rank = std::max<int64_t>(side->rank, side->n_planes[c * kMaxBits]);
  if (side->rank > d)
    return data_loss("%splanes: %lld coefficients, want at most %lld", name.c_str(), static_cast<long long>(side->rank),
                     static_cast<long long>(d));
  VESTIGE_TRY(take(source, name + "basis", DType::kU8, side->rank, d, &side->basis));
  VESTIGE_TRY(take(source, name + "basis_scale", DType::kF32, 1, side->rank, &side->basis_scale));
  return take(source, name + "range", DType::kU8, kClasses, side->rank, &side->range);
}

}  // namespace

Status KltIndex::save(const std::string& prefix, TensorSink& sink) const {
  const uint8_t ready = ready_ ? 1 : 0;
  VESTIGE_TRY(sink.put(prefix + "index_ready", ConstTensorView(&ready, DType::kU8, {1})));
  if (!ready_) return {};
  VESTIGE_TRY(sink.put(prefix + "klt_norm", ConstTensorView(&max_norm_, DType::kF32, {1})));
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
  VESTIGE_ASSIGN(const ConstTensorView flag, source.get(prefix + "index_ready", DType::kU8, {1}));
  const uint8_t ready = *flag.as<uint8_t>();
  if (ready > 1) return data_loss("%sindex_ready = %d, want 0 or 1", prefix.c_str(), ready);
  if (ready == 1) {
    if (coded_end(n_closed) <= settings_.n_sinks) {
      return data_loss("%sindex_ready = 1 with %lld closed rows, want more than %lld", prefix.c_str(),
                       static_cast<long long>(n_closed), static_cast<long long>(settings_.n_sinks + settings_.window));
    }
    VESTIGE_ASSIGN(const ConstTensorView norm, source.get(prefix + "klt_norm", DType::kF32, {1}));
    std::memcpy(&loaded.max_norm_, norm.data, sizeof(float));
    if (!(loaded.max_norm_ >= 0)) return data_loss("%sklt_norm: want 0 or more", prefix.c_str());
    CodedHead& head = loaded.head_;
    head.d = d();
    head.n_rows = coded_end(n_closed) - settings_.n_sinks;
    for (size_t s = 0; s < 2; ++s) VESTIGE_TRY(load_side(prefix + kSide[s], source, d(), &head.side[s]));
    VESTIGE_ASSIGN(const ConstTensorView limits, source.get(prefix + "klt_limits", DType::kF32, {kClasses - 1}));
    std::memcpy(head.limits.data(), limits.data, sizeof head.limits);
    VESTIGE_ASSIGN(const ConstTensorView unit, source.get(prefix + "klt_unit", DType::kF32, {2}));
    std::memcpy(head.unit, unit.data, sizeof head.unit);
    const int64_t n_runs = (head.n_rows - 1) / kPlaneRun + 1;
    VESTIGE_TRY(take(source, prefix + "klt_class", DType::kU8, 1, (head.n_rows - 1) / 4 + 1, &head.row_class));
    VESTIGE_TRY(take(source, prefix + "klt_start", DType::kI32, n_runs, kClasses, &head.run_start));
    const auto codes = source.get(prefix + "klt_codes", DType::kU8, {1, -1});
    if (!codes.ok() && codes.status().code() != StatusCode::kNotFound) return codes.status();
    if (codes.ok()) VESTIGE_TRY(take(source, prefix + "klt_codes", DType::kU8, 1, codes->dim(1), &head.codes));
    VESTIGE_TRY(head.check(prefix + "klt"));
    loaded.n_closed_ = n_closed;
    loaded.ready_ = true;
  }
  *this = std::move(loaded);
  return {};
}

}  // namespace vestige::klt
