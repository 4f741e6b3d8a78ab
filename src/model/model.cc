#include "vestige/model.h"

#include <algorithm>
#include <utility>

#include "base/guarded.h"
#include "model/arch/registry.h"
#include "model/gguf_model.h"

namespace vestige {

namespace {

Result<const Arch*> find_arch(const Config& config) {
  VESTIGE_ASSIGN(const std::string model_type, config.text("model_type", ""));
  VESTIGE_ASSIGN(const auto class_names, config.texts("architectures"));
  for (const Arch& arch : archs()) {
    if (model_type == arch.model_type) return &arch;
    if (std::find(class_names.begin(), class_names.end(), arch.class_name) != class_names.end()) return &arch;
  }
  std::string known;
  for (const Arch& arch : archs()) known += (known.empty() ? "" : ", ") + std::string(arch.model_type);
  return unsupported("%s: model_type = \"%.80s\", want one of: %s", config.where().c_str(), model_type.c_str(),
                     known.c_str());
}

Result<std::unique_ptr<Model>> load_gguf(const std::string& path, const ModelOptions& options) {
  VESTIGE_ASSIGN(GgufFile file, GgufFile::open(path));
  VESTIGE_ASSIGN(const Config config, read_gguf_config(file));
  VESTIGE_ASSIGN(const Arch* const arch, find_arch(config));
  VESTIGE_ASSIGN(Weights weights, Weights::of(std::move(file)));
  return arch->load(config, std::move(weights), options);
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(const std::string& dir, const ModelOptions& options) {
  if (options.row_dtype != DType::kBF16 && options.row_dtype != DType::kF32) {
    return invalid_argument("row_dtype = %s, want BF16 or F32", dtype_name(options.row_dtype));
  }
  return guarded([&]() -> Result<std::unique_ptr<Model>> {
    if (is_gguf_path(dir)) return load_gguf(dir, options);
    VESTIGE_ASSIGN(const Config config, Config::read(dir));
    VESTIGE_ASSIGN(const Arch* const arch, find_arch(config));
    VESTIGE_ASSIGN(Weights weights, Weights::open(dir));
    return arch->load(config, std::move(weights), options);
  });
}

}  // namespace vestige
