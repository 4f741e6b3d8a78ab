#pragma once

// What a backend is: a name, a device and a table with one function an op.

#include <span>

#include "vestige/device.h"
#include "vestige/ops.h"

namespace vestige {

/// One entry an op; null = this backend does not have it.
struct OpTable {
#define VESTIGE_OP_FIELD(name, Params) Status (*name)(const Params&, Stream&) = nullptr;
  VESTIGE_OPS(VESTIGE_OP_FIELD)
#undef VESTIGE_OP_FIELD
};

struct Backend {
  const char* name;
  DeviceKind device;
  const OpTable* ops;
};

/// All backends of this build; the first is the default for tests' oracle ("ref").
std::span<const Backend> backends();
/// Null if there is none of that name.
const Backend* find_backend(std::string_view name);

}  // namespace vestige
