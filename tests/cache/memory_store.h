#pragma once

// A TensorSink and TensorSource in memory, for tests.

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "vestige/policy.h"

namespace vestige::testing {

class MemoryStore final : public TensorSink, public TensorSource {
 public:
  struct Tensor {
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
    bool operator==(const Tensor&) const = default;
  };

  Status put(const std::string& name, const ConstTensorView& value) override {
    Tensor t;
    t.dtype = value.dtype;
    for (int i = 0; i < value.rank; ++i) t.shape.push_back(value.dim(i));
    const auto* p = static_cast<const std::byte*>(value.data);
    t.bytes.assign(p, p + value.n_elements() * static_cast<int64_t>(dtype_bytes(value.dtype)));
    if (!tensors.emplace(name, std::move(t)).second) return invalid_argument("%s put twice", name.c_str());
    return {};
  }

  Result<ConstTensorView> get(const std::string& name, DType dtype, std::vector<int64_t> shape) const override {
    const auto it = tensors.find(name);
    if (it == tensors.end()) return not_found("no tensor %s", name.c_str());
    const Tensor& t = it->second;
    bool same = t.dtype == dtype && t.shape.size() == shape.size();
    for (size_t i = 0; same && i < shape.size(); ++i) same = shape[i] < 0 || shape[i] == t.shape[i];
    if (!same) return data_loss("%s has another shape or dtype", name.c_str());
    ConstTensorView view;
    if (t.shape.size() == 1) view = ConstTensorView(t.bytes.data(), t.dtype, {t.shape[0]});
    if (t.shape.size() == 2) view = ConstTensorView(t.bytes.data(), t.dtype, {t.shape[0], t.shape[1]});
    if (t.shape.size() == 3) view = ConstTensorView(t.bytes.data(), t.dtype, {t.shape[0], t.shape[1], t.shape[2]});
    return view;
  }

  template <class T>
  std::vector<T> values(const std::string& name) const {
    const Tensor& t = tensors.at(name);
    std::vector<T> v(t.bytes.size() / sizeof(T));
    std::memcpy(v.data(), t.bytes.data(), v.size() * sizeof(T));
    return v;
  }

  std::map<std::string, Tensor> tensors;
};

}  // namespace vestige::testing
