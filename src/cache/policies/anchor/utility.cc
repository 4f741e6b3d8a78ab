#include "cache/policies/anchor/utility.h"

#include <cmath>
#include <string>

#include "cache/policies/anchor/draw.h"

namespace vestige::anchor {

namespace {

/// u^V = mean_w a^2 ||r^V||^2, and u^K = mean_w shift(a, e)^2 ||V - y||^2.
template <class Shift>
void observed(const HeadView& head, const Shift& shift, std::span<float> key, std::span<float> value) {
  std::vector<double> key_sum(static_cast<size_t>(head.n), 0.0), weight_sum(static_cast<size_t>(head.n), 0.0);
  for (int64_t w = 0; w < head.m; ++w) {
    for (int64_t t = 0; t < head.n; ++t) {
      const auto at = static_cast<size_t>(w * head.n + t);
      const auto a = static_cast<double>(head.weight[at]);
      if (a == 0) continue;  // tokens that this query does not see
      const double moved = shift(a, static_cast<double>(head.logit_error[at]));
      key_sum[static_cast<size_t>(t)] += moved * moved * static_cast<double>(head.value_spread[at]);
      weight_sum[static_cast<size_t>(t)] += a * a;
    }
  }
  const double n_queries = static_cast<double>(head.m > 0 ? head.m : 1);
  for (size_t t = 0; t < key_sum.size(); ++t) {
    key[t] = static_cast<float>(key_sum[t] / n_queries);
    value[t] = static_cast<float>(weight_sum[t] / n_queries * static_cast<double>(head.value_error[t]));
  }
}

void first_order(const HeadView& head, std::span<float> key, std::span<float> value) {
  observed(
      head, [](double a, double e) { return a * e; }, key, value);
}

void one_token(const HeadView& head, std::span<float> key, std::span<float> value) {
  observed(head, weight_shift, key, value);
}

// Before any question exists nothing says which tokens it will attend: every token counts alike, and the damage is that
// of a query like the model's own that does attend it.
void query_free(const HeadView& head, std::span<float> key, std::span<float> value) {
  for (size_t t = 0; t < key.size(); ++t) {
    key[t] = head.key_error[t] * head.value_outlier[t];
    value[t] = head.value_error[t];
  }
}

void random(const HeadView& head, std::span<float> key, std::span<float> value) {
  const uint64_t key_seed = mix(head.seed), value_seed = mix(key_seed);
  for (size_t t = 0; t < key.size(); ++t) {
    key[t] = static_cast<float>(draw(key_seed, static_cast<int64_t>(t)) >> 40) * 0x1p-24f;
    value[t] = static_cast<float>(draw(value_seed, static_cast<int64_t>(t)) >> 40) * 0x1p-24f;
  }
}

// Their places are the numbers that files hold; the first is the default.
constexpr UtilityRule kRules[] = {
    {"query_free", "no weights: what a query that attends the token would lose; for blind use", "ours", true, false,
     query_free},
    {"first_order", "squared output error to first order in the logit error", "AnchorKV, Eq. 6", true, true,
     first_order},
    {"one_token", "the same with the softmax's exact answer to one moved logit", "ours", true, true, one_token},
    {"random", "drawn from the seed: the control", "AnchorKV, ablation", false, false, random},
};

}  // namespace

// a' = a E / (1 + a (E - 1)) with E = exp(e), so (a' - a) / (1 - a) = a (E - 1) / (1 + a (E - 1)); for e > 0 both
// sides are divided by E, so that nothing overflows.
double weight_shift(double a, double e) {
  if (e <= 0) return a * std::expm1(e) / (1 + a * std::expm1(e));
  const double gain = -a * std::expm1(-e);
  return gain / (std::exp(-e) + gain);
}

std::span<const UtilityRule> utility_rules() { return kRules; }

Result<const UtilityRule*> find_utility(std::string_view name) {
  std::string known;
  for (const UtilityRule& rule : kRules) {
    if (name == rule.name) return &rule;
    known += (known.empty() ? "" : ", ") + std::string(rule.name);
  }
  return invalid_argument("utility = \"%.*s\", want one of: %s", static_cast<int>(name.size()), name.data(),
                          known.c_str());
}

}  // namespace vestige::anchor
