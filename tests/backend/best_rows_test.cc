// best_rows: against ref, against values worked by hand, and from many threads at once.

#include <cmath>
#include <limits>

#include "backend/ops/row_access.h"
#include "tests/backend/rows_fixture.h"
#include "tests/backend/scan_archive_cases.h"

namespace vestige::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(BestRows, CpuAgreesWithRef) {
  for (const BestRowsCase& c : best_rows_cases()) {
    SCOPED_TRACE(c.name);
    const RowLayout layout = {c.d_content, c.d_branch, c.dtype, c.scored_content};
    const int64_t d = layout.d_row();
    const Rows rows(numbers(c.n_rows * d, 61), {layout, c.n_rows, c.page_rows, false});
    const Floats q = numbers(c.n_queries * d, 62);
    std::vector<int32_t> limit;
    std::vector<uint8_t> mask;
    for (int64_t i = 0; i < c.n_queries; ++i) limit.push_back(static_cast<int32_t>(c.n_rows * i / c.n_queries));
    limit.back() = static_cast<int32_t>(c.n_rows);
    for (int64_t u = 0; u < c.n_rows; ++u) mask.push_back(u % 3 == 1 ? 1 : 0);
    std::vector<int32_t> arg(static_cast<size_t>(c.n_queries));
    check_backends(
        [&](Stream& s) {
          Floats best(static_cast<size_t>(c.n_queries)), entropy(best);
          EXPECT_TRUE(ok(ops::best_rows({.q = {q.data(), DType::kF32, {c.n_queries, d}},
                                         .rows = rows.pages(),
                                         .limit = {limit.data(), DType::kI32, {c.n_queries}},
                                         .mask = c.mask ? mask.data() : nullptr,
                                         .best = {best.data(), DType::kF32, {c.n_queries}},
                                         .arg = {arg.data(), DType::kI32, {c.n_queries}},
                                         .entropy = {entropy.data(), DType::kF32, {c.n_queries}},
                                         .scale = 0.1f},
                                        s)));
          best.insert(best.end(), entropy.begin(), entropy.end());
          for (int32_t a : arg) best.push_back(static_cast<float>(a));
          return best;
        },
        1e-6);
  }
}

// The BLAS library is first called by several threads at once here (ctest gives each test a process of its own): the
// build of OpenBLAS without threads got these products wrong (docs/blas.md).
TEST(BestRows, FirstProductsOfManyThreads) {
  const RowLayout layout = {.d_content = 512, .d_branch = 64, .dtype = DType::kBF16};
  const int64_t n = 2048, d = layout.d_row();
  const Rows rows(numbers(n * d, 63), {layout, n, n, false});
  const Floats q = numbers(n * d, 64);
  const std::vector<int32_t> limit(static_cast<size_t>(n), static_cast<int32_t>(n));
  Floats best(static_cast<size_t>(n));
  std::vector<int32_t> arg(static_cast<size_t>(n));
  auto s = Stream::create({.n_threads = 4});
  ASSERT_TRUE(s.ok());
  ASSERT_TRUE(ok(ops::best_rows({.q = {q.data(), DType::kF32, {n, d}},
                                 .rows = rows.pages(),
                                 .limit = {limit.data(), DType::kI32, {n}},
                                 .best = {best.data(), DType::kF32, {n}},
                                 .arg = {arg.data(), DType::kI32, {n}}},
                                **s)));
  std::vector<double> row(static_cast<size_t>(d));
  int64_t n_wrong = 0;
  for (size_t i = 0; i < best.size(); ++i) {
    load_row(rows.pages(), arg[i], row.data());
    double score = 0;
    for (size_t k = 0; k < row.size(); ++k) score += row[k] * double(q[i * row.size() + k]);
    n_wrong += std::abs(score - double(best[i])) > 1e-3;
  }
  EXPECT_EQ(n_wrong, 0);
}

TEST(BestRows, LowestRowOfEqualsAndNone) {
  const RowLayout layout = {.d_content = 1, .d_branch = 0, .dtype = DType::kF32};
  const Rows rows({1, 3, 3, 2}, {layout, 4, 2, false});
  const Floats q = {1, 1, 1};
  const std::vector<int32_t> limit = {4, 1, 0};
  for (const char* backend : {"ref", "cpu"}) {
    Floats best(3);
    std::vector<int32_t> arg(3);
    EXPECT_TRUE(ok(ops::best_rows({.q = {q.data(), DType::kF32, {3, 1}},
                                   .rows = rows.pages(),
                                   .limit = {limit.data(), DType::kI32, {3}},
                                   .best = {best.data(), DType::kF32, {3}},
                                   .arg = {arg.data(), DType::kI32, {3}}},
                                  *stream(backend))));
    EXPECT_EQ(best, (Floats{3, 1, -kInf}));
    EXPECT_EQ(arg, (std::vector<int32_t>{1, 0, -1}));
  }
}

// Softmax weights worked by hand: (1/4, 3/4); (1/2, 1/2) behind a mask; one row; none; a score that is not finite.
TEST(BestRows, Entropy) {
  const RowLayout layout = {.d_content = 1, .d_branch = 0, .dtype = DType::kF32};
  const float log3 = std::log(3.0f);
  const Rows rows({0, log3, 0, kInf}, {layout, 4, 2, false});
  const Floats q = {1, 1, 1, 1, 1};
  const std::vector<int32_t> limit = {2, 3, 1, 0, 4};
  const std::vector<uint8_t> all = {1, 1, 1, 1}, some = {1, 0, 1, 0};
  const auto h = [&](const std::vector<uint8_t>& mask, const char* backend) {
    Floats best(5), entropy(5);
    std::vector<int32_t> arg(5);
    EXPECT_TRUE(ok(ops::best_rows({.q = {q.data(), DType::kF32, {5, 1}},
                                   .rows = rows.pages(),
                                   .limit = {limit.data(), DType::kI32, {5}},
                                   .mask = mask.data(),
                                   .best = {best.data(), DType::kF32, {5}},
                                   .arg = {arg.data(), DType::kI32, {5}},
                                   .entropy = {entropy.data(), DType::kF32, {5}}},
                                  *stream(backend))));
    return entropy;
  };
  for (const char* backend : {"ref", "cpu"}) {
    const Floats a = h(all, backend), b = h(some, backend);
    EXPECT_NEAR(a[0], 0.25 * std::log(4.0) + 0.75 * std::log(4.0 / 3), 1e-6) << backend;
    EXPECT_NEAR(b[1], std::log(2.0), 1e-6) << backend;
    EXPECT_EQ(a[2], 0) << backend;
    EXPECT_EQ(a[3], 0) << backend;
    EXPECT_TRUE(std::isnan(a[4])) << backend;
  }
}

}  // namespace
}  // namespace vestige::test
