#pragma once

// Named tensors in memory: a model's state on its way from one sequence to another.

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "vestige/device.h"
#include "vestige/policy.h"

namespace vestige {

class MemoryTensors final : public TensorSink, public TensorSource {
 public:
  Status put(const std::string& name, const ConstTensorView& value) override {
    if (!value.contiguous()) return internal_error("tensor \"%s\" is not dense", name.c_str());
    const size_t n_bytes = static_cast<size_t>(value.n_elements()) * dtype_bytes(value.dtype);
    VESTIGE_ASSIGN(Buffer memory, Buffer::create(n_bytes));
    if (n_bytes > 0) std::memcpy(memory.data(), value.data, n_bytes);
    ConstTensorView copy = value;
    copy.data = memory.data();
    if (!tensors_.emplace(name, std::pair(std::move(memory), copy)).second) {
      return internal_error("tensor \"%s\" put twice", name.c_str());
    }
    return {};
  }

  Result<ConstTensorView> get(const std::string& name, DType dtype, std::vector<int64_t> shape) const override {
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) return not_found("no tensor \"%s\"", name.c_str());
    const ConstTensorView& view = at->second.second;
    bool as_wanted = view.dtype == dtype && view.rank == static_cast<int>(shape.size());
    for (size_t i = 0; as_wanted && i < shape.size(); ++i) {
      as_wanted = shape[i] < 0 || shape[i] == view.dim(static_cast<int>(i));
    }
    if (!as_wanted) return data_loss("tensor \"%s\" is %s", name.c_str(), describe(view).c_str());
    return view;
  }

 private:
  std::map<std::string, std::pair<Buffer, ConstTensorView>> tensors_;
};

}  // namespace vestige
