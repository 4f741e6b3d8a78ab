#include "cache/policies/klt/klt_index.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cache/kept_window.h"
#include "cache/key_turn.h"
#include "cache/left_rows.h"
#include "vestige/ops.h"

namespace vestige::klt {

size_t SharedBudget::add(Head head) {
  heads_.push_back(std::move(head));
  return heads_.size() - 1;
}

double SharedBudget::price() {
  if (price_ > 0) return price_;
  double budget = 0;
  std::vector<const ClassVariance*> variances;
  for (const Head& head : heads_) {
    budget += head.budget_bytes;
    variances.push_back(&head.transform.variance);
  }
  return price_ = find_price(variances, budget);
}

Result<HeadRows> KltIndex::gather(const ClosedBlock& rows, int64_t first, int64_t end) const {
  HeadRows out;
  out.n = end - first;
  out.d = d();
  std::vector<float> row(static_cast<size_t>(2 * d()));
  const auto middle = row.begin() + d();
  for (int64_t u = first; u < end; ++u) {
    VESTIGE_TRY(load_left_row(rows, u, row.data()));
    out.value.insert(out.value.end(), row.begin(), middle);
    out.key.insert(out.key.end(), middle, row.end());
  }
  return out;
}

void KltIndex::see_norms(const HeadRows& rows) {
  for (int64_t t = 0; t < rows.n; ++t) {
    double square = 0;
    for (int64_t j = 0; j < d(); ++j) {
      const auto v = double(rows.value[static_cast<size_t>(t * d() + j)]);
      square += v * v;
    }
    const auto norm = static_cast<float>(std::sqrt(square) * (1 + 1e-6));
    max_norm_ = std::isnan(norm) ? HUGE_VALF : std::max(max_norm_, norm);
  }
}

Result<SharedBudget::Head> KltIndex::transform_of(const RecallFit& fit, Stream& stream) const {
  SharedBudget::Head head;
  const int64_t n_end = coded_end(fit.n_closed), n = n_end - settings_.n_sinks;
  head.budget_bytes = double(n * layout_.d_row() * 2) / settings_.ratio;
  VESTIGE_ASSIGN(const HeadRows rows, gather(whole_rows(fit.rows), 0, fit.rows.n_rows));
  VESTIGE_ASSIGN(head.transform, fit_head(fit, rows, settings_.n_sinks, n_end, rotation_, settings_.weighting, stream));
  return head;
}

Status KltIndex::prepare_fit(const RecallFit& fit, Stream& stream) {
  prepared_by_ = nullptr;
  auto* shared = dynamic_cast<SharedBudget*>(fit.layer);
  if (shared == nullptr) return internal_error("prepare_fit: what the layers share is not of policy klt");
  if (fit.n_closed == 0) return {};
  VESTIGE_ASSIGN(SharedBudget::Head head, transform_of(fit, stream));
  prepared_as_ = shared->add(std::move(head));
  prepared_by_ = fit.layer;
  return {};
}

Status KltIndex::settle(const HeadTransform& transform, const RowPages& rows, int64_t n_closed, double price,
                        Stream& stream) {
  const BitPlan plan = plan_bits(transform.variance, price);
  VESTIGE_ASSIGN(const HeadRows all, gather(whole_rows(rows), 0, n_closed));
  const HeadRows coded = coded_rows(all, settings_.n_sinks, coded_end(n_closed) - settings_.n_sinks, rotation_);
  VESTIGE_ASSIGN(CodedHead head, code_head(transform, plan, coded, stream));
  head_ = std::move(head);
  max_norm_ = 0;
  see_norms(all);
  n_closed_ = n_closed;
  ready_ = true;
  return {};
}

Status KltIndex::fit(const RecallFit& fit, Stream& stream) {
  if (fit.n_closed == 0) {
    head_ = {};
    n_closed_ = 0;
    ready_ = false;
    return {};
  }
  if (fit.layer != nullptr) {
    auto* shared = dynamic_cast<SharedBudget*>(fit.layer);
    if (shared == nullptr || prepared_by_ != fit.layer) return internal_error("fit: prepare_fit() did not come first");
    const double price = shared->price();
    prepared_by_ = nullptr;
    return settle(shared->take(prepared_as_).transform, fit.rows, fit.n_closed, price, stream);
  }
  VESTIGE_ASSIGN(const SharedBudget::Head head, transform_of(fit, stream));
  return settle(head.transform, fit.rows, fit.n_closed, find_price({&head.transform.variance}, head.budget_bytes),
                stream);
}

// The window moves on: what leaves it is coded, the block's last rows are not yet.
Status KltIndex::add(const ClosedBlock& rows, Stream& stream) {
  const int64_t first = coded_end(n_closed_), n_closed = n_closed_ + settings_.block_rows;
  VESTIGE_ASSIGN(const HeadRows all, gather(rows, first, n_closed));
  HeadRows coded = all;
  coded.n = coded_end(n_closed) - first;
  coded.key.resize(static_cast<size_t>(coded.n * d()));
  coded.value.resize(coded.key.size());
  turn_keys(coded.key.data(), coded.n, d(), rotation_, first, 1, -1);
  VESTIGE_TRY(head_.append(coded, stream));
  see_norms(all);
  n_closed_ = n_closed;
  return {};
}

// Block by block, so that it does not matter how many of them one call brings.
Status KltIndex::extend(const RowPages& rows, int64_t n_closed, Stream& stream) {
  while (ready_ && n_closed_ < n_closed) VESTIGE_TRY(add(whole_rows(rows), stream));
  return {};
}

Status KltIndex::extend_dropped(const ClosedBlock& block, Stream& stream) {
  if (block.first_row != n_closed_) {
    return internal_error("klt: a block from row %lld, want %lld", static_cast<long long>(block.first_row),
                          static_cast<long long>(n_closed_));
  }
  return add(block, stream);
}

Status KltIndex::recall(const RecallStep& step, Stream& stream) {
  if (!ready_) {
    const RecallFit fit = {.queries = {},
                           .first_position = 0,
                           .rows = step.rows,
                           .n_closed = step.n_closed,
                           .kept = step.kept,
                           .scale = step.scale};
    VESTIGE_TRY(this->fit(fit, stream));
  }
  if (n_closed_ != step.n_closed) {
    return internal_error("recall over %lld closed rows, the index has %lld", static_cast<long long>(step.n_closed),
                          static_cast<long long>(n_closed_));
  }
  if (n_checked_ != n_closed_ && !is_kept_window(step.kept_ids, settings_.n_sinks, coded_end(n_closed_), n_closed_)) {
    return internal_error("a closed row is kept and coded, or neither");
  }
  n_checked_ = n_closed_;
  *step.n_ids.as<int32_t>() = *step.n_fired.as<int32_t>() = 0;
  step.n_stage.as<int64_t>()[0] = head_.n_rows;
  return {};
}

Status KltIndex::attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream) {
  const int64_t h = step.q.dim(1);
  ConstTensorView q(step.q.as<float>() + d(), DType::kF32, {h, d()});
  q.stride[0] = 2 * d();
  // No bound is known.
  for (int64_t i = 0; i < 3 * h; ++i) {
    part.error.as<float>()[i] = i % 3 == 2 ? 0.0f : std::numeric_limits<float>::infinity();
  }
  *part.n_coded.as<int64_t>() = head_.n_rows;
  return ops::attend_planes({.q = q,
                             .rows = head_.view(),
                             .frequencies = frequencies_of(rotation_),
                             .interleaved = rotation_.interleaved,
                             .first_position = settings_.n_sinks,
                             .scale = step.scale,
                             .out = TensorView(part.out.data, DType::kF32, {h, d()}),
                             .lse = TensorView(part.lse.data, DType::kF32, {h})},
                            stream);
}

}  // namespace vestige::klt
