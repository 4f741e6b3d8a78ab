#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/ops/norm_grid.h"
#include "backend/ref/code_rows.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

struct Rows {
  std::vector<std::vector<double>> t;  // what each row's code stands for
  std::vector<int64_t> id;
};

Rows coded_rows(const CodeSet& set, const int32_t* skip, int64_t n_skip) {
  Rows rows;
  for (int64_t u = 0; u < set.pages.n_rows; ++u) {
    if (set.kept != nullptr && set.kept[u] != 0) continue;
    if (std::binary_search(skip, skip + n_skip, static_cast<int32_t>(u))) continue;
    rows.t.emplace_back(static_cast<size_t>(set.transform.mean.dim(0)));
    add_coded(set, 0, u, &rows.t.back());
    rows.id.push_back(u);
  }
  return rows;
}

void attend_head(const AttendCodesParams& p, const CodeSet& set, const Rows& rows, int64_t b, int64_t head) {
  const int64_t h = p.q.dim(1), d = p.q.dim(2), d_content = set.d_content, at = b * h + head;
  const CodedHead query = coded_head(set, p.q.as<float>() + at * d, head, h, p.scale);
  std::vector<double> score, out(static_cast<size_t>(d_content)), t(static_cast<size_t>(d));
  double most = -INFINITY;
  for (const std::vector<double>& row : rows.t) {
    double s = query.at_mean;
    for (size_t k = 0; k < row.size(); ++k) s += query.dual[k] * row[k];
    score.push_back(s * double(p.scale));
    most = std::max(most, score.back());
  }
  double sum = 0, error[3] = {};
  for (size_t i = 0; i < rows.id.size(); ++i) {
    const int64_t u = rows.id[i];
    const double w = std::exp(score[i] - most);
    const double e = query.slack + double(p.scale) * query.norm * coded_norm(set, 0, u, query.group);
    const auto* norms = static_cast<const uint8_t*>(set.pages.value_norm[u / set.pages.page_rows]);
    const double v = double(p.value_base) * double(norm_grid()[norms[u % set.pages.page_rows]]);
    sum += w;
    // w e^e as one exponential: w alone may vanish where w e^e does not.
    const double up = std::exp(score[i] - most + e);
    error[0] += up * v;
    error[1] += e < 1 ? w * std::expm1(e) : up - w;
    error[2] += w * std::exp(-e);
    for (size_t k = 0; k < t.size(); ++k) t[k] += w * rows.t[i][k];
  }
  for (int64_t c = 0; c < d_content && sum > 0; ++c) {
    double value = sum * double(set.transform.mean.as<float>()[c]);
    for (int64_t j = 0; j < d; ++j)
      value += t[static_cast<size_t>(j)] * double(set.transform.dual.as<float>()[j * d + c]);
    out[static_cast<size_t>(c)] = value / sum;
  }
  for (int64_t c = 0; c < d_content; ++c) {
    p.out.as<float>()[at * d_content + c] = static_cast<float>(out[static_cast<size_t>(c)]);
  }
  p.lse.as<float>()[at] = static_cast<float>(most + std::log(sum));
  for (int64_t i = 0; i < 3; ++i) p.error.as<float>()[at * 3 + i] = sum > 0 ? static_cast<float>(error[i] / sum) : 0.0f;
}

}  // namespace

Status attend_codes(const AttendCodesParams& p, Stream&) {
  for (int64_t b = 0; b < p.q.dim(0); ++b) {
    const CodeSet& set = p.sets[static_cast<size_t>(b)];
    const Rows rows = coded_rows(set, p.skip.as<int32_t>() + b * p.skip.dim(1), p.n_skip.as<int32_t>()[b]);
    p.n_coded.as<int64_t>()[b] = static_cast<int64_t>(rows.id.size());
    for (int64_t head = 0; head < p.q.dim(1); ++head) attend_head(p, set, rows, b, head);
  }
  return {};
}

}  // namespace vestige::ref
