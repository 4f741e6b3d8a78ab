// attend_mass, score_moments, digest_pages and scan_pages: against ref, against values worked by hand, and the promises
// of their contracts.

#include <numeric>

#include "base/load_number.h"
#include "tests/backend/observe_cases.h"
#include "tests/backend/page_cases.h"
#include "tests/backend/rows_fixture.h"

namespace vestige::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Statistics {
  std::vector<int64_t> mass;
  Floats peak;
};

/// Queries [begin, end) of a case into the statistics.
void attend(const ObserveCase& c, const Rows& rows, const Floats& q, int64_t begin, int64_t end, Statistics* out,
            Stream& s) {
  const int64_t d = c.layout.d_row();
  EXPECT_TRUE(ok(ops::attend_mass({.q = {q.data() + begin * c.h * d, DType::kF32, {end - begin, c.h, d}},
                                   .rows = rows.pages(),
                                   .first_position = c.first_position + begin,
                                   .mass = {out->mass.data(), DType::kI64, {c.n_rows}},
                                   .peak = {out->peak.data(), DType::kF32, {c.n_rows}},
                                   .scale = 0.3f},
                                  s)));
}

Statistics zeros(const ObserveCase& c) {
  return {std::vector<int64_t>(static_cast<size_t>(c.n_rows), 0), Floats(static_cast<size_t>(c.n_rows), 0.0f)};
}

TEST(AttendMass, CpuAgreesWithRef) {
  for (const ObserveCase& c : observe_cases()) {
    SCOPED_TRACE(c.name);
    const Rows rows(numbers(c.n_rows * c.layout.d_row(), 81), {c.layout, c.n_rows, c.page_rows, false});
    const Floats q = numbers(c.n * c.h * c.layout.d_row(), 82);
    for (const bool peak : {false, true}) {
      check_backends(
          [&](Stream& s) {
            Statistics out = zeros(c);
            attend(c, rows, q, 0, c.n, &out, s);
            if (peak) return out.peak;
            Floats mass;
            for (int64_t units : out.mass) mass.push_back(static_cast<float>(double(units) * kMassUnit));
            return mass;
          },
          c.bound);
    }
  }
}

// Every query of every head has one unit of attention to give.
TEST(AttendMass, TotalsHeadsTimesQueries) {
  for (const ObserveCase& c : observe_cases()) {
    SCOPED_TRACE(c.name);
    const Rows rows(numbers(c.n_rows * c.layout.d_row(), 83), {c.layout, c.n_rows, c.page_rows, false});
    const Floats q = numbers(c.n * c.h * c.layout.d_row(), 84, 3.0f);
    for (const char* backend : {"ref", "cpu"}) {
      Statistics out = zeros(c);
      attend(c, rows, q, 0, c.n, &out, *stream(backend, 2));
      const double total = double(std::accumulate(out.mass.begin(), out.mass.end(), int64_t{0})) * kMassUnit;
      EXPECT_NEAR(total, double(c.n * c.h), 2e-6 * double(c.n * c.h)) << backend;
    }
  }
}

TEST(AttendMass, PiecesInAnyOrderGiveTheSameBits) {
  for (const ObserveCase& c : observe_cases()) {
    SCOPED_TRACE(c.name);
    const Rows rows(numbers(c.n_rows * c.layout.d_row(), 85), {c.layout, c.n_rows, c.page_rows, false});
    const Floats q = numbers(c.n * c.h * c.layout.d_row(), 86);
    for (const char* backend : {"ref", "cpu"}) {
      Statistics once = zeros(c);
      attend(c, rows, q, 0, c.n, &once, *stream(backend));
      for (const int64_t piece : {int64_t{1}, int64_t{13}}) {
        Statistics pieces = zeros(c);
        for (int64_t begin = (c.n - 1) / piece * piece; begin >= 0; begin -= piece) {  // the last piece first
          attend(c, rows, q, begin, std::min(begin + piece, c.n), &pieces, *stream(backend, 3));
        }
        EXPECT_EQ(pieces.mass, once.mass) << backend << " " << piece;
        EXPECT_TRUE(same_bits(pieces.peak, once.peak)) << backend << " " << piece;
      }
    }
  }
}

TEST(AttendMass, HandWorked) {
  // Scores of query 0: 0 | of query 1: 0, log 3 | of query 2, past the end of the rows: the same.
  const RowLayout layout = {.d_content = 1, .d_branch = 0, .dtype = DType::kF32};
  const Rows rows({0.0f, 1.0f}, {layout, 2, 2, false});
  const Floats q = {7.0f, std::log(3.0f), std::log(3.0f)};
  for (const char* backend : {"ref", "cpu"}) {
    std::vector<int64_t> mass = {1, 0};  // added to
    Floats peak(2);
    EXPECT_TRUE(ok(ops::attend_mass({.q = {q.data(), DType::kF32, {3, 1, 1}},
                                     .rows = rows.pages(),
                                     .mass = {mass.data(), DType::kI64, {2}},
                                     .peak = {peak.data(), DType::kF32, {2}}},
                                    *stream(backend))));
    EXPECT_NEAR(double(mass[0]) * kMassUnit, 1.5, 1e-6);
    EXPECT_NEAR(double(mass[1]) * kMassUnit, 1.5, 1e-6);
    EXPECT_TRUE(close(peak, {1.0f, 0.75f}, 1e-6));
  }
}

// Rows that are no numbers take no attention and break nothing.
TEST(AttendMass, WhatIsNotANumberCountsAsNothing) {
  const RowLayout layout = {.d_content = 1, .d_branch = 0, .dtype = DType::kF32};
  const Rows rows({1.0f, NAN, 2.0f, kInf}, {layout, 4, 4, false});
  const Floats q = {1.0f, 1.0f, 1.0f, 1.0f};
  for (const char* backend : {"ref", "cpu"}) {
    std::vector<int64_t> mass(4);
    EXPECT_TRUE(ok(ops::attend_mass(
        {.q = {q.data(), DType::kF32, {4, 1, 1}}, .rows = rows.pages(), .mass = {mass.data(), DType::kI64, {4}}},
        *stream(backend))));
    EXPECT_EQ(mass, (std::vector<int64_t>{int64_t{1} << 34, 0, 0, 0})) << backend;
  }
}

TEST(ScoreMoments, CpuAgreesWithRef) {
  for (const ObserveCase& c : observe_cases()) {
    SCOPED_TRACE(c.name);
    const int64_t d = c.layout.d_row();
    const Rows rows(numbers(c.n_rows * d, 87), {c.layout, c.n_rows, c.page_rows, false});
    const Floats q = numbers(c.n * c.h * d, 88, 1.0f, 0.5f);
    check_backends(
        [&](Stream& s) {
          Floats out(static_cast<size_t>(2 * c.h * c.n_rows), 7.0f);
          EXPECT_TRUE(ok(ops::score_moments({.q = {q.data(), DType::kF32, {c.n, c.h, d}},
                                             .rows = rows.pages(),
                                             .mean = {out.data(), DType::kF32, {c.h, c.n_rows}},
                                             .variance = {out.data() + c.h * c.n_rows, DType::kF32, {c.h, c.n_rows}},
                                             .scale = 0.3f},
                                            s)));
          return out;
        },
        c.bound);
  }
}

TEST(ScoreMoments, HandWorked) {
  const RowLayout layout = {.d_content = 1, .d_branch = 1, .dtype = DType::kF32};
  const Rows rows({1.0f, 0.0f, 1.0f, 2.0f}, {layout, 2, 2, false});
  const Floats q = {1, 1, 3, -1};  // scores of row 0: 1, 3; of row 1: 3, 1
  for (const char* backend : {"ref", "cpu"}) {
    Floats mean(2), variance(2);
    EXPECT_TRUE(ok(ops::score_moments({.q = {q.data(), DType::kF32, {2, 1, 2}},
                                       .rows = rows.pages(),
                                       .mean = {mean.data(), DType::kF32, {1, 2}},
                                       .variance = {variance.data(), DType::kF32, {1, 2}},
                                       .scale = 2.0f},
                                      *stream(backend))));
    EXPECT_EQ(mean, (Floats{4, 4}));
    EXPECT_EQ(variance, (Floats{4, 4}));
  }
}

// Rows [value ; key]: the value may be anything, and so may the query's part in its place.
TEST(ObserveOps, ContentThatIsNotScoredIsNotRead) {
  const RowLayout layout = {.d_content = 1, .d_branch = 1, .dtype = DType::kF32, .scored_content = false};
  const Rows rows({kInf, 0.0f, NAN, 1.0f}, {layout, 2, 2, false});
  const Floats q = {NAN, std::log(3.0f)};
  const std::vector<int32_t> limit = {2};
  for (const char* backend : {"ref", "cpu"}) {
    const auto s = stream(backend);
    std::vector<int64_t> mass(2);
    EXPECT_TRUE(ok(ops::attend_mass({.q = {q.data(), DType::kF32, {1, 1, 2}},
                                     .rows = rows.pages(),
                                     .first_position = 1,
                                     .mass = {mass.data(), DType::kI64, {2}}},
                                    *s)));
    EXPECT_NEAR(double(mass[0]) * kMassUnit, 0.25, 1e-6);
    EXPECT_NEAR(double(mass[1]) * kMassUnit, 0.75, 1e-6);
    Floats mean(2), variance(2), best(1), upper(2), lower(2), radius(1);
    EXPECT_TRUE(ok(ops::score_moments({.q = {q.data(), DType::kF32, {1, 1, 2}},
                                       .rows = rows.pages(),
                                       .mean = {mean.data(), DType::kF32, {1, 2}},
                                       .variance = {variance.data(), DType::kF32, {1, 2}}},
                                      *s)));
    EXPECT_TRUE(close(mean, {0, std::log(3.0f)}, 1e-6));
    std::vector<int32_t> arg(1);
    EXPECT_TRUE(ok(ops::best_rows({.q = {q.data(), DType::kF32, {1, 2}},
                                   .rows = rows.pages(),
                                   .limit = {limit.data(), DType::kI32, {1}},
                                   .best = {best.data(), DType::kF32, {1}},
                                   .arg = {arg.data(), DType::kI32, {1}}},
                                  *s)));
    EXPECT_TRUE(close(best, {std::log(3.0f)}, 1e-6));
    EXPECT_EQ(arg[0], 1);
    EXPECT_TRUE(ok(ops::digest_pages({.rows = rows.pages(),
                                      .page_rows = 2,
                                      .upper = {upper.data(), DType::kF32, {1, 2}},
                                      .lower = {lower.data(), DType::kF32, {1, 2}},
                                      .radius = {radius.data(), DType::kF32, {1}}},
                                     *s)));
    EXPECT_EQ(upper, (Floats{0, 1}));
    EXPECT_EQ(lower, (Floats{0, 0}));
    EXPECT_LT(radius[0], 1e-4f);
  }
}

/// Rows of one sequence of a case, and their digests on a stream.
struct Pages {
  Rows rows;
  std::vector<std::vector<std::byte>> upper, lower;
  std::vector<Floats> radius;
  std::vector<const void*> tables[3];
  std::vector<uint8_t> kept;
  PageSet set;

  Pages(const PageCase& c, uint64_t seed, Stream& s)
      : rows(numbers(c.n_pages * c.page_rows * c.layout.d_row(), seed),
             {c.layout, c.n_pages * c.page_rows, c.page_rows * c.block_pages, false}) {
    const bool box = c.digest == PageDigest::kBox;
    const int64_t d = c.layout.d_row();
    for (int64_t first = 0; first < c.n_pages; first += c.block_pages) {
      const int64_t n = std::min(c.block_pages, c.n_pages - first);
      upper.emplace_back(static_cast<size_t>(c.block_pages * c.layout.row_bytes()));
      lower.emplace_back(upper.back().size());
      radius.emplace_back(static_cast<size_t>(c.block_pages));
      EXPECT_TRUE(
          ok(ops::digest_pages({.rows = rows.pages(),
                                .page_rows = c.page_rows,
                                .first_row = first * c.page_rows,
                                .upper = {upper.back().data(), c.layout.dtype, {n, d}},
                                .lower = box ? TensorView(lower.back().data(), c.layout.dtype, {n, d}) : TensorView(),
                                .radius = {radius.back().data(), DType::kF32, {n}},
                                .digest = c.digest},
                               s)));
    }
    for (size_t i = 0; i < upper.size(); ++i) {
      tables[0].push_back(upper[i].data());
      tables[1].push_back(lower[i].data());
      tables[2].push_back(radius[i].data());
    }
    for (int64_t u = 0; u < c.n_pages * c.page_rows; ++u) kept.push_back(u % 3 == 1 || u / c.page_rows == 4 ? 1 : 0);
    set.upper = tables[0].data();
    set.lower = box ? tables[1].data() : nullptr;
    set.radius = tables[2].data();
    set.block_pages = c.block_pages;
    set.page_rows = c.page_rows;
    set.n_pages = c.n_pages;
    set.dtype = c.layout.dtype;
    set.kept = kept.data();
  }

  Floats numbers_of() const {
    Floats all;
    for (size_t i = 0; i < upper.size(); ++i) {
      for (const auto* side : {&upper[i], &lower[i]}) {
        for (size_t k = 0; k < side->size() / dtype_bytes(set.dtype); ++k) {
          all.push_back(load_number(side->data(), set.dtype, static_cast<int64_t>(k)));
        }
      }
      all.insert(all.end(), radius[i].begin(), radius[i].end());
    }
    return all;
  }
};

TEST(DigestPages, CpuAgreesWithRef) {
  for (const PageCase& c : page_cases()) {
    SCOPED_TRACE(c.name);
    // The centre of a sphere may round to its neighbour: 2^-8 in bf16.
    const double bound = c.digest != PageDigest::kBox && c.layout.dtype == DType::kBF16 ? 4e-3 : 1e-6;
    check_backends([&](Stream& s) { return Pages(c, 91, s).numbers_of(); }, bound);
  }
}

/// ids, then the counts, of the scan of a case.
Floats scan(const PageCase& c, float threshold, Stream& s) {
  std::vector<Pages> pages;
  std::vector<PageSet> sets;
  const auto digests = stream("ref");
  for (int64_t b = 0; b < c.b; ++b) pages.emplace_back(c, 100 + static_cast<uint64_t>(b), *digests);
  for (Pages& p : pages) sets.push_back(p.set);
  const int64_t d = c.layout.d_row(), capacity = 100;
  const Floats q = numbers(c.b * c.h * d, 95), limits(static_cast<size_t>(c.b * c.h), threshold);
  std::vector<int32_t> ids(static_cast<size_t>(c.b * capacity), -1), counts(static_cast<size_t>(3 * c.b), -1);
  EXPECT_TRUE(ok(ops::scan_pages(
      {.q = {q.data(), DType::kF32, {c.b, c.h, d}},
       .sets = sets,
       .threshold = c.top_k > 0 ? ConstTensorView() : ConstTensorView(limits.data(), DType::kF32, {c.b, c.h}),
       .top_k = c.top_k,
       .ids = {ids.data(), DType::kI32, {c.b, capacity}},
       .n_ids = {counts.data(), DType::kI32, {c.b}},
       .n_fired = {counts.data() + c.b, DType::kI32, {c.b}},
       .n_pages = {counts.data() + 2 * c.b, DType::kI32, {c.b}},
       .scale = 0.1f},
      s)));
  Floats out(ids.begin(), ids.end());
  out.insert(out.end(), counts.begin(), counts.end());
  return out;
}

TEST(ScanPages, CpuAgreesWithRef) {
  for (const PageCase& c : page_cases()) {
    SCOPED_TRACE(c.name);
    for (const float threshold : {-kInf, 0.5f, 1.0f, 2.0f, 3.0f, kInf}) {
      SCOPED_TRACE(threshold);
      check_backends([&](Stream& s) { return scan(c, threshold, s); }, 0);
      if (c.top_k > 0) break;
    }
  }
}

TEST(ScanPages, HandWorked) {
  // Two pages of two rows: boxes [-1, 2] x [0, 3] and [4, 4] x [-5, -5].
  const RowLayout layout = {.d_content = 1, .d_branch = 1, .dtype = DType::kF32};
  const PageCase c = {"", 1, 1, 2, layout, 2, 2, PageDigest::kBox, 0};
  for (const char* backend : {"ref", "cpu"}) {
    const auto s = stream(backend);
    Pages pages(c, 1, *s);
    Floats upper = {2, 3, 4, -5}, lower = {-1, 0, 4, -5}, radius = {0, 1};
    const void* tables[] = {upper.data(), lower.data(), radius.data()};
    pages.set.upper = &tables[0];
    pages.set.lower = &tables[1];
    pages.set.radius = &tables[2];
    pages.set.kept = nullptr;
    const Floats q = {3, -4};  // bounds 6 - 0 and 12 + 20 + 5
    for (const auto& [threshold, want] : {std::pair(5.9f, 4), {6.1f, 2}, {36.9f, 2}, {37.1f, 0}, {kInf, 0}}) {
      std::vector<int32_t> ids(4, -1);
      int32_t n_ids = 0, n_fired = 0;
      EXPECT_TRUE(ok(ops::scan_pages({.q = {q.data(), DType::kF32, {1, 1, 2}},
                                      .sets = {&pages.set, 1},
                                      .threshold = {&threshold, DType::kF32, {1, 1}},
                                      .ids = {ids.data(), DType::kI32, {1, 4}},
                                      .n_ids = {&n_ids, DType::kI32, {1}},
                                      .n_fired = {&n_fired, DType::kI32, {1}}},
                                     *s)));
      EXPECT_EQ(n_fired, want) << backend << " " << threshold;
      EXPECT_EQ(ids[0], want == 4 ? 0 : want == 2 ? 2 : -1);
      EXPECT_EQ(ids[3], want == 4 ? 3 : -1);
    }
  }
}

// A page with a number that is not finite is always looked into.
TEST(DigestPages, WhatIsNotFiniteAlwaysFires) {
  const RowLayout layout = {.d_content = 1, .d_branch = 1, .dtype = DType::kF32};
  for (const float odd : {kInf, -kInf, NAN}) {
    for (const PageDigest digest : {PageDigest::kBox, PageDigest::kSphere, PageDigest::kMeanSphere}) {
      for (const char* backend : {"ref", "cpu"}) {
        const auto s = stream(backend);
        const Rows rows({1, 1, 2, odd, 1, 1, 2, 2}, {layout, 4, 4, false});
        Floats upper(4), lower(4), radius(2);
        EXPECT_TRUE(ok(ops::digest_pages(
            {.rows = rows.pages(),
             .page_rows = 2,
             .upper = {upper.data(), DType::kF32, {2, 2}},
             .lower = digest == PageDigest::kBox ? TensorView(lower.data(), DType::kF32, {2, 2}) : TensorView(),
             .radius = {radius.data(), DType::kF32, {2}},
             .digest = digest},
            *s)));
        EXPECT_EQ(radius[0], kInf);
        EXPECT_LT(radius[1], 2.0f);
      }
    }
  }
}

TEST(ObserveOps, BadParamsAreRefused) {
  Floats x(64);
  std::vector<int64_t> mass(4);
  const RowLayout layout = {.d_content = 3, .d_branch = 1, .dtype = DType::kF32};
  const Rows rows(numbers(16, 1), {layout, 4, 4, false});
  const AttendMassParams good = {
      .q = {x.data(), DType::kF32, {2, 2, 4}}, .rows = rows.pages(), .mass = {mass.data(), DType::kI64, {4}}};
  EXPECT_TRUE(ok(attend_mass_check(good)));
  const auto bad = [&](auto change) {
    AttendMassParams p = good;
    change(p);
    return attend_mass_check(p);
  };
  EXPECT_TRUE(refused(bad([](auto& p) { p.first_position = -1; }), "first_position = -1"));
  EXPECT_TRUE(refused(bad([](auto& p) { p.mass = {}; }), "absent"));
  EXPECT_TRUE(refused(bad([](auto& p) { p.mass.shape[0] = 3; }), "mass is [3] I64"));
  EXPECT_TRUE(refused(bad([](auto& p) { p.q.shape[2] = 5; }), "q is [2, 2, 5]"));
  EXPECT_TRUE(refused(bad([](auto& p) { p.scale = 0; }), "scale"));
  ScoreMomentsParams moments = {.q = {x.data(), DType::kF32, {0, 2, 4}},
                                .rows = rows.pages(),
                                .mean = {x.data(), DType::kF32, {2, 4}},
                                .variance = {x.data(), DType::kF32, {2, 4}}};
  EXPECT_TRUE(refused(score_moments_check(moments), "at least one query"));
  moments.q.shape[0] = 1;
  EXPECT_TRUE(ok(score_moments_check(moments)));
  moments.variance.shape[1] = 3;
  EXPECT_TRUE(refused(score_moments_check(moments), "variance"));
}

TEST(PageOps, BadParamsAreRefused) {
  Floats x(64);
  std::vector<int32_t> n(4);
  const RowLayout layout = {.d_content = 3, .d_branch = 1, .dtype = DType::kF32};
  const Rows rows(numbers(16, 1), {layout, 4, 4, false});
  const DigestPagesParams good = {.rows = rows.pages(),
                                  .page_rows = 2,
                                  .upper = {x.data(), DType::kF32, {2, 4}},
                                  .lower = {x.data(), DType::kF32, {2, 4}},
                                  .radius = {x.data(), DType::kF32, {2}}};
  EXPECT_TRUE(ok(digest_pages_check(good)));
  const auto bad = [&](auto change) {
    DigestPagesParams p = good;
    change(p);
    return digest_pages_check(p);
  };
  EXPECT_TRUE(refused(bad([](auto& p) { p.page_rows = 3; }), "page_rows = 3"));
  EXPECT_TRUE(refused(bad([](auto& p) { p.first_row = 2; }), "2 pages of 2 rows from row 2"));
  EXPECT_TRUE(refused(bad([](auto& p) { p.first_row = 1; }), "row 1"));
  EXPECT_TRUE(refused(bad([](auto& p) { p.lower = {}; }), "lower"));
  EXPECT_TRUE(refused(bad([](auto& p) { p.digest = PageDigest::kSphere; }), "lower"));
  EXPECT_TRUE(refused(bad([](auto& p) { p.upper.dtype = DType::kBF16; }), "upper"));
  PageSet set;
  set.page_rows = 2;
  ScanPagesParams scan = {.q = {x.data(), DType::kF32, {1, 2, 4}},
                          .sets = {&set, 1},
                          .threshold = {x.data(), DType::kF32, {1, 2}},
                          .ids = {n.data(), DType::kI32, {1, 4}},
                          .n_ids = {n.data(), DType::kI32, {1}},
                          .n_fired = {n.data(), DType::kI32, {1}}};
  EXPECT_TRUE(ok(scan_pages_check(scan)));
  scan.top_k = 1;
  EXPECT_TRUE(refused(scan_pages_check(scan), "threshold"));
  scan.top_k = -1;
  EXPECT_TRUE(refused(scan_pages_check(scan), "top_k = -1"));
  scan.top_k = 0;
  set.n_pages = 1;
  EXPECT_TRUE(refused(scan_pages_check(scan), "block_pages = 0"));
  set.block_pages = 1;
  EXPECT_TRUE(refused(scan_pages_check(scan), "null"));
}

}  // namespace
}  // namespace vestige::test
