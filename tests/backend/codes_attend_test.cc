// attend_codes: softmax over what the codes stand for, and error sums that are never below the true ones.

#include <cmath>

#include "tests/backend/codes_run.h"

namespace vestige::test {
namespace {

/// One attend_codes over all sets: out, lse, error, and the counts as floats at the end.
Floats attend(const std::vector<CodedRows>& rows, const Floats& q, int64_t h,
              const std::vector<std::vector<int32_t>>& skip, Stream& s, float scale = 0.3f) {
  const auto b = static_cast<int64_t>(rows.size()), d = rows[0].d(), dc = int64_t{rows[0].layout.d_content};
  std::vector<CodeSet> sets;
  int64_t capacity = 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    sets.push_back(rows[i].set());
    capacity = std::max(capacity, static_cast<int64_t>(skip[i].size()));
  }
  std::vector<int32_t> ids(static_cast<size_t>(b * capacity)), n_ids;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(skip[i].begin(), skip[i].end(), ids.begin() + static_cast<ptrdiff_t>(i) * capacity);
    n_ids.push_back(static_cast<int32_t>(skip[i].size()));
  }
  std::vector<int64_t> n_coded(rows.size(), -1);
  Floats out(static_cast<size_t>(b * h * (dc + 4)), 7.0f);
  float *lse = out.data() + b * h * dc, *error = lse + b * h;
  EXPECT_TRUE(ok(ops::attend_codes({.q = {q.data(), DType::kF32, {b, h, d}},
                                    .sets = sets,
                                    .value_base = rows[0].value_base,
                                    .skip = {ids.data(), DType::kI32, {b, capacity}},
                                    .n_skip = {n_ids.data(), DType::kI32, {b}},
                                    .out = {out.data(), DType::kF32, {b, h, dc}},
                                    .lse = {lse, DType::kF32, {b, h}},
                                    .error = {error, DType::kF32, {b, h, 3}},
                                    .n_coded = {n_coded.data(), DType::kI64, {b}},
                                    .scale = scale},
                                   s)));
  for (const int64_t n : n_coded) out.push_back(static_cast<float>(n));
  return out;
}

/// Softmax over what the codes of rows stand for, in float64, and the error sums by true errors instead of bounds.
struct DecodedHead {
  std::vector<double> out;
  double lse = -INFINITY, error[3] = {};
  int64_t n = 0;
};

DecodedHead attend_decoded(const CodedRows& r, const float* q, const std::vector<int32_t>& skip, double scale) {
  DecodedHead a;
  const auto dc = static_cast<size_t>(r.layout.d_content);
  a.out.resize(dc);
  std::vector<double> score, off, content_off;
  std::vector<std::vector<double>> content;
  for (int64_t u = 0; u < r.n; ++u) {
    if (r.kept[static_cast<size_t>(u)] != 0 || std::binary_search(skip.begin(), skip.end(), static_cast<int32_t>(u)))
      continue;
    const std::vector<double> t = r.bytes(0, u).values(r.stages[0]), x = r.row(u);
    std::vector<double> coded(static_cast<size_t>(r.d()));
    double s = 0, apart = 0;
    for (size_t k = 0; k < coded.size(); ++k) {
      coded[k] = double(r.transform.mean[k]);
      for (size_t j = 0; j < t.size(); ++j) coded[k] += double(r.transform.dual[j * t.size() + k]) * t[j];
      s += scale * double(q[k]) * coded[k];
      if (k < dc) apart += (coded[k] - x[k]) * (coded[k] - x[k]);
    }
    score.push_back(s);
    off.push_back(std::abs(true_score(r, q, u, scale) - s));
    content_off.push_back(std::sqrt(apart));
    content.emplace_back(coded.begin(), coded.begin() + static_cast<ptrdiff_t>(dc));
  }
  a.n = static_cast<int64_t>(score.size());
  if (score.empty()) return a;
  const double most = *std::max_element(score.begin(), score.end());
  double sum = 0;
  for (size_t i = 0; i < score.size(); ++i) {
    const double w = std::exp(score[i] - most);
    sum += w;
    for (size_t k = 0; k < dc; ++k) a.out[k] += w * content[i][k];
    const double up = std::exp(score[i] - most + off[i]);
    a.error[0] += up * content_off[i];
    a.error[1] += off[i] < 1 ? w * std::expm1(off[i]) : up - w;
    a.error[2] += w * std::exp(-off[i]);
  }
  for (double& v : a.out) v /= sum;
  for (double& v : a.error) v /= sum;
  a.lse = most + std::log(sum);
  return a;
}

TEST(AttendCodes, IsSoftmaxOverDecodedRows) {
  for (const CodesCase& c : codes_cases()) {
    SCOPED_TRACE(c.name);
    const ScanSetup x(c, *stream("ref"));
    std::vector<std::vector<int32_t>> skip(x.rows.size());
    for (size_t i = 0; i < skip.size(); ++i) {
      for (int32_t u = static_cast<int32_t>(i); u < c.n_rows; u += 5) skip[i].push_back(u);
    }
    const int64_t dc = c.d_content, n_heads = c.b * c.h;
    on_each([&](const auto& make) {
      const Floats got = attend(x.rows, x.q, c.h, skip, *make(1));
      for (int64_t i = 0; i < n_heads; ++i) {
        const CodedRows& r = x.rows[static_cast<size_t>(i / c.h)];
        const float* q = x.q.data() + i * r.d();
        const DecodedHead want = attend_decoded(r, q, skip[static_cast<size_t>(i / c.h)], double(0.3f));
        EXPECT_EQ(got[static_cast<size_t>(n_heads * (dc + 4) + i / c.h)], static_cast<float>(want.n));
        const float *lse = got.data() + n_heads * dc, *error = lse + n_heads + 3 * i;
        if (want.n == 0) {
          EXPECT_EQ(lse[i], -kInf);
          for (int64_t k = 0; k < dc; ++k) EXPECT_EQ(got[static_cast<size_t>(i * dc + k)], 0.0f);
          for (int k = 0; k < 3; ++k) EXPECT_EQ(error[k], 0.0f);
          continue;
        }
        // The rounding of the query moves every score by no more than this.
        const double moved = query_rounding(r, q, double(0.3f));
        EXPECT_NEAR(double(lse[i]), want.lse, moved) << "head " << i;
        for (int64_t k = 0; k < dc; ++k) {
          EXPECT_NEAR(double(got[static_cast<size_t>(i * dc + k)]), want.out[static_cast<size_t>(k)],
                      2 * std::expm1(2 * moved) * double(r.max_norm[1]) + 1e-5);
        }
        // Not less than the same sums over the true errors, the rounding of the weights apart.
        EXPECT_GE(double(error[0]) * std::exp(2 * moved), want.error[0]);
        EXPECT_GE(double(error[1]) * std::exp(2 * moved) + 1e-5, want.error[1]);
        EXPECT_LE(double(error[2]) * std::exp(-2 * moved), want.error[2]);
      }
      for (const int32_t n : {2, 5}) EXPECT_TRUE(same_bits(attend(x.rows, x.q, c.h, skip, *make(n)), got)) << n;
    });
  }
}

// A row whose coded score is far below the others, and whose score may be far above: its share of the error must not
// vanish with its weight.
TEST(AttendCodes, ErrorOfARowThatMayBeAnything) {
  const CodesCase& c = codes_cases()[0];
  for (const float size : {30.0f, 100.0f, 1000.0f}) {
    ScanSetup x(c, *stream("ref"));
    CodedRows& r = x.rows[0];
    r.values[static_cast<size_t>(9 * r.d())] = -200;  // clamped by its code
    r.encode(*stream("ref"));
    for (float& q : x.q) q *= size;
    for (float& q : x.q) q = std::abs(q);
    on_each([&](const auto& make) {
      const Floats got = attend(x.rows, x.q, c.h, {{}}, *make(1));
      for (int64_t i = 0; i < c.h; ++i) {
        const DecodedHead want = attend_decoded(r, x.q.data() + i * r.d(), {}, double(0.3f));
        const float e1 = got[static_cast<size_t>(c.h * (c.d_content + 1) + 3 * i + 1)];
        EXPECT_FALSE(double(e1) < want.error[1]) << e1 << " of " << want.error[1];
      }
    });
  }
}

}  // namespace
}  // namespace vestige::test
