#pragma once

// A sketch of what the code leaves of a key before its turn: a few bits of its largest directions. It is not attended,
// it makes the bound on a logit's error small: the error is the sketch's score, which is known, give or take what the
// sketch leaves. Source: the shape of VestigeKV's Lemma 2 (arXiv:2609.03949); docs/policies/anchor.md, "Certificate".

#include <cstdint>
#include <span>
#include <vector>

#include "vestige/status.h"

namespace vestige::anchor {

/// Directions of a sketch of n_bytes a token: two bits each at least, on average.
inline int64_t sketch_rank(int64_t d, int64_t n_bytes) { return 4 * n_bytes < d ? 4 * n_bytes : d; }

/// Of all heads of a layer; empty where tokens have none. A token stands for
///   sum_j gain range_j ((2 code_j + 1) / 2^bits_j - 1) basis_j,   basis_j = levels / 127,  gain = 2^((byte - 128) / 8)
/// byte 0: nothing. Codes are a stream of bits in order of j, lowest bits of a byte first.
struct KeySketch {
  std::vector<int8_t> basis;   ///< [h, r, d]
  std::vector<uint8_t> bits;   ///< [h, r], 0 to 8; of a head at most 8 n_bytes together
  std::vector<float> range;    ///< [h, r], >= 0
  std::vector<uint8_t> gain;   ///< [h, n]
  std::vector<uint8_t> codes;  ///< [h, n, n_bytes]

  void resize(int64_t n_heads, int64_t n, int64_t d, int64_t n_bytes);
  int64_t size_bytes() const;
  /// Tables and codes of one head. Rows that are not finite get a gain of 0. @param residual [n, d]
  Status write(int64_t head, std::span<const float> residual, int64_t n, int64_t d, int64_t n_bytes);
  /// What tokens [first, first + count) of a head stand for. @param out [count, d]
  void read(int64_t head, int64_t first, int64_t count, int64_t n, int64_t d, int64_t n_bytes, float* out) const;
};

}  // namespace vestige::anchor
