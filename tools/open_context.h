#pragma once

// A .vctx file and the engine that it belongs to.

#include <memory>
#include <string>

#include "tools/flags.h"
#include "vestige/engine.h"

namespace vestige::tools {

struct OpenContext {
  std::shared_ptr<const ContextFile> file;
  std::unique_ptr<Engine> engine;
  std::string model_dir;
  double open_s = 0, engine_s = 0;  ///< opening and checking the file; loading the model
};

/// @param flags  of the engine; without a model folder the one that the file names is taken.
/// @return Cancelled after Ctrl-C.
Result<OpenContext> open_context(const std::string& path, EngineFlags flags);

}  // namespace vestige::tools
