#include <string>

#include "backend/ops/check.h"
#include "vestige/ops/matmul.h"

namespace vestige {

Status matmul_list_check(const MatmulListParams& p) {
  for (size_t i = 0; i < p.products.size(); ++i) {
    const Status status = matmul_check(p.products[i]);
    if (!status.ok()) return invalid_argument("products[%zu]: %s", i, std::string(status.message()).c_str());
    for (size_t j = 0; j < p.products.size(); ++j) {
      if (j == i) continue;
      VESTIGE_TRY(check_apart(p.products[i].out, p.products[j].x, "matmul_list", "out and another x"));
      if (j < i) VESTIGE_TRY(check_apart(p.products[i].out, p.products[j].out, "matmul_list", "two outs"));
    }
  }
  return {};
}

}  // namespace vestige
