#include <algorithm>

#include "backend/ref/load.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status gather_rows(const GatherRowsParams& p, Stream&) {
  for (int64_t i = 0; i < p.ids.dim(0); ++i) {
    const std::vector<float> row = load_row(p.table, p.scale, p.ids.as<int32_t>()[i]);
    std::copy(row.begin(), row.end(), p.out.as<float>() + i * p.out.stride[0]);
  }
  return {};
}

}  // namespace vestige::ref
