#pragma once

// The un-absorbed queries of the last tokens read, of one attention layer: what recall indexes are fitted to and
// scorers observe.

#include <cstdint>
#include <deque>
#include <vector>

#include "vestige/device.h"
#include "vestige/model.h"
#include "vestige/status.h"

namespace vestige {

class QueryStore {
 public:
  /// Memory comes and goes by slabs of this many tokens, at multiples of it.
  static constexpr int64_t kSlab = 256;
  /// @param n_tokens  how many of the last tokens are wanted; INT64_MAX = all. @param position  of the first one added
  explicit QueryStore(int64_t n_tokens, int64_t position = 0)
      : n_wanted_(n_tokens), begin_(position), end_(position), first_slab_(position / kSlab) {}

  /// Adds the queries [t, h_q, d] f32 of tokens [position, position + t), which follow the last ones added.
  Status add(const ConstTensorView& queries, int64_t position);
  /// Wants another number from now on, and frees what nobody wants.
  void want(int64_t n_tokens);
  /// Tokens at hand: those wanted, or as many as there were.
  int64_t size() const { return end_ - begin_; }
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  /// Absorbs the queries of [position, position + out.dim(0)), all at hand, into `out` [n, h_q, d_row] f32. A query's
  /// bits do not depend on the others.
  Status absorb(const Model& model, size_t cache_index, int64_t position, const TensorView& out, Stream& stream) const;

 private:
  void drop_before(int64_t position);
  int64_t width() const { return h_q_ * d_; }

  int64_t n_wanted_;
  int64_t begin_, end_;  ///< positions at hand
  int64_t h_q_ = 0, d_ = 0;
  int64_t first_slab_;
  std::deque<std::vector<float>> slabs_;  ///< [kSlab, h_q, d]; entry i is slab first_slab_ + i
};

}  // namespace vestige
