// attend_rows, merge_parts and attend_prefill: against ref, against values worked by hand, and what their
// contracts promise about sets, pages, threads and call borders.

#include <cmath>
#include <numeric>

#include "tests/backend/attend_prefill_cases.h"
#include "tests/backend/attend_prefill_gqa_cases.h"
#include "tests/backend/attend_rows_cases.h"
#include "tests/backend/merge_parts_cases.h"
#include "tests/backend/rows_fixture.h"

namespace vestige::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Part {
  Floats out, lse, max;
  Floats all() const {
    Floats x = out;
    x.insert(x.end(), lse.begin(), lse.end());
    x.insert(x.end(), max.begin(), max.end());
    return x;
  }
};

Part attend(const Floats& q, int64_t h, const std::vector<RowSet>& sets, float scale, Stream& s) {
  const RowLayout& l = sets[0].pages.layout;
  const int64_t b = static_cast<int64_t>(sets.size());
  Part part = {Floats(static_cast<size_t>(b * h * l.d_content), 7.0f), Floats(static_cast<size_t>(b * h), 7.0f),
               Floats(static_cast<size_t>(b * h), 7.0f)};
  EXPECT_TRUE(ok(ops::attend_rows({.q = {q.data(), DType::kF32, {b, h, l.d_row()}},
                                   .rows = sets,
                                   .out = {part.out.data(), DType::kF32, {b, h, l.d_content}},
                                   .lse = {part.lse.data(), DType::kF32, {b, h}},
                                   .max = {part.max.data(), DType::kF32, {b, h}},
                                   .scale = scale},
                                  s)));
  return part;
}

/// Every third row and a few more, so that neighbours and gaps of several sizes occur.
std::vector<int32_t> sparse_ids(int64_t n, int64_t shift) {
  std::vector<int32_t> ids;
  for (int64_t u = 0; u < n; ++u) {
    if ((u + shift) % 3 == 0 || (u + shift) % 7 == 1) ids.push_back(static_cast<int32_t>(u));
  }
  return ids;
}

TEST(AttendRows, CpuAgreesWithRef) {
  for (const AttendRowsCase& c : attend_rows_cases()) {
    SCOPED_TRACE(c.name);
    const RowLayout& l = c.layout;
    std::vector<Rows> rows;
    std::vector<std::vector<int32_t>> ids;
    std::vector<int32_t> n_ids;
    for (int64_t b = 0; b < c.b; ++b) {
      const uint64_t seed = static_cast<uint64_t>(b) + 1;
      rows.emplace_back(numbers(c.n_rows * l.d_row(), seed), RowsSpec{l, c.n_rows, c.page_rows, c.interleaved});
      ids.push_back(sparse_ids(c.n_rows, b));
      n_ids.push_back(static_cast<int32_t>(ids.back().size()));
    }
    std::vector<RowSet> sets;
    for (size_t b = 0; b < rows.size(); ++b) {
      const bool sparse = c.ids == RowIds::kSparse;
      sets.push_back({rows[b].pages(), sparse ? ids[b].data() : nullptr, sparse ? &n_ids[b] : nullptr});
    }
    const Floats q = numbers(c.b * c.h * l.d_row(), 99);
    const float scale = 4.0f / std::sqrt(static_cast<float>(l.d_row()));
    check_backends([&](Stream& s) { return attend(q, c.h, sets, scale, s).all(); }, c.bound);
  }
}

TEST(AttendRows, HandWorked) {
  // Two rows [1 0 ; 0] and [0 2 ; 1], q = [ln 3, 0 ; 0]: weights 3/4 and 1/4.
  const RowLayout layout = {.d_content = 2, .d_branch = 1, .dtype = DType::kF32};
  const Rows rows({1, 0, 0, 0, 2, 1}, {layout, 2, 4, false});
  for (const char* backend : {"ref", "cpu"}) {
    const Part part = attend({std::log(3.0f), 0, 0}, 1, {{rows.pages()}}, 1.0f, *stream(backend));
    EXPECT_TRUE(close(part.out, {0.75f, 0.5f}, 1e-6));
    EXPECT_TRUE(close(part.lse, {std::log(4.0f)}, 1e-6));
    EXPECT_TRUE(close(part.max, {std::log(3.0f)}, 1e-6));
  }
}

TEST(AttendRows, EmptySetIsZeroAndMinusInfinity) {
  const RowLayout layout;
  const Rows rows({}, {layout, 0, 4096, false});
  for (const char* backend : {"ref", "cpu"}) {
    const Part part = attend(numbers(8 * 576, 1), 8, {{rows.pages()}}, 1.0f, *stream(backend));
    EXPECT_EQ(part.out, Floats(8 * 512, 0.0f));
    EXPECT_EQ(part.lse, Floats(8, -kInf));
    EXPECT_EQ(part.max, Floats(8, -kInf));
  }
}

TEST(AttendRows, NanStaysVisible) {
  const RowLayout layout = {.d_content = 64, .d_branch = 32, .dtype = DType::kBF16};
  Floats values = numbers(50 * 96, 5);
  values[20 * 96 + 70] = std::nanf("");
  const Rows rows(values, {layout, 50, 64, false});
  const Part part = attend(numbers(2 * 96, 6), 2, {{rows.pages()}}, 1.0f, *stream("cpu"));
  for (float x : part.out) EXPECT_TRUE(std::isnan(x));
  for (float x : part.lse) EXPECT_TRUE(std::isnan(x));
}

TEST(AttendRows, FarApartScores) {
  const RowLayout layout = {.d_content = 32, .d_branch = 0, .dtype = DType::kF32};
  Floats values = numbers(200 * 32, 8, 100.0f);
  const Rows rows(values, {layout, 200, 64, false});
  const Floats q = numbers(4 * 32, 9, 100.0f);
  check_backends([&](Stream& s) { return attend(q, 4, {{rows.pages()}}, 1.0f, s).all(); }, 1e-6);
}

TEST(AttendRows, SameRowsSameBitsInAnyLayout) {
  const RowLayout layout;
  const int64_t n = 700;
  const Floats values = numbers(n * 576, 3), q = numbers(8 * 576, 4);
  const Rows paged(values, {layout, n, 4096, false}), small(values, {layout, n, 64, false});
  const Rows arena(values, {layout, n, n, true});
  std::vector<int32_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  const int32_t n_all = static_cast<int32_t>(n);
  const auto s = stream("cpu", 2);
  const Floats want = attend(q, 8, {{paged.pages()}}, 0.1f, *s).all();
  EXPECT_TRUE(same_bits(attend(q, 8, {{small.pages()}}, 0.1f, *s).all(), want));
  EXPECT_TRUE(same_bits(attend(q, 8, {{arena.pages()}}, 0.1f, *s).all(), want));
  EXPECT_TRUE(same_bits(attend(q, 8, {{small.pages(), all.data(), &n_all}}, 0.1f, *s).all(), want));
}

TEST(MergeParts, CpuAgreesWithRef) {
  for (const MergePartsCase& c : merge_parts_cases()) {
    SCOPED_TRACE(c.name);
    const int64_t n_rows = c.b * c.h;
    const Floats part = numbers(c.n_parts * n_rows * c.d, 11);
    Floats lse = numbers(c.n_parts * n_rows, 12, 5.0f);
    for (int64_t k : c.empty_parts) {
      for (int64_t i = 0; i < n_rows; ++i) lse[static_cast<size_t>(k * n_rows + i)] = -kInf;
    }
    check_backends(
        [&](Stream& s) {
          Floats out(static_cast<size_t>(n_rows * c.d), 7.0f), total(static_cast<size_t>(n_rows), 7.0f);
          EXPECT_TRUE(ok(ops::merge_parts({.part = {part.data(), DType::kF32, {c.n_parts, c.b, c.h, c.d}},
                                           .lse = {lse.data(), DType::kF32, {c.n_parts, c.b, c.h}},
                                           .out = {out.data(), DType::kF32, {c.b, c.h, c.d}},
                                           .lse_out = {total.data(), DType::kF32, {c.b, c.h}}},
                                          s)));
          out.insert(out.end(), total.begin(), total.end());
          return out;
        },
        c.bound);
  }
}

TEST(MergeParts, HandWorkedInPlace) {
  // lse ln 1 and ln 3: weights 1/4 and 3/4.
  for (const char* backend : {"ref", "cpu"}) {
    Floats part = {4, 8, 0, 4}, lse = {0, std::log(3.0f)};
    const TensorView out(part.data(), DType::kF32, {1, 1, 2});
    EXPECT_TRUE(ok(ops::merge_parts({.part = {part.data(), DType::kF32, {2, 1, 1, 2}},
                                     .lse = {lse.data(), DType::kF32, {2, 1, 1}},
                                     .out = out,
                                     .lse_out = {}},
                                    *stream(backend))));
    EXPECT_TRUE(close(Floats(part.begin(), part.begin() + 2), {1, 5}, 1e-6));
  }
}

TEST(MergeParts, PartitionEqualsUnion) {
  const RowLayout layout;
  const int64_t n = 600, h = 8, n_parts = 3;
  const Rows rows(numbers(n * 576, 21), {layout, n, 128, false});
  const Floats q = numbers(h * 576, 22), which = numbers(n, 23);
  for (const char* backend : {"ref", "cpu"}) {
    const auto s = stream(backend, 2);
    Floats parts, lses, out(static_cast<size_t>(h * 512)), lse(static_cast<size_t>(h));
    for (int64_t k = 0; k < n_parts; ++k) {
      std::vector<int32_t> ids;
      for (int32_t u = 0; u < n; ++u) {
        const float x = which[static_cast<size_t>(u)];
        if ((x < -0.9f ? 0 : x < 0.3f ? 1 : 2) == k) ids.push_back(u);
      }
      const int32_t n_ids = static_cast<int32_t>(ids.size());
      const Part part = attend(q, h, {{rows.pages(), ids.data(), &n_ids}}, 0.2f, *s);
      parts.insert(parts.end(), part.out.begin(), part.out.end());
      lses.insert(lses.end(), part.lse.begin(), part.lse.end());
    }
    EXPECT_TRUE(ok(ops::merge_parts({.part = {parts.data(), DType::kF32, {n_parts, 1, h, 512}},
                                     .lse = {lses.data(), DType::kF32, {n_parts, 1, h}},
                                     .out = {out.data(), DType::kF32, {1, h, 512}},
                                     .lse_out = {lse.data(), DType::kF32, {1, h}}},
                                    *s)));
    const Part whole = attend(q, h, {{rows.pages()}}, 0.2f, *s);
    EXPECT_TRUE(close(out, whole.out, 2e-6));
    EXPECT_TRUE(close(lse, whole.lse, 1e-6));
  }
}

/// Weights and rows of one prefill case.
struct Prefill {
  AttendPrefillCase c;
  std::vector<std::byte> w_uk, w_uv;
  Rows rows;
  Floats q;  ///< of positions 0 .. position + t - 1

  explicit Prefill(const AttendPrefillCase& in)
      : c(in),
        w_uk(stored(numbers(c.h * c.d_nope * c.layout.d_content, 31), c.w_dtype)),
        w_uv(stored(numbers(c.h * c.d_v * c.layout.d_content, 32), c.w_dtype)),
        rows(numbers(n_rows() * c.layout.d_row(), 33), {c.layout, n_rows(), c.page_rows, false}),
        q(numbers(n_rows() * c.h * d_qk(), 34)) {}
  int64_t n_rows() const { return c.position + c.t; }
  int64_t d_qk() const { return c.d_nope + c.layout.d_branch; }
  float scale() const { return 2.0f / static_cast<float>(d_qk()); }

  Floats attend(int64_t position, int64_t t, Stream& s) const {
    Floats out(static_cast<size_t>(t * c.h * c.d_v), 7.0f);
    RowPages pages = rows.pages();
    pages.n_rows = position + t;
    EXPECT_TRUE(ok(ops::attend_prefill({.q = {q.data() + position * c.h * d_qk(), DType::kF32, {t, c.h, d_qk()}},
                                        .rows = pages,
                                        .w_uk = {w_uk.data(), c.w_dtype, {c.h, c.d_nope, c.layout.d_content}},
                                        .w_uv = {w_uv.data(), c.w_dtype, {c.h, c.d_v, c.layout.d_content}},
                                        .out = {out.data(), DType::kF32, {t, c.h, c.d_v}},
                                        .position = position,
                                        .scale = scale()},
                                       s)));
    return out;
  }
};

TEST(AttendPrefill, CpuAgreesWithRef) {
  for (const AttendPrefillCase& c : attend_prefill_cases()) {
    SCOPED_TRACE(c.name);
    const Prefill prefill(c);
    check_backends([&](Stream& s) { return prefill.attend(c.position, c.t, s); }, c.bound);
  }
}

TEST(AttendPrefill, HandWorked) {
  // One head, W_UK = W_UV = 1, rows 0 and 1: token 0 sees itself; token 1 weighs rows by exp(0) and exp(ln 3).
  const RowLayout layout = {.d_content = 1, .d_branch = 0, .dtype = DType::kF32};
  const Rows rows({0, 1}, {layout, 2, 2, false});
  const Floats one = {1}, q = {5, std::log(3.0f)};
  for (const char* backend : {"ref", "cpu"}) {
    Floats out(2);
    EXPECT_TRUE(ok(ops::attend_prefill({.q = {q.data(), DType::kF32, {2, 1, 1}},
                                        .rows = rows.pages(),
                                        .w_uk = {one.data(), DType::kF32, {1, 1, 1}},
                                        .w_uv = {one.data(), DType::kF32, {1, 1, 1}},
                                        .out = {out.data(), DType::kF32, {2, 1, 1}}},
                                       *stream(backend))));
    EXPECT_TRUE(close(out, {0, 0.75f}, 1e-6));
  }
}

TEST(AttendPrefill, BitsDoNotDependOnCallBorders) {
  const Prefill prefill({"cut", 0, 700, 2, 32, 24, {64, 16, DType::kBF16}, DType::kBF16, 256, 0});
  const auto s = stream("cpu", 2);
  const Floats whole = prefill.attend(0, 700, *s);
  for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, 256, 700}, {0, 1, 130, 131, 699, 700}}) {
    Floats joined;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Floats part = prefill.attend(cuts[i], cuts[i + 1] - cuts[i], *s);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(same_bits(joined, whole));
  }
}

TEST(AttendPrefill, EqualsAbsorbedAttention) {
  const AttendPrefillCase c = {"absorbed", 0, 150, 3, 32, 24, {64, 16, DType::kF32}, DType::kF32, 64, 0};
  const Prefill prefill(c);
  const auto s = stream("cpu", 2);
  const Floats out = prefill.attend(0, c.t, *s);
  const float* w_uk = reinterpret_cast<const float*>(prefill.w_uk.data());
  const float* w_uv = reinterpret_cast<const float*>(prefill.w_uv.data());
  for (int64_t i : {int64_t{0}, int64_t{1}, int64_t{77}, int64_t{149}}) {
    Floats absorbed(static_cast<size_t>(c.h * 80), 0.0f), want(static_cast<size_t>(c.h * c.d_v), 0.0f);
    for (int64_t head = 0; head < c.h; ++head) {
      const float* q = prefill.q.data() + (i * c.h + head) * prefill.d_qk();
      float* a = absorbed.data() + head * 80;
      for (int64_t j = 0; j < c.d_nope; ++j) {
        for (int64_t k = 0; k < 64; ++k) a[k] += q[j] * w_uk[(head * c.d_nope + j) * 64 + k];
      }
      std::copy_n(q + c.d_nope, 16, a + 64);
    }
    RowPages pages = prefill.rows.pages();
    pages.n_rows = i + 1;
    const Part part = attend(absorbed, c.h, {{pages}}, prefill.scale(), *s);
    for (int64_t head = 0; head < c.h; ++head) {
      for (int64_t j = 0; j < c.d_v; ++j) {
        for (int64_t k = 0; k < 64; ++k) {
          want[static_cast<size_t>(head * c.d_v + j)] +=
              part.out[static_cast<size_t>(head * 64 + k)] * w_uv[(head * c.d_v + j) * 64 + k];
        }
      }
    }
    const Floats got(out.begin() + i * c.h * c.d_v, out.begin() + (i + 1) * c.h * c.d_v);
    EXPECT_TRUE(close(got, want, 1e-5));
  }
}

/// Rows of each key-value head and queries of one case.
struct PrefillGqa {
  AttendPrefillGqaCase c;
  std::vector<Rows> rows;
  Floats q;  ///< of positions 0 .. position + t - 1

  explicit PrefillGqa(const AttendPrefillGqaCase& in) : c(in), q(numbers(n_rows() * c.h * c.layout.d_branch, 41)) {
    for (int64_t g = 0; g < c.n_kv; ++g) {
      rows.emplace_back(numbers(n_rows() * c.layout.d_row(), 50 + static_cast<uint64_t>(g)),
                        RowsSpec{c.layout, n_rows(), c.page_rows, false});
    }
  }
  int64_t n_rows() const { return c.position + c.t; }
  float scale() const { return 2.0f / static_cast<float>(c.layout.d_branch); }

  Floats attend(int64_t position, int64_t t, Stream& s) const {
    const RowLayout& l = c.layout;
    Floats out(static_cast<size_t>(t * c.h * l.d_content), 7.0f);
    std::vector<RowPages> pages;
    for (const Rows& one : rows) {
      pages.push_back(one.pages());
      pages.back().n_rows = position + t;
    }
    EXPECT_TRUE(
        ok(ops::attend_prefill_gqa({.q = {q.data() + position * c.h * l.d_branch, DType::kF32, {t, c.h, l.d_branch}},
                                    .rows = pages,
                                    .out = {out.data(), DType::kF32, {t, c.h, l.d_content}},
                                    .position = position,
                                    .scale = scale()},
                                   s)));
    return out;
  }
};

TEST(AttendPrefillGqa, CpuAgreesWithRef) {
  for (const AttendPrefillGqaCase& c : attend_prefill_gqa_cases()) {
    SCOPED_TRACE(c.name);
    const PrefillGqa prefill(c);
    check_backends([&](Stream& s) { return prefill.attend(c.position, c.t, s); }, c.bound);
  }
}

TEST(AttendPrefillGqa, HandWorked) {
  // Two key heads of one query head each, rows [value ; key]. Head 0: 4 and 8 by 1/4 and 3/4; head 1: 5, then half
  // of 5.
  const RowLayout layout = {.d_content = 1, .d_branch = 1, .dtype = DType::kF32, .scored_content = false};
  const Rows first({4, 0, 8, 1}, {layout, 2, 2, false}), second({5, 2, 0, 2}, {layout, 2, 2, false});
  const Floats q = {5, 1, std::log(3.0f), 9};
  const std::vector<RowPages> rows = {first.pages(), second.pages()};
  for (const char* backend : {"ref", "cpu"}) {
    Floats out(4);
    EXPECT_TRUE(ok(ops::attend_prefill_gqa(
        {.q = {q.data(), DType::kF32, {2, 2, 1}}, .rows = rows, .out = {out.data(), DType::kF32, {2, 2, 1}}},
        *stream(backend))));
    EXPECT_TRUE(close(out, {4, 5, 7, 2.5f}, 1e-6));
  }
}

TEST(AttendPrefillGqa, BitsDoNotDependOnCallBorders) {
  const PrefillGqa prefill({"cut", 0, 700, 4, 2, {24, 32, DType::kBF16, false}, 256, 0});
  const auto s = stream("cpu", 2);
  const Floats whole = prefill.attend(0, 700, *s);
  for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, 256, 700}, {0, 1, 130, 131, 699, 700}}) {
    Floats joined;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Floats part = prefill.attend(cuts[i], cuts[i + 1] - cuts[i], *s);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(same_bits(joined, whole));
  }
}

// Decode attention over the same rows, one key head after the other, with queries of d_row.
TEST(AttendPrefillGqa, EqualsAttentionOverRows) {
  const PrefillGqa prefill({"rows", 0, 150, 6, 2, {24, 32, DType::kF32, false}, 64, 0});
  const auto s = stream("cpu", 2);
  const Floats out = prefill.attend(0, 150, *s);
  for (int64_t i : {int64_t{0}, int64_t{77}, int64_t{149}}) {
    for (int64_t g = 0; g < 2; ++g) {
      Floats q(3 * 56, NAN);  // the content part is not read
      for (int64_t head = 0; head < 3; ++head) {
        std::copy_n(prefill.q.data() + (i * 6 + g * 3 + head) * 32, 32, q.data() + head * 56 + 24);
      }
      RowPages pages = prefill.rows[static_cast<size_t>(g)].pages();
      pages.n_rows = i + 1;
      const Floats want = attend(q, 3, {{pages}}, prefill.scale(), *s).out;
      const auto at = out.begin() + (i * 6 + g * 3) * 24;
      EXPECT_TRUE(close(Floats(at, at + 3 * 24), want, 1e-5)) << i << " " << g;
    }
  }
}

TEST(AttendRows, ContentThatIsNotScoredIsNotRead) {
  const RowLayout layout = {.d_content = 1, .d_branch = 1, .dtype = DType::kF32, .scored_content = false};
  const Rows rows({4, 0, 8, 1}, {layout, 2, 2, false});
  for (const char* backend : {"ref", "cpu"}) {
    const Part part = attend({std::nanf(""), std::log(3.0f)}, 1, {{rows.pages()}}, 1.0f, *stream(backend));
    EXPECT_TRUE(close(part.out, {7.0f}, 1e-6));
    EXPECT_TRUE(close(part.lse, {std::log(4.0f)}, 1e-6));
  }
}

TEST(AttendPrefillGqa, BadParamsAreRefused) {
  const RowLayout layout = {.d_content = 3, .d_branch = 2, .dtype = DType::kF32, .scored_content = false};
  const Rows one(numbers(20, 1), {layout, 4, 4, false});
  Floats x(64);
  std::vector<RowPages> rows = {one.pages(), one.pages()};
  const auto params = [&] {
    return AttendPrefillGqaParams{.q = {x.data(), DType::kF32, {3, 4, 2}},
                                  .rows = rows,
                                  .out = {x.data(), DType::kF32, {3, 4, 3}},
                                  .position = 1};
  };
  EXPECT_TRUE(ok(attend_prefill_gqa_check(params())));
  AttendPrefillGqaParams bad = params();
  bad.position = 2;
  EXPECT_TRUE(refused(attend_prefill_gqa_check(bad), "position = 2 with 3 queries and 4 rows"));
  bad = params();
  bad.q.shape[1] = 3;
  EXPECT_TRUE(refused(attend_prefill_gqa_check(bad), "2 key heads"));
  bad = params();
  bad.q.shape[2] = 5;
  EXPECT_TRUE(refused(attend_prefill_gqa_check(bad), "q is"));
  rows[1].n_rows = 3;
  EXPECT_TRUE(refused(attend_prefill_gqa_check(params()), "3 rows"));
  rows[1].layout.d_branch = 0;
  EXPECT_TRUE(refused(attend_prefill_gqa_check(params()), "d_branch > 0"));
  for (RowPages& pages : rows) pages = one.pages(), pages.layout.scored_content = true;
  EXPECT_TRUE(refused(attend_prefill_gqa_check(params()), "scored content"));
  rows.clear();
  EXPECT_TRUE(refused(attend_prefill_gqa_check(params()), "0 key heads"));
}

TEST(AttendOps, BadParamsAreRefused) {
  const Rows rows(numbers(10 * 576, 1), {RowLayout(), 10, 16, false});
  Floats q(8 * 576), out(8 * 512), lse(8);
  const std::vector<RowSet> sets = {{rows.pages()}};
  AttendRowsParams p = {.q = {q.data(), DType::kF32, {1, 8, 576}},
                        .rows = sets,
                        .out = {out.data(), DType::kF32, {1, 8, 512}},
                        .lse = {lse.data(), DType::kF32, {1, 8}},
                        .max = {}};
  EXPECT_TRUE(ok(attend_rows_check(p)));
  AttendRowsParams bad = p;
  bad.scale = -1;
  EXPECT_TRUE(refused(attend_rows_check(bad), "scale"));
  bad = p;
  bad.q = {q.data(), DType::kF32, {1, 8, 575}};
  EXPECT_TRUE(refused(attend_rows_check(bad), "q is [1, 8, 575] F32"));
  bad = p;
  bad.lse.dtype = DType::kF16;
  EXPECT_TRUE(refused(attend_rows_check(bad), "lse"));
  bad = p;
  bad.rows = {};
  EXPECT_TRUE(refused(attend_rows_check(bad), "sets"));
}

}  // namespace
}  // namespace vestige::test
