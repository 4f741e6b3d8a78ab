#include "backend/ops/nearest_anchor.h"

#include <vector>

#include "backend/ref/ref_ops.h"

namespace vestige::ref {

Status nearest_anchor(const NearestAnchorParams& p, Stream&) {
  const int64_t k = p.anchors.dim(0);
  std::vector<double> norm(static_cast<size_t>(k));
  for (int64_t a = 0; a < k; ++a) norm[static_cast<size_t>(a)] = std::sqrt(row_product(p.anchors, a, p.anchors, a));
  for (int64_t i = 0; i < p.x.dim(0); ++i) {
    const double x_norm = std::sqrt(row_product(p.x, i, p.x, i));
    BestAnchor best;
    if (std::isfinite(x_norm)) {
      for (int64_t a = 0; a < k; ++a) best.offer(a, row_product(p.x, i, p.anchors, a), norm[static_cast<size_t>(a)]);
    }
    const double anchor_norm = norm[static_cast<size_t>(best.index)];
    p.index.as<int32_t>()[i] = static_cast<int32_t>(best.index);
    p.gamma.as<float>()[i] = best.score > 0 ? static_cast<float>(best.product / anchor_norm / anchor_norm) : 0.0f;
    if (p.cosine.data != nullptr) {
      p.cosine.as<float>()[i] = best.score > 0 ? static_cast<float>(best.score / x_norm) : 0.0f;
    }
  }
  return {};
}

}  // namespace vestige::ref
