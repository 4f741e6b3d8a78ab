#include "backend/ops/check.h"

#include <algorithm>

namespace vestige {

namespace {

std::string describe_want(const ViewWant& want) {
  std::string text = "[";
  for (int64_t n : want.shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  text += "]";
  for (const DType* d = want.dtypes.begin(); d != want.dtypes.end(); ++d) {
    text += (d == want.dtypes.begin() ? " " : " or ") + std::string(dtype_name(*d));
  }
  return text;
}

bool same_shape(const ConstTensorView& view, const ViewWant& want) {
  if (view.rank != static_cast<int>(want.shape.size())) return false;
  int i = 0;
  for (int64_t n : want.shape) {
    if (n < 0 || view.dim(i++) != n) return false;
  }
  return true;
}

bool strides_ok(const ConstTensorView& view, Strides strides) {
  if (strides == Strides::kDense) return view.contiguous();
  int64_t extent = 1;  // elements from the first to the last of one inner block
  for (int i = view.rank - 1; i >= 0; --i) {
    const int64_t stride = view.stride[static_cast<size_t>(i)];
    if (view.dim(i) <= 1) continue;
    if (i == view.rank - 1 && stride != 1) return false;
    if (stride < (strides == Strides::kDistinct ? extent : 0)) return false;
    extent += (view.dim(i) - 1) * stride;
  }
  return true;
}

}  // namespace

Status check_view(const ConstTensorView& view, const ViewWant& want) {
  const bool dtype_ok = std::find(want.dtypes.begin(), want.dtypes.end(), view.dtype) != want.dtypes.end();
  if (!same_shape(view, want) || !dtype_ok) {
    return invalid_argument("%s: %s is %s, want %s", want.op, want.field, describe(view).c_str(),
                            describe_want(want).c_str());
  }
  if (view.n_elements() == 0) return {};
  if (view.data == nullptr) return invalid_argument("%s: %s has no memory", want.op, want.field);
  if (!strides_ok(view, want.strides)) {
    static constexpr const char* kWant[] = {"a dense view", "last stride 1, others >= 0",
                                            "last stride 1, rows that do not overlap"};
    return invalid_argument("%s: %s %s has strides %lld, %lld, %lld, %lld, want %s", want.op, want.field,
                            describe(view).c_str(), static_cast<long long>(view.stride[0]),
                            static_cast<long long>(view.stride[1]), static_cast<long long>(view.stride[2]),
                            static_cast<long long>(view.stride[3]), kWant[static_cast<size_t>(want.strides)]);
  }
  return {};
}

Status check_rank(const ConstTensorView& view, int rank, const char* op, const char* field) {
  if (view.rank == rank) return {};
  return invalid_argument("%s: %s is %s, want %d dimensions", op, field, describe(view).c_str(), rank);
}

Status check_apart(const ConstTensorView& a, const ConstTensorView& b, const char* op, const char* fields) {
  if (a.empty() || b.empty()) return {};
  const auto begin = [](const ConstTensorView& v) { return reinterpret_cast<uintptr_t>(v.data); };
  const auto bytes = [](const ConstTensorView& v) {
    int64_t last = 0;
    for (int i = 0; i < v.rank; ++i) last += (v.dim(i) - 1) * v.stride[static_cast<size_t>(i)];
    return static_cast<uintptr_t>(last + 1) * dtype_bytes(v.dtype);
  };
  if (begin(a) + bytes(a) <= begin(b) || begin(b) + bytes(b) <= begin(a)) return {};
  if (a.rank == 2 && b.rank == 2 && a.stride[0] == b.stride[0] && a.stride[0] > 0) {
    const auto pitch = static_cast<uintptr_t>(a.stride[0]) * dtype_bytes(a.dtype);
    const uintptr_t width_a = static_cast<uintptr_t>(a.dim(1)) * dtype_bytes(a.dtype);
    const uintptr_t width_b = static_cast<uintptr_t>(b.dim(1)) * dtype_bytes(b.dtype);
    const uintptr_t gap = (begin(b) - begin(a)) % pitch;  // unsigned wrap is harmless only for begin(b) >= begin(a)
    const uintptr_t back = (begin(a) - begin(b)) % pitch;
    if (begin(b) >= begin(a) ? gap >= width_a && gap + width_b <= pitch : back >= width_b && back + width_a <= pitch) {
      return {};
    }
  }
  return invalid_argument("%s: %s overlap", op, fields);
}

Status check_scale(const ConstTensorView& w, const ConstTensorView& scale, const char* op, const char* field) {
  if (w.dtype == DType::kF8E4M3) {
    return check_view(scale, {op, field, {(w.dim(0) + 127) / 128, (w.dim(1) + 127) / 128}, {DType::kF32}});
  }
  if (scale.data == nullptr) return {};
  return invalid_argument("%s: %s is %s, want none for weights of %s", op, field, describe(scale).c_str(),
                          dtype_name(w.dtype));
}

Status check_weight(const ConstTensorView& w, const ConstTensorView& scale, const char* op, const char* field) {
  VESTIGE_TRY(check_view(w, {op,
                             field,
                             {w.dim(0), w.dim(1)},
                             {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kQ8_0, DType::kQ4_0,
                              DType::kQ4_1, DType::kQ4K, DType::kQ6K},
                             Strides::kFree}));
  const int64_t n = dtype_block(w.dtype).n;
  if (w.dim(1) % n != 0 || (w.dim(0) > 1 && w.stride[0] % n != 0)) {
    return invalid_argument("%s: %s is %s with rows %lld apart, want multiples of %lld", op, field, describe(w).c_str(),
                            static_cast<long long>(w.stride[0]), static_cast<long long>(n));
  }
  return check_scale(w, scale, op);
}

Status check_ids(const ConstTensorView& ids, int64_t limit, const char* op, const char* field) {
  if (ids.device != DeviceKind::kCpu) return {};
  const auto* id = ids.as<int32_t>();
  for (int64_t i = 0; i < ids.n_elements(); ++i) {
    if (id[i] < 0 || id[i] >= limit) {
      return invalid_argument("%s: %s[%lld] = %d, want [0, %lld)", op, field, static_cast<long long>(i), id[i],
                              static_cast<long long>(limit));
    }
  }
  return {};
}

}  // namespace vestige
