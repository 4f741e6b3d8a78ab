#pragma once

// Runs of the ops over coded rows on every backend and instruction set, and the truth beside them.

#include <limits>

#include "tests/backend/codes_fixture.h"

namespace vestige::test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

/// Runs `body` on ref, and on cpu with every instruction set, the dot product of bytes included.
inline void on_each(const std::function<void(const std::function<std::unique_ptr<Stream>(int32_t)>&)>& body) {
  {
    SCOPED_TRACE("ref");
    body([](int32_t n) { return stream("ref", n); });
  }
  const auto cpu = [](int32_t n) { return stream("cpu", n); };
  dense_test::for_each_target([&] { body(cpu); });
  if ((hwy::SupportedTargets() & HWY_AVX3_DL) == 0) return;
  SCOPED_TRACE("AVX3_DL");
  hwy::SetSupportedTargetsForTest(HWY_AVX3_DL | HWY_AVX3);
  hwy::GetChosenTarget().DeInit();
  body(cpu);
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

inline double true_score(const CodedRows& r, const float* q, int64_t u, double scale) {
  double sum = 0;
  for (int64_t k = 0; k < r.d(); ++k) sum += double(q[k]) * double(r.values[static_cast<size_t>(u * r.d() + k)]);
  return sum * scale;
}

/// What the rounding of one head's query to integers may move a bound by (127 and 32512 steps a side), at most.
inline double query_rounding(const CodedRows& r, const float* q, double scale) {
  const std::vector<double> y = r.transform.dual_of(q);
  double sum = 0;
  for (const Stage& stage : r.stages) {
    double most[2] = {}, middle[2] = {};
    for (size_t e = 0; e < stage.coord.size(); ++e) {
      const int kind = e < static_cast<size_t>(8 * stage.view.n_units[0]) ? 0 : 1;
      if (stage.coord[e] < 0) continue;
      most[kind] = std::max(most[kind], std::abs(y[static_cast<size_t>(stage.coord[e])] * double(stage.weight[e])));
      middle[kind] += kind == 0                                                                         ? 7.5
                      : e < static_cast<size_t>(8 * stage.view.n_units[0] + 16 * stage.view.n_units[1]) ? 1.5
                                                                                                        : 0.5;
    }
    sum += scale * (most[0] / 65024 * middle[0] + most[1] / 254 * middle[1]);
  }
  return 2.02 * sum + 1e-4;  // the score itself, and the slack for it
}

struct ScanSetup {
  std::vector<CodedRows> rows;
  Floats q, reference;
  ScanSetup(const CodesCase& c, Stream& s) {
    for (int64_t i = 0; i < c.b; ++i) rows.push_back(coded_rows(c, 21 + static_cast<uint64_t>(i), s));
    q = spread(c.b, c.h * rows[0].d(), 31);
    for (float& x : q) x *= 4;
    reference.assign(static_cast<size_t>(c.b * c.h), 0.5f);
  }
  const float* head(const CodesCase& c, int64_t i, int64_t k) const { return q.data() + (i * c.h + k) * rows[0].d(); }
};

}  // namespace vestige::test
