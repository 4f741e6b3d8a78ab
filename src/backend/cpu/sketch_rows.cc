#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/row_tile.h"
#include "backend/cpu/sgemm.h"
#include "backend/cpu/tiles.h"
#include "base/half.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

namespace {

constexpr int64_t kTile = 128;
constexpr float kMaxF16 = 65504.0f;

/// Rows [begin, begin + kTile). The products always have kTile rows, so a row's bits do not depend on n.
void sketch_tile(const SketchRowsParams& p, int64_t begin, float* content, float* sketch) {
  const int64_t n = std::min(kTile, p.content.dim(0) - begin), d = p.content.dim(1), r = p.basis.dim(0);
  const int64_t row_bytes = p.content.stride[0] * static_cast<int64_t>(dtype_bytes(p.content.dtype));
  for (int64_t i = 0; i < n; ++i) {
    widen_numbers(p.content.as<std::byte>() + (begin + i) * row_bytes, p.content.dtype, d, content + i * d);
  }
  std::fill(content + n * d, content + kTile * d, 0.0f);
  const float* basis = p.basis.as<float>();
  sgemm({.m = kTile, .n = r, .k = d, .a = {content, d}, .b = {basis, d, true}, .out = sketch, .out_stride = r});
  sgemm({.m = kTile,
         .n = d,
         .k = r,
         .a = {sketch, r},
         .b = {basis, d},
         .out = content,
         .out_stride = d,
         .alpha = -1.0f,
         .beta = 1.0f});
  for (int64_t i = 0; i < n; ++i) {
    float square = 0;
    for (int64_t k = 0; k < d; ++k) square += content[i * d + k] * content[i * d + k];
    bool fits = true;  // false for NaN too
    for (int64_t j = 0; j < r; ++j) {
      const float x = sketch[i * r + j];
      p.sketch.as<uint16_t>()[(begin + i) * r + j] = f32_to_f16(std::clamp(x, -kMaxF16, kMaxF16));
      fits = fits && std::abs(x) <= kMaxF16;
    }
    p.residual.as<float>()[begin + i] = fits ? std::sqrt(square) : INFINITY;
  }
}

}  // namespace

Status sketch_rows(const SketchRowsParams& p, Stream& stream) {
  const int64_t d = p.content.dim(1), r = p.basis.dim(0);
  const int64_t n_content = line_floats(kTile * d), n_sketch = line_floats(kTile * r);
  VESTIGE_ASSIGN(float* const memory, scratch_floats(ScratchSlot::kOp, stream.n_threads() * (n_content + n_sketch)));
  stream.pool()->run(ceil_div(p.content.dim(0), kTile), [&](int64_t tile, int32_t thread) {
    float* content = memory + thread * (n_content + n_sketch);
    sketch_tile(p, tile * kTile, content, content + n_content);
  });
  return {};
}

}  // namespace vestige::cpu
