// score_rows, select_rows, sketch_rows, fit_basis, scan_archive and best_rows: against ref, against values worked by
// hand, and the promises of their contracts.

#include <cmath>
#include <numbers>

#include "backend/ops/row_access.h"
#include "tests/backend/rows_fixture.h"
#include "tests/backend/scan_archive_cases.h"
#include "tests/backend/score_rows_cases.h"
#include "tests/backend/select_rows_cases.h"
#include "tests/backend/sketch_rows_cases.h"

namespace vestige::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

template <class View, class Bytes>
View strided(Bytes& bytes, DType dtype, int64_t n, int64_t d, int64_t stride) {
  View view(bytes.data(), dtype, {n, d});
  view.stride[0] = stride;
  return view;
}

Floats score(const std::vector<std::byte>& branch, const ScoreRowsCase& c, Stream& s) {
  Floats out(static_cast<size_t>(c.n), 7.0f);
  EXPECT_TRUE(ok(ops::score_rows({.branch = strided<ConstTensorView>(branch, c.dtype, c.n, c.d, c.stride),
                                  .score = {out.data(), DType::kF32, {c.n}},
                                  .bandwidth = c.bandwidth},
                                 s)));
  return out;
}

TEST(ScoreRows, CpuAgreesWithRef) {
  for (const ScoreRowsCase& c : score_rows_cases()) {
    SCOPED_TRACE(c.name);
    const std::vector<std::byte> branch = stored(numbers(c.n * c.stride, 41), c.dtype);
    check_backends([&](Stream& s) { return score(branch, c, s); }, c.bound);
  }
}

TEST(ScoreRows, HandWorked) {
  // A wave of frequency 2 plus a constant over 16 rows: three bins take all of it, two bins leave the wave.
  Floats wave(16);
  for (size_t u = 0; u < 16; ++u) wave[u] = 5.0f + static_cast<float>(std::cos(std::numbers::pi * double(u) / 4.0));
  const std::vector<std::byte> branch = stored(wave, DType::kF32);
  for (const char* backend : {"ref", "cpu"}) {
    for (float x : score(branch, {"", 16, 1, 1, 3, DType::kF32, 0}, *stream(backend))) EXPECT_NEAR(x, 0, 1e-5);
    const Floats left = score(branch, {"", 16, 1, 1, 2, DType::kF32, 0}, *stream(backend));
    for (size_t u = 0; u < 16; ++u) EXPECT_NEAR(left[u], std::abs(wave[u] - 5.0f), 1e-5);
  }
}

TEST(SelectRows, HandWorked) {
  for (const SelectRowsCase& c : select_rows_cases()) {
    SCOPED_TRACE(c.name);
    const int64_t n = static_cast<int64_t>(c.score.size());
    for (const char* backend : {"ref", "cpu"}) {
      std::vector<int32_t> ids(static_cast<size_t>(n) + 2, 77);
      int32_t n_ids = 77;
      EXPECT_TRUE(ok(ops::select_rows({.score = {c.score.data(), DType::kF32, {n}},
                                       .n_keep = c.n_keep,
                                       .n_sinks = c.n_sinks,
                                       .ids = {ids.data(), DType::kI32, {n + 2}},
                                       .n_ids = {&n_ids, DType::kI32, {1}}},
                                      *stream(backend))));
      ids.resize(static_cast<size_t>(n_ids));
      EXPECT_EQ(ids, c.want) << backend;
    }
  }
}

TEST(SelectRows, CpuAgreesWithRefOnTies) {
  Floats score = numbers(5000, 42);
  for (float& x : score) x = std::round(x * 20.0f);
  for (int64_t n_keep : {int64_t{1}, int64_t{156}, int64_t{2500}, int64_t{4999}, int64_t{5000}}) {
    std::vector<std::vector<int32_t>> picked;
    for (const char* backend : {"ref", "cpu"}) {
      std::vector<int32_t> ids(5000);
      int32_t n_ids = 0;
      EXPECT_TRUE(ok(ops::select_rows({.score = {score.data(), DType::kF32, {5000}},
                                       .n_keep = n_keep,
                                       .n_sinks = 4,
                                       .ids = {ids.data(), DType::kI32, {5000}},
                                       .n_ids = {&n_ids, DType::kI32, {1}}},
                                      *stream(backend))));
      ids.resize(static_cast<size_t>(n_ids));
      picked.push_back(ids);
    }
    EXPECT_EQ(picked[0], picked[1]);
  }
}

/// r orthonormal rows, by Gram-Schmidt over random ones.
Floats orthonormal(int64_t r, int64_t d, uint64_t seed) {
  Floats basis = numbers(r * d, seed);
  for (int64_t j = 0; j < r; ++j) {
    float* row = basis.data() + j * d;
    for (int64_t i = 0; i <= j; ++i) {
      const float* other = basis.data() + i * d;
      double dot = 0;
      for (int64_t k = 0; k < d; ++k) dot += double(row[k]) * double(other[k]);
      for (int64_t k = 0; k < d; ++k) {
        row[k] = static_cast<float>(i == j ? double(row[k]) / std::sqrt(dot) : double(row[k]) - dot * double(other[k]));
      }
    }
  }
  return basis;
}

TEST(SketchRows, CpuAgreesWithRef) {
  for (const SketchRowsCase& c : sketch_rows_cases()) {
    SCOPED_TRACE(c.name);
    const std::vector<std::byte> content = stored(numbers(c.n * c.stride, 43), c.dtype);
    const Floats basis = orthonormal(c.rank, c.d, 44);
    auto run = [&](Stream& s, Floats& residual) {
      std::vector<uint16_t> sketch(static_cast<size_t>(c.n * c.rank));
      residual.assign(static_cast<size_t>(c.n), 7.0f);
      EXPECT_TRUE(ok(ops::sketch_rows({.content = strided<ConstTensorView>(content, c.dtype, c.n, c.d, c.stride),
                                       .basis = {basis.data(), DType::kF32, {c.rank, c.d}},
                                       .sketch = {sketch.data(), DType::kF16, {c.n, c.rank}},
                                       .residual = {residual.data(), DType::kF32, {c.n}}},
                                      s)));
      Floats wide;
      for (uint16_t x : sketch) wide.push_back(f16_to_f32(x));
      return wide;
    };
    Floats residual;
    check_backends([&](Stream& s) { return run(s, residual); }, 5e-4);  // 2^-11: one step of f16
    check_backends(
        [&](Stream& s) {
          run(s, residual);
          residual.push_back(std::sqrt(static_cast<float>(c.d)));  // errors count against a row's length
          return residual;
        },
        c.bound);
  }
}

TEST(SketchRows, HandWorked) {
  const Floats content = {3, 4, 12}, basis = {0, 0, 1};
  for (const char* backend : {"ref", "cpu"}) {
    uint16_t sketch = 0;
    float residual = 0;
    EXPECT_TRUE(ok(ops::sketch_rows({.content = {content.data(), DType::kF32, {1, 3}},
                                     .basis = {basis.data(), DType::kF32, {1, 3}},
                                     .sketch = {&sketch, DType::kF16, {1, 1}},
                                     .residual = {&residual, DType::kF32, {1}}},
                                    *stream(backend))));
    EXPECT_EQ(f16_to_f32(sketch), 12.0f);
    EXPECT_NEAR(residual, 5.0f, 1e-6);
  }
}

// Content past the range of f16: nothing infinite is stored in the sketch, and the residual says "always look here".
TEST(SketchRows, HugeContentIsNeverLost) {
  const Floats content = {65504, 1, 0, 7e4f, 0, 0, -1e30f, 5, 0, NAN, 0, 0}, basis = {1, 0, 0};
  for (const char* backend : {"ref", "cpu"}) {
    std::vector<uint16_t> sketch(4);
    Floats residual(4);
    const auto s = stream(backend);
    EXPECT_TRUE(ok(ops::sketch_rows({.content = {content.data(), DType::kF32, {4, 3}},
                                     .basis = {basis.data(), DType::kF32, {1, 3}},
                                     .sketch = {sketch.data(), DType::kF16, {4, 1}},
                                     .residual = {residual.data(), DType::kF32, {4}}},
                                    *s)));
    EXPECT_EQ(f16_to_f32(sketch[0]), 65504.0f) << backend;
    EXPECT_EQ(f16_to_f32(sketch[1]), 65504.0f) << backend;
    EXPECT_EQ(f16_to_f32(sketch[2]), -65504.0f) << backend;
    EXPECT_TRUE(std::isnan(f16_to_f32(sketch[3]))) << backend;
    EXPECT_EQ(residual, (Floats{1, kInf, kInf, kInf})) << backend;
    // Every huge row fires, for queries in the span of V (cert 0), against it, and past f16 themselves.
    const void* tables[] = {sketch.data(), residual.data()};
    for (const auto& [q, z, want] : {std::tuple<Floats, float, int32_t>{{1e-9f, 0, 0}, 8, 3},
                                     {{-1, 0, 0}, 0, 3},
                                     {{-1, 1, 1}, 2, 3},
                                     {{-1e6f, 0, 0}, 1, 4}}) {
      const ScanSet set = {.pages = {nullptr, &tables[0], &tables[1], 4, 4, 0, 1, DType::kF32},
                           .basis = {basis.data(), DType::kF32, {1, 3}},
                           .z = z};
      for (float threshold : {1e30f, kInf}) {  // +inf: this head never fires
        std::vector<int32_t> ids(4);
        int32_t n_ids = 0, n_fired = 0;
        EXPECT_TRUE(ok(ops::scan_archive({.q = {q.data(), DType::kF32, {1, 1, 3}},
                                          .sets = {&set, 1},
                                          .threshold = {&threshold, DType::kF32, {1, 1}},
                                          .ids = {ids.data(), DType::kI32, {1, 4}},
                                          .n_ids = {&n_ids, DType::kI32, {1}},
                                          .n_fired = {&n_fired, DType::kI32, {1}}},
                                         *s)));
        EXPECT_EQ(n_fired, threshold == kInf ? 0 : want) << backend << " q " << q[0] << " z " << z;
      }
    }
  }
}

TEST(FitBasis, CpuAgreesWithRef) {
  for (const FitBasisCase& c : fit_basis_cases()) {
    SCOPED_TRACE(c.name);
    Floats x = numbers(c.n * c.stride, 45);
    // Spread the variances, so that each eigenvector is far from its neighbours.
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] *= std::pow(0.8f, static_cast<float>(i % static_cast<size_t>(c.stride)));
    }
    check_backends(
        [&](Stream& s) {
          Floats basis(static_cast<size_t>(c.rank * c.d));
          EXPECT_TRUE(ok(ops::fit_basis({.x = strided<ConstTensorView>(x, DType::kF32, c.n, c.d, c.stride),
                                         .basis = {basis.data(), DType::kF32, {c.rank, c.d}}},
                                        s)));
          return basis;
        },
        c.bound);
  }
}

TEST(FitBasis, HandWorked) {
  // Samples on the line (1, -2) off the origin: one direction, and its larger entry is made positive.
  const Floats x = {11, 8, 12, 6, 10, 10};
  for (const char* backend : {"ref", "cpu"}) {
    Floats basis(2);
    EXPECT_TRUE(ok(ops::fit_basis({.x = {x.data(), DType::kF32, {3, 2}}, .basis = {basis.data(), DType::kF32, {1, 2}}},
                                  *stream(backend))));
    EXPECT_TRUE(close(basis, {-1.0f / std::sqrt(5.0f), 2.0f / std::sqrt(5.0f)}, 1e-6));
  }
}

/// Covariance of centred samples, in float64.
std::vector<double> covariance_of(const Floats& x, int64_t n, int64_t d) {
  std::vector<double> mean(static_cast<size_t>(d)), c(static_cast<size_t>(d * d));
  for (int64_t i = 0; i < n * d; ++i) mean[static_cast<size_t>(i % d)] += double(x[static_cast<size_t>(i)]) / double(n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < d; ++j) {
      for (int64_t k = 0; k < d; ++k) {
        c[static_cast<size_t>(j * d + k)] +=
            (double(x[static_cast<size_t>(i * d + j)]) - mean[static_cast<size_t>(j)]) *
            (double(x[static_cast<size_t>(i * d + k)]) - mean[static_cast<size_t>(k)]) / double(n);
      }
    }
  }
  return c;
}

/// c v
std::vector<double> times(const std::vector<double>& c, const std::vector<double>& v) {
  std::vector<double> out(v.size());
  for (size_t j = 0; j < v.size(); ++j) {
    for (size_t k = 0; k < v.size(); ++k) out[j] += c[j * v.size() + k] * v[k];
  }
  return out;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

// The largest eigenvalues of c by power iteration, each found in what the ones before it leave.
std::vector<double> power_iteration(std::vector<double> c, size_t d, size_t r) {
  std::vector<double> values;
  for (size_t j = 0; j < r; ++j) {
    std::vector<double> v;
    for (float x : numbers(static_cast<int64_t>(d), 70 + j)) v.push_back(double(x));
    for (int step = 0; step < 3000; ++step) {
      v = times(c, v);
      const double norm = std::sqrt(dot(v, v));
      for (double& x : v) x /= norm;
    }
    values.push_back(dot(v, times(c, v)));
    for (size_t a = 0; a < d; ++a) {
      for (size_t b = 0; b < d; ++b) c[a * d + b] -= values.back() * v[a] * v[b];
    }
  }
  return values;
}

TEST(FitBasis, IsTheTopEigenvectors) {
  constexpr int64_t kN = 400, kD = 20, kRank = 6;
  // Mixed directions of spread variance, off the origin: the covariance is far from diagonal, and not centring shows.
  const Floats source = numbers(kN * kD, 46), mix = orthonormal(kD, kD, 47);
  Floats x(source.size(), 3.0f);
  for (int64_t i = 0; i < kN; ++i) {
    for (int64_t j = 0; j < kD; ++j) {
      const float size = std::pow(0.8f, static_cast<float>(j));
      for (int64_t k = 0; k < kD; ++k) {
        x[static_cast<size_t>(i * kD + k)] +=
            size * source[static_cast<size_t>(i * kD + j)] * mix[static_cast<size_t>(j * kD + k)];
      }
    }
  }
  const std::vector<double> c = covariance_of(x, kN, kD), want = power_iteration(c, kD, kRank);
  for (const char* backend : {"ref", "cpu"}) {
    Floats basis(kRank * kD);
    EXPECT_TRUE(
        ok(ops::fit_basis({.x = {x.data(), DType::kF32, {kN, kD}}, .basis = {basis.data(), DType::kF32, {kRank, kD}}},
                          *stream(backend))));
    std::vector<std::vector<double>> v;
    for (int64_t j = 0; j < kRank; ++j) v.emplace_back(basis.begin() + j * kD, basis.begin() + (j + 1) * kD);
    for (size_t i = 0; i < kRank; ++i) {
      for (size_t j = 0; j < kRank; ++j) {
        EXPECT_NEAR(dot(v[i], v[j]), i == j ? 1 : 0, 1e-6) << backend << " V V^T " << i << ", " << j;
        EXPECT_NEAR(dot(v[i], times(c, v[j])), i == j ? want[i] : 0, 1e-6) << backend << " V C V^T " << i << ", " << j;
      }
      if (i > 0) {
        EXPECT_LT(dot(v[i], times(c, v[i])), dot(v[i - 1], times(c, v[i - 1])));
      }
      const auto largest =
          std::max_element(v[i].begin(), v[i].end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
      EXPECT_GT(*largest, 0);
    }
  }
}

/// A random archive of one sequence.
struct Archive {
  std::vector<std::vector<std::byte>> branch, sketch;
  std::vector<Floats> residual;
  std::vector<const void*> tables[3];
  std::vector<uint8_t> kept;
  Floats basis;
  ScanSet set;

  Archive(const ScanArchiveCase& c, uint64_t seed) : basis(orthonormal(c.rank, c.d_content, seed)) {
    for (int64_t begin = 0; begin < c.n_rows; begin += c.page_rows, seed += 3) {
      branch.push_back(stored(numbers(c.page_rows * c.d_branch, seed), c.dtype));
      sketch.push_back(stored(numbers(c.page_rows * c.rank, seed + 1), DType::kF16));
      residual.push_back(numbers(c.page_rows, seed + 2, 0.5f, 0.5f));
    }
    for (size_t page = 0; page < branch.size(); ++page) {
      tables[0].push_back(branch[page].data());
      tables[1].push_back(sketch[page].data());
      tables[2].push_back(residual[page].data());
    }
    for (int64_t u = 0; u < c.n_rows; ++u) kept.push_back(u % 5 == 2 ? 1 : 0);
    set.pages = {.branch = c.d_branch > 0 ? tables[0].data() : nullptr,
                 .sketch = tables[1].data(),
                 .residual = tables[2].data(),
                 .page_rows = c.page_rows,
                 .n_rows = c.n_rows,
                 .d_branch = c.d_branch,
                 .rank = c.rank,
                 .branch_dtype = c.dtype};
    set.basis = {basis.data(), DType::kF32, {c.rank, c.d_content}};
    set.kept = kept.data();
    set.z = c.z;
  }
};

struct Fired {
  std::vector<std::vector<int32_t>> ids;
  std::vector<int32_t> n_fired;
  bool operator==(const Fired&) const = default;
};

struct ScanRun {
  ScanArchiveCase c;
  std::vector<std::unique_ptr<Archive>> archives;
  std::vector<ScanSet> sets;
  Floats q, threshold;

  explicit ScanRun(const ScanArchiveCase& in) : c(in), q(numbers(c.b * c.h * (c.d_content + c.d_branch), 51)) {
    for (int64_t b = 0; b < c.b; ++b) {
      archives.push_back(std::make_unique<Archive>(c, static_cast<uint64_t>(b) * 1000 + 52));
      sets.push_back(archives.back()->set);
    }
    threshold.assign(static_cast<size_t>(c.b * c.h), c.threshold);
    threshold[0] = kInf;
  }

  Fired run(Stream& s, float shift = 0.0f) const {
    Floats limit = threshold;
    for (float& x : limit) x += shift;
    std::vector<int32_t> ids(static_cast<size_t>(c.b * c.capacity) + 1, -7), n_ids(static_cast<size_t>(c.b), -7);
    Fired fired;
    fired.n_fired.assign(static_cast<size_t>(c.b), -7);
    EXPECT_TRUE(ok(ops::scan_archive({.q = {q.data(), DType::kF32, {c.b, c.h, c.d_content + c.d_branch}},
                                      .sets = sets,
                                      .threshold = {limit.data(), DType::kF32, {c.b, c.h}},
                                      .ids = {ids.data(), DType::kI32, {c.b, c.capacity}},
                                      .n_ids = {n_ids.data(), DType::kI32, {c.b}},
                                      .n_fired = {fired.n_fired.data(), DType::kI32, {c.b}},
                                      .scale = 1.0f},
                                     s)));
    EXPECT_EQ(ids.back(), -7) << "wrote past ids";
    for (int64_t b = 0; b < c.b; ++b) {
      const size_t i = static_cast<size_t>(b);
      EXPECT_EQ(n_ids[i], std::min<int64_t>(fired.n_fired[i], c.capacity));
      fired.ids.emplace_back(ids.begin() + b * c.capacity, ids.begin() + b * c.capacity + n_ids[i]);
    }
    return fired;
  }
};

TEST(ScanArchive, FiresWhatRefFires) {
  for (const ScanArchiveCase& c : scan_archive_cases()) {
    SCOPED_TRACE(c.name);
    const ScanRun scan(c);
    const auto ref = stream("ref");
    // A row may differ only if the float64 score is within 1e-5 of the threshold: then it fires on one side of the
    // shifted thresholds and not on the other. With room for all ids, "surely" is inside "fired" inside "perhaps".
    const Fired surely = scan.run(*ref, 1e-5f), perhaps = scan.run(*ref, -1e-5f);
    dense_test::for_each_target([&] {
      const Fired one = scan.run(*stream("cpu", 1));
      for (size_t b = 0; b < one.ids.size(); ++b) {
        EXPECT_GE(one.n_fired[b], surely.n_fired[b]);
        EXPECT_LE(one.n_fired[b], perhaps.n_fired[b]);
        EXPECT_TRUE(std::is_sorted(one.ids[b].begin(), one.ids[b].end()));
        if (perhaps.n_fired[b] > c.capacity) continue;
        EXPECT_TRUE(std::includes(one.ids[b].begin(), one.ids[b].end(), surely.ids[b].begin(), surely.ids[b].end()));
        EXPECT_TRUE(std::includes(perhaps.ids[b].begin(), perhaps.ids[b].end(), one.ids[b].begin(), one.ids[b].end()));
      }
      EXPECT_EQ(scan.run(*stream("cpu", 2)), one);
      EXPECT_EQ(scan.run(*stream("cpu", 3)), one);
    });
  }
}

TEST(ScanArchive, CasesFireSomeRowsButNotAll) {
  for (const ScanArchiveCase& c : scan_archive_cases()) {
    if (c.n_rows < 100 || std::isinf(c.threshold)) continue;
    const Fired fired = ScanRun(c).run(*stream("ref"));
    EXPECT_GT(fired.n_fired[0], 0) << c.name;
    EXPECT_LT(fired.n_fired[0], c.n_rows * 3 / 4) << c.name;
  }
}

TEST(ScanArchive, InfiniteThresholdsAndKeptRows) {
  const ScanArchiveCase& all = scan_archive_cases()[5];
  const Fired fired = ScanRun(all).run(*stream("cpu"));
  EXPECT_EQ(fired.n_fired, (std::vector<int32_t>{240, 240}));  // 300 rows, each fifth kept
  const Fired none = ScanRun(scan_archive_cases()[6]).run(*stream("cpu"));
  EXPECT_EQ(none.n_fired, (std::vector<int32_t>{0, 0}));
}

TEST(ScanArchive, HandWorked) {
  // d_content 2, V = [1 0]: q_c = (3, 4) has sketch 3 and rest 4; scale 0.5, z 2 give
  // 0.5 (2 * branch + 3 * sketch) + 2 * 0.5 * 4 * residual / 1.
  const std::vector<std::byte> branch = stored({1, 1, -1}, DType::kF32), sketch = stored({1, -1, 0}, DType::kF16);
  const Floats residual = {0, 0.25f, 0.5f}, basis = {1, 0}, q = {3, 4, 2};
  const void* tables[] = {branch.data(), sketch.data(), residual.data()};
  // scores: 2.5, 0.5, 1.0
  const std::pair<float, std::vector<int32_t>> wants[] = {{0.4f, {0, 1, 2}}, {0.9f, {0, 2}}, {2.0f, {0}}, {2.6f, {}}};
  for (const char* backend : {"ref", "cpu"}) {
    for (const auto& [threshold, want] : wants) {
      const ScanSet set = {.pages = {&tables[0], &tables[1], &tables[2], 4, 3, 1, 1, DType::kF32},
                           .basis = {basis.data(), DType::kF32, {1, 2}},
                           .z = 2.0f};
      std::vector<int32_t> ids(3);
      int32_t n_ids = 0, n_fired = 0;
      EXPECT_TRUE(ok(ops::scan_archive({.q = {q.data(), DType::kF32, {1, 1, 3}},
                                        .sets = {&set, 1},
                                        .threshold = {&threshold, DType::kF32, {1, 1}},
                                        .ids = {ids.data(), DType::kI32, {1, 3}},
                                        .n_ids = {&n_ids, DType::kI32, {1}},
                                        .n_fired = {&n_fired, DType::kI32, {1}},
                                        .scale = 0.5f},
                                       *stream(backend))));
      ids.resize(static_cast<size_t>(n_ids));
      EXPECT_EQ(ids, want) << backend << " " << threshold;
    }
  }
}

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
          Floats best(static_cast<size_t>(c.n_queries));
          EXPECT_TRUE(ok(ops::best_rows({.q = {q.data(), DType::kF32, {c.n_queries, d}},
                                         .rows = rows.pages(),
                                         .limit = {limit.data(), DType::kI32, {c.n_queries}},
                                         .mask = c.mask ? mask.data() : nullptr,
                                         .best = {best.data(), DType::kF32, {c.n_queries}},
                                         .arg = {arg.data(), DType::kI32, {c.n_queries}},
                                         .scale = 0.1f},
                                        s)));
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

TEST(RecallOps, BadParamsAreRefused) {
  Floats x(64);
  const ConstTensorView branch(x.data(), DType::kF32, {8, 4});
  const TensorView score(x.data(), DType::kF32, {8});
  EXPECT_TRUE(ok(score_rows_check({.branch = branch, .score = score, .bandwidth = 4})));
  EXPECT_TRUE(refused(score_rows_check({.branch = branch, .score = score, .bandwidth = 5}), "bandwidth = 5"));
  EXPECT_TRUE(refused(score_rows_check({.branch = branch, .score = {}, .bandwidth = 4}), "score"));
  std::vector<int32_t> ids(8);
  const TensorView id_view(ids.data(), DType::kI32, {4}), n_ids(ids.data(), DType::kI32, {1});
  EXPECT_TRUE(refused(select_rows_check({.score = score, .n_keep = 9, .ids = id_view, .n_ids = n_ids}), "n_keep = 9"));
  EXPECT_TRUE(refused(select_rows_check({.score = score, .n_keep = 5, .ids = id_view, .n_ids = n_ids}), "room"));
  EXPECT_TRUE(refused(fit_basis_check({.x = branch, .basis = {x.data(), DType::kF32, {5, 4}}}), "basis"));
  const ScanArchiveCase& c = scan_archive_cases()[2];
  ScanRun scan(c);
  scan.sets[0].z = -1;
  std::vector<int32_t> n_fired(1);
  EXPECT_TRUE(refused(scan_archive_check({.q = {scan.q.data(), DType::kF32, {1, 8, 576}},
                                          .sets = scan.sets,
                                          .threshold = {scan.threshold.data(), DType::kF32, {1, 8}},
                                          .ids = {ids.data(), DType::kI32, {1, 8}},
                                          .n_ids = {ids.data(), DType::kI32, {1}},
                                          .n_fired = {n_fired.data(), DType::kI32, {1}}}),
                      "z = -1"));
}

}  // namespace
}  // namespace vestige::test
