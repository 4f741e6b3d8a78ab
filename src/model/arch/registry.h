#pragma once

// Which architectures this build computes.

#include <memory>
#include <span>

#include "model/config.h"
#include "model/weights.h"
#include "vestige/model.h"

namespace vestige {

struct Arch {
  const char* model_type;  ///< config.json: model_type
  const char* class_name;  ///< config.json: an entry of architectures
  Result<std::unique_ptr<Model>> (*load)(const Config& config, Weights weights, const ModelOptions& options);
};

std::span<const Arch> archs();

}  // namespace vestige
