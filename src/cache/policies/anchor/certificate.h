#pragma once

// How far attention over coded tokens can be from exact attention. Theorem 1 of AnchorKV (arXiv:2608.02901, Eq. 17, 18)
// with a sharper constant, and a certificate of one step that weighs every token by what it can do. Every result is
// rounded up; proofs: docs/policies/anchor.md.

#include <cstdint>
#include <span>

#include "vestige/status.h"

namespace vestige::anchor {

/// One query and the coded rows it attends, exact rows (error 0) among them.
struct StepErrors {
  std::span<const float> weight;       ///< of the coded step, >= 0; over their sum, they weigh the coded values
  std::span<const float> logit_error;  ///< >= |coded logit - exact logit|; infinite = no bound
  std::span<const float> value_error;  ///< >= || coded value - exact value ||
  std::span<const float> value_norm;   ///< >= || coded value - c ||, for one c of the caller's choice: the output, say
  /// >= |log(weight / its exact value)| of every weight, relative to the others: what float32 softmax rounds away.
  double weight_slack = 0;
};

struct StepCertificate {
  double l1 = 0;      ///< >= || exact weights - coded weights ||_1, at most 2; half of it is the total variation
  double hidden = 0;  ///< >= sum of weight (exp(e) - 1): mass that could appear where the coded step saw none
  /// >= || exact output - coded output ||_2; what the attention itself rounds comes on top, relative to its values.
  double output = 0;
};

/// @return InvalidArgument if lengths differ or there is no weight. What is not a number makes its bound the trivial
/// one
///         (l1 = 2) or infinite.
Result<StepCertificate> certify_step(const StepErrors& step);

/// Theorem 1: one bound mu = ||q|| max ||K - K^|| scale on every logit error.
/// output <= sum weight value_error + 2 v_max tanh(mu / 2), v_max >= ||V|| of every exact value.
struct UniformErrors {
  std::span<const float> weight, value_error;
  double logit_error = 0;  ///< mu
  double v_max = 0;
  bool as_published = false;  ///< the paper's constant, tanh(mu), in place of the sharp one
};
Result<StepCertificate> certify_uniform(const UniformErrors& step);

}  // namespace vestige::anchor
