#include <cmath>
#include <limits>
#include <vector>

#include "backend/ops/row_access.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

// [n, d_out] = x [n, d_content] times the head's weight [d_out, d_content], transposed.
std::vector<double> expand(const std::vector<double>& x, int64_t n, const ConstTensorView& w, int64_t head) {
  const int64_t d_out = w.dim(1), d_in = w.dim(2);
  std::vector<double> out(static_cast<size_t>(n * d_out));
  const std::byte* weight = w.as<std::byte>() + head * w.stride[0] * static_cast<int64_t>(dtype_bytes(w.dtype));
  for (int64_t u = 0; u < n; ++u) {
    for (int64_t j = 0; j < d_out; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < d_in; ++k) {
        sum += x[static_cast<size_t>(u * d_in + k)] * static_cast<double>(load_number(weight, w.dtype, j * d_in + k));
      }
      out[static_cast<size_t>(u * d_out + j)] = sum;
    }
  }
  return out;
}

}  // namespace

Status attend_prefill(const AttendPrefillParams& p, Stream&) {
  const int64_t t = p.q.dim(0), h = p.q.dim(1), d_qk = p.q.dim(2), d_nope = p.w_uk.dim(1), d_v = p.w_uv.dim(1);
  const int64_t n = p.position + t, d_content = p.rows.layout.d_content, d_branch = p.rows.layout.d_branch;
  std::vector<double> content(static_cast<size_t>(n * d_content)), branch(static_cast<size_t>(n * d_branch));
  std::vector<double> row(static_cast<size_t>(d_content + d_branch));
  for (int64_t u = 0; u < n; ++u) {
    load_row(p.rows, u, row.data());
    for (int64_t i = 0; i < d_content; ++i)
      content[static_cast<size_t>(u * d_content + i)] = row[static_cast<size_t>(i)];
    for (int64_t i = 0; i < d_branch; ++i) {
      branch[static_cast<size_t>(u * d_branch + i)] = row[static_cast<size_t>(d_content + i)];
    }
  }
  std::vector<double> s(static_cast<size_t>(n));
  for (int64_t head = 0; head < h; ++head) {
    const std::vector<double> key = expand(content, n, p.w_uk, head), value = expand(content, n, p.w_uv, head);
    for (int64_t i = 0; i < t; ++i) {
      const float* q = p.q.as<float>() + (i * h + head) * d_qk;
      const int64_t n_seen = p.position + i + 1;
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t u = 0; u < n_seen; ++u) {
        double dot = 0;
        for (int64_t k = 0; k < d_nope; ++k)
          dot += static_cast<double>(q[k]) * key[static_cast<size_t>(u * d_nope + k)];
        for (int64_t k = 0; k < d_branch; ++k) {
          dot += static_cast<double>(q[d_nope + k]) * branch[static_cast<size_t>(u * d_branch + k)];
        }
        s[static_cast<size_t>(u)] = static_cast<double>(p.scale) * dot;
        max = std::max(max, s[static_cast<size_t>(u)]);
      }
      for (int64_t u = 0; u < n_seen; ++u) sum += s[static_cast<size_t>(u)] = std::exp(s[static_cast<size_t>(u)] - max);
      float* out = p.out.as<float>() + (i * h + head) * d_v;
      for (int64_t j = 0; j < d_v; ++j) {
        double acc = 0;
        for (int64_t u = 0; u < n_seen; ++u) acc += s[static_cast<size_t>(u)] * value[static_cast<size_t>(u * d_v + j)];
        out[j] = static_cast<float>(acc / sum);
      }
    }
  }
  return {};
}

}  // namespace vestige::ref
