#include "base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/mapped_file.h"

namespace vestige {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  bool good = context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  if (!state_->good) return;
  state_->good = EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1;
}

Result<std::string> Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int n_bytes = 0;
  if (!state_->good || EVP_DigestFinal_ex(state_->context, digest.data(), &n_bytes) != 1 || n_bytes != 32) {
    return internal_error("sha256: libcrypto refused to hash");
  }
  state_->good = false;
  std::string hex;
  hex.reserve(64);
  for (unsigned int i = 0; i < n_bytes; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

Result<std::string> sha256_file(const std::string& path) {
  VESTIGE_ASSIGN(const MappedFile file, MappedFile::open(path));
  // Read, not mapped: a file cut meanwhile is an error here and would be a SIGBUS there.
  std::vector<std::byte> buffer(std::min<size_t>(file.bytes().size(), size_t{1} << 20));
  Sha256 hash;
  for (size_t at = 0; at < file.bytes().size(); at += buffer.size()) {
    const std::span piece(buffer.data(), std::min(buffer.size(), file.bytes().size() - at));
    VESTIGE_TRY(file.read(at, piece));
    hash.update(piece);
  }
  return hash.finish();
}

}  // namespace vestige
