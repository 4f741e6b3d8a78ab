#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status gather_rows(const GatherRowsParams& p, Stream&) {
  const int64_t t = p.ids.dim(0), d = p.table.dim(1);
  for (int64_t i = 0; i < t; ++i) {
    const int64_t row = p.ids.as<int32_t>()[i];
    for (int64_t c = 0; c < d; ++c) {
      p.out.as<float>()[i * p.out.stride[0] + c] = load_weight(p.table, p.scale, row, c);
    }
  }
  return {};
}

}  // namespace vestige::ref
