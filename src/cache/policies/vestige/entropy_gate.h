#pragma once

// Which heads look for archived rows at all in a step: those whose attention to the kept rows is spread out. Source:
// vestigekv.md, section 5, "Entropy gate"; the choices made here: docs/policies/vestige.md.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/policies/vestige/index_codec.h"

namespace vestige {

/// A head is closed, and recalls nothing, if the entropy of its softmax over the kept rows is below theta: the
/// conformal alpha-quantile of that entropy over calibration queries whose best row is archived, alpha = (1 - tau) / 2.
/// No theta, and every head open, while fewer than min_hard() such queries were seen, or if more than kMostOpen of all
/// calibration queries would be open: then the gate saves too little to be worth its loss.
class EntropyGate {
 public:
  static constexpr double kMostOpen = 0.6;

  explicit EntropyGate(double tau) : alpha_((1 - tau) / 2) {}

  void clear();
  /// More calibration queries; sets theta anew.
  Status add(const CodecQueries& queries, Stream& stream);
  bool active() const;
  float theta() const { return theta_; }
  int64_t min_hard() const;
  /// open[i] = 1 where head i is open. A head whose entropy is not a number is.
  /// @param open [h]
  Status look(const RecallStep& step, std::vector<uint8_t>* open, Stream& stream);

  Status save(const std::string& prefix, TensorSink& sink) const;
  Status load(const std::string& prefix, const TensorSource& source);

 private:
  void set_theta();

  double alpha_;
  float theta_ = -INFINITY;
  std::vector<float> hard_, easy_;  ///< entropies seen: best row archived, and not
  std::vector<float> entropy_, best_;
  std::vector<int32_t> limit_, arg_;
};

}  // namespace vestige
