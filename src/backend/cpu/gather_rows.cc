#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/widen.h"
#include "base/thread_pool.h"

namespace vestige::cpu {

Status gather_rows(const GatherRowsParams& p, Stream& stream) {
  const Weight w = Weight::of(p.table, p.scale);
  const int64_t t = p.out.n_elements() == 0 ? 0 : p.ids.dim(0);
  constexpr int64_t kRows = 16;
  stream.pool()->run((t + kRows - 1) / kRows, [&](int64_t piece, int32_t) {
    for (int64_t i = piece * kRows; i < t && i < (piece + 1) * kRows; ++i) {
      widen_rows(w, p.ids.as<int32_t>()[i], 1, p.out.as<float>() + i * p.out.stride[0], p.out.stride[0]);
    }
  });
  return {};
}

}  // namespace vestige::cpu
