#pragma once

// The certified output error of one step of one key-value head: what its coded rows hold, put together for
// certify_step(). Derivation: docs/policies/anchor.md, "Certificate".

#include <span>

#include "cache/policies/anchor/certificate.h"

namespace vestige::anchor {

/// Coded rows and one query, and what a step made of them.
struct CodedStep {
  std::span<const float> score;        ///< [n] as attended
  std::span<const float> correction;   ///< [n] score of the row's sketch; empty = none
  std::span<const float> key_bound;    ///< [n] >= ||key - coded key - sketch||
  std::span<const float> value_bound;  ///< [n] >= ||value - coded value||
  std::span<const float> value;        ///< [n, d] as coded
  int64_t d = 0;
  double reach = 0;              ///< scale ||q||: what a key's error of 1 does to a score
  const float* coded = nullptr;  ///< [d] attention output over these rows, as it was computed
  float coded_lse = 0;
  const float* exact = nullptr;  ///< [d] likewise over the rows attended exactly
  float exact_lse = 0;           ///< -inf: there are none
};

/// >= || output of the step - exact output ||_2; infinite where a bound is missing.
Result<double> bound_step(const CodedStep& step);

}  // namespace vestige::anchor
