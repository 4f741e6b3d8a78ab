#pragma once

// Rates with their intervals, and paired counts.

#include <cstdint>
#include <span>

namespace vestige::eval {

struct Interval {
  double low = 0, high = 1;
};

/// Wilson's 95% score interval of a rate (E. B. Wilson, 1927); [0, 1] for n = 0.
Interval wilson_95(int64_t n_right, int64_t n);

/// Normal 95% interval of a mean (1.96 standard errors); the mean itself for fewer than two values.
struct Mean {
  double value = 0, low = 0, high = 0;
};
Mean mean_95(std::span<const double> values);

/// Two-sided exact sign test (McNemar): the probability of a split at least as uneven as n_lost against n_gained if
/// either way were as likely. 1 for 0 and 0.
double sign_test(int64_t n_lost, int64_t n_gained);

}  // namespace vestige::eval
