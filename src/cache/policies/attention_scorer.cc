#include "cache/policies/attention_scorer.h"

#include "cache/policies/observed_policy.h"

namespace vestige {

Status AttentionScorer::add(const ConstTensorView& queries, int64_t first_position, const RowPages& rows, float scale,
                            Stream& stream) {
  AttendMassParams p = {.q = queries, .rows = rows, .first_position = first_position, .scale = scale};
  const auto n = static_cast<size_t>(rows.n_rows);
  if (statistic_ == Statistic::kMass) {
    if (mass_.size() < n) mass_.resize(n, 0);
    p.mass = TensorView(mass_.data(), DType::kI64, {rows.n_rows});
  } else {
    if (peak_.size() < n) peak_.resize(n, 0.0f);
    p.peak = TensorView(peak_.data(), DType::kF32, {rows.n_rows});
  }
  return ops::attend_mass(p, stream);
}

Status AttentionScorer::finish(const RowPages& closed, const TensorView& score, Stream& stream) {
  VESTIGE_TRY(stream.synchronize());
  std::vector<float> scores = std::move(peak_);
  for (int64_t units : mass_) scores.push_back(static_cast<float>(static_cast<double>(units) * kMassUnit));
  mass_.clear();
  if (finish_) finish_(closed.n_rows, &scores);
  for (int64_t u = 0; u < closed.n_rows; ++u) {
    const auto at = static_cast<size_t>(u);
    score.as<float>()[u] = at < scores.size() ? scores[at] : unobserved_score(u);
  }
  return {};
}

}  // namespace vestige
