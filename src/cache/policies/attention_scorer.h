#pragma once

// Scores from the softmax weights that queries gave to rows.

#include <cstdint>
#include <functional>
#include <vector>

#include "vestige/policy.h"

namespace vestige {

class AttentionScorer final : public PromptScorer {
 public:
  enum class Statistic : uint8_t {
    kMass,  ///< sum of the weights over queries and heads
    kPeak,  ///< the largest of them
  };
  /// Turns the statistics of the rows seen into scores, in place; every score it gives must be above -1e6.
  using Finish = std::function<void(int64_t n_closed, std::vector<float>* scores)>;
  explicit AttentionScorer(Statistic statistic, Finish finish = nullptr)
      : statistic_(statistic), finish_(std::move(finish)) {}

  Status add(const ConstTensorView& queries, int64_t first_position, const RowPages& rows, float scale,
             Stream& stream) override;
  /// Closed rows that no add() saw get unobserved_score().
  Status finish(const RowPages& closed, const TensorView& score, Stream& stream) override;

 private:
  Statistic statistic_;
  Finish finish_;
  std::vector<int64_t> mass_;
  std::vector<float> peak_;
};

}  // namespace vestige
