#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status matmul_list(const MatmulListParams& p, Stream& stream) {
  for (const MatmulParams& one : p.products) VESTIGE_TRY(matmul(one, stream));
  return {};
}

}  // namespace vestige::ref
