// Attention over latent rows: every row (attend_rows), a policy's step (kept, tail and recalled rows, scan, merge),
// and dense prefill. Sizes of the models we serve: content 512, branch 64, 8 or 32 heads, bf16 rows.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "backend/cpu/sgemm.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "vestige/ops.h"

namespace vestige {

static int32_t g_threads = 0;  // --threads=N; 0 = one per physical core

namespace {

constexpr int64_t kContent = 512, kBranch = 64, kRow = kContent + kBranch, kRank = 64;
constexpr int64_t kPageRows = 4096;

std::unique_ptr<Stream> stream() {
  return std::move(Stream::create({.backend = "cpu", .n_threads = g_threads})).value();
}

/// Wall time, but the thread's own time with one thread: that stays true on a machine that does other work too.
double now_s() {
  timespec t{};
  clock_gettime(g_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void require(const Status& status, benchmark::State& state) {
  if (!status.ok()) state.SkipWithError(status.message().c_str());
}

std::vector<float> floats(int64_t n, uint32_t seed, float sd = 1.0f) {
  std::mt19937 rng(seed);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = sd * (static_cast<float>(rng()) * 0x1p-31f - 1.0f);
  return x;
}

std::vector<uint16_t> halves(int64_t n, uint32_t seed, bool bf16) {
  std::vector<uint16_t> x;
  for (float v : floats(n, seed)) x.push_back(bf16 ? f32_to_bf16(v) : f32_to_f16(v));
  return x;
}

/// All rows of a sequence in pages of blocks, its index, and the arena of kept rows.
struct Sequence {
  int64_t n_rows, n_kept;
  std::vector<uint16_t> content, branch, sketch, arena;
  std::vector<float> residual;
  std::vector<uint8_t> kept;
  std::vector<const void*> tables[4];
  const void* arena_content;
  const void* arena_branch;
  RowLayout layout;

  explicit Sequence(int64_t n)
      : n_rows(n),
        n_kept(n / 32),
        content(halves(n * kContent, 1, true)),
        branch(halves(n * kBranch, 2, true)),
        sketch(halves(n * kRank, 3, false)),
        arena(halves(n / 32 * kRow, 4, true)),
        residual(floats(n, 5)),
        kept(static_cast<size_t>(n)) {
    for (size_t u = 0; u < kept.size(); u += 32) kept[u] = 1;
    for (float& r : residual) r = std::abs(r);
    for (int64_t u = 0; u < n; u += kPageRows) {
      tables[0].push_back(content.data() + u * kContent);
      tables[1].push_back(branch.data() + u * kBranch);
      tables[2].push_back(sketch.data() + u * kRank);
      tables[3].push_back(residual.data() + u);
    }
    arena_content = arena.data();
    arena_branch = arena.data() + kContent;
  }

  RowPages pages() const { return {tables[0].data(), tables[1].data(), kContent, kBranch, kPageRows, n_rows, layout}; }
  RowPages kept_pages() const { return {&arena_content, &arena_branch, kRow, kRow, n_kept, n_kept, layout}; }
  RecallPages index() const {
    return {tables[1].data(), tables[2].data(), tables[3].data(), kPageRows, n_rows, kBranch, kRank, DType::kBF16};
  }
};

/// Decode queries and outputs of one step.
struct Step {
  int64_t h;
  std::vector<float> q, parts, lse, out, basis, threshold;
  std::vector<int32_t> ids, recalled, tail;
  int32_t n_recalled = 128, n_tail = 64, n_ids = 0, n_fired = 0;

  Step(int64_t heads, int64_t n_rows)
      : h(heads),
        q(floats(heads * kRow, 11)),
        parts(static_cast<size_t>(3 * heads * kContent)),
        lse(static_cast<size_t>(3 * heads)),
        out(static_cast<size_t>(heads * kContent)),
        basis(floats(kRank * kContent, 12, 0.05f)),
        threshold(static_cast<size_t>(heads), 1e9f),
        ids(4096) {
    for (int32_t i = 0; i < n_recalled; ++i) recalled.push_back(static_cast<int32_t>(i * (n_rows / 128) + 5));
    for (int32_t i = 0; i < n_tail; ++i) tail.push_back(static_cast<int32_t>(n_rows - 64 + i));
  }

  Status attend(const RowSet& set, int64_t slot, Stream& s) {
    return ops::attend_rows({.q = {q.data(), DType::kF32, {1, h, kRow}},
                             .rows = {&set, 1},
                             .out = {parts.data() + slot * h * kContent, DType::kF32, {1, h, kContent}},
                             .lse = {lse.data() + slot * h, DType::kF32, {1, h}},
                             .max = {},
                             .scale = 0.07f},
                            s);
  }
  Status scan(const Sequence& sequence, Stream& s) {
    const ScanSet set = {sequence.index(), {basis.data(), DType::kF32, {kRank, kContent}}, sequence.kept.data(), 3.0f};
    return ops::scan_archive({.q = {q.data(), DType::kF32, {1, h, kRow}},
                              .sets = {&set, 1},
                              .threshold = {threshold.data(), DType::kF32, {1, h}},
                              .ids = {ids.data(), DType::kI32, {1, 4096}},
                              .n_ids = {&n_ids, DType::kI32, {1}},
                              .n_fired = {&n_fired, DType::kI32, {1}},
                              .scale = 0.07f},
                             s);
  }
  /// What a policy's step does; the scan's own ids are not attended, so that every run recalls 128 rows.
  Status policy(const Sequence& sequence, Stream& s) {
    VESTIGE_TRY(attend({sequence.kept_pages()}, 0, s));
    VESTIGE_TRY(attend({sequence.pages(), tail.data(), &n_tail}, 1, s));
    VESTIGE_TRY(scan(sequence, s));
    VESTIGE_TRY(attend({sequence.pages(), recalled.data(), &n_recalled}, 2, s));
    return ops::merge_parts({.part = {parts.data(), DType::kF32, {3, 1, h, kContent}},
                             .lse = {lse.data(), DType::kF32, {3, 1, h}},
                             .out = {out.data(), DType::kF32, {1, h, kContent}},
                             .lse_out = {}},
                            s);
  }
};

void count_rows(benchmark::State& state, int64_t n, double flops_a_row, double bytes_a_row) {
  const double rows = static_cast<double>(n) * static_cast<double>(state.iterations());
  state.counters["ns/row"] = benchmark::Counter(rows / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["GFLOP/s"] = benchmark::Counter(rows * flops_a_row / 1e9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(rows * bytes_a_row / 1e9, benchmark::Counter::kIsRate);
}

void attend_all_rows(benchmark::State& state) {
  const int64_t h = state.range(0), n = state.range(1);
  const Sequence sequence(n);
  Step step(h, n);
  const auto s = stream();
  for (auto _ : state) {
    const double begin = now_s();
    require(step.attend({sequence.pages()}, 0, *s), state);
    state.SetIterationTime(now_s() - begin);
  }
  count_rows(state, n, 2.0 * static_cast<double>(h * (kRow + kContent)), 2.0 * kRow);
}
BENCHMARK(attend_all_rows)->ArgsProduct({{8, 32}, {128, 1024, 8192, 32768}})->UseManualTime();

void scan_all_rows(benchmark::State& state) {
  const int64_t h = state.range(0), n = state.range(1);
  const Sequence sequence(n);
  Step step(h, n);
  const auto s = stream();
  for (auto _ : state) {
    const double begin = now_s();
    require(step.scan(sequence, *s), state);
    state.SetIterationTime(now_s() - begin);
  }
  count_rows(state, n, 2.0 * static_cast<double>(h * (kBranch + kRank)), 2.0 * (kBranch + kRank) + 4);
}
BENCHMARK(scan_all_rows)->ArgsProduct({{8, 32}, {32768}})->UseManualTime();

/// Full attention and the policy's step in turns, so that both see the same machine.
void policy_step_against_full(benchmark::State& state) {
  const int64_t h = state.range(0), n = state.range(1);
  const Sequence sequence(n);
  Step step(h, n);
  const auto s = stream();
  double full_s = 0, policy_s = 0;
  for (auto _ : state) {
    const double t0 = now_s();
    require(step.attend({sequence.pages()}, 0, *s), state);
    const double t1 = now_s();
    require(step.policy(sequence, *s), state);
    full_s += t1 - t0;
    policy_s += now_s() - t1;
    state.SetIterationTime(now_s() - t0);
  }
  const double n_steps = static_cast<double>(state.iterations());
  state.counters["full_us"] = full_s / n_steps * 1e6;
  state.counters["policy_us"] = policy_s / n_steps * 1e6;
  state.counters["full/policy"] = full_s / policy_s;
}
BENCHMARK(policy_step_against_full)->ArgsProduct({{8, 32}, {8192, 32768, 131072}})->UseManualTime();

/// Float32 product rate of all threads, each on its own 512 x 512 x 512 product.
double sgemm_gflops(Stream& s) {
  constexpr int64_t kSize = 512, kTimes = 20;
  const int64_t n_threads = s.n_threads();
  const std::vector<float> a = floats(kSize * kSize, 21), b = floats(kSize * kSize, 22);
  std::vector<float> out(static_cast<size_t>(n_threads * kSize * kSize));
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const double t0 = now_s();
    s.pool()->run(n_threads * kTimes, [&](int64_t, int32_t thread) {
      cpu::sgemm({.m = kSize,
                  .n = kSize,
                  .k = kSize,
                  .a = {a.data(), kSize},
                  .b = {b.data(), kSize},
                  .out = out.data() + thread * kSize * kSize,
                  .out_stride = kSize});
    });
    const double seconds = now_s() - t0;
    const double work = 2.0 * kSize * kSize * kSize * kTimes * static_cast<double>(n_threads);
    best = std::max(best, work / seconds / 1e9);
  }
  return best;
}

/// One prompt of n tokens in calls of 2048; GFLOP/s counts scores, values and the expansion of keys and values once.
void attend_prompt(benchmark::State& state) {
  constexpr int64_t kCall = 2048, kNope = 128, kValue = 128;
  const int64_t h = state.range(0), n = state.range(1), d_qk = kNope + kBranch;
  const Sequence sequence(n);
  const std::vector<uint16_t> w_uk = halves(h * kNope * kContent, 31, true),
                              w_uv = halves(h * kValue * kContent, 32, true);
  const std::vector<float> q = floats(kCall * h * d_qk, 33);
  std::vector<float> out(static_cast<size_t>(kCall * h * kValue));
  const auto s = stream();
  for (auto _ : state) {
    const double begin = now_s();
    for (int64_t position = 0; position < n; position += kCall) {
      require(ops::attend_prefill({.q = {q.data(), DType::kF32, {kCall, h, d_qk}},
                                   .rows = sequence.pages(),
                                   .w_uk = {w_uk.data(), DType::kBF16, {h, kNope, kContent}},
                                   .w_uv = {w_uv.data(), DType::kBF16, {h, kValue, kContent}},
                                   .out = {out.data(), DType::kF32, {kCall, h, kValue}},
                                   .position = position,
                                   .scale = 0.07f},
                                  *s),
              state);
    }
    state.SetIterationTime(now_s() - begin);
  }
  const double rows = static_cast<double>(n), heads = static_cast<double>(h);
  const double attend = 2.0 * heads * rows * (rows + 1) / 2 * static_cast<double>(d_qk + kValue);
  double expand = 0;
  for (int64_t end = kCall; end <= n; end += kCall) {
    expand += 2.0 * heads * static_cast<double>(end) * kContent * (kNope + kValue);
  }
  const double times = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter((attend + expand) * times / 1e9, benchmark::Counter::kIsRate);
  state.counters["attend_GFLOP/s"] = benchmark::Counter(attend * times / 1e9, benchmark::Counter::kIsRate);
  state.counters["sgemm_GFLOP/s"] = sgemm_gflops(*s);
}
BENCHMARK(attend_prompt)
    ->ArgsProduct({{8}, {8192, 32768}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace vestige

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::sscanf(argv[i], "--threads=%d", &vestige::g_threads) == 1) continue;
    std::fprintf(stderr, "unknown argument: %s\n", argv[i]);
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
