#include "engine/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace vestige {

namespace {

Digest canonical(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  Digest out;
  static_assert(sizeof(bytes) == sizeof(out));
  std::memcpy(out.data(), &bytes, sizeof(out));
  return out;
}

}  // namespace

struct Hasher::State {
  XXH3_state_t hash;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }
Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}

Digest Hasher::digest() const { return canonical(XXH3_128bits_digest(&state_->hash)); }

Digest digest_of(std::span<const std::byte> bytes) {
  return bytes.empty() ? canonical(XXH3_128bits("", 0)) : canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace vestige
