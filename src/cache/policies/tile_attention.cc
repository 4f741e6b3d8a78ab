#include "cache/policies/tile_attention.h"

#include "vestige/ops.h"

namespace vestige {

TileAttention::TileAttention(const RowLayout& layout, int64_t tile_rows) : layout_(layout), tile_rows_(tile_rows) {
  layout_.dtype = DType::kF32;
}

void TileAttention::begin() {
  n_parts_ = 0;
  part_.clear();
  lse_.clear();
}

TensorView TileAttention::tile(int64_t n) {
  tile_.resize(static_cast<size_t>(tile_rows_ * layout_.d_row()));
  return {tile_.data(), DType::kF32, {n, layout_.d_row()}};
}

Status TileAttention::attend(const RecallStep& step, int64_t n, Stream& stream) {
  const int64_t h = step.q.dim(1), d = layout_.d_content;
  const void* const content = tile_.data();
  const void* const branch = tile_.data() + d;
  const RowSet set = {.pages = {.content = &content,
                                .branch = layout_.d_branch == 0 ? nullptr : &branch,
                                .content_stride = layout_.d_row(),
                                .branch_stride = layout_.d_row(),
                                .page_rows = tile_rows_,
                                .n_rows = n,
                                .layout = layout_}};
  part_.resize(static_cast<size_t>((n_parts_ + 1) * h * d));
  lse_.resize(static_cast<size_t>((n_parts_ + 1) * h));
  VESTIGE_TRY(ops::attend_rows({.q = step.q,
                                .rows = std::span(&set, 1),
                                .out = {part_.data() + n_parts_ * h * d, DType::kF32, {1, h, d}},
                                .lse = {lse_.data() + n_parts_ * h, DType::kF32, {1, h}},
                                .max = {},
                                .scale = step.scale},
                               stream));
  ++n_parts_;
  return stream.synchronize();  // the tile is written anew
}

Status TileAttention::merge(const CodedPart& part, Stream& stream) const {
  const int64_t h = part.lse.dim(1), d = layout_.d_content;
  return ops::merge_parts({.part = {part_.data(), DType::kF32, {n_parts_, 1, h, d}},
                           .lse = {lse_.data(), DType::kF32, {n_parts_, 1, h}},
                           .out = part.out,
                           .lse_out = part.lse},
                          stream);
}

}  // namespace vestige
