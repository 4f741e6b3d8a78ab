#include "vestige/status.h"

#include <cstdarg>
#include <cstdio>

namespace vestige {

const char* status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kNotFound:
      return "not_found";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kDataLoss:
      return "data_loss";
    case StatusCode::kMismatch:
      return "mismatch";
    case StatusCode::kIoError:
      return "io_error";
    case StatusCode::kOutOfMemory:
      return "out_of_memory";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Status Status::with_context(const std::string& where) const {
  return ok() ? *this : Status(code_, where + ": " + message_);
}

namespace {

std::string format_message(const char* format, va_list args) {
  va_list again;
  va_copy(again, args);
  const int n = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (n <= 0) return format;
  std::string text(static_cast<size_t>(n), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, args);
  return text;
}

}  // namespace

#define VESTIGE_DEFINE_MAKER(name, code)                      \
  Status name(const char* format, ...) {                      \
    va_list args;                                             \
    va_start(args, format);                                   \
    Status s(StatusCode::code, format_message(format, args)); \
    va_end(args);                                             \
    return s;                                                 \
  }
VESTIGE_DEFINE_MAKER(invalid_argument, kInvalidArgument)
VESTIGE_DEFINE_MAKER(not_found, kNotFound)
VESTIGE_DEFINE_MAKER(unsupported, kUnsupported)
VESTIGE_DEFINE_MAKER(data_loss, kDataLoss)
VESTIGE_DEFINE_MAKER(mismatch, kMismatch)
VESTIGE_DEFINE_MAKER(io_error, kIoError)
VESTIGE_DEFINE_MAKER(out_of_memory, kOutOfMemory)
VESTIGE_DEFINE_MAKER(cancelled, kCancelled)
VESTIGE_DEFINE_MAKER(internal_error, kInternal)
#undef VESTIGE_DEFINE_MAKER

}  // namespace vestige
