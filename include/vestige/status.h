#pragma once

// Errors as values. Nothing in the library throws across a public function, prints, exits or reads
// the environment; a caller learns of a failure from a Status, whose message names the field, the
// value seen and the range wanted.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace vestige {

enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument,  ///< the caller's value is out of its range
  kNotFound,         ///< a file, tensor or name does not exist
  kUnsupported,      ///< valid, but this build, backend or version does not do it
  kDataLoss,         ///< a file is damaged, cut, or not what it says it is
  kMismatch,         ///< two valid things do not belong together (a context and a model, say)
  kIoError,          ///< the operating system refused to read or write
  kOutOfMemory,      ///< an allocation failed
  kCancelled,        ///< the caller asked to stop
  kInternal,         ///< our own mistake, reported instead of a crash
};

/// Stable lower-case name of a code, e.g. "invalid_argument"; never null.
const char* status_code_name(StatusCode code);

/// Success, or a code and one sentence. Cheap to move; thread-compatible.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// The same code with "<where>: " put before the message; ok stays ok.
  Status with_context(const std::string& where) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// printf-style makers, checked by the compiler.
#define VESTIGE_PRINTF_LIKE __attribute__((format(printf, 1, 2)))
Status invalid_argument(const char* format, ...) VESTIGE_PRINTF_LIKE;
Status not_found(const char* format, ...) VESTIGE_PRINTF_LIKE;
Status unsupported(const char* format, ...) VESTIGE_PRINTF_LIKE;
Status data_loss(const char* format, ...) VESTIGE_PRINTF_LIKE;
Status mismatch(const char* format, ...) VESTIGE_PRINTF_LIKE;
Status io_error(const char* format, ...) VESTIGE_PRINTF_LIKE;
Status out_of_memory(const char* format, ...) VESTIGE_PRINTF_LIKE;
Status cancelled(const char* format, ...) VESTIGE_PRINTF_LIKE;
Status internal_error(const char* format, ...) VESTIGE_PRINTF_LIKE;
#undef VESTIGE_PRINTF_LIKE

/// A value or the Status that says why there is none. Reading a missing value is undefined; test ok().
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose, `return value;`
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: likewise, `return status;`

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace vestige

/// Hands a failed Status up.
#define VESTIGE_TRY(expr)                                      \
  do {                                                         \
    ::vestige::Status vestige_try_status_ = (expr);            \
    if (!vestige_try_status_.ok()) return vestige_try_status_; \
  } while (0)

#define VESTIGE_CONCAT_INNER_(a, b) a##b
#define VESTIGE_CONCAT_(a, b) VESTIGE_CONCAT_INNER_(a, b)
#define VESTIGE_ASSIGN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                         \
  if (!tmp.ok()) return tmp.status();        \
  lhs = std::move(tmp).value()

/// `VESTIGE_ASSIGN(auto x, make_x());` binds the value or hands the Status up.
#define VESTIGE_ASSIGN(lhs, ...) VESTIGE_ASSIGN_IMPL_(VESTIGE_CONCAT_(vestige_result_, __COUNTER__), lhs, (__VA_ARGS__))
