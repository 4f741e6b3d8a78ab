#pragma once

// Attention over coded rows that are decoded a tile at a time and then attended as rows are.

#include <cstdint>
#include <vector>

#include "vestige/policy.h"

namespace vestige {

/// Of one step at a time: begin(), then for each tile tile() and attend(), then merge().
class TileAttention {
 public:
  /// @param layout of the rows; a tile holds them as float32
  TileAttention(const RowLayout& layout, int64_t tile_rows);
  void begin();
  /// Where to decode the next n rows: [n, d_row] f32, n <= tile_rows.
  TensorView tile(int64_t n);
  /// Attends the n rows of the tile.
  Status attend(const RecallStep& step, int64_t n, Stream& stream);
  Status merge(const CodedPart& part, Stream& stream) const;

 private:
  RowLayout layout_;
  int64_t tile_rows_, n_parts_ = 0;
  std::vector<float> tile_, part_, lse_;
};

}  // namespace vestige
