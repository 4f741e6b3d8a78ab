#pragma once

// A GGUF file as a checkpoint: its metadata in the words of config.json, so that one reader checks every kind of model,
// and its tensors by their hub names. Names and keys are those of the ggml project's specification and converters.

#include <optional>
#include <string>
#include <string_view>

#include "base/gguf.h"
#include "model/config.h"

namespace vestige {

/// Whether a model path names a GGUF file and not a folder: by its ending.
bool is_gguf_path(const std::string& path);

/// The hub's name of a tensor of the Llama family; nothing for a name we do not know.
std::optional<std::string> hub_name_of(std::string_view gguf_name);

/// Keys that arch/llama reads, with "rope_interleave" (rows of q and k lie in pairs of neighbours) for architecture
/// llama. @return Unsupported naming the architecture, or the key or tensor that would change the numbers; NotFound or
/// DataLoss naming the key that is missing or wrong. Ranges are checked by who reads the Config.
Result<Config> read_gguf_config(const GgufFile& file);

}  // namespace vestige
