#pragma once

// Asymmetric uniform codes: keys by channel over a group of rows, values by row over groups of channels.
// Source: KIVI, arXiv:2402.02750, Section 3.

#include <cstdint>

#include "cache/policies/row_quantiser.h"

namespace vestige::kivi {

/// Of numbers x that share a scale: least = fp16(min x), scale = fp16((max x - min x) / (2^bits - 1)),
///   code = floor((x - least) / scale + 1/2), clamped to [0, 2^bits - 1], 0 where scale = 0;
/// and code stands for least + code scale.
///
/// A group's bytes, all numbers little-endian, codes lowest bits of a byte first:
///   key least [d] f16, key scale [d] f16, key codes [rows, d bits / 8];
///   then by row: value least [g] f16, value scale [g] f16, value codes [d bits / 8], g = ceil(d / rows).
class GroupQuantiser final : public RowQuantiser {
 public:
  /// @param group rows of a group of keys and channels of a group of values (the last of these may have fewer)
  /// @param bits 2 or 4. @param d a multiple of 4
  GroupQuantiser(int64_t group, int32_t bits, int64_t d) : group_(group), bits_(bits), d_(d) {}
  int64_t group_rows() const override { return group_; }
  int64_t group_bytes() const override { return key_bytes() + group_ * value_bytes(); }
  Status encode(const ConstTensorView& rows, const TensorView& codes, Stream& stream) const override;
  Status decode(const ConstTensorView& codes, const TensorView& rows, Stream& stream) const override;
  bool check(const ConstTensorView& codes) const override;

 private:
  int64_t row_code_bytes() const { return d_ * bits_ / 8; }
  int64_t n_channel_groups() const { return (d_ + group_ - 1) / group_; }
  int64_t key_bytes() const { return 4 * d_ + group_ * row_code_bytes(); }
  int64_t value_bytes() const { return 4 * n_channel_groups() + row_code_bytes(); }
  /// visit(number, least, scale, codes, line) of every set of numbers that share a scale, in a group: places in its
  /// rows and bytes. @return whether all visits gave true
  template <class F>
  bool each_line(F&& visit) const;

  int64_t group_;
  int32_t bits_;
  int64_t d_;
};

}  // namespace vestige::kivi
