#include "cache/policies/klt/bit_plan.h"

#include <algorithm>
#include <cmath>

#include "vestige/ops/planes.h"

namespace vestige::klt {

namespace {

/// Squared error of b bits on a Gaussian of unit variance, b from 0 to kMaxBits: Lloyd-Max.
double distortion(int32_t bits) {
  static constexpr double kLeft[] = {1, 0.3634, 0.1175, 0.03454, 0.009497, 0.0025, 0.00065, 0.00017, 0.00004};
  return kLeft[bits];
}

/// A coefficient's basis vector, its scale and its ranges.
int64_t coefficient_bytes(int64_t d) { return d + 4 + kClasses; }

/// What is stored a row beside its code.
int64_t row_index_bytes(int64_t n) { return (n + 3) / 4 + (n + kPlaneRun - 1) / kPlaneRun * 4 * kClasses; }

}  // namespace

int64_t table_bytes(int64_t d, int64_t key_rank, int64_t value_rank) {
  const int64_t side = 4 * d + 4 * kClasses * kMaxBits;  // its mean and planes
  const int64_t energy = 4 * (kClasses - 1 + 2);         // limits and units
  return 2 * side + (key_rank + value_rank) * coefficient_bytes(d) + energy;
}

int64_t BitPlan::row_bits(int32_t c) const {
  int64_t bits = 0;
  for (const auto& side : of_side) {
    for (const uint8_t b : side[static_cast<size_t>(c)]) bits += b;
  }
  return bits;
}

int64_t BitPlan::code_bytes() const {
  int64_t total = 0;
  for (int32_t c = 0; c < kClasses; ++c) total += n_rows[static_cast<size_t>(c)] * row_bytes(c);
  return total;
}

int64_t BitPlan::n_bytes() const { return table_bytes(d, rank[0], rank[1]) + row_index_bytes(n) + code_bytes(); }

void make_falling(std::vector<double>* x) {
  struct Stretch {
    double sum;
    size_t n;
  };
  std::vector<Stretch> stack;
  for (const double value : *x) {
    stack.push_back({value, 1});
    while (stack.size() > 1) {
      const Stretch last = stack.back(), before = stack[stack.size() - 2];
      if (before.sum / double(before.n) >= last.sum / double(last.n)) break;
      stack.pop_back();
      stack.back() = {before.sum + last.sum, before.n + last.n};
    }
  }
  size_t at = 0;
  for (const Stretch& s : stack) {
    for (size_t i = 0; i < s.n; ++i) (*x)[at++] = s.sum / double(s.n);
  }
}

namespace {

/// Bits each of which takes `least` away, and what all of them take away beyond it.
int32_t bits_at(double variance, double least, double* gain) {
  int32_t b = 0;
  for (; b < kMaxBits; ++b) {
    const double taken = variance * (distortion(b) - distortion(b + 1));
    if (!(taken >= least)) break;
    *gain += taken - least;
  }
  return b;
}

/// The bits left in the last byte, to what gains most; ties to the key, then to the earlier coefficient.
void fill_byte(const ClassVariance& variance, size_t c, BitPlan* plan) {
  for (int64_t bits = plan->row_bits(static_cast<int32_t>(c)); bits % 8 != 0; ++bits) {
    double best = 0;
    uint8_t* to = nullptr;
    for (size_t s = 0; s < 2; ++s) {
      for (size_t j = 0; j < plan->of_side[s][c].size(); ++j) {
        uint8_t& b = plan->of_side[s][c][j];
        if (b >= kMaxBits || (j > 0 && plan->of_side[s][c][j - 1] <= b)) continue;
        const double taken = variance.of_side[s][c][j] * (distortion(b) - distortion(b + 1));
        if (taken > best) {
          best = taken;
          to = &b;
        }
      }
    }
    if (to == nullptr) return;
    ++*to;
  }
}

}  // namespace

BitPlan plan_bits(const ClassVariance& variance, double price) {
  BitPlan plan;
  plan.d = variance.d;
  plan.n = variance.n();
  plan.n_rows = variance.n_rows;
  const double vector_cost = price * double(coefficient_bytes(variance.d));
  for (size_t s = 0; s < 2; ++s) {
    for (int64_t j = 0; j < variance.d; ++j) {
      double gain = 0;
      uint8_t bits[kClasses];
      for (size_t c = 0; c < kClasses; ++c) {
        double taken = 0;
        bits[c] = static_cast<uint8_t>(bits_at(variance.of_side[s][c][size_t(j)], price / 8, &taken));
        gain += double(variance.n_rows[c]) * taken;
      }
      if (!(gain > vector_cost)) break;
      for (size_t c = 0; c < kClasses; ++c) plan.of_side[s][c].push_back(bits[c]);
      ++plan.rank[s];
    }
  }
  for (size_t c = 0; c < kClasses; ++c) fill_byte(variance, c, &plan);
  return plan;
}

double find_price(const std::vector<const ClassVariance*>& heads, double budget) {
  const auto bytes_at = [&](double price) {
    double total = 0;
    for (const ClassVariance* head : heads) total += double(plan_bits(*head, price).n_bytes());
    return total;
  };
  double most = 0;
  for (const ClassVariance* head : heads) {
    for (const auto& side : head->of_side) {
      for (const auto& row : side) {
        if (!row.empty()) most = std::max(most, row[0]);
      }
    }
  }
  // Nothing is bought at high. Where nothing varies the prices still are numbers that can be halved.
  double high = 8 * std::max(most, 1e-200), low = high * 1e-12;
  if (bytes_at(low) <= budget) return low;
  while (high / low > 1 + 1e-6) {
    const double middle = std::sqrt(low) * std::sqrt(high);
    (bytes_at(middle) <= budget ? high : low) = middle;
  }
  return high;
}

}  // namespace vestige::klt
