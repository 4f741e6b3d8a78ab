#pragma once

// Where the entries of a code stage lie in its units, and how one coordinate is coded.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "vestige/ops/codes.h"

namespace vestige {

/// ||y||^2 - ||white y||^2 is a small difference: y's square is taken this much larger, which covers the rounding of
/// `white` and of the products with it.
inline constexpr double kWhiteRounding = 4e-6;
/// Slack of a bound as a share of scale ||q|| max ||x||: covers float32 rounding in t, in the transform and its dual,
/// and in sums (docs/policies/vestige.md).
inline constexpr double kCodeRounding = 1.0 / 8192;

/// Width in bits, unit and place of entry e.
struct EntryPlace {
  int32_t width, unit, byte, at;  ///< `at` = first bit in its byte

  EntryPlace(const CodeStage& s, int32_t e) {
    const int32_t n4 = 8 * s.n_units[0], n2 = 16 * s.n_units[1];
    int32_t in = e, first = 0;
    width = 4;
    if (e >= n4 + n2) {
      width = 1;
      in -= n4 + n2;
      first = s.n_units[0] + s.n_units[1];
    } else if (e >= n4) {
      width = 2;
      in -= n4;
      first = s.n_units[0];
    }
    const int32_t per_unit = 32 / width;
    unit = first + in / per_unit;
    byte = in % per_unit % 4;
    at = in % per_unit / 4 * width;
  }
};

/// Where one row's bytes of a stage lie: units of 4 bytes, `lanes` of them side by side, then the norms.
struct CodeRow {
  const uint8_t* bytes;
  int64_t lane, lanes;

  /// @param page of stage s (0 lies in tiles, 1 in rows); @param at row in the page
  CodeRow(const CodeStage& stage, size_t s, const void* page, int64_t at, int64_t n_groups)
      : lane(s == 0 ? at % CodeStage::kTileRows : 0), lanes(s == 0 ? int64_t{CodeStage::kTileRows} : 1) {
    bytes = static_cast<const uint8_t*>(page) + (at - lane) * stage.row_bytes(n_groups);
  }
  int32_t piece(const EntryPlace& p) const {
    return bytes[(p.unit * lanes + lane) * 4 + p.byte] >> p.at & ((1 << p.width) - 1);
  }
  uint8_t norm(const CodeStage& stage, int64_t group) const {
    return bytes[4 * stage.units() * lanes + group * lanes + lane];
  }
};

/// The value in the middle of an entry's range, in units of its weight.
inline float entry_middle(int32_t width) { return 0.5f * static_cast<float>((1 << width) - 1); }

/// Code of v and, in `value`, what it stands for. A v that is not a number gets code 0.
inline int32_t code_of(float v, int32_t bits, float step, float* value) {
  const int32_t half = 1 << (bits - 1), most = (1 << bits) - 1;
  const float cell = std::floor(v / step);
  const float low = static_cast<float>(-half), high = static_cast<float>(half - 1);
  const int32_t code = static_cast<int32_t>(cell >= low ? std::min(cell, high) : low) + half;
  *value = step * (static_cast<float>(code) - 0.5f * static_cast<float>(most));
  return code;
}

inline uint32_t entry_bits(int32_t code, int32_t shift, const EntryPlace& place) {
  const auto piece = static_cast<uint32_t>(code >> shift) & ((1u << place.width) - 1u);
  return piece << (8 * place.byte + place.at);
}

}  // namespace vestige
