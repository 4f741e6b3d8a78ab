#pragma once

// A LayerCache that checks every decode step of the one inside it against float64 attention over all rows: the promise
// of mode sound, the certified bound on omitted mass, and the bound on the output error. Beside the cache it runs a
// twin of its recall index, which says which rows were fetched and what was certified for each head.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/load_number.h"
#include "vestige/cache.h"

namespace vestige::testing {

/// What was checked so far; the n_broken_ counts must stay 0.
struct Checks {
  int64_t n_steps = 0, n_heads = 0;
  int64_t n_cases = 0;     ///< (archived row, query, head)
  int64_t n_left_out = 0;  ///< of those, neither fetched nor the whole archive attended
  int64_t n_coded = 0;     ///< rows attended by their code
  int64_t n_differ = 0;    ///< steps in which the twin fetched other rows than the cache: its record is not checked
  int64_t n_broken_promise = 0, n_broken_omitted = 0, n_broken_record = 0, n_broken_error = 0;
  int64_t n_bounds = 0;                        ///< finite bounds on a head's omitted mass
  double promise = -INFINITY;                  ///< largest score minus threshold of a row left out
  double omitted_ratio = 0;                    ///< largest true omitted mass over its bound
  double error_ratio = 0;                      ///< largest true output error over its bound
  double omitted_true = 0, omitted_bound = 0;  ///< largest shares of a step
  double error_true = 0, error_bound = 0;
  std::string first_broken;

  int64_t n_broken() const { return n_broken_promise + n_broken_omitted + n_broken_record + n_broken_error; }
  void add(const Checks& o) {
    for (int64_t Checks::*n :
         {&Checks::n_steps, &Checks::n_heads, &Checks::n_cases, &Checks::n_left_out, &Checks::n_coded,
          &Checks::n_differ, &Checks::n_broken_promise, &Checks::n_broken_omitted, &Checks::n_broken_record,
          &Checks::n_broken_error, &Checks::n_bounds}) {
      this->*n += o.*n;
    }
    for (double Checks::*x : {&Checks::promise, &Checks::omitted_ratio, &Checks::error_ratio, &Checks::omitted_true,
                              &Checks::omitted_bound, &Checks::error_true, &Checks::error_bound}) {
      this->*x = std::max(this->*x, o.*x);
    }
    if (first_broken.empty()) first_broken = o.first_broken;
  }
};

class CheckedCache final : public LayerCache {
 public:
  explicit CheckedCache(std::unique_ptr<LayerCache> inner) : inner_(std::move(inner)) {
    const auto& settings = inner_->policy().config().settings;
    const auto setting = [&](const char* name) { return settings.contains(name) ? settings.at(name) : 0.0; };
    sound_ = setting("mode") == 1;
    by_max_ = setting("rule") == 1;
    margin_ = static_cast<float>(setting("margin"));
    raises_ = !by_max_ && settings.contains("raise_after") && setting("raise_after") >= 0 && setting("codec") == 0;
    twin_ = inner_->policy().create_index(layout());
  }

  Checks checks;

  Status reserve(int64_t n, TensorView* content, TensorView* branch) override {
    return inner_->reserve(n, content, branch);
  }
  Status commit(int64_t n, Stream& stream) override {
    VESTIGE_TRY(inner_->commit(n, stream));
    return follow(stream);
  }
  int64_t rows_until_close() const override { return inner_->rows_until_close(); }
  Status append(const ConstTensorView& rows, Stream& stream) override {
    VESTIGE_TRY(inner_->append(rows, stream));
    return follow(stream);
  }
  Status append(const ConstTensorView& content, const ConstTensorView& branch, Stream& stream) override {
    VESTIGE_TRY(inner_->append(content, branch, stream));
    return follow(stream);
  }
  Status share_rows(const LayerCache& from, Stream& stream) override { return inner_->share_rows(from, stream); }
  Status observe(const ConstTensorView& queries, int64_t first, Stream& stream) override {
    return inner_->observe(queries, first, stream);
  }
  Status rescore(Stream& stream, KeepBudget* budget) override { return inner_->rescore(stream, budget); }
  Status prepare_rescore(KeepBudget& budget, int32_t layer, Stream& stream) override {
    return inner_->prepare_rescore(budget, layer, stream);
  }
  Status prepare_fit(const ConstTensorView& queries, Stream& stream, const ConstTensorView& value_gram,
                     LayerFit* layer) override {
    return inner_->prepare_fit(queries, stream, value_gram, layer);
  }
  Status fit_recall(const ConstTensorView& queries, Stream& stream, const ConstTensorView& value_gram,
                    LayerFit* layer) override {
    VESTIGE_TRY(inner_->fit_recall(queries, stream, value_gram, layer));
    const std::vector<uint8_t> kept = kept_mask();
    return twin_->fit({.queries = queries,
                       .first_position = n_rows() - queries.dim(0),
                       .rows = pages(),
                       .n_closed = n_closed(),
                       .kept = kept.data(),
                       .scale = scale(),
                       .value_gram = value_gram},
                      stream);
  }
  Status attend(const ConstTensorView& q, const TensorView& out, const TensorView& lse, StepRecord* record,
                Stream& stream) override {
    StepRecord step;
    VESTIGE_TRY(inner_->attend(q, out, lse, &step, stream));
    VESTIGE_TRY(stream.synchronize());
    if (record != nullptr) record->add(step);
    return step.n_archived == 0 ? Status() : check(q, out, step, stream);
  }
  Status rebuild(const RebuiltRows& out, Stream& stream) const override { return inner_->rebuild(out, stream); }
  RowPages pages() const override { return inner_->pages(); }
  bool rows_dropped() const override { return inner_->rows_dropped(); }
  const RowLayout& layout() const override { return inner_->layout(); }
  int32_t h_q() const override { return inner_->h_q(); }
  float scale() const override { return inner_->scale(); }
  const CachePolicy& policy() const override { return inner_->policy(); }
  int64_t n_rows() const override { return inner_->n_rows(); }
  int64_t n_closed() const override { return inner_->n_closed(); }
  std::vector<int32_t> kept_ids() const override { return inner_->kept_ids(); }
  int64_t n_kept() const override { return inner_->n_kept(); }
  std::span<const int32_t> recalled_ids() const override { return inner_->recalled_ids(); }
  Bytes bytes() const override { return inner_->bytes(); }
  Status save(const std::string& prefix, TensorSink& sink) const override { return inner_->save(prefix, sink); }
  Status load(const std::string& prefix, const TensorSource& source) override { return inner_->load(prefix, source); }

 private:
  /// One head in float64.
  struct Head {
    std::vector<double> score;                                                             // of all rows
    double kept_max = -INFINITY, kept = -INFINITY, attended = -INFINITY, all = -INFINITY;  // log-sum-exps
  };

  Status follow(Stream& stream) {
    const RowPages closed = closed_pages();
    return closed.n_rows == 0 ? Status() : twin_->extend(closed, closed.n_rows, stream);
  }
  RowPages closed_pages() const {
    RowPages closed = pages();
    closed.n_rows = n_closed();
    return closed;
  }
  std::vector<uint8_t> kept_mask() const {
    std::vector<uint8_t> mask(static_cast<size_t>(n_closed()));
    for (const int32_t u : kept_ids()) mask[static_cast<size_t>(u)] = 1;
    return mask;
  }
  /// New rows as float64, each once.
  void widen() {
    const RowPages p = pages();
    for (int64_t u = static_cast<int64_t>(rows_.size()) / layout().d_row(); u < n_rows(); ++u) {
      const int64_t page = u / p.page_rows, at = u % p.page_rows;
      for (int32_t k = 0; k < layout().d_content; ++k) {
        rows_.push_back(double(load_number(p.content[page], layout().dtype, at * p.content_stride + k)));
      }
      for (int32_t k = 0; k < layout().d_branch; ++k) {
        rows_.push_back(double(load_number(p.branch[page], layout().dtype, at * p.branch_stride + k)));
      }
    }
  }
  static double log_add(const std::vector<double>& score, const std::vector<uint8_t>& in) {
    double most = -INFINITY, sum = 0;
    for (size_t u = 0; u < score.size(); ++u) most = in[u] != 0 ? std::max(most, score[u]) : most;
    if (most == -INFINITY) return most;
    for (size_t u = 0; u < score.size(); ++u) sum += in[u] != 0 ? std::exp(score[u] - most) : 0.0;
    return most + std::log(sum);
  }

  Head score_head(const float* q, const std::vector<uint8_t>& kept) const {
    Head head;
    const int64_t d = layout().d_row(), n = n_rows();
    head.score.resize(static_cast<size_t>(n));
    for (int64_t u = 0; u < n; ++u) {
      const double* x = rows_.data() + u * d;
      double sums[4] = {};
      int64_t k = 0;
      for (; k + 4 <= d; k += 4) {
        for (int i = 0; i < 4; ++i) sums[i] += double(q[k + i]) * x[k + i];
      }
      for (; k < d; ++k) sums[0] += double(q[k]) * x[k];
      head.score[static_cast<size_t>(u)] = double(scale()) * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
    std::vector<uint8_t> in(static_cast<size_t>(n), 1);
    head.all = log_add(head.score, in);
    std::copy(kept.begin(), kept.end(), in.begin());
    head.attended = log_add(head.score, in);
    std::fill(in.begin() + n_closed(), in.end(), uint8_t{0});
    head.kept = log_add(head.score, in);
    for (size_t u = 0; u < in.size(); ++u) {
      if (in[u] != 0) head.kept_max = std::max(head.kept_max, head.score[u]);
    }
    return head;
  }

  Status check(const ConstTensorView& q, const TensorView& out, const StepRecord& step, Stream& stream) {
    const int32_t h = h_q();
    widen();
    const std::vector<uint8_t> kept = kept_mask();
    std::vector<Head> heads;
    std::vector<float> kept_max, kept_lse, attended, omitted(static_cast<size_t>(h), NAN);
    for (int32_t i = 0; i < h; ++i) {
      heads.push_back(score_head(q.as<float>() + i * layout().d_row(), kept));
      kept_max.push_back(static_cast<float>(heads.back().kept_max));
      kept_lse.push_back(static_cast<float>(heads.back().kept));
      attended.push_back(static_cast<float>(heads.back().attended));
    }
    std::vector<int32_t> ids(static_cast<size_t>(twin_->max_recall()));
    int32_t n_ids = 0, n_fired = 0;
    int64_t n_stage[2] = {0, 0};
    const auto of_heads = [h](std::vector<float>& x) { return TensorView(x.data(), DType::kF32, {1, h}); };
    VESTIGE_TRY(twin_->recall({.q = q,
                               .kept_max = of_heads(kept_max),
                               .kept_lse = of_heads(kept_lse),
                               .attended_lse = of_heads(attended),
                               .rows = closed_pages(),
                               .n_closed = n_closed(),
                               .kept = kept.data(),
                               .scale = scale(),
                               .ids = TensorView(ids.data(), DType::kI32, {1, twin_->max_recall()}),
                               .n_ids = TensorView(&n_ids, DType::kI32, {1}),
                               .n_fired = TensorView(&n_fired, DType::kI32, {1}),
                               .omitted = of_heads(omitted),
                               .n_stage = TensorView(n_stage, DType::kI64, {1, 2})},
                              stream));
    VESTIGE_TRY(stream.synchronize());
    std::vector<uint8_t> left(static_cast<size_t>(n_closed()), 1);
    for (size_t u = 0; u < left.size(); ++u) left[u] = kept[u] == 0 ? 1 : 0;
    const auto n_archived = std::count(left.begin(), left.end(), uint8_t{1});
    if (n_fired > twin_->max_recall()) std::fill(left.begin(), left.end(), uint8_t{0});
    for (int32_t i = 0; i < n_ids; ++i) left[static_cast<size_t>(ids[static_cast<size_t>(i)])] = 0;
    const auto n_left = std::count(left.begin(), left.end(), uint8_t{1});
    ++checks.n_steps;
    checks.n_heads += h;
    checks.n_cases += n_archived * h;
    checks.n_left_out += n_left * h;
    checks.n_coded += step.n_coded;
    for (int32_t i = 0; i < h; ++i) {
      const auto at = static_cast<size_t>(i);
      const float mark = by_max_ ? kept_max[at] : attended[at];
      const double threshold = raised(heads[at], double(mark - margin_), std::span(ids.data(), size_t(n_ids)));
      check_left_out(heads[at], left, threshold, attended[at], n_left > 0 ? omitted[at] : 0.0f);
    }
    const bool same = step.n_recalled == n_archived - n_left && step.n_overflowed == (n_fired > twin_->max_recall());
    if (!same) ++checks.n_differ;
    if (step.n_coded > 0) {
      check_error(heads, out, step);
    } else if (same) {
      check_record(heads, left, step);
    }
    return {};
  }

  /// The threshold with what was recalled: rows count by their true scores, and all of them, so it is never below the
  /// index's own.
  double raised(const Head& head, double threshold, std::span<const int32_t> recalled) const {
    if (!raises_) return threshold;
    double most = threshold, sum = 0;
    for (const int32_t u : recalled) most = std::max(most, head.score[static_cast<size_t>(u)] - double(margin_));
    if (most == -INFINITY) return most;
    for (const int32_t u : recalled) sum += std::exp(head.score[static_cast<size_t>(u)] - double(margin_) - most);
    return most + std::log(sum + std::exp(threshold - most));
  }

  /// What the index alone says of one head: the promise, and the bound on what it leaves out.
  void check_left_out(const Head& head, const std::vector<uint8_t>& left, double threshold, float reference,
                      float bound) {
    double mass = 0;
    for (size_t u = 0; u < left.size(); ++u) {
      if (left[u] == 0) continue;
      mass += std::exp(head.score[u] - double(reference));
      const double over = head.score[u] - threshold;
      if (!sound_) continue;
      checks.promise = std::max(checks.promise, over);
      if (over > 0) broken(&checks.n_broken_promise, "row left out", head.score[u], threshold);
    }
    if (std::isnan(bound)) return;  // no bound is known
    if (std::isfinite(bound)) ++checks.n_bounds;
    if (mass > double(bound)) broken(&checks.n_broken_omitted, "omitted mass", mass, double(bound));
    if (mass > 0) checks.omitted_ratio = std::max(checks.omitted_ratio, mass / double(bound));
  }

  /// What the cache's record says of the step, where no row is attended by its code.
  void check_record(const std::vector<Head>& heads, const std::vector<uint8_t>& left, const StepRecord& step) {
    double most = 0, sum = 0;
    for (const Head& head : heads) {
      double share = 0;
      for (size_t u = 0; u < left.size(); ++u) share += left[u] != 0 ? std::exp(head.score[u] - head.all) : 0.0;
      most = std::max(most, share);
      sum += share / double(h_q());
    }
    checks.omitted_true = std::max(checks.omitted_true, most);
    checks.omitted_bound = std::max(checks.omitted_bound, step.omitted_max);
    if (!(most <= step.omitted_max)) broken(&checks.n_broken_record, "omitted_max", most, step.omitted_max);
    if (!(sum <= step.omitted_sum)) broken(&checks.n_broken_record, "omitted_sum", sum, step.omitted_sum);
  }

  /// Mode through: the output against attention over every row.
  void check_error(const std::vector<Head>& heads, const TensorView& out, const StepRecord& step) {
    double unit = 0, most = 0, sum = 0;
    const int64_t d = layout().d_row();
    for (int64_t u = 0; u < n_closed(); ++u) {
      double square = 0;
      for (int32_t k = 0; k < layout().d_content; ++k) square += rows_[u * d + k] * rows_[u * d + k];
      unit = std::max(unit, std::sqrt(square));
    }
    for (size_t i = 0; i < heads.size(); ++i) {
      std::vector<double> exact(static_cast<size_t>(layout().d_content));
      for (int64_t u = 0; u < n_rows(); ++u) {
        const double w = std::exp(heads[i].score[static_cast<size_t>(u)] - heads[i].all);
        for (size_t k = 0; k < exact.size(); ++k) exact[k] += w * rows_[static_cast<size_t>(u * d) + k];
      }
      double square = 0;
      for (size_t k = 0; k < exact.size(); ++k) {
        square += std::pow(exact[k] - double(out.as<float>()[i * exact.size() + k]), 2);
      }
      const double error = unit > 0 ? std::sqrt(square) / unit : square;
      most = std::max(most, error);
      sum += error / double(h_q());
    }
    checks.error_true = std::max(checks.error_true, most);
    checks.error_bound = std::max(checks.error_bound, step.error_max);
    if (most > 0) checks.error_ratio = std::max(checks.error_ratio, most / step.error_max);
    if (!(most <= step.error_max)) broken(&checks.n_broken_error, "error_max", most, step.error_max);
    if (!(sum <= step.error_sum)) broken(&checks.n_broken_error, "error_sum", sum, step.error_sum);
    if (step.omitted_max != 0) broken(&checks.n_broken_record, "omitted_max with coded rows", 0, step.omitted_max);
  }

  void broken(int64_t* count, const char* what, double is, double bound) {
    ++*count;
    if (!checks.first_broken.empty()) return;
    checks.first_broken = std::string(what) + " " + std::to_string(is) + ", certified " + std::to_string(bound) +
                          ", over by " + std::to_string((is - bound) * 1e9) + "e-9, step " +
                          std::to_string(checks.n_steps);
  }

  std::unique_ptr<LayerCache> inner_;
  std::unique_ptr<RecallIndex> twin_;
  std::vector<double> rows_;
  bool sound_ = false, by_max_ = false, raises_ = false;
  float margin_ = 0;
};

}  // namespace vestige::testing
