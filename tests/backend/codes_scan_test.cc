// scan_codes: cpu against ref, no score above its bound, no omitted mass above what is certified, all in float64.

#include <cmath>
#include <set>

#include "tests/backend/codes_run.h"

namespace vestige::test {
namespace {

/// One scan and all it says.
struct Scan {
  std::vector<std::vector<int32_t>> ids;
  std::vector<int32_t> n_fired;
  std::vector<int64_t> n_stage;
  Floats omitted;
};

Scan scan(const std::vector<CodedRows>& rows, const Floats& q, int64_t h, const Floats& threshold,
          const Floats& reference, int64_t capacity, Stream& s, int32_t top_j = 0, float share = 0,
          int32_t n_free = 0) {
  const auto b = static_cast<int64_t>(rows.size()), d = rows[0].d();
  std::vector<CodeSet> sets;
  for (const CodedRows& r : rows) {
    sets.push_back(r.set());
  }
  std::vector<int32_t> ids(static_cast<size_t>(b * capacity), -7), n_ids(rows.size()), n_fired(rows.size());
  Scan out;
  out.n_stage.assign(static_cast<size_t>(2 * b), -1);
  out.omitted.assign(static_cast<size_t>(b * h), -1);
  EXPECT_TRUE(ok(ops::scan_codes({.q = {q.data(), DType::kF32, {b, h, d}},
                                  .sets = sets,
                                  .threshold = {threshold.data(), DType::kF32, {b, h}},
                                  .reference = {reference.data(), DType::kF32, {b, h}},
                                  .top_j = top_j,
                                  .share = share,
                                  .n_free = n_free,
                                  .ids = {ids.data(), DType::kI32, {b, capacity}},
                                  .n_ids = {n_ids.data(), DType::kI32, {b}},
                                  .n_fired = {n_fired.data(), DType::kI32, {b}},
                                  .n_stage = {out.n_stage.data(), DType::kI64, {b, 2}},
                                  .omitted = {out.omitted.data(), DType::kF32, {b, h}},
                                  .scale = 0.3f},
                                 s)));
  for (int64_t i = 0; i < b; ++i) {
    EXPECT_EQ(n_ids[static_cast<size_t>(i)], std::min<int64_t>(n_fired[static_cast<size_t>(i)], capacity));
    const auto* first = ids.data() + i * capacity;
    out.ids.emplace_back(first, first + n_ids[static_cast<size_t>(i)]);
    EXPECT_TRUE(std::is_sorted(out.ids.back().begin(), out.ids.back().end()));
  }
  out.n_fired = n_fired;
  return out;
}

TEST(ScanCodes, CpuFiresWhatRefFires) {
  for (const CodesCase& c : codes_cases()) {
    SCOPED_TRACE(c.name);
    const auto ref = stream("ref");
    const ScanSetup x(c, *ref);
    Floats threshold, above, below;
    for (int64_t i = 0; i < c.b * c.h; ++i) {
      const double band = query_rounding(x.rows[static_cast<size_t>(i / c.h)], x.q.data() + i * x.rows[0].d(), 0.3);
      threshold.push_back(i % c.h == 1 ? kInf : 0.6f + 0.2f * static_cast<float>(i % 3));
      above.push_back(threshold.back() + 1e-4f);
      below.push_back(threshold.back() - static_cast<float>(band));
    }
    const int64_t room = std::max<int64_t>(c.n_rows, 1);
    const Scan least = scan(x.rows, x.q, c.h, above, x.reference, room, *ref);
    const Scan most = scan(x.rows, x.q, c.h, below, x.reference, room, *ref);
    on_each([&](const auto& make) {
      const Scan got = scan(x.rows, x.q, c.h, threshold, x.reference, room, *make(1));
      for (size_t i = 0; i < x.rows.size(); ++i) {
        const auto inside = [](const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
          return std::includes(b.begin(), b.end(), a.begin(), a.end());
        };
        EXPECT_TRUE(inside(least.ids[i], got.ids[i])) << "a row is missing";
        EXPECT_TRUE(inside(got.ids[i], most.ids[i])) << "a row too many";
        for (const int32_t u : got.ids[i]) EXPECT_EQ(x.rows[i].kept[static_cast<size_t>(u)], 0);
        EXPECT_EQ(got.n_stage[2 * i], least.n_stage[2 * i]);
        EXPECT_GE(got.n_stage[2 * i + 1], least.n_stage[2 * i + 1]);
        EXPECT_LE(got.n_stage[2 * i + 1], most.n_stage[2 * i + 1]);
        for (int64_t k = 0; k < c.h; ++k) {
          double mass = 0;
          for (int64_t u = 0; u < c.n_rows; ++u) {
            const bool in = x.rows[i].kept[static_cast<size_t>(u)] != 0 ||
                            std::binary_search(got.ids[i].begin(), got.ids[i].end(), static_cast<int32_t>(u));
            if (!in)
              mass += std::exp(true_score(x.rows[i], x.head(c, static_cast<int64_t>(i), k), u, double(0.3f)) - 0.5);
          }
          EXPECT_GE(double(got.omitted[i * static_cast<size_t>(c.h) + static_cast<size_t>(k)]), mass);
        }
      }
      const Scan few = scan(x.rows, x.q, c.h, threshold, x.reference, c.capacity, *make(1));
      EXPECT_EQ(few.n_fired, got.n_fired);
      for (size_t i = 0; i < x.rows.size(); ++i) {
        EXPECT_TRUE(std::equal(few.ids[i].begin(), few.ids[i].end(), got.ids[i].begin()));
      }
      for (const int32_t n : {2, 5}) {
        const Scan again = scan(x.rows, x.q, c.h, threshold, x.reference, room, *make(n));
        EXPECT_TRUE(again.ids == got.ids && again.n_stage == got.n_stage && same_bits(again.omitted, got.omitted)) << n;
      }
    });
  }
}

TEST(ScanCodes, ThresholdsAtInfinityAndQueriesThatAreNoNumbers) {
  for (const CodesCase& c : codes_cases()) {
    SCOPED_TRACE(c.name);
    const ScanSetup x(c, *stream("ref"));
    const Floats never(static_cast<size_t>(c.b * c.h), kInf), always(never.size(), -kInf), mild(never.size(), 1e30f);
    Floats no_number = x.q;
    no_number[0] = NAN;
    const int64_t room = std::max<int64_t>(c.n_rows, 1);
    on_each([&](const auto& make) {
      const auto s = make(2);
      const Scan none = scan(x.rows, x.q, c.h, never, x.reference, room, *s);
      const Scan all = scan(x.rows, x.q, c.h, always, x.reference, room, *s);
      const Scan odd = scan(x.rows, no_number, c.h, mild, x.reference, room, *s);
      const Scan odd_never = scan(x.rows, no_number, c.h, never, x.reference, room, *s);
      const int64_t n_open = std::count(x.rows[0].kept.begin(), x.rows[0].kept.end(), uint8_t{0});
      EXPECT_EQ(none.n_fired[0], 0);
      EXPECT_EQ(all.n_fired[0], n_open);
      EXPECT_EQ(odd.n_fired[0], n_open) << "NaN fires";
      EXPECT_EQ(odd_never.n_fired[0], 0);
      EXPECT_EQ(none.n_stage[0], n_open);
      EXPECT_EQ(none.n_stage[1], 0);
      EXPECT_EQ(all.n_stage[1], x.rows[0].stages.size() > 1 ? n_open : 0);
      for (const float left : all.omitted) EXPECT_EQ(left, 0.0f);
      for (const float reference : {kInf, -kInf, NAN}) {
        const Floats bad(never.size(), reference);
        for (const float left : scan(x.rows, x.q, c.h, never, bad, room, *s).omitted) EXPECT_EQ(left, kInf);
      }
    });
  }
}

// A certificate past the range of float is +inf, not a large number that may be too small.
TEST(ScanCodes, OmittedMassMayBeInfinite) {
  const CodesCase& c = codes_cases()[0];
  const ScanSetup x(c, *stream("ref"));
  const Floats never(static_cast<size_t>(c.b * c.h), kInf), low(never.size(), -200.0f);
  on_each([&](const auto& make) {
    for (const float left : scan(x.rows, x.q, c.h, never, low, c.n_rows, *make(1)).omitted) EXPECT_EQ(left, kInf);
  });
}

TEST(ScanCodes, TopJKeepsTheHighestBounds) {
  for (const size_t at : {size_t{0}, size_t{1}}) {
    const CodesCase& c = codes_cases()[at];
    ScanSetup x(c, *stream("ref"));
    CodedRows& r = x.rows[0];
    // Head k's query is met by rows 40 k, 40 k + 1 and 40 k + 2, each stronger than the last.
    std::set<int32_t> want;
    const int64_t heads = std::min<int64_t>(c.h, 4);
    for (int64_t k = 0; k < heads; ++k) {
      for (int64_t i = 0; i < 3; ++i) {
        const int64_t u = 40 * k + i;
        r.kept[static_cast<size_t>(u)] = 0;
        for (int64_t j = 0; j < r.d(); ++j) {
          r.values[static_cast<size_t>(u * r.d() + j)] =
              static_cast<float>(i + 3) * x.q[static_cast<size_t>(k * r.d() + j)];
        }
      }
    }
    r.values = as_stored(r.values, c.dtype);
    r.encode(*stream("ref"));
    Floats only_first(static_cast<size_t>(c.h), kInf);
    for (int64_t k = 0; k < heads; ++k) only_first[static_cast<size_t>(k)] = -kInf;
    const Scan ref = scan(x.rows, x.q, c.h, only_first, x.reference, c.n_rows, *stream("ref"), 2);
    on_each([&](const auto& make) {
      const Scan got = scan(x.rows, x.q, c.h, only_first, x.reference, c.n_rows, *make(1), 2);
      EXPECT_EQ(got.ids, ref.ids);
      EXPECT_LE(got.n_fired[0], 2 * heads);
    });
  }
}

/// log(exp(threshold) + share sum exp(true score)) over the rows of `ids`.
double raised_threshold(const CodedRows& r, const float* q, float threshold, float share,
                        const std::vector<int32_t>& ids) {
  double sum = std::exp(double(threshold));
  for (const int32_t u : ids) sum += double(share) * std::exp(true_score(r, q, u, double(0.3f)));
  return std::log(sum);
}

TEST(ScanCodes, NoRowAboveARisenThresholdIsLeftOut) {
  int64_t n_dropped = 0;
  for (const CodesCase& c : codes_cases()) {
    SCOPED_TRACE(c.name);
    const ScanSetup x(c, *stream("ref"));
    Floats threshold;
    for (int64_t i = 0; i < c.b * c.h; ++i)
      threshold.push_back(i % c.h == 1 ? kInf : -2 + 0.5f * static_cast<float>(i % 3));
    const int64_t room = std::max<int64_t>(c.n_rows, 1);
    const int32_t n_free = c.n_rows % 2 == 0 ? 0 : 4;
    on_each([&](const auto& make) {
      const float share = 20.0f;  // so that much is dropped
      const Scan all = scan(x.rows, x.q, c.h, threshold, x.reference, room, *make(1));
      const Scan got = scan(x.rows, x.q, c.h, threshold, x.reference, room, *make(1), 0, share, n_free);
      EXPECT_EQ(got.n_stage, all.n_stage);
      for (size_t i = 0; i < x.rows.size(); ++i) {
        const std::vector<int32_t>&in = got.ids[i], &fired = all.ids[i];
        EXPECT_TRUE(std::includes(fired.begin(), fired.end(), in.begin(), in.end()));
        n_dropped += static_cast<int64_t>(fired.size() - in.size());
        for (int64_t k = 0; k < c.h; ++k) {
          const size_t head = i * static_cast<size_t>(c.h) + static_cast<size_t>(k);
          const float* q = x.head(c, static_cast<int64_t>(i), k);
          const double limit = raised_threshold(x.rows[i], q, threshold[head], share, in);
          double mass = 0;
          for (int32_t u = 0; u < c.n_rows; ++u) {
            if (x.rows[i].kept[static_cast<size_t>(u)] != 0 || std::binary_search(in.begin(), in.end(), u)) continue;
            const double score = true_score(x.rows[i], q, u, double(0.3f));
            mass += std::exp(score - 0.5);
            EXPECT_LE(score, limit) << "row " << u << " head " << k;
          }
          EXPECT_GE(double(got.omitted[head]), mass);
        }
      }
      for (const int32_t n : {2, 5}) {
        const Scan again = scan(x.rows, x.q, c.h, threshold, x.reference, room, *make(n), 0, share, n_free);
        EXPECT_TRUE(again.ids == got.ids && same_bits(again.omitted, got.omitted)) << n;
      }
    });
  }
  EXPECT_GT(n_dropped, 100) << "the test says little";
}

/// The bound of row u alone, read off the certificate: omitted = exp(bound - reference).
double bound_of(CodedRows& r, const Floats& q, int64_t h, int64_t head, int64_t u, Stream& s, double near) {
  std::fill(r.kept.begin(), r.kept.end(), uint8_t{1});
  r.kept[static_cast<size_t>(u)] = 0;
  std::vector<CodedRows> one;
  one.push_back(std::move(r));
  const Floats never(static_cast<size_t>(h), kInf), reference(static_cast<size_t>(h), static_cast<float>(near));
  const Scan out = scan(one, q, h, never, reference, 1, s);
  r = std::move(one[0]);
  return std::log(double(out.omitted[static_cast<size_t>(head)])) + double(static_cast<float>(near));
}

/// Whether row u alone fires for a threshold just below its true score: if not, a score exceeds its bound.
bool fires_below(CodedRows& r, const Floats& q, int64_t h, int64_t head, int64_t u, Stream& s) {
  std::fill(r.kept.begin(), r.kept.end(), uint8_t{1});
  r.kept[static_cast<size_t>(u)] = 0;
  const double score = true_score(r, q.data() + head * r.d(), u, double(0.3f));
  auto just_below = static_cast<float>(score);
  while (double(just_below) >= score) just_below = std::nextafter(just_below, -kInf);
  Floats threshold(static_cast<size_t>(h), kInf);
  threshold[static_cast<size_t>(head)] = just_below;
  std::vector<CodedRows> one;
  one.push_back(std::move(r));
  const Scan out = scan(one, q, h, threshold, Floats(static_cast<size_t>(h), 0.0f), 1, s);
  r = std::move(one[0]);
  return out.n_fired[0] == 1;
}

// Queries made for each row so that Cauchy-Schwarz is an equality: dual q = M e. Only what is rounded up lies between
// score and bound, and it must be enough.
TEST(ScanCodes, NoScoreExceedsItsBoundWhereItIsTight) {
  for (const size_t at : {size_t{0}, size_t{2}, size_t{3}, size_t{8}}) {
    const CodesCase& c = codes_cases()[at];
    SCOPED_TRACE(c.name);
    CodedRows made = coded_rows(c, 41, *stream("cpu"));
    on_each([&](const auto& make) {
      const auto s = make(1);
      double tightest = INFINITY;
      for (int64_t u = 0; u < std::min<int64_t>(c.n_rows, 60); ++u) {
        std::vector<double> e = made.transform.forward_of(made.row(u));
        // Against what all stages leave: the last bound is the least.
        for (size_t i = 0; i < made.stages.size(); ++i) {
          const std::vector<double> coded = made.bytes(i, u).values(made.stages[i]);
          for (size_t k = 0; k < e.size(); ++k) e[k] -= coded[k];
        }
        const int64_t head = u % c.h, g = head / (c.h / c.n_groups), d = made.d();
        std::vector<double> y(e);
        for (double& v : y) v *= double(made.transform.ridge[static_cast<size_t>(g)]);
        for (int64_t r = 0; r < c.rank; ++r) {
          const double le = made.transform.dot(made.transform.metric, g * c.rank + r, e);
          for (int64_t k = 0; k < d; ++k)
            y[static_cast<size_t>(k)] +=
                le * double(made.transform.metric[static_cast<size_t>((g * c.rank + r) * d + k)]);
        }
        Floats q(static_cast<size_t>(c.h * d));
        double size = 0;
        for (int64_t k = 0; k < d; ++k) {
          double sum = 0;  // q = forward^T y
          for (int64_t j = 0; j < d; ++j)
            sum += double(made.transform.forward[static_cast<size_t>(j * d + k)]) * y[static_cast<size_t>(j)];
          q[static_cast<size_t>(head * d + k)] = static_cast<float>(sum);
          size += sum * sum;
        }
        for (float& v : q) v *= static_cast<float>(5 / std::sqrt(size));
        EXPECT_TRUE(fires_below(made, q, c.h, head, u, *s)) << "row " << u;
        const double score = true_score(made, q.data() + head * d, u, double(0.3f));
        const double bound = bound_of(made, q, c.h, head, u, *s, score);
        EXPECT_GE(bound, score) << "row " << u;
        double reach = 0;
        for (size_t k = 0; k < y.size(); ++k) reach += y[k] * e[k];
        reach *= 0.3 * 5 / std::sqrt(size);
        tightest = std::min(tightest, (bound - score) / reach);
      }
      EXPECT_LT(tightest, 0.1) << "the test is not as sharp as it should be";
    });
  }
}

// Rows that the code holds exactly: the error norm is nothing, and only the slack stands for the rounding of the query
// and of the sums.
TEST(ScanCodes, SlackCoversRoundingWhereNormsVanish) {
  const CodesCase c = {"exact", 1, 5, 1, 48, 48, 40, 8, DType::kF32, 4, std::vector<int32_t>(48, 4), {}, 48};
  CodedRows r;
  r.layout = {.d_content = c.d_content, .d_branch = c.d_branch, .dtype = c.dtype};
  r.n = c.n_rows;
  r.page_rows = c.page_rows;
  const int64_t d = r.d();
  r.transform = Transform(d, 1, c.rank);
  for (int64_t k = 0; k < d; ++k)
    r.transform.forward[static_cast<size_t>(k * d + k)] = r.transform.dual[static_cast<size_t>(k * d + k)] = 1;
  r.transform.ridge[0] = 1;
  r.kept.assign(static_cast<size_t>(r.n), 0);
  std::vector<int32_t> bits;
  for (int64_t k = 0; k < d; ++k) bits.push_back(1 + static_cast<int32_t>(k % 7));
  r.stages.emplace_back(bits, Floats(static_cast<size_t>(d), 1.0f), 1e-25f);
  const Floats pick = numbers(r.n * d, 51);
  for (int64_t i = 0; i < r.n * d; ++i) {
    const int32_t b = bits[static_cast<size_t>(i % d)],
                  code = static_cast<int32_t>((pick[static_cast<size_t>(i)] + 1) / 2 * static_cast<float>(1 << b));
    r.values.push_back(static_cast<float>(std::min(code, (1 << b) - 1)) - 0.5f * static_cast<float>((1 << b) - 1));
  }
  r.encode(*stream("cpu"));
  for (int64_t u = 0; u < r.n; ++u) {
    const std::vector<double> coded = r.bytes(0, u).values(r.stages[0]);
    ASSERT_EQ(coded, r.row(u)) << "held exactly";
    ASSERT_EQ(r.bytes(0, u).norm(0), 0);
  }
  on_each([&](const auto& make) {
    const auto s = make(1);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Floats q = numbers(c.h * d, 60 + seed);
      for (float& x : q) x = x * x * x * 3;
      for (int64_t u = 0; u < r.n; u += 5) {
        EXPECT_TRUE(fires_below(r, q, c.h, static_cast<int64_t>(seed) % c.h, u, *s)) << "row " << u << " seed " << seed;
      }
    }
  });
}

/// Rows of one group under the identity, [n, d], with a metric of rank 1 along `along` and a code of `bits`.
CodedRows plain_rows(int64_t n, int64_t d, const Floats& along, std::vector<int32_t> bits, float norm_base) {
  CodedRows r;
  r.layout = {.d_content = static_cast<int32_t>(d), .d_branch = 0, .dtype = DType::kF32};
  r.n = r.page_rows = n;
  r.transform = Transform(d, 1, 1);
  double square = 0;
  for (const float x : along) square += double(x) * double(x);
  const float ridge = square > 0 ? static_cast<float>(1e-3 * square / double(d)) : 1.0f;
  for (int64_t k = 0; k < d; ++k) {
    const auto at = static_cast<size_t>(k);
    r.transform.forward[static_cast<size_t>(k * d + k)] = r.transform.dual[static_cast<size_t>(k * d + k)] = 1;
    r.transform.metric[at] = along[at];
    r.transform.white[at] = static_cast<float>(double(along[at]) / std::sqrt(square + double(ridge)));
  }
  r.transform.ridge[0] = ridge;
  r.stages.emplace_back(std::move(bits), Floats(static_cast<size_t>(d), 1.0f), norm_base);
  r.kept.assign(static_cast<size_t>(n), 0);
  r.values.assign(static_cast<size_t>(n * d), 0.0f);
  return r;
}

// Queries along the one direction that the group's queries had: almost all of ||q||^2 is taken away again, and the
// rounding of what is left must be covered. The grid is made to add nothing.
TEST(ScanCodes, NormOfTheQueryCoversItsRounding) {
  constexpr int64_t kD = 512;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Floats along = numbers(kD, 80 + seed);
    CodedRows r = plain_rows(1, kD, along, {}, 1.0f);
    r.values = along;
    const double is = r.transform.norm(0, r.row(0));
    r.stages[0].view.norm_base = static_cast<float>(is * 1.0021);
    r.encode(*stream("cpu"));
    ASSERT_EQ(r.bytes(0, 0).norm(0), 0);
    r.max_norm[0] = 0;  // no slack: the reach alone
    on_each([&](const auto& make) {
      for (const float size : {0.1f, 0.7f, 1.0f, 3.0f}) {
        Floats q = along;
        for (float& x : q) x *= size;
        EXPECT_TRUE(fires_below(r, q, 1, 0, 0, *make(1))) << "seed " << seed << " size " << size;
      }
    });
  }
}

// Sums in float32 whose parts are far larger than they are; the query is one that integers hold exactly.
TEST(ScanCodes, SlackCoversTheSums) {
  constexpr int64_t kRows = 32, kD = 64;
  CodedRows r = plain_rows(kRows, kD, Floats(kD, 0.0f), std::vector<int32_t>(kD, 1), 1e-25f);
  const Floats pick = numbers(kRows * kD, 91), far = numbers(kD, 92, 4000.0f);
  for (int64_t k = 0; k < kD; ++k) r.transform.mean[static_cast<size_t>(k)] = std::round(far[static_cast<size_t>(k)]);
  for (int64_t i = 0; i < kRows * kD; ++i) {
    r.values[static_cast<size_t>(i)] =
        r.transform.mean[static_cast<size_t>(i % kD)] + (pick[static_cast<size_t>(i)] < 0 ? -0.5f : 0.5f);
  }
  r.encode(*stream("cpu"));
  ASSERT_EQ(r.bytes(0, 5).norm(0), 0);
  on_each([&](const auto& make) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Floats q = numbers(kD, 93 + seed);
      for (float& x : q) x = x < 0 ? -0.37f : 0.37f;
      for (int64_t u = 0; u < kRows; u += 3) {
        EXPECT_TRUE(fires_below(r, q, 1, 0, u, *make(1))) << "row " << u << " seed " << seed;
      }
    }
  });
}

/// 100 look-alikes, row 2 kept and row 50 turned round, under one query; each has an error norm of `norm_base`.
CodedRows look_alikes(int64_t d, float norm_base) {
  CodedRows r = plain_rows(100, d, Floats(static_cast<size_t>(d), 0.0f),
                           std::vector<int32_t>(static_cast<size_t>(d), 1), norm_base);
  for (int64_t i = 0; i < r.n * d; ++i)
    r.values[static_cast<size_t>(i)] = (i % d % 2 == 0) == (i / d != 50) ? 0.5f : -0.5f;
  r.encode(*stream("cpu"));
  r.kept[2] = 1;
  return r;
}

// The code holds the rows exactly. With share 1 / 7.4, seven of them lift the threshold to 0.055 below their score, and
// the eighth above it. If each score may be off by 0.5, bounds lie 1 above least scores, and it takes 7.4 e = 20.1.
TEST(ScanCodes, SoManyLookAlikesJoin) {
  constexpr int64_t kD = 32;
  constexpr float kShare = 1 / 7.4f;
  Floats q;
  for (int64_t k = 0; k < kD; ++k) q.push_back(k % 2 == 0 ? 1.0f : -1.0f);
  for (const float reach : {0.0f, 0.5f}) {
    std::vector<CodedRows> one;
    one.push_back(look_alikes(kD, reach > 0 ? reach / (0.3f * std::sqrt(float(kD))) : 1e-25f));
    const double score = true_score(one[0], q.data(), 0, double(0.3f));
    on_each([&](const auto& make) {
      struct Want {
        double threshold;
        int32_t top_j;
        float share;
        int32_t n_free;
        size_t n;  ///< rows that join, the first ones; 99 = all
      };
      const size_t many = reach > 0 ? 21 : 8;
      const Want wants[] = {
          {-50, 0, 0, 0, 99},
          {-50, 0, kShare, 0, many},
          {double(-kInf), 0, kShare, 0, many},
          {-50, 0, kShare, 5, many + 5},
          {-50, 3, kShare, 0, 3},
          {-50, 3, 0, 0, 3},
          {score + 0.6, 0, kShare, 0, 0},
          // exp(threshold) stands for five of the 7.4 (or of the 20.1).
          {score + double(reach) + std::log(5 / 7.4), 0, kShare, 0, reach > 0 ? size_t{7} : size_t{3}},
          {-50, 0, 1000.0f, 0, 1}};
      for (const Want& want : wants) {
        const Scan out = scan(one, q, 1, {static_cast<float>(want.threshold)}, {0.0f}, 100, *make(2), want.top_j,
                              want.share, want.n_free);
        std::vector<int32_t> ids;
        for (int32_t u = 0; u < 100 && ids.size() < want.n; ++u) {
          if (u != 2 && (u != 50 || want.n == 99)) ids.push_back(u);
        }
        EXPECT_EQ(out.ids[0], ids) << "threshold " << want.threshold << " reach " << reach << " want " << want.n;
        double mass = 0;
        for (int32_t u = 0; u < 100; ++u) {
          if (u == 2 || std::binary_search(ids.begin(), ids.end(), u)) continue;
          mass += std::exp(true_score(one[0], q.data(), u, double(0.3f)) + double(reach));
        }
        EXPECT_GE(double(out.omitted[0]), mass * (1 - 1e-9));
        EXPECT_LE(double(out.omitted[0]), 1.1 * mass);
      }
    });
  }
}

}  // namespace
}  // namespace vestige::test
