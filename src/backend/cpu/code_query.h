#pragma once

// A query as the scan of coded rows wants it: integer weights for every entry of a code, and what turns their sum into
// a score and a bound. Integers, so that sums are exact in any order and the rounding of the query is known.

#include <cstdint>

#include "backend/cpu/tiles.h"
#include "base/thread_pool.h"
#include "vestige/ops/codes.h"

namespace vestige::cpu {

/// Heads that share one pass over a tile of codes.
inline constexpr int64_t kCodePack = 8;

/// How a sum of four entries is formed: bytes (one dot-product instruction) or pairs of 16-bit numbers.
enum class CodeDot : uint8_t { kBytes, kPairs };

/// One stage of a pack of heads. A *strip* is the entries of a unit at the same place of its four bytes.
struct StageWeights {
  int64_t n_wide = 0, n_narrow = 0;  ///< strips of 4-bit entries, and of 2- and 1-bit ones
  uint32_t* wide = nullptr;          ///< [n_wide, 2, kCodePack]: high and low bytes, or even and odd pairs
  uint32_t* narrow = nullptr;        ///< [n_narrow, 1 (bytes) or 2 (pairs), kCodePack]
  float* wide_scale = nullptr;       ///< [kCodePack]
  float* narrow_scale = nullptr;
  float* offset = nullptr;  ///< [kCodePack]: added to the score; stage 0 holds q . mean
  float* slack = nullptr;   ///< [kCodePack]: of all stages up to this one
  float* norm = nullptr;    ///< [kCodePack]: what one unit of norm_grid adds to the sound bound

  static int64_t strips(const CodeStage& s, bool wide);
  static int64_t floats(const CodeStage& s, CodeDot dot);
  void take(const CodeStage& s, CodeDot dot, Slices& slices);
};

/// All heads of one sequence; memory is the caller's.
struct CodeQuery {
  int64_t h = 0, n_packs = 0;
  float* dual = nullptr;           ///< [h, d]
  float* white = nullptr;          ///< [h, rank]
  StageWeights* stages = nullptr;  ///< [n_packs, 2]
  const StageWeights& stage(int64_t pack, int64_t s) const { return stages[pack * 2 + s]; }
};

/// Floats of working memory for one sequence, its StageWeights apart.
int64_t code_query_floats(const CodeSet& set, int64_t h, CodeDot dot);

/// @param q [h, d]; @param stages room for 2 a pack. Runs two loops on the pool.
CodeQuery prepare_code_query(const CodeSet& set, const float* q, int64_t h, float scale, CodeDot dot, Slices& slices,
                             StageWeights* stages, ThreadPool& pool);

}  // namespace vestige::cpu
