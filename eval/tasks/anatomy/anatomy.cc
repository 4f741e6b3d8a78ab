// What the branch does in a row: its size, its share of the score, and whether it alone finds the best row. Paper,
// Table 1.

#include <algorithm>
#include <cmath>
#include <set>

#include "eval/corpus_document.h"
#include "eval/reading.h"
#include "vestige/ops.h"

namespace vestige::eval {

namespace {

constexpr int64_t kQueries = 512;  // of the document's last tokens, all heads of each
constexpr int64_t kChunk = 16;     // tokens at a time

double largest_norm(const std::vector<float>& rows, int64_t d) {
  double most = 0;
  for (auto at = rows.begin(); at != rows.end(); at += d) {
    double sum = 0;
    for (int64_t j = 0; j < d; ++j) sum += static_cast<double>(at[j]) * static_cast<double>(at[j]);
    most = std::max(most, std::sqrt(sum));
  }
  return most;
}

double variance(const float* x, int64_t n) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
  return squares / static_cast<double>(n);
}

int64_t best(const float* x, int64_t n) { return std::max_element(x, x + n) - x; }

struct Tally {
  double branch_variance = 0, content_variance = 0;
  int64_t n = 0, n_branch_right = 0, n_content_right = 0;
  std::set<int64_t> top_rows;
};

/// One query of one head over the n rows it may see.
void add_query(float* content, const float* branch, int64_t n, Tally* tally) {
  tally->branch_variance += variance(branch, n);
  tally->content_variance += variance(content, n);
  const int64_t by_content = best(content, n), by_branch = best(branch, n);
  for (int64_t u = 0; u < n; ++u) content[u] += branch[u];
  const int64_t top = best(content, n);
  ++tally->n;
  tally->n_content_right += by_content == top ? 1 : 0;
  tally->n_branch_right += by_branch == top ? 1 : 0;
  tally->top_rows.insert(top);
}

Result<Tally> tally_layer(const Reading::Layer& layer, const WideRows& rows, int64_t n_queries, Stream& stream) {
  const int64_t h = layer.cache->h_q(), d_row = layer.cache->layout().d_row(), d_c = layer.cache->layout().d_content;
  const int64_t d_b = layer.cache->layout().d_branch, n_rows = layer.cache->n_rows();
  std::vector<float> content(static_cast<size_t>(kChunk * h * n_rows)), branch(content.size());
  Tally tally;
  for (int64_t at = 0; at < n_queries; at += kChunk) {
    const int64_t n = std::min(kChunk, n_queries - at);
    ConstTensorView q(layer.queries.data() + at * h * d_row, DType::kF32, {n * h, d_row});
    ConstTensorView q_c = q, q_b = q;
    q_c.shape[1] = d_c;
    q_b.shape[1] = d_b;
    q_b.data = q.as<float>() + d_c;
    const TensorView s_c(content.data(), DType::kF32, {n * h, n_rows}),
        s_b(branch.data(), DType::kF32, {n * h, n_rows});
    VESTIGE_TRY(ops::matmul({.x = q_c, .w = {rows.content.data(), DType::kF32, {n_rows, d_c}}, .out = s_c}, stream));
    VESTIGE_TRY(ops::matmul({.x = q_b, .w = {rows.branch.data(), DType::kF32, {n_rows, d_b}}, .out = s_b}, stream));
    VESTIGE_TRY(stream.synchronize());
    for (int64_t i = 0; i < n * h; ++i) {
      const int64_t seen = n_rows - n_queries + at + i / h + 1;
      add_query(content.data() + i * n_rows, branch.data() + i * n_rows, seen, &tally);
    }
  }
  return tally;
}

Result<Numbers> examine_anatomy(Engine& engine, const Trial& trial, const ProgressFn& progress) {
  const auto n_queries = std::min<int64_t>(kQueries, static_cast<int64_t>(trial.document.size()) / 2);
  VESTIGE_ASSIGN(const Reading reading, read_rows(engine, trial.document, n_queries, progress));
  Numbers out;
  for (size_t i = 0; i < reading.layers.size(); ++i) {
    const Reading::Layer& layer = reading.layers[i];
    const RowLayout& layout = layer.cache->layout();
    if (layout.d_branch < 1) return unsupported("task anatomy compares branch and content; this model has no branch");
    const WideRows rows = widen_rows(*layer.cache);
    VESTIGE_ASSIGN(const Tally t, tally_layer(layer, rows, n_queries, engine.stream()));
    const auto n = static_cast<double>(std::max<int64_t>(t.n, 1));
    const std::string label = layer_label(engine, i);
    out[label + "largest row norm, branch over content"] =
        largest_norm(rows.branch, layout.d_branch) / largest_norm(rows.content, layout.d_content);
    out[label + "share of the branch in score variance"] = t.branch_variance / (t.branch_variance + t.content_variance);
    out[label + "top-1 kept by branch alone"] = static_cast<double>(t.n_branch_right) / n;
    out[label + "top-1 kept by content alone"] = static_cast<double>(t.n_content_right) / n;
    out[label + "rows that are top-1 of some query"] =
        static_cast<double>(t.top_rows.size()) / static_cast<double>(layer.cache->n_rows());
  }
  return out;
}

}  // namespace

TaskInfo anatomy_task() {
  return {.name = "anatomy",
          .sentence = "what branch and content each contribute to a row's score",
          .source = "VestigeKV, Table 1",
          .measure = Measure::kNumbers,
          .needs_corpus = true,
          .make = make_corpus_document,
          .examine = examine_anatomy};
}

}  // namespace vestige::eval
