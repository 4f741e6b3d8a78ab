#pragma once

// Writes a .vctx: once over the parts for their names and shapes, which the header wants first, and once for their
// bytes. Whatever saves itself must therefore put the same tensors both times.

#include <cstdint>
#include <functional>
#include <string>

#include "engine/context_format.h"
#include "vestige/engine.h"
#include "vestige/policy.h"
#include "vestige/status.h"

namespace vestige {

/// Puts every tensor of a context into a sink.
using SaveParts = std::function<Status(TensorSink& sink)>;

/// @param progress counts bytes.
/// @return IoError (naming path and reason), InvalidArgument, Cancelled; no file is left then, nor an old one touched.
Status write_context(const std::string& path, const ContextHeader& header, const SaveParts& save,
                     const ProgressFn& progress);

}  // namespace vestige
