#include "backend/ops/blas_threads.h"

#include <cblas.h>

#include <mutex>

namespace vestige {

void use_one_blas_thread() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

}  // namespace vestige
