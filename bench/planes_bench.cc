// Attention over rows coded as bit planes (attend_planes) beside attention over the same number of rows dense,
// [value ; key] rows of bf16 (attend_rows), in the same run, a KV head: planes_bench [n_rows] [threads].
// docs/policies/klt.md

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "base/half.h"
#include "bench/best_of.h"
#include "vestige/ops.h"

namespace vestige {
namespace {

constexpr int64_t kClasses = 4;
constexpr double kShares[kClasses] = {0.45, 0.30, 0.18, 0.07};

/// Widths of the planes of one side, a class a row.
using Planes = std::vector<int32_t>;

struct Shape {
  const char* name;
  int64_t d, m, r_key, r_value;
  Planes key, value;
};

const Planes kKey53 = {14, 4, 2, 0, 0, 0, 0, 0, 16, 6,  3, 0, 0, 0, 0, 0,
                       18, 8, 4, 1, 0, 0, 0, 0, 24, 12, 6, 2, 1, 0, 0, 0};
const Planes kValue53 = {26, 6,  1, 0, 0, 0, 0, 0, 29, 8,  1, 0, 0, 0, 0, 0,
                         33, 11, 2, 0, 0, 0, 0, 0, 42, 15, 3, 0, 0, 0, 0, 0};
const Planes kKey66 = {16, 6, 3, 1, 0, 0, 0, 0, 17, 7,  4, 1, 0, 0, 0, 0,
                       19, 9, 4, 2, 1, 0, 0, 0, 24, 14, 7, 3, 1, 1, 0, 0};
const Planes kValue66 = {30, 8,  2, 0, 0, 0, 0, 0, 31, 9,  2, 0, 0, 0, 0, 0,
                         33, 10, 3, 0, 0, 0, 0, 0, 45, 16, 5, 2, 0, 0, 0, 0};

// A head that later questions lean on, as the shared price of bytes leaves it in models/nano-gqa at 20x.
const Planes kKey420 = {45, 41, 34, 32, 26, 16, 1, 0, 45, 41, 34, 32, 26, 18, 2, 0,
                        44, 40, 34, 31, 26, 18, 3, 0, 43, 40, 34, 31, 26, 19, 7, 1};
const Planes kValue420 = {64, 64, 64, 35, 2, 0, 0, 0, 64, 64, 64, 32, 2, 0, 0, 0,
                          64, 64, 64, 26, 2, 0, 0, 0, 64, 64, 62, 24, 1, 0, 0, 0};

/// The rarer a class, the more bits it has.
const Shape kShapes[] = {
    {"64 wide, 3 queries", 64, 3, 24, 45, kKey53, kValue53},
    {"64 wide, 3 queries", 64, 3, 24, 45, kKey66, kValue66},
    {"64 wide, 4 queries", 64, 4, 24, 45, kKey53, kValue53},
    {"64 wide, 4 queries", 64, 4, 45, 64, kKey420, kValue420},
    {"128 wide, 4 queries",
     128,
     4,
     60,
     100,
     {40, 12, 5, 2, 1, 0, 0, 0, 44, 13, 6, 2, 1, 0, 0, 0, 48, 16, 8, 3, 1, 1, 0, 0, 60, 22, 12, 6, 2, 1, 0, 0},
     {70, 15, 3, 0, 0, 0, 0, 0, 74, 17, 3, 0, 0, 0, 0, 0, 80, 22, 6, 1, 0, 0, 0, 0, 100, 40, 12, 3, 0, 0, 0, 0}}};

struct Side {
  std::vector<int8_t> basis;
  std::vector<float> scale, mean;
  std::vector<uint8_t> range;
  PlaneSide view;

  Side(const Planes& planes, int64_t r, int64_t d, std::mt19937_64& rng)
      : scale(static_cast<size_t>(r), 0.01f),
        mean(static_cast<size_t>(d), 0.5f),
        range(static_cast<size_t>(kClasses * r), 160) {
    for (int64_t i = 0; i < r * d; ++i) basis.push_back(static_cast<int8_t>(rng()));
    view = {.basis = {basis.data(), DType::kU8, {r, d}},
            .basis_scale = {scale.data(), DType::kF32, {r}},
            .mean = {mean.data(), DType::kF32, {d}},
            .n_planes = {planes.data(), DType::kI32, {kClasses, 8}},
            .range = {range.data(), DType::kU8, {kClasses, r}}};
  }
};

/// Rows of one head; their bits are random.
struct Coded {
  Side key, value;
  std::vector<uint8_t> row_class, codes;
  std::vector<int32_t> run_start;
  PlaneRows rows;

  Coded(const Shape& s, int64_t n, std::mt19937_64& rng)
      : key(s.key, s.r_key, s.d, rng), value(s.value, s.r_value, s.d, rng), row_class(static_cast<size_t>(n + 3) / 4) {
    std::discrete_distribution<int> draw(kShares, kShares + kClasses);
    int32_t count[kClasses] = {};
    for (int64_t t = 0; t < n; ++t) {
      if (t % kPlaneRun == 0) run_start.insert(run_start.end(), count, count + kClasses);
      const int c = draw(rng);
      ++count[c];
      row_class[static_cast<size_t>(t / 4)] |= static_cast<uint8_t>(c << (2 * (t % 4)));
    }
    int64_t bytes = 0;
    for (size_t c = 0; c < kClasses; ++c) {
      int64_t bits = 0;
      for (size_t p = 0; p < 8; ++p) bits += s.key[8 * c + p] + s.value[8 * c + p];
      bytes += count[c] * ((bits + 7) / 8);
    }
    for (int64_t i = 0; i < bytes; ++i) codes.push_back(static_cast<uint8_t>(rng()));
    rows = {.key = key.view,
            .value = value.view,
            .row_class = {row_class.data(), DType::kU8, {static_cast<int64_t>(row_class.size())}},
            .run_start = {run_start.data(), DType::kI32, {static_cast<int64_t>(run_start.size()) / kClasses, kClasses}},
            .codes = {codes.data(), DType::kU8, {bytes}},
            .n_rows = n};
  }
};

/// Seconds a head of attention over the dense rows of all `heads`, one after the other.
double dense_s(const Shape& s, int64_t n, const std::vector<std::vector<uint16_t>>& heads, Stream& stream) {
  const RowLayout layout = {
      .d_content = static_cast<int32_t>(s.d), .d_branch = static_cast<int32_t>(s.d), .dtype = DType::kBF16};
  std::vector<float> q(static_cast<size_t>(s.m * 2 * s.d), 0.01f), out(static_cast<size_t>(s.m * s.d)),
      lse(static_cast<size_t>(s.m));
  const double all = best_of(heads.size() > 1 ? 10 : 100, [&] {
    for (const auto& rows : heads) {
      const void* content = rows.data();
      const void* branch = rows.data() + s.d;
      const RowSet set = {.pages = {.content = &content,
                                    .branch = &branch,
                                    .content_stride = 2 * s.d,
                                    .branch_stride = 2 * s.d,
                                    .page_rows = n,
                                    .n_rows = n,
                                    .layout = layout}};
      const Status status = ops::attend_rows({.q = {q.data(), DType::kF32, {1, s.m, 2 * s.d}},
                                              .rows = {&set, 1},
                                              .out = {out.data(), DType::kF32, {1, s.m, s.d}},
                                              .lse = {lse.data(), DType::kF32, {1, s.m}},
                                              .max = {}},
                                             stream);
      if (!status.ok()) std::printf("%s\n", status.message().c_str());
    }
  });
  return all / static_cast<double>(heads.size());
}

/// The same over coded rows.
double coded_s(const Shape& s, const std::vector<std::unique_ptr<Coded>>& heads, bool turned, Stream& stream) {
  std::vector<float> q(static_cast<size_t>(s.m * s.d), 0.3f), out(q.size()), lse(static_cast<size_t>(s.m)), frequencies;
  for (int64_t j = 0; j < s.d / 2; ++j) frequencies.push_back(std::pow(1e5f, -2.0f * float(j) / float(s.d)));
  AttendPlanesParams p = {.q = {q.data(), DType::kF32, {s.m, s.d}},
                          .rows = {},
                          .interleaved = false,
                          .scale = 0.125f,
                          .out = {out.data(), DType::kF32, {s.m, s.d}},
                          .lse = {lse.data(), DType::kF32, {s.m}}};
  if (turned) p.frequencies = ConstTensorView(frequencies.data(), DType::kF32, {s.d / 2});
  const double all = best_of(heads.size() > 1 ? 10 : 100, [&] {
    for (const auto& coded : heads) {
      p.rows = coded->rows;
      const Status status = ops::attend_planes(p, stream);
      if (!status.ok()) std::printf("%s\n", status.message().c_str());
    }
  });
  return all / static_cast<double>(heads.size());
}

/// One head again and again: its rows are in the caches. Then as many as do not fit, as in a decode step.
int run(int64_t n, int32_t n_threads) {
  auto stream = std::move(Stream::create({.backend = "cpu", .n_threads = n_threads})).value();
  for (const Shape& s : kShapes) {
    std::mt19937_64 rng(1);
    for (const int64_t n_heads : {int64_t{1}, std::max<int64_t>(2, (int64_t{96} << 20) / (4 * n * s.d))}) {
      std::vector<std::vector<uint16_t>> dense_rows;
      std::vector<std::unique_ptr<Coded>> coded_rows;
      for (int64_t h = 0; h < n_heads; ++h) {
        dense_rows.emplace_back(static_cast<size_t>(2 * n * s.d));
        for (uint16_t& x : dense_rows.back()) x = f32_to_bf16(static_cast<float>(rng() % 1024) / 512 - 1);
        coded_rows.push_back(std::make_unique<Coded>(s, n, rng));
      }
      const double bits = 8 * static_cast<double>(coded_rows[0]->codes.size()) / static_cast<double>(n);
      const double dense = dense_s(s, n, dense_rows, *stream), turned = coded_s(s, coded_rows, true, *stream),
                   plain = coded_s(s, coded_rows, false, *stream);
      std::printf(
          "%s, %lld rows of %.0f bits, %3lld heads: dense %.0f us; coded %.0f us turned (%.2f), %.0f us not (%.2f)\n",
          s.name, static_cast<long long>(n), bits, static_cast<long long>(n_heads), 1e6 * dense, 1e6 * turned,
          turned / dense, 1e6 * plain, plain / dense);
    }
  }
  return 0;
}

}  // namespace
}  // namespace vestige

int main(int argc, char** argv) {
  return vestige::run(argc > 1 ? std::atoll(argv[1]) : 8192, argc > 2 ? std::atoi(argv[2]) : 1);
}
