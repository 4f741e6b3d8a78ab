#pragma once

// Codes of a fixed number of bytes for rows [value ; key] of one key-value head, each of the two d wide.

#include <cstdint>

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige {

/// Rows are coded in groups of equal size; a group's codes are a function of its rows alone.
class RowQuantiser {
 public:
  virtual ~RowQuantiser() = default;
  virtual int64_t group_rows() const = 0;   ///< >= 1
  virtual int64_t group_bytes() const = 0;  ///< all of them: codes, scales, minima
  /// @param rows  [n, 2 d] f32, finite, n a multiple of group_rows()
  /// @param codes [n / group_rows(), group_bytes()] u8, out
  /// @return InvalidArgument if a number is beyond what the code can hold (of rotated codes the scale ends at the
  /// largest f16 instead)
  virtual Status encode(const ConstTensorView& rows, const TensorView& codes, Stream& stream) const = 0;
  /// @param codes [n / group_rows(), group_bytes()] u8, that passed check(). @param rows [n, 2 d] f32, out
  virtual Status decode(const ConstTensorView& codes, const TensorView& rows, Stream& stream) const = 0;
  /// Whether codes from a file stand for finite numbers.
  virtual bool check(const ConstTensorView& codes) const = 0;
};

}  // namespace vestige
