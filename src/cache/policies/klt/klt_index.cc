#include "cache/policies/klt/klt_index.h"

#include <algorithm>
#include <cmath>

#include "backend/ops/plane_code.h"
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

Result<HeadRows> KltIndex::gather_coded(const ClosedBlock& rows, int64_t first, int64_t end) const {
  VESTIGE_ASSIGN(HeadRows out, gather(rows, first, end));
  turn_keys(out.key.data(), out.n, d(), rotation_, first, 1, -1);
  return out;
}

Result<SharedBudget::Head> KltIndex::transform_of(const RecallFit& fit, Stream& stream) const {
  SharedBudget::Head head;
  const int64_t n = span().n_coded(fit.n_closed);
  head.budget_bytes = double(n * layout_.d_row() * 2) / settings_.ratio;
  VESTIGE_ASSIGN(const HeadRows rows, gather(whole_rows(fit.rows), 0, fit.rows.n_rows));
  VESTIGE_ASSIGN(head.transform, fit_head(fit, rows, span().n_sinks, span().coded_end(fit.n_closed), rotation_,
                                          settings_.weighting, stream));
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
  VESTIGE_ASSIGN(const HeadRows coded, gather_coded(whole_rows(rows), span().n_sinks, span().coded_end(n_closed)));
  VESTIGE_ASSIGN(CodedHead head, code_head(transform, plan, coded, stream));
  VESTIGE_ASSIGN(max_norm_, longest_content(whole_rows(rows), layout_, 0, n_closed));
  head_ = std::move(head);
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

Status KltIndex::code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream) {
  VESTIGE_ASSIGN(const HeadRows coded, gather_coded(rows, span().coded_end(n_closed_), span().coded_end(n_closed)));
  VESTIGE_ASSIGN(const float norm, longest_content(rows, layout_, n_closed_, n_closed));
  VESTIGE_TRY(head_.append(coded, stream));
  max_norm_ = std::max(max_norm_, norm);
  n_closed_ = n_closed;
  return {};
}

Status KltIndex::code_unfitted(const RecallStep& step, Stream& stream) {
  return fit({.queries = {},
              .first_position = 0,
              .rows = step.rows,
              .n_closed = step.n_closed,
              .kept = step.kept,
              .scale = step.scale},
             stream);
}

Status KltIndex::attend(const RecallStep& step, const CodedPart& part, Stream& stream) {
  const int64_t h = step.q.dim(1);
  ConstTensorView q(step.q.as<float>() + d(), DType::kF32, {h, d()});
  q.stride[0] = 2 * d();
  return ops::attend_planes({.q = q,
                             .rows = head_.view(),
                             .frequencies = frequencies_of(rotation_),
                             .interleaved = rotation_.interleaved,
                             .first_position = span().n_sinks,
                             .scale = step.scale,
                             .out = TensorView(part.out.data, DType::kF32, {h, d()}),
                             .lse = TensorView(part.lse.data, DType::kF32, {h})},
                            stream);
}

Status KltIndex::rebuild(const RebuiltRows& out, Stream&) const {
  const PlaneRows rows = head_.view();
  const PlaneLayout layout(rows);
  for (int64_t run = 0; run < rows.run_start.dim(0); ++run) {
    for_run(rows, layout, run, [&](int64_t t, int64_t c, int64_t begin) {
      const uint8_t* codes = rows.codes.as<uint8_t>() + begin;
      int64_t at = 0;
      const int64_t u = span().n_sinks + t;
      float* row = out.rows.as<float>() + u * 2 * d();
      const std::vector<double> key = read_plane_row(rows.key, c, codes, &at);
      const std::vector<double> value = read_plane_row(rows.value, c, codes, &at);
      std::copy(value.begin(), value.end(), row);
      std::copy(key.begin(), key.end(), row + d());
      turn_keys(row + d(), 1, d(), rotation_, u, 1, 1);
      out.finely.as<uint8_t>()[u] = 0;
    });
  }
  return {};
}

}  // namespace vestige::klt
