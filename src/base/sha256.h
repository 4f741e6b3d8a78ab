#pragma once

// SHA-256 (OpenSSL's), of bytes as they come and of whole files; as lower-case hex everywhere.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "vestige/status.h"

namespace vestige {

/// A hash over bytes handed in pieces. Movable, not copyable; one thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes) { update(std::as_bytes(std::span(bytes.data(), bytes.size()))); }
  /// The 64 hex digits of all bytes so far; nothing may be added afterwards.
  /// @return Internal if the library refused a step (out of memory, say) since the construction.
  Result<std::string> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The hash of a file's bytes, as `sha256sum` prints it.
/// @return NotFound or IoError, naming the path, if it cannot be read; DataLoss if it is not a regular file.
Result<std::string> sha256_file(const std::string& path);

}  // namespace vestige
