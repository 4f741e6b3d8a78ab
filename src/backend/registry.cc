#include "backend/backend.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/ref/ref_ops.h"

namespace vestige {

std::span<const Backend> backends() {
  static const Backend kBackends[] = {
      {"ref", DeviceKind::kCpu, &ref::op_table()},
      {"cpu", DeviceKind::kCpu, &cpu::op_table()},
  };
  return kBackends;
}

const Backend* find_backend(std::string_view name) {
  for (const Backend& b : backends()) {
    if (name == b.name) return &b;
  }
  return nullptr;
}

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const Backend& b : backends()) names.emplace_back(b.name);
  return names;
}

}  // namespace vestige
