#pragma once

// Documents as bytes.

#include <string>

#include "vestige/engine.h"

namespace vestige::tools {

/// All bytes of a file, or of stdin for "-".
/// @return NotFound, IoError, InvalidArgument for a folder, Cancelled after Ctrl-C.
Result<std::string> read_input(const std::string& path);

/// Token ids of a document. @return InvalidArgument if it is empty or longer than the model's window.
Result<std::vector<int32_t>> read_tokens(const Engine& engine, const std::string& bytes, const std::string& name);

/// Reads `tokens` into the context and ends the document.
Status read_document(Context& context, std::span<const int32_t> tokens, int64_t chunk, const ProgressFn& progress);

}  // namespace vestige::tools
