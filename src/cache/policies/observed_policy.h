#pragma once

// What policies that rank rows by observed attention have in common.

#include <utility>

#include "cache/policies/settings.h"

namespace vestige {

/// Score of a row that no scorer has seen: below every observed row, and the most recent first. Before observe() such a
/// policy keeps what `streaming` does; rows of blocks that close after rescore() come after the observed ones.
inline float unobserved_score(int64_t position) { return static_cast<float>(position) - 0x1p24f; }

class ObservedPolicy : public ConfiguredPolicy {
 public:
  ObservedPolicy(PolicyConfig config, ObservedQueries queries, int64_t n_observed)
      : ConfiguredPolicy(std::move(config)), queries_(queries), n_observed_(n_observed) {}
  Status score_block(const ConstTensorView&, const ConstTensorView&, int64_t first_position, const TensorView& score,
                     Stream&) const override {
    for (int64_t i = 0; i < score.dim(0); ++i) score.as<float>()[i] = unobserved_score(first_position + i);
    return {};
  }
  ObservedQueries observes() const override { return queries_; }
  int64_t n_observed() const override { return n_observed_; }

 private:
  ObservedQueries queries_;
  int64_t n_observed_;
};

}  // namespace vestige
