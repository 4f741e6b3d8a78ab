#include "tools/exit_code.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace vestige::tools {

int exit_code(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
    case StatusCode::kDataLoss:
    case StatusCode::kMismatch:
      return kExitInput;
    case StatusCode::kCancelled:
      return kExitInterrupted;
    case StatusCode::kIoError:
    case StatusCode::kOutOfMemory:
    case StatusCode::kInternal:
      break;
  }
  return kExitSystem;
}

std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    char escaped[5] = {c};
    if (byte < 0x20 || byte == 0x7f) std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    out += escaped;
  }
  return out;
}

void print_error(const std::string& message) {
  const bool color = isatty(STDERR_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  std::fprintf(stderr, "%svestige: error:%s %s\n", color ? "\033[31m" : "", color ? "\033[0m" : "",
               printable(message).c_str());
}

}  // namespace vestige::tools
