// fit_transform and encode_rows: cpu against ref, transforms that are inverse to each other, norms never below the
// truth; what the ops over coded rows refuse.

#include <cmath>

#include "tests/backend/codes_run.h"

namespace vestige::test {
namespace {

constexpr const char* kBackends[] = {"ref", "cpu"};

TEST(FitTransform, CpuAgreesWithRefAndIsWhatItSays) {
  for (const auto& [d, h, groups, rank, with_gram] :
       {std::tuple{24, 4, 2, 24, false}, {40, 6, 6, 11, true}, {7, 1, 1, 3, false}, {64, 8, 8, 64, true}}) {
    SCOPED_TRACE(d);
    const Floats q = spread(30, h * d, 3), rows = spread(150, d, 4);
    Floats gram;
    for (int64_t i = 0; with_gram && i < (d / 2) * (d / 2); ++i) gram.push_back(i % (d / 2 + 1) == 0 ? 2.0f : 0.1f);
    Transform t[2] = {{d, groups, rank}, {d, groups, rank}};
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(ok(ops::fit_transform(t[i].params(q, h, rows, gram), *stream(kBackends[i]))));
    EXPECT_TRUE(close(t[1].mean, t[0].mean, 1e-6));
    EXPECT_TRUE(close(t[1].variance, t[0].variance, 1e-5));
    EXPECT_TRUE(close(t[1].ridge, t[0].ridge, 1e-5));
    EXPECT_TRUE(std::is_sorted(t[0].variance.rbegin(), t[0].variance.rend()));
    for (const Transform& x : t) {
      double least = INFINITY;
      for (int64_t a = 0; a < d; ++a) {
        for (int64_t b = 0; b < d; ++b) {
          double sum = 0;
          for (int64_t j = 0; j < d; ++j) {
            sum += double(x.dual[static_cast<size_t>(j * d + a)]) * double(x.forward[static_cast<size_t>(j * d + b)]);
          }
          EXPECT_NEAR(sum, a == b ? 1 : 0, 2e-5) << "dual^T forward, " << a << ", " << b;
        }
      }
      // For any query, fitted or not, and any error: |y . e| <= ||y|| ||e||, and near equality somewhere.
      for (uint64_t seed = 0; seed < 50; ++seed) {
        const Floats raw = numbers(2 * d, 100 + seed);
        const std::vector<double> e(raw.begin(), raw.begin() + d);
        for (int64_t g = 0; g < groups; ++g) {
          std::vector<double> y(raw.begin() + d, raw.end());
          if (seed % 2 == 0) {  // y = M e: Cauchy-Schwarz is an equality
            for (int64_t k = 0; k < d; ++k)
              y[static_cast<size_t>(k)] = double(x.ridge[static_cast<size_t>(g)]) * e[static_cast<size_t>(k)];
            for (int64_t r = 0; r < rank; ++r) {
              const double le = x.dot(x.metric, g * rank + r, e);
              for (int64_t k = 0; k < d; ++k)
                y[static_cast<size_t>(k)] += le * double(x.metric[static_cast<size_t>((g * rank + r) * d + k)]);
            }
          }
          double ye = 0, yy = 0, wy = 0;
          for (size_t k = 0; k < y.size(); ++k) ye += y[k] * e[k], yy += y[k] * y[k];
          for (int64_t r = 0; r < rank; ++r) wy += std::pow(x.dot(x.white, g * rank + r, y), 2);
          // 4e-6: what the scan adds for the rounding of `white`.
          const double bound =
              std::sqrt(std::max(0.0, yy * (1 + 4e-6) - wy) / double(x.ridge[static_cast<size_t>(g)])) * x.norm(g, e);
          EXPECT_LE(std::abs(ye), bound) << "group " << g;
          if (ye != 0) least = std::min(least, bound / std::abs(ye));
        }
      }
      EXPECT_LT(least, 1.05);
    }
    Transform again(d, groups, rank);
    for (const int32_t n : {2, 5}) {
      EXPECT_TRUE(ok(ops::fit_transform(again.params(q, h, rows, gram), *stream("cpu", n))));
      EXPECT_TRUE(same_bits(again.forward, t[1].forward));
      EXPECT_TRUE(same_bits(again.metric, t[1].metric));
      EXPECT_TRUE(same_bits(again.white, t[1].white));
    }
  }
}

double norm2(const std::vector<double>& x, size_t n) {
  double sum = 0;
  for (size_t k = 0; k < n; ++k) sum += x[k] * x[k];
  return std::sqrt(sum);
}

/// Every norm of every row against float64; returns how many were checked.
int64_t check_norms(const CodedRows& r) {
  int64_t n = 0;
  for (int64_t u = 0; u < r.n; ++u) {
    const std::vector<double> x = r.row(u);
    EXPECT_LE(norm2(x, x.size()), double(r.max_norm[0]));
    EXPECT_LE(norm2(x, static_cast<size_t>(r.layout.d_content)), double(r.max_norm[1]));
    std::vector<double> e = r.transform.forward_of(x);
    for (size_t s = 0; s < r.stages.size(); ++s) {
      const CodeBytes bytes = r.bytes(s, u);
      const std::vector<double> coded = bytes.values(r.stages[s]);
      for (size_t k = 0; k < e.size(); ++k) e[k] -= coded[k];
      const float base = r.stages[s].view.norm_base;
      for (int64_t g = 0; g < r.transform.n_groups; ++g, ++n) {
        const double is = r.transform.norm(g, e), said = grid_value(base, bytes.norm(g));
        EXPECT_GE(said, is) << "row " << u << " stage " << s << " group " << g;
        if (bytes.norm(g) > 0 && bytes.norm(g) < 255) {
          EXPECT_LE(said, is * 1.0025 * std::exp2(1 / 16.0)) << "row " << u;
        }
      }
      if (s > 0) continue;
      std::vector<double> content(static_cast<size_t>(r.layout.d_content));
      for (size_t c = 0; c < content.size(); ++c) {
        for (size_t j = 0; j < e.size(); ++j) content[c] += double(r.transform.dual[j * e.size() + c]) * e[j];
      }
      const uint8_t byte = r.value[static_cast<size_t>(u / r.page_rows)][static_cast<size_t>(u % r.page_rows)];
      EXPECT_GE(grid_value(r.value_base, byte), norm2(content, content.size())) << "row " << u;
    }
  }
  return n;
}

TEST(EncodeRows, CodesAgreeAndNormsAreSafe) {
  for (const CodesCase& c : codes_cases()) {
    SCOPED_TRACE(c.name);
    const auto ref = stream("ref");
    const CodedRows want = coded_rows(c, 11, *ref);
    check_norms(want);
    CodedRows got = coded_rows(c, 11, *stream("cpu"));
    check_norms(got);
    int64_t n_codes = 0, n_off = 0;
    for (int64_t u = 0; u < c.n_rows; ++u) {
      bool same = true;
      for (size_t s = 0; s < got.stages.size() && same; ++s) {
        const auto a = got.bytes(s, u).codes(got.stages[s]), b = want.bytes(s, u).codes(want.stages[s]);
        for (size_t j = 0; j < a.size(); ++j) {
          ASSERT_LE(std::abs(a[j] - b[j]), 1) << "row " << u << " stage " << s << " coordinate " << j;
          same = same && a[j] == b[j];  // past a tie, the next stage codes another number
          n_off += a[j] != b[j];
          ++n_codes;
        }
      }
    }
    EXPECT_LE(n_off, n_codes / 1000 + 1);
    const auto once = got.pages[0], second = got.pages[1], values = got.value;
    for (const int32_t n : {2, 5}) {
      got.encode(*stream("cpu", n));
      EXPECT_TRUE(got.pages[0] == once && got.pages[1] == second && got.value == values) << n << " threads";
    }
  }
}

// A grid that begins just below the true norm: whoever rounds a float32 sum down says too little.
TEST(EncodeRows, NormsAreSafeAtTheEdgeOfTheGrid) {
  const CodesCase& c = codes_cases()[0];
  for (const char* backend : kBackends) {
    const auto s = stream(backend);
    CodedRows r = coded_rows(c, 13, *s);
    const Floats values = r.values;
    r.n = 1;
    for (int64_t u = 0; u < 100; ++u) {
      r.values.assign(values.begin() + u * r.d(), values.begin() + (u + 1) * r.d());
      r.encode(*s);
      std::vector<double> e = r.transform.forward_of(r.row(0));
      const std::vector<double> coded = r.bytes(0, 0).values(r.stages[0]);
      for (size_t k = 0; k < e.size(); ++k) e[k] -= coded[k];
      for (int64_t g = 0; g < c.n_groups; ++g) {
        const double is = r.transform.norm(g, e);
        r.stages[0].view.norm_base = std::nextafter(static_cast<float>(is), 0.0f);
        r.encode(*s);
        EXPECT_GE(grid_value(r.stages[0].view.norm_base, r.bytes(0, 0).norm(g)), is) << backend << " row " << u;
      }
    }
  }
}

TEST(EncodeRows, WhatIsNoNumberHasNoBound) {
  const CodesCase& c = codes_cases()[2];
  for (const char* backend : kBackends) {
    const auto s = stream(backend);
    CodedRows r = coded_rows(c, 12, *s);
    for (const auto& [u, x] : {std::pair{5, NAN}, {17, kInf}, {130, -kInf}, {200, 1e30f}}) {
      r.values[static_cast<size_t>(u * r.d() + 2)] = x;
    }
    r.encode(*s);
    for (const int64_t u : {5, 17, 130, 200}) {
      for (size_t i = 0; i < 2; ++i) {
        for (int64_t g = 0; g < c.n_groups; ++g) EXPECT_EQ(r.bytes(i, u).norm(g), 255) << backend << " row " << u;
      }
      EXPECT_EQ(r.value[static_cast<size_t>(u / r.page_rows)][static_cast<size_t>(u % r.page_rows)], 255);
    }
    EXPECT_EQ(r.max_norm[0], kInf);
    EXPECT_NE(r.bytes(0, 6).norm(0), 255);
  }
}

TEST(CodeOps, BadParamsAreRefused) {
  const CodesCase& c = codes_cases()[1];
  const ScanSetup x(c, *stream("ref"));
  const int64_t h = c.h, d = x.rows[0].d();
  Floats heads(static_cast<size_t>(h), 0.0f), out(static_cast<size_t>(h * d));
  std::vector<int32_t> ids(4), counts(1);
  std::vector<int64_t> wide(2);
  std::vector<CodeSet> sets = {x.rows[0].set()};
  const ConstTensorView q(x.q.data(), DType::kF32, {1, h, d});
  const TensorView of_heads(heads.data(), DType::kF32, {1, h});
  const auto scan_with = [&](auto change) {
    ScanCodesParams p;
    p.q = q;
    p.threshold = p.reference = of_heads;
    p.ids = {ids.data(), DType::kI32, {1, 4}};
    p.n_ids = p.n_fired = {counts.data(), DType::kI32, {1}};
    p.n_stage = {wide.data(), DType::kI64, {1, 2}};
    p.omitted = of_heads;
    std::vector<CodeSet> own = sets;
    std::vector<CodeStage> stages = x.rows[0].views;
    own[0].stages = stages;
    p.sets = own;
    change(p, own[0], stages);
    return scan_codes_check(p);
  };
  EXPECT_TRUE(ok(scan_with([](auto&, auto&, auto&) {})));
  EXPECT_TRUE(refused(scan_with([](auto& p, auto&, auto&) { p.top_j = -1; }), "top_j = -1"));
  EXPECT_TRUE(refused(scan_with([](auto& p, auto&, auto&) { p.share = NAN; }), "share = nan"));
  EXPECT_TRUE(refused(scan_with([](auto& p, auto&, auto&) { p.share = -0.1f; }), "share = -0.1"));
  EXPECT_TRUE(refused(scan_with([](auto& p, auto&, auto&) { p.n_free = -1; }), "n_free = -1"));
  EXPECT_TRUE(refused(scan_with([](auto& p, auto&, auto&) { p.sets = {}; }), "sets has 0"));
  EXPECT_TRUE(refused(scan_with([](auto& p, auto&, auto&) { p.reference = {}; }), "reference"));
  EXPECT_TRUE(refused(scan_with([](auto& p, auto&, auto&) { p.omitted = {}; }), "omitted"));
  EXPECT_TRUE(refused(scan_with([](auto& p, auto&, auto&) { p.scale = NAN; }), "scale"));
  EXPECT_TRUE(refused(scan_with([](auto&, auto& set, auto&) { set.z[1] = -0.5f; }), "z = -0.5"));
  EXPECT_TRUE(refused(scan_with([](auto&, auto& set, auto&) { set.z[0] = NAN; }), "z = nan"));
  EXPECT_TRUE(refused(scan_with([](auto&, auto& set, auto&) { set.max_row_norm = NAN; }), "max_row_norm"));
  EXPECT_TRUE(refused(scan_with([](auto&, auto& set, auto&) { set.d_content = 0; }), "d_content"));
  EXPECT_TRUE(refused(scan_with([](auto&, auto& set, auto&) { set.pages.page_rows = 0; }), "page_rows"));
  EXPECT_TRUE(refused(scan_with([](auto&, auto& set, auto&) { set.pages.codes[1] = nullptr; }), "stage 1"));
  EXPECT_TRUE(refused(scan_with([](auto&, auto& set, auto&) { set.transform.dual = {}; }), "transform.dual"));
  EXPECT_TRUE(refused(scan_with([](auto&, auto&, auto& s) { s[0].norm_base = 0; }), "norm_base"));
  EXPECT_TRUE(refused(scan_with([](auto&, auto&, auto& s) { s[0].n_units[1] = -1; }), "units"));
  AttendCodesParams a;
  a.q = q;
  a.skip = {ids.data(), DType::kI32, {1, 4}};
  a.n_skip = {counts.data(), DType::kI32, {1}};
  a.out = {out.data(), DType::kF32, {1, h, c.d_content}};
  a.lse = of_heads;
  Floats error(static_cast<size_t>(3 * h));
  a.error = {error.data(), DType::kF32, {1, h, 3}};
  a.n_coded = {wide.data(), DType::kI64, {1}};
  a.sets = sets;
  EXPECT_TRUE(ok(attend_codes_check(a)));
  sets[0].pages.value_norm = nullptr;
  EXPECT_TRUE(refused(attend_codes_check(a), "value_norm"));
  a.value_base = 0;
  EXPECT_TRUE(refused(attend_codes_check(a), "value_base = 0"));
  Transform t(d, 8, 20);
  const Floats rows = spread(30, d, 1);
  FitTransformParams f = t.params(x.q, h, rows);
  EXPECT_TRUE(ok(fit_transform_check(f)));
  f.ridge = 0;
  EXPECT_TRUE(refused(fit_transform_check(f), "ridge = 0"));
  f = t.params(x.q, h, rows);
  f.metric = {t.metric.data(), DType::kF32, {3, 20, d}};
  EXPECT_TRUE(refused(fit_transform_check(f), "metric"));
  Floats infinite = rows;
  infinite[3] = kInf;
  EXPECT_TRUE(refused(ops::fit_transform(t.params(x.q, h, infinite), *stream("cpu")), "finite"));
}

}  // namespace
}  // namespace vestige::test
