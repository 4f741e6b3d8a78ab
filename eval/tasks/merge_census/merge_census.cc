// How many pairs of rows could become one: same branch and parallel content, both within 5% (paper, Proposition 1).

#include <algorithm>
#include <cmath>

#include "eval/corpus_document.h"
#include "eval/reading.h"
#include "vestige/ops.h"

namespace vestige::eval {

namespace {

constexpr int64_t kMostRows = 8192;  // the document's last ones: the census counts pairs
constexpr int64_t kChunk = 256;
constexpr double kTolerance = 0.05;

std::vector<double> squared_norms(const float* rows, int64_t n, int64_t d) {
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t u = 0; u < n; ++u) {
    for (int64_t j = 0; j < d; ++j) out[static_cast<size_t>(u)] += std::pow(static_cast<double>(rows[u * d + j]), 2);
  }
  return out;
}

/// Row b merges into row a if ||r_b - r_a|| <= 5% of ||r_a|| and c_b is within 5% of its length from the ray of c_a.
struct Pair {
  double branch_aa, branch_bb, branch_ab, content_aa, content_bb, content_ab;
};
bool merges(const Pair& p) {
  const double branch_distance = std::max(0.0, p.branch_aa + p.branch_bb - 2 * p.branch_ab);
  if (branch_distance > kTolerance * kTolerance * p.branch_aa) return false;
  if (p.content_ab <= 0) return p.content_bb == 0;
  const double from_ray = std::max(0.0, p.content_bb - p.content_ab * p.content_ab / p.content_aa);
  return from_ray <= kTolerance * kTolerance * p.content_bb;
}

struct Census {
  int64_t n_pairs = 0, n_merging = 0;
  std::vector<uint8_t> has_partner;
};

Result<Census> count_pairs(const float* content, const float* branch, int64_t n, const RowLayout& layout,
                           Stream& stream) {
  const int64_t d_c = layout.d_content, d_b = layout.d_branch;
  const std::vector<double> cc = squared_norms(content, n, d_c), bb = squared_norms(branch, n, d_b);
  std::vector<float> dot_c(static_cast<size_t>(kChunk * n)), dot_b(dot_c.size());
  Census census;
  census.has_partner.resize(static_cast<size_t>(n));
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t m = std::min(kChunk, n - at);
    VESTIGE_TRY(ops::matmul({.x = {content + at * d_c, DType::kF32, {m, d_c}},
                             .w = {content, DType::kF32, {n, d_c}},
                             .out = {dot_c.data(), DType::kF32, {m, n}}},
                            stream));
    VESTIGE_TRY(ops::matmul({.x = {branch + at * d_b, DType::kF32, {m, d_b}},
                             .w = {branch, DType::kF32, {n, d_b}},
                             .out = {dot_b.data(), DType::kF32, {m, n}}},
                            stream));
    VESTIGE_TRY(stream.synchronize());
    for (int64_t a = at; a < at + m; ++a) {
      for (int64_t b = a + 1; b < n; ++b) {
        const auto place = static_cast<size_t>((a - at) * n + b), i = static_cast<size_t>(a),
                   j = static_cast<size_t>(b);
        const bool found =
            merges({bb[i], bb[j], static_cast<double>(dot_b[place]), cc[i], cc[j], static_cast<double>(dot_c[place])});
        ++census.n_pairs;
        census.n_merging += found ? 1 : 0;
        if (found) census.has_partner[i] = census.has_partner[j] = 1;
      }
    }
  }
  return census;
}

Result<Numbers> examine_merge_census(Engine& engine, const Trial& trial, const ProgressFn& progress) {
  VESTIGE_ASSIGN(const Reading reading, read_rows(engine, trial.document, 0, progress));
  Numbers out;
  for (size_t i = 0; i < reading.layers.size(); ++i) {
    const LayerCache& cache = *reading.layers[i].cache;
    const RowLayout& layout = cache.layout();
    const WideRows rows = widen_rows(cache);
    const int64_t n = std::min(kMostRows, cache.n_rows()), first = cache.n_rows() - n;
    VESTIGE_ASSIGN(const Census census,
                   count_pairs(rows.content.data() + first * layout.d_content,
                               rows.branch.data() + first * layout.d_branch, n, layout, engine.stream()));
    const auto n_partnered = std::count(census.has_partner.begin(), census.has_partner.end(), 1);
    const std::string label = layer_label(engine, i);
    out[label + "pairs looked at"] = static_cast<double>(census.n_pairs);
    out[label + "pairs that could merge"] = static_cast<double>(census.n_merging);
    out[label + "share of pairs"] =
        static_cast<double>(census.n_merging) / static_cast<double>(std::max<int64_t>(census.n_pairs, 1));
    out[label + "share of rows with a partner"] = static_cast<double>(n_partnered) / static_cast<double>(n);
  }
  return out;
}

}  // namespace

TaskInfo merge_census_task() {
  return {.name = "merge_census",
          .sentence = "pairs of rows that agree within 5% in branch and direction of content",
          .source = "VestigeKV, Proposition 1",
          .measure = Measure::kNumbers,
          .needs_corpus = true,
          .make = make_corpus_document,
          .examine = examine_merge_census};
}

}  // namespace vestige::eval
