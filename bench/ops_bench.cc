// Dense ops against the machine's own limits: decode products against a plain read of the same bytes, prefill
// products against the BLAS library's sgemm with as many threads, both measured in this run.
//   ops_bench [--threads=N] [google benchmark's flags]
// The counters are of the fastest run; with --threads=1 they count CPU time, which a busy machine disturbs least.
// Weights rotate over 256 MB, past every cache; "warm" uses one weight that stays in the caches.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "base/half.h"
#include "base/thread_pool.h"
#include "bench/threaded_sgemm.h"
#include "tests/backend/stored_blocks.h"
#include "vestige/ops.h"

namespace vestige {
namespace {

constexpr int64_t kColdBytes = int64_t{256} << 20;

int32_t n_threads = 0;  // 0: one per physical core

std::unique_ptr<Stream> make_stream() {
  return std::move(Stream::create({.backend = "cpu", .n_threads = n_threads})).value();
}

std::vector<float> ramp(int64_t n, float scale = 1.0f) {
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = scale * (static_cast<float>(i * 7 % 31) - 15.0f) / 16.0f;
  return x;
}

std::vector<uint16_t> bf16_ramp(int64_t n) {
  std::vector<uint16_t> w(static_cast<size_t>(n));
  for (size_t i = 0; i < w.size(); ++i) w[i] = f32_to_bf16((static_cast<float>(i * 5 % 29) - 14.0f) / 64.0f);
  return w;
}

TensorView view(std::vector<float>& x, std::initializer_list<int64_t> shape) { return {x.data(), DType::kF32, shape}; }

double seconds() {
  timespec t{};
  clock_gettime(n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Best {
  double op = 1e9, other = 1e9;
};

/// The fastest of `n` runs of each, in turns: on a shared machine the others measure the neighbours.
template <class F, class G>
Best best_seconds(int n, const F& op, const G& other) {
  Best best;
  for (int i = 0; i < n; ++i) {
    const double start = seconds();
    op();
    const double middle = seconds();
    other();
    best.op = std::min(best.op, middle - start);
    best.other = std::min(best.other, seconds() - middle);
  }
  return best;
}

template <class F>
double best_seconds(int n, const F& op) {
  return best_seconds(n, op, [] {}).op;
}

using Lane = unsigned long long __attribute__((vector_size(16), aligned(2), may_alias));

/// Plain read: every byte loaded and folded, in pieces of the size that the product takes.
void read_all(const uint16_t* w, int64_t n_elements, ThreadPool& pool) {
  static std::vector<unsigned long long> sink(1024);
  constexpr int64_t kPiece = 16384;
  pool.run((n_elements + kPiece - 1) / kPiece, [&](int64_t i, int32_t) {
    const auto* p = reinterpret_cast<const Lane*>(w + i * kPiece);
    const int64_t lanes = std::min(kPiece, n_elements - i * kPiece) / 8;
    Lane a{}, b{}, c{}, d{};
    for (int64_t j = 0; j + 4 <= lanes; j += 4) a ^= p[j], b ^= p[j + 1], c ^= p[j + 2], d ^= p[j + 3];
    sink[static_cast<size_t>(i) % sink.size()] = (a ^ b ^ c ^ d)[0];
  });
}

void matmul_decode(benchmark::State& state, bool cold) {
  const int64_t n = state.range(0), k = state.range(1), m = state.range(2);
  const auto stream = make_stream();
  const auto w = bf16_ramp(cold ? kColdBytes / 2 : n * k);
  auto x = ramp(m * k), out = ramp(m * n);
  const int64_t slots = static_cast<int64_t>(w.size()) / (n * k);
  int64_t slot = 0;
  const auto product = [&] {
    slot = (slot + 1) % slots;
    (void)ops::matmul(
        {.x = view(x, {m, k}), .w = {w.data() + slot * n * k, DType::kBF16, {n, k}}, .out = view(out, {m, n})},
        *stream);
  };
  for (auto _ : state) product();
  const Best best = best_seconds(cold ? 60 : 300, product, [&] {
    slot = (slot + 1) % slots;
    read_all(w.data() + slot * n * k, n * k, *stream->pool());
  });
  state.counters["GB/s"] = 2.0 * static_cast<double>(n * k) / best.op * 1e-9;
  state.counters["read_GB/s"] = 2.0 * static_cast<double>(n * k) / best.other * 1e-9;
  state.counters["of_read"] = best.other / best.op;
}

/// Products with a weight in blocks of codes; a plain read of as many bytes beside it.
void matmul_blocks(benchmark::State& state, DType dtype) {
  const int64_t n = state.range(0), k = state.range(1), m = state.range(2), n_bytes = stored_bytes(dtype, n * k);
  const auto stream = make_stream();
  const int64_t slots = kColdBytes / n_bytes;
  const auto w = random_blocks(dtype, slots * n * k, 1);
  auto x = ramp(m * k), out = ramp(m * n);
  int64_t slot = 0;
  const auto next = [&] {
    slot = (slot + 1) % slots;
    return w.data() + slot * n_bytes;
  };
  const auto product = [&] {
    (void)ops::matmul({.x = view(x, {m, k}), .w = {next(), dtype, {n, k}}, .out = view(out, {m, n})}, *stream);
  };
  for (auto _ : state) product();
  const Best best = best_seconds(
      100, product, [&] { read_all(reinterpret_cast<const uint16_t*>(next()), n_bytes / 2, *stream->pool()); });
  state.counters["Gweight/s"] = static_cast<double>(n * k) / best.op * 1e-9;
  state.counters["GB/s"] = static_cast<double>(n_bytes) / best.op * 1e-9;
  state.counters["read_GB/s"] = static_cast<double>(n_bytes) / best.other * 1e-9;
}

void matmul_prefill(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const auto stream = make_stream();
  const auto w = bf16_ramp(n * k);
  auto x = ramp(m * k), out = ramp(m * n), wide = ramp(n * k);
  const auto product = [&] {
    (void)ops::matmul({.x = view(x, {m, k}), .w = {w.data(), DType::kBF16, {n, k}}, .out = view(out, {m, n})}, *stream);
  };
  for (auto _ : state) product();
  const Best best = best_seconds(30, product, [&] {
    threaded_sgemm(*stream->pool(), {m, n, k}, x.data(), wide.data(), out.data());
  });
  const double flops = 2.0 * static_cast<double>(m * n * k);
  state.counters["GFLOP/s"] = flops / best.op * 1e-9;
  state.counters["sgemm_GFLOP/s"] = flops / best.other * 1e-9;
  state.counters["of_sgemm"] = best.other / best.op;
}

void kda(benchmark::State& state) {
  const int64_t t = state.range(0), h = state.range(1), d = state.range(2);
  const auto stream = make_stream();
  auto q = ramp(t * h * d), k = ramp(t * h * d), v = ramp(t * h * d), out = ramp(t * h * d), s = ramp(h * d * d);
  auto decay = ramp(t * h * d, 0.05f), beta = ramp(t * h);
  for (float& g : decay) g = -0.01f - std::abs(g);
  for (float& b : beta) b = 0.5f;
  const auto step = [&] {
    (void)ops::kda({.q = view(q, {t, h, d}),
                    .k = view(k, {t, h, d}),
                    .v = view(v, {t, h, d}),
                    .decay = view(decay, {t, h, d}),
                    .beta = view(beta, {t, h}),
                    .state = view(s, {h, d, d}),
                    .out = view(out, {t, h, d}),
                    .scale = 0.125f},
                   *stream);
  };
  for (auto _ : state) step();
  const double best = best_seconds(50, step);
  const auto work = static_cast<double>(t * h);
  state.counters["us/token/head"] = best / work * 1e6;
  state.counters["GFLOP/s"] = work * 7.0 * static_cast<double>(d * d) / best * 1e-9;  // 3 multiply-adds and the decay
}

void expert_mlp(benchmark::State& state) {
  const int64_t t = state.range(0), d = 320, d_ff = 192, n_experts = 32, top_k = 4;
  const auto stream = make_stream();
  const auto w = bf16_ramp(3 * n_experts * d * d_ff);
  auto x = ramp(t * d), out = ramp(t * d), weights = ramp(t * top_k);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < t * top_k; ++i) ids.push_back(static_cast<int32_t>(i * 11 % n_experts));
  std::vector<ExpertWeights> experts;
  for (int64_t e = 0; e < n_experts; ++e) {
    const uint16_t* base = w.data() + 3 * e * d * d_ff;
    experts.push_back({.gate = {base, DType::kBF16, {d_ff, d}},
                       .up = {base + d * d_ff, DType::kBF16, {d_ff, d}},
                       .down = {base + 2 * d * d_ff, DType::kBF16, {d, d_ff}}});
  }
  const auto run = [&] {
    (void)ops::expert_mlp({.x = view(x, {t, d}),
                           .ids = {ids.data(), DType::kI32, {t, top_k}},
                           .weights = view(weights, {t, top_k}),
                           .experts = experts,
                           .out = view(out, {t, d})},
                          *stream);
  };
  for (auto _ : state) run();
  state.counters["GFLOP/s"] = 6.0 * static_cast<double>(t * top_k * d * d_ff) / best_seconds(30, run) * 1e-9;
}

BENCHMARK_CAPTURE(matmul_decode, cold, true)
    ->ArgNames({"n", "k", "m"})
    ->Args({1024, 320, 1})
    ->Args({320, 1024, 1})
    ->Args({1024, 2304, 1})
    ->Args({9216, 2304, 1})
    ->Args({1024, 2304, 4})
    ->Args({1024, 2304, 8});
BENCHMARK_CAPTURE(matmul_decode, warm, false)
    ->ArgNames({"n", "k", "m"})
    ->Args({320, 320, 1})
    ->Args({1024, 320, 1})
    ->Args({1024, 2304, 1});
#define VESTIGE_BENCH_BLOCKS(name)                       \
  BENCHMARK_CAPTURE(matmul_blocks, name, DType::k##name) \
      ->ArgNames({"n", "k", "m"})                        \
      ->Args({1536, 768, 1})                             \
      ->Args({1536, 768, 8})                             \
      ->Args({1536, 768, 256})
VESTIGE_BENCH_BLOCKS(Q8_0);
VESTIGE_BENCH_BLOCKS(Q4_0);
VESTIGE_BENCH_BLOCKS(Q4_1);
VESTIGE_BENCH_BLOCKS(Q4K);
VESTIGE_BENCH_BLOCKS(Q6K);
BENCHMARK(matmul_prefill)
    ->ArgNames({"m", "n", "k"})
    ->Args({16, 320, 320})
    ->Args({64, 320, 320})
    ->Args({256, 320, 320})
    ->Args({2048, 320, 320})
    ->Args({256, 1024, 320})
    ->Args({2048, 1024, 320})
    ->Args({256, 320, 1024})
    ->Args({2048, 320, 1024})
    ->Args({256, 1024, 2304})
    ->Args({2048, 1024, 2304});
BENCHMARK(kda)
    ->ArgNames({"t", "h", "d"})
    ->Args({1, 1, 64})
    ->Args({1, 5, 64})
    ->Args({1, 32, 128})
    ->Args({64, 5, 64})
    ->Args({2048, 5, 64})
    ->Args({512, 32, 128});
BENCHMARK(expert_mlp)->ArgNames({"t"})->Args({1})->Args({64})->Args({1024});

}  // namespace
}  // namespace vestige

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  constexpr const char* kThreads = "--threads=";
  if (argc > 1 && std::strncmp(argv[1], kThreads, std::strlen(kThreads)) == 0) {
    vestige::n_threads = std::atoi(argv[1] + std::strlen(kThreads));
  } else if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
