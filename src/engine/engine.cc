#include "vestige/engine.h"

#include "base/guarded.h"

namespace vestige {

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<Engine>> {
    auto engine = std::unique_ptr<Engine>(new Engine());
    VESTIGE_ASSIGN(engine->stream_, Stream::create(options.stream));
    VESTIGE_ASSIGN(engine->model_, Model::load(options.model_dir, options.model));
    VESTIGE_ASSIGN(engine->tokenizer_, Tokenizer::load(options.model_dir));
    engine->model_dir_ = options.model_dir;
    return engine;
  });
}

}  // namespace vestige
