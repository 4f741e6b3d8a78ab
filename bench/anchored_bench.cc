// Attention over coded tokens (attend_anchored) beside attention over the same tokens dense, [value ; key] rows of
// bf16, one cache a KV head (attend_rows), in the same run: anchored_bench [n_tokens] [threads].
// docs/policies/anchor.md

#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/half.h"
#include "bench/best_of.h"
#include "cache/policies/anchor/coded_layer.h"

namespace vestige {
namespace {

/// SmolLM2-135M: 3 KV heads of 64, 3 query heads each.
constexpr int64_t kHeads = 3, kGroup = 3, kWidth = 64;

struct Data {
  std::vector<std::vector<uint16_t>> keys, values, rows;
  std::vector<float> q, frequencies, observed;
  std::vector<int32_t> positions;
  std::vector<anchor::HeadTokens> heads;

  explicit Data(int64_t n) {
    std::mt19937_64 rng(1);
    std::normal_distribution<float> normal;
    for (int64_t h = 0; h < kHeads; ++h) {
      keys.emplace_back();
      values.emplace_back();
      rows.emplace_back();
      for (int64_t i = 0; i < n * kWidth; ++i) {
        keys.back().push_back(f32_to_bf16(normal(rng)));
        values.back().push_back(f32_to_bf16(normal(rng)));
      }
      for (int64_t t = 0; t < n; ++t) {
        rows.back().insert(rows.back().end(), values.back().begin() + t * kWidth,
                           values.back().begin() + (t + 1) * kWidth);
        rows.back().insert(rows.back().end(), keys.back().begin() + t * kWidth, keys.back().begin() + (t + 1) * kWidth);
      }
    }
    for (int64_t j = 0; j < kWidth / 2; ++j) frequencies.push_back(std::pow(1e5f, -2.0f * float(j) / float(kWidth)));
    for (int64_t i = 0; i < kHeads * kGroup * kWidth; ++i) q.push_back(normal(rng));
    for (int64_t i = 0; i < 8 * kWidth; ++i) observed.push_back(normal(rng));
    for (int64_t w = 0; w < 8; ++w) positions.push_back(static_cast<int32_t>(n - 8 + w));
    for (size_t h = 0; h < keys.size(); ++h) {
      heads.push_back({{keys[h].data(), DType::kBF16, {n, kWidth}},
                       {values[h].data(), DType::kBF16, {n, kWidth}},
                       {observed.data(), DType::kF32, {8, kWidth}}});
    }
  }
};

double dense_s(const Data& data, int64_t n, Stream& stream) {
  const RowLayout layout = {.d_content = kWidth, .d_branch = kWidth, .dtype = DType::kBF16};
  std::vector<float> q(kGroup * 2 * kWidth, 0.01f), out(kGroup * kWidth), lse(kGroup);
  return best_of(30, [&] {
    for (const auto& rows : data.rows) {
      const void* content = rows.data();
      const void* branch = rows.data() + kWidth;
      const RowSet set = {.pages = {.content = &content,
                                    .branch = &branch,
                                    .content_stride = 2 * kWidth,
                                    .branch_stride = 2 * kWidth,
                                    .page_rows = n,
                                    .n_rows = n,
                                    .layout = layout}};
      const Status status = ops::attend_rows({.q = {q.data(), DType::kF32, {1, kGroup, 2 * kWidth}},
                                              .rows = {&set, 1},
                                              .out = {out.data(), DType::kF32, {1, kGroup, kWidth}},
                                              .lse = {lse.data(), DType::kF32, {1, kGroup}},
                                              .max = {}},
                                             stream);
      if (!status.ok()) std::printf("%s\n", status.message().c_str());
    }
  });
}

double coded_s(const Data& data, const anchor::CodedLayer& layer, bool turned, Stream& stream) {
  std::vector<AnchoredHead> heads;
  for (int64_t h = 0; h < kHeads; ++h) heads.push_back(layer.head(h));
  std::vector<float> out(data.q.size()), lse(kHeads * kGroup);
  return best_of(30, [&] {
    const Status status = ops::attend_anchored(
        {.q = {data.q.data(), DType::kF32, {kHeads, kGroup, kWidth}},
         .heads = heads,
         .seed = layer.rotation_seed,
         .frequencies =
             turned ? ConstTensorView(data.frequencies.data(), DType::kF32, {kWidth / 2}) : ConstTensorView(),
         .interleaved = false,
         .out = {out.data(), DType::kF32, {kHeads, kGroup, kWidth}},
         .lse = {lse.data(), DType::kF32, {kHeads, kGroup}}},
        stream);
    if (!status.ok()) std::printf("%s\n", status.message().c_str());
  });
}

int run(int64_t n, int32_t n_threads) {
  auto stream = std::move(Stream::create({.backend = "cpu", .n_threads = n_threads})).value();
  const Data data(n);
  const double dense = dense_s(data, n, *stream);
  std::printf("%lld tokens, dense %.0f us\n", static_cast<long long>(n), 1e6 * dense);
  for (const double ratio : {5.0, 10.0, 20.0}) {
    anchor::CodeSettings settings;
    settings.n_anchors = n / 128;
    settings.layout = anchor::lean_layout(settings.n_anchors);
    settings.ratio = ratio;
    settings.utility = "random";
    const auto layer = anchor::code_layer({.heads = data.heads,
                                           .q_positions = {data.positions.data(), DType::kI32, {8}},
                                           .frequencies = {},
                                           .interleaved = false,
                                           .scale = 0.125f},
                                          settings, *stream);
    if (!layer.ok()) {
      std::printf("%s\n", layer.status().message().c_str());
      continue;
    }
    const double turned = coded_s(data, *layer, true, *stream), plain = coded_s(data, *layer, false, *stream);
    std::printf("%gx, density %.2f: %.0f us turned (%.2f of dense), %.0f us not turned (%.2f)\n", ratio,
                layer->plan.density(), 1e6 * turned, turned / dense, 1e6 * plain, plain / dense);
  }
  return 0;
}

}  // namespace
}  // namespace vestige

int main(int argc, char** argv) {
  return vestige::run(argc > 1 ? std::atoll(argv[1]) : 8192, argc > 2 ? std::atoi(argv[2]) : 2);
}
