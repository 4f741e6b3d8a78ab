#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/arch/decoder_config.h"

// The formulas are those of transformers 5.24 (modeling_rope_utils.py) for types "default", "yarn", "linear" and
// "llama3", worked in double; YaRN is arXiv:2309.00071, its two mscales DeepSeek-V2's.

namespace vestige {

namespace {

struct Yarn {
  double factor, fast, slow, mscale, mscale_all_dim;
  double original_tokens;
  bool truncate;
};

Result<Yarn> read_yarn(const Config& scaling, int64_t max_tokens) {
  Yarn out{};
  VESTIGE_ASSIGN(const int64_t original,
                 scaling.integer({"original_max_position_embeddings", 1, int64_t{1} << 31, max_tokens}));
  out.original_tokens = static_cast<double>(original);
  VESTIGE_ASSIGN(out.factor, scaling.real({"factor", 1.0, 1e6}));
  VESTIGE_ASSIGN(out.fast, scaling.real({"beta_fast", 1e-3, 1e6, 32.0}));
  VESTIGE_ASSIGN(out.slow, scaling.real({"beta_slow", 1e-3, 1e6, 1.0}));
  VESTIGE_ASSIGN(out.mscale, scaling.real({"mscale", 0.0, 100.0, 0.0}));
  VESTIGE_ASSIGN(out.mscale_all_dim, scaling.real({"mscale_all_dim", 0.0, 100.0, 0.0}));
  VESTIGE_ASSIGN(out.truncate, scaling.flag("truncate", true));
  return out;
}

/// The (fractional) pair that turns `turns` times over the length the model was first trained on.
double pair_of(double turns, const Yarn& yarn, double d, double theta) {
  return d * std::log(yarn.original_tokens / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
}

/// Slow pairs are stretched by the factor, fast ones left, with a ramp between.
void stretch(const Yarn& yarn, double theta, std::vector<double>* frequencies) {
  const double d = 2 * static_cast<double>(frequencies->size());
  double low = pair_of(yarn.fast, yarn, d, theta), high = pair_of(yarn.slow, yarn, d, theta);
  if (yarn.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, d - 1);
  if (low == high) high += 0.001;
  for (size_t j = 0; j < frequencies->size(); ++j) {
    const double slow = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    (*frequencies)[j] *= slow / yarn.factor + (1 - slow);
  }
}

double magnitude(const Yarn& yarn, double mscale) { return 0.1 * mscale * std::log(yarn.factor) + 1.0; }

Status refuse_partial(const Config& config) {
  VESTIGE_ASSIGN(const double partial, config.real({"partial_rotary_factor", 0.0, 1.0, 1.0}));
  if (partial == 1.0) return {};
  return unsupported("%s: partial_rotary_factor = %g, want 1", config.where().c_str(), partial);
}

/// Pairs that turn slowly over the length the model was first trained on are stretched by the factor, fast ones left,
/// those between are mixed.
Status stretch_llama3(const Config& scaling, int64_t max_tokens, std::vector<double>* frequencies) {
  VESTIGE_ASSIGN(const double factor, scaling.real({"factor", 1.0, 1e6}));
  VESTIGE_ASSIGN(const double low, scaling.real({"low_freq_factor", 1e-3, 1e6}));
  VESTIGE_ASSIGN(const double high, scaling.real({"high_freq_factor", 1e-3, 1e6}));
  VESTIGE_ASSIGN(const int64_t original,
                 scaling.integer({"original_max_position_embeddings", 1, int64_t{1} << 31, max_tokens}));
  if (high <= low) {
    return data_loss("%s: high_freq_factor = %g, want more than low_freq_factor = %g", scaling.where().c_str(), high,
                     low);
  }
  for (double& f : *frequencies) {
    const double turns = static_cast<double>(original) * f / (2 * std::numbers::pi);
    const double fast = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    f *= (1 - fast) / factor + fast;
  }
  return {};
}

/// One divisor a pair, as GGUF files store what llama3 scaling comes to.
Status divide(const Config& scaling, std::vector<double>* frequencies) {
  VESTIGE_ASSIGN(const auto factors, scaling.reals({"factors", 1e-3, 1e6}));
  if (factors.size() != frequencies->size()) {
    return data_loss("%s: %zu rotation factors, want %zu", scaling.where().c_str(), factors.size(),
                     frequencies->size());
  }
  for (size_t j = 0; j < factors.size(); ++j) (*frequencies)[j] /= factors[j];
  return {};
}

/// What all types have: base, type, and the section that holds the rest.
struct RopeKeys {
  Config scaling;
  std::string type = "default";
  double theta = 1e4;
  std::vector<double> frequencies = {};
};

Result<RopeKeys> read_rope(const Config& config, const char* width_key, int64_t d) {
  if (d % 2 != 0) {
    return data_loss("%s: %s = %lld, want an even number", config.where().c_str(), width_key,
                     static_cast<long long>(d));
  }
  constexpr double kMinTheta = 1.001, kMaxTheta = 1e12;
  VESTIGE_TRY(refuse_partial(config));
  RopeKeys out = {.scaling = config};  // without a section of its own the type is "default", which reads nothing more
  VESTIGE_ASSIGN(out.theta, config.real({"rope_theta", kMinTheta, kMaxTheta, 1e4}));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    VESTIGE_ASSIGN(out.scaling, config.section(key));
    VESTIGE_TRY(refuse_partial(out.scaling));
    VESTIGE_ASSIGN(out.theta, out.scaling.real({"rope_theta", kMinTheta, kMaxTheta, out.theta}));
    VESTIGE_ASSIGN(out.type, out.scaling.text("type", "default"));
    VESTIGE_ASSIGN(out.type, out.scaling.text("rope_type", out.type));
    break;  // rope_scaling, the older name, wins in transformers
  }
  for (int64_t i = 0; i < d; i += 2) {
    out.frequencies.push_back(std::pow(out.theta, -static_cast<double>(i) / static_cast<double>(d)));
  }
  return out;
}

Status refuse_type(const RopeKeys& keys, const char* wanted) {
  return unsupported("%s: rope_type = \"%.40s\", want %s", keys.scaling.where().c_str(), keys.type.c_str(), wanted);
}

}  // namespace

Result<Rotation> read_rotation(const Config& config, int64_t d_branch, int64_t max_tokens) {
  VESTIGE_ASSIGN(RopeKeys keys, read_rope(config, "qk_rope_head_dim", d_branch));
  Rotation out;
  VESTIGE_ASSIGN(out.interleaved, config.flag("rope_interleave", true));
  if (keys.type == "yarn") {
    VESTIGE_ASSIGN(const Yarn yarn, read_yarn(keys.scaling, max_tokens));
    stretch(yarn, keys.theta, &keys.frequencies);
    const double all = magnitude(yarn, yarn.mscale_all_dim);  // 1 if there is none
    const bool both = yarn.mscale > 0 && yarn.mscale_all_dim > 0;
    const double factor = both ? magnitude(yarn, yarn.mscale) / all : magnitude(yarn, 1.0);
    VESTIGE_ASSIGN(const double scale, keys.scaling.real({"attention_factor", 1e-3, 1e3, factor}));
    out.scale = static_cast<float>(scale);
    out.score_scale = static_cast<float>(all * all);
  } else if (keys.type != "default") {
    return refuse_type(keys, "\"default\" or \"yarn\"");
  }
  out.frequencies.assign(keys.frequencies.begin(), keys.frequencies.end());
  return out;
}

Result<Rotation> read_gqa_rotation(const Config& config, int64_t d_head, int64_t max_tokens) {
  VESTIGE_ASSIGN(RopeKeys keys, read_rope(config, "head_dim", d_head));
  if (keys.type == "linear") {
    VESTIGE_ASSIGN(const double factor, keys.scaling.real({"factor", 1.0, 1e6}));
    for (double& f : keys.frequencies) f /= factor;
  } else if (keys.type == "llama3") {
    VESTIGE_TRY(stretch_llama3(keys.scaling, max_tokens, &keys.frequencies));
  } else if (keys.type == "factors") {
    VESTIGE_TRY(divide(keys.scaling, &keys.frequencies));
  } else if (keys.type != "default") {
    return refuse_type(keys, "\"default\", \"linear\" or \"llama3\"");
  }
  Rotation out;
  VESTIGE_ASSIGN(out.interleaved, config.flag("rope_interleave", false));
  out.frequencies.assign(keys.frequencies.begin(), keys.frequencies.end());
  return out;
}

}  // namespace vestige
