#pragma once

// XXH3-128 digests: they find damage, not malice.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace vestige {

/// In canonical (big-endian) byte order, as xxhsum prints it.
using Digest = std::array<std::byte, 16>;

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void add(std::span<const std::byte> bytes);
  Digest digest() const;  ///< of everything added so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest digest_of(std::span<const std::byte> bytes);

}  // namespace vestige
