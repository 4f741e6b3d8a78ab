#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/ops/pick_pages.h"
#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (double v : x) sum += v * v;
  return std::sqrt(sum);
}

void store(const TensorView& out, int64_t page, const std::vector<double>& x) {
  for (size_t k = 0; k < x.size(); ++k) {
    const int64_t at = page * out.dim(1) + static_cast<int64_t>(k);
    const auto value = static_cast<float>(x[k]);
    if (out.dtype == DType::kF32) out.as<float>()[at] = value;
    if (out.dtype == DType::kBF16) out.as<uint16_t>()[at] = f32_to_bf16(value);
  }
}

float box(const DigestPagesParams& p, int64_t page, const std::vector<std::vector<double>>& rows) {
  std::vector<double> upper = rows[0], lower = rows[0], corner = rows[0];
  for (const std::vector<double>& row : rows) {
    for (size_t k = 0; k < row.size(); ++k) {
      upper[k] = std::max(upper[k], row[k]);
      lower[k] = std::min(lower[k], row[k]);
    }
  }
  for (size_t k = 0; k < corner.size(); ++k) corner[k] = std::max(std::abs(upper[k]), std::abs(lower[k]));
  store(p.upper, page, upper);
  store(p.lower, page, lower);
  return covering_radius(0, norm(corner), static_cast<int64_t>(corner.size()));
}

float sphere(const DigestPagesParams& p, int64_t page, const std::vector<std::vector<double>>& rows) {
  const auto d = static_cast<int64_t>(rows[0].size());
  std::vector<double> centre(rows[0].size(), 0.0);
  for (const std::vector<double>& row : rows) {
    for (size_t k = 0; k < row.size(); ++k) centre[k] += row[k] / static_cast<double>(rows.size());
  }
  store(p.upper, page, centre);
  for (int64_t k = 0; k < d; ++k) {  // distances are from what is stored
    centre[static_cast<size_t>(k)] = static_cast<double>(load_number(p.upper.data, p.upper.dtype, page * d + k));
  }
  double most = 0, mean = 0;
  for (std::vector<double> row : rows) {
    for (size_t k = 0; k < row.size(); ++k) row[k] -= centre[k];
    most = std::max(most, norm(row));
    mean += norm(row) / static_cast<double>(rows.size());
  }
  return p.digest == PageDigest::kSphere ? covering_radius(most, norm(centre), d) : static_cast<float>(mean);
}

}  // namespace

Status digest_pages(const DigestPagesParams& p, Stream&) {
  const auto d = static_cast<size_t>(p.rows.layout.d_row());
  for (int64_t page = 0; page < p.upper.dim(0); ++page) {
    std::vector<std::vector<double>> rows(static_cast<size_t>(p.page_rows), std::vector<double>(d));
    bool finite = true;
    for (int64_t i = 0; i < p.page_rows; ++i) {
      std::vector<double>& row = rows[static_cast<size_t>(i)];
      load_row(p.rows, p.first_row + page * p.page_rows + i, row.data());
      std::fill_n(row.begin(), p.rows.layout.scored_begin(), 0.0);
      for (double x : row) finite = finite && std::isfinite(x);
    }
    const float radius = p.digest == PageDigest::kBox ? box(p, page, rows) : sphere(p, page, rows);
    p.radius.as<float>()[page] = finite ? radius : std::numeric_limits<float>::infinity();
  }
  return {};
}

}  // namespace vestige::ref
