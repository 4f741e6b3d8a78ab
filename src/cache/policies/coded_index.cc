#include "cache/policies/coded_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cache/kept_window.h"
#include "cache/left_rows.h"

namespace vestige {

int64_t CodedSpan::n_recent(int64_t n_closed) const {
  const int64_t over = (n_sinks + window) % group_rows;
  return std::clamp<int64_t>(window + (over == 0 ? 0 : group_rows - over), 0, std::max<int64_t>(0, n_closed - n_sinks));
}

int64_t CodedSpan::n_coded(int64_t n_closed) const {
  return std::max<int64_t>(0, n_closed - n_sinks - n_recent(n_closed));
}

// Block by block, so that it does not matter how many of them one call brings.
Status CodedIndex::extend(const RowPages& rows, int64_t n_closed, Stream& stream) {
  while (ready_ && n_closed_ < n_closed) {
    VESTIGE_TRY(code_until(whole_rows(rows), n_closed_ + block_rows_, stream));
  }
  return {};
}

Status CodedIndex::extend_dropped(const ClosedBlock& block, Stream& stream) {
  if (block.first_row != n_closed_) {
    return internal_error("a block from row %lld on, want %lld", static_cast<long long>(block.first_row),
                          static_cast<long long>(n_closed_));
  }
  return code_until(block, n_closed_ + block.rows.n_rows, stream);
}

Status CodedIndex::code_unfitted(const RecallStep& step, Stream& stream) {
  ready_ = true;
  return extend(step.rows, step.n_closed, stream);
}

Status CodedIndex::recall(const RecallStep& step, Stream& stream) {
  if (!ready_) VESTIGE_TRY(code_unfitted(step, stream));
  if (n_closed_ != step.n_closed) {
    return internal_error("recall over %lld closed rows, the index has %lld", static_cast<long long>(step.n_closed),
                          static_cast<long long>(n_closed_));
  }
  if (n_checked_ != n_closed_ && !is_kept_window(step.kept_ids, span_.n_sinks, span_.coded_end(n_closed_), n_closed_)) {
    return internal_error("a closed row is kept and coded, or neither");
  }
  n_checked_ = n_closed_;
  *step.n_ids.as<int32_t>() = *step.n_fired.as<int32_t>() = 0;
  step.n_stage.as<int64_t>()[0] = n_coded();
  return {};
}

Status CodedIndex::attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream) {
  for (int64_t i = 0; i < 3 * step.q.dim(1); ++i) {
    part.error.as<float>()[i] = i % 3 == 2 ? 0.0f : std::numeric_limits<float>::infinity();
  }
  *part.n_coded.as<int64_t>() = n_coded();
  return attend(step, part, stream);
}

Status CodedIndex::save_state(const std::string& prefix, const char* norm_name, TensorSink& sink) const {
  const uint8_t ready = ready_ ? 1 : 0;
  VESTIGE_TRY(sink.put(prefix + "index_ready", ConstTensorView(&ready, DType::kU8, {1})));
  return ready_ ? sink.put(prefix + norm_name, ConstTensorView(&max_norm_, DType::kF32, {1})) : Status();
}

Status CodedIndex::load_state(const std::string& prefix, const char* norm_name, float most, const TensorSource& source,
                              int64_t n_closed) {
  VESTIGE_ASSIGN(const ConstTensorView flag, source.get(prefix + "index_ready", DType::kU8, {1}));
  const uint8_t ready = *flag.as<uint8_t>();
  if (ready > 1) return data_loss("%sindex_ready = %d, want 0 or 1", prefix.c_str(), ready);
  if (ready == 0) return {};
  VESTIGE_ASSIGN(const ConstTensorView norm, source.get(prefix + norm_name, DType::kF32, {1}));
  float max_norm = 0;
  std::memcpy(&max_norm, norm.data, sizeof max_norm);
  if (!(max_norm >= 0 && max_norm <= most)) return data_loss("%s%s: want 0 or more", prefix.c_str(), norm_name);
  ready_ = true;
  loaded(n_closed, max_norm);
  return {};
}

void CodedIndex::loaded(int64_t n_closed, float max_norm) {
  n_closed_ = n_closed;
  n_checked_ = -1;
  max_norm_ = max_norm;
}

Result<float> CodedIndex::longest_content(const ClosedBlock& rows, const RowLayout& layout, int64_t begin,
                                          int64_t end) {
  double most = 0;
  std::vector<double> row(static_cast<size_t>(layout.d_row()));
  for (int64_t u = begin; u < end; ++u) {
    VESTIGE_TRY(load_left_row(rows, u, row.data()));
    double square = 0;
    for (int64_t j = 0; j < layout.d_content; ++j) square += row[static_cast<size_t>(j)] * row[static_cast<size_t>(j)];
    most = std::isnan(square) ? HUGE_VAL : std::max(most, square);
  }
  return static_cast<float>(std::sqrt(most) * (1 + 1e-6));
}

}  // namespace vestige
