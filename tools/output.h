#pragma once

// Files to write.

#include <initializer_list>
#include <string>

#include "vestige/status.h"

namespace vestige::tools {

/// Before minutes of reading: may the file be written, and is it none of `inputs` nor a file of the model?
Status probe_output(const std::string& path, std::initializer_list<std::string> inputs, const std::string& model_dir);

/// @return IoError if the file just written is not there.
Result<int64_t> file_bytes(const std::string& path);

}  // namespace vestige::tools
