#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backend/ops/anchored_side.h"
#include "backend/ops/gamma_code.h"
#include "base/load_number.h"
#include "cache/policies/anchor/choose_anchors.h"
#include "cache/policies/anchor/draw.h"
#include "cache/policies/anchor/observe.h"
#include "cache/policies/anchor/utility.h"

namespace vestige::anchor {

namespace {

constexpr int64_t kPool = 7;  // the paper's kernel

/// One layer on its way.
struct Job : BareLayer {
  const LayerTokens& tokens;
  const CodeSettings& settings;
  const UtilityRule& rule;
  std::vector<std::vector<int32_t>> anchors;  // of each head: positions, window included

  const LayerShape& shape() const { return layer.plan.shape; }
};

Status check_tokens(const LayerTokens& tokens) {
  if (tokens.heads.empty()) return invalid_argument("anchor: no heads, want at least one");
  const ConstTensorView& first = tokens.heads[0].key;
  const auto fits = [&](const ConstTensorView& x) {
    return x.rank == 2 && x.dim(0) == first.dim(0) && x.dim(1) == first.dim(1) && x.stride[1] == 1 &&
           (x.dtype == DType::kF32 || x.dtype == DType::kBF16) && x.data != nullptr;
  };
  const ConstTensorView& at = tokens.q_positions;
  for (const HeadTokens& head : tokens.heads) {
    if (!fits(head.key) || !fits(head.value)) {
      return invalid_argument("anchor: key %s and value %s of a head, want both like %s", describe(head.key).c_str(),
                              describe(head.value).c_str(), describe(first).c_str());
    }
    const ConstTensorView& q = head.q;
    if (q.rank != 2 || q.dtype != DType::kF32 || q.dim(1) != first.dim(1) || q.stride[1] != 1 || q.dim(0) < 1 ||
        at.rank != 1 || at.dtype != DType::kI32 || at.dim(0) != q.dim(0)) {
      return invalid_argument("anchor: queries %s at positions %s, want [m, %lld] F32 and [m] I32", describe(q).c_str(),
                              describe(at).c_str(), static_cast<long long>(first.dim(1)));
    }
  }
  const ConstTensorView& f = tokens.frequencies;
  if (f.data != nullptr && (f.rank != 1 || f.dtype != DType::kF32 || 2 * f.dim(0) > first.dim(1))) {
    return invalid_argument("anchor: frequencies %s, want [at most half the width] F32", describe(f).c_str());
  }
  return {};
}

void take_arrays(CodedLayer* layer) {
  const LayerShape& s = layer->plan.shape;
  const CodeLayout& l = layer->plan.layout;
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  for (CodedSide* side : {&layer->key, &layer->value}) {
    const bool is_key = side == &layer->key;
    const int64_t tokens = s.n_heads * s.n_coded(), words = s.n_heads * s.n_words();
    side->anchors.resize(size(s.n_heads * s.n_anchors * s.d));
    side->index.resize(size(tokens * l.index_bytes));
    side->gamma.resize(size(tokens * l.gamma_bytes));
    side->bound.resize(size(tokens * (is_key ? l.key_bound_bytes : l.value_bound_bytes)));
    side->mask.resize(size(words));
    side->prefix.resize(size(words));
    side->offset.resize(size(s.n_heads + 1));
  }
  layer->sketch.resize(s.n_heads, s.n_coded(), s.d, l.sketch_bytes);
  layer->anchor_positions.resize(size(s.n_heads * s.n_selected() * l.anchor_position_bytes));
  for (int64_t t = 0; t < s.n_coded() && l.position_id_bytes > 0; ++t) {
    layer->position_ids.push_back(static_cast<int32_t>(t));
  }
}

const ConstTensorView& side_of(const HeadTokens& head, bool is_key) { return is_key ? head.key : head.value; }

bool has_no_direction(const ConstTensorView& x, int64_t t) {
  double square = 0;
  for (int64_t j = 0; j < x.dim(1); ++j) {
    square += std::pow(static_cast<double>(load_number(x.data, x.dtype, t * x.stride[0] + j)), 2);
  }
  return !(square > 0 && std::isfinite(square));
}

/// Anchors of one side as stored, then index and gamma of every coded token. An anchor stands for itself.
Status assign(Job* job, int64_t h, bool is_key, Stream& stream) {
  const LayerShape& s = job->shape();
  const CodeLayout& l = job->layer.plan.layout;
  CodedSide& side = is_key ? job->layer.key : job->layer.value;
  const ConstTensorView& x = side_of(job->tokens.heads[static_cast<size_t>(h)], is_key);
  const std::vector<int32_t>& anchors = job->anchors[static_cast<size_t>(h)];
  for (int64_t a = 0; a < s.n_anchors; ++a) {
    for (int64_t j = 0; j < s.d; ++j) {
      side.anchors[static_cast<size_t>((h * s.n_anchors + a) * s.d + j)] =
          f32_to_bf16(load_number(x.data, x.dtype, anchors[static_cast<size_t>(a)] * x.stride[0] + j));
    }
  }
  const int64_t n = s.n_coded();
  std::vector<int32_t> index(static_cast<size_t>(n));
  std::vector<float> gamma(static_cast<size_t>(n)), cosine(static_cast<size_t>(n));
  VESTIGE_TRY(ops::nearest_anchor({.x = x.slice(0, n),
                                   .anchors = side.view(job->layer.plan, h).anchors,
                                   .index = {index.data(), DType::kI32, {n}},
                                   .gamma = {gamma.data(), DType::kF32, {n}},
                                   .cosine = {cosine.data(), DType::kF32, {n}}},
                                  stream));
  if (is_key) {
    for (int64_t t = 0; t < n; ++t) {
      if (has_no_direction(x, t)) cosine[static_cast<size_t>(t)] = 1;  // no anchor would do better
    }
    job->key_cosine.push_back(std::move(cosine));
  }
  for (int64_t a = 0; a < s.n_selected(); ++a) {
    const auto t = static_cast<size_t>(anchors[static_cast<size_t>(a)]);
    index[t] = static_cast<int32_t>(a);
    gamma[t] = 1.0f;
  }
  for (int64_t t = 0; t < n; ++t) {
    const int64_t at = h * n + t;
    for (int64_t b = 0; b < l.index_bytes; ++b) {
      side.index[static_cast<size_t>(at * l.index_bytes + b)] =
          static_cast<uint8_t>(index[static_cast<size_t>(t)] >> (8 * b));
    }
    if (l.gamma_bytes == 1) {
      side.gamma[static_cast<size_t>(at)] = gamma_code(gamma[static_cast<size_t>(t)]);
    } else {
      const uint16_t bits = f32_to_bf16(gamma[static_cast<size_t>(t)]);
      std::memcpy(&side.gamma[static_cast<size_t>(at * 2)], &bits, 2);
    }
  }
  return {};
}

/// What index and gamma as stored leave of the coded tokens, [n, d].
std::vector<float> residuals(const CodedLayer& layer, const LayerTokens& tokens, int64_t h, bool is_key) {
  const CodedSide& side = is_key ? layer.key : layer.value;
  const AnchoredSide view = side.view(layer.plan, h);
  const ConstTensorView& x = side_of(tokens.heads[static_cast<size_t>(h)], is_key);
  const int64_t n = layer.plan.shape.n_coded(), d = layer.plan.shape.d;
  std::vector<float> r(static_cast<size_t>(n * d));
  for (int64_t t = 0; t < n; ++t) {
    const float gamma = load_gamma(view.gamma, t);
    const int64_t anchor = load_index(view.index, t) * d;
    for (int64_t j = 0; j < d; ++j) {
      r[static_cast<size_t>(t * d + j)] = load_number(x.data, x.dtype, t * x.stride[0] + j) -
                                          gamma * load_number(view.anchors.data, view.anchors.dtype, anchor + j);
    }
  }
  return r;
}

double distance(const ConstTensorView& x, int64_t t, const double* y) {
  double sum = 0;
  for (int64_t j = 0; j < x.dim(1); ++j) {
    const double gap = static_cast<double>(load_number(x.data, x.dtype, t * x.stride[0] + j)) - y[j];
    sum += gap * gap;
  }
  return sum;
}

/// Logits of the coded keys without residuals, less the exact ones, [m, n].
Status logit_errors(const Job& job, int64_t h, const Observed& seen, std::vector<float>* error, Stream& stream) {
  const HeadTokens& head = job.tokens.heads[static_cast<size_t>(h)];
  const int64_t m = head.q.dim(0), n = job.shape().n_coded(), d = job.shape().d;
  std::vector<float> q(static_cast<size_t>(m * d)), out(q.size()), lse(static_cast<size_t>(m));
  for (int64_t w = 0; w < m; ++w) std::copy_n(head.q.as<float>() + w * head.q.stride[0], d, q.data() + w * d);
  error->resize(static_cast<size_t>(m * n));
  const AnchoredHead coded = job.layer.head(h);
  VESTIGE_TRY(ops::attend_anchored({.q = {q.data(), DType::kF32, {1, m, d}},
                                    .heads = {&coded, 1},
                                    .bits = job.layer.plan.layout.bits,
                                    .frequencies = job.tokens.frequencies,
                                    .interleaved = job.tokens.interleaved,
                                    .scale = job.tokens.scale,
                                    .out = {out.data(), DType::kF32, {1, m, d}},
                                    .lse = {lse.data(), DType::kF32, {1, m}},
                                    .scores = {error->data(), DType::kF32, {1, m, n}}},
                                   stream));
  for (int64_t w = 0; w < m; ++w) {
    for (int64_t t = 0; t < n; ++t) {
      (*error)[static_cast<size_t>(w * n + t)] -= seen.logits[static_cast<size_t>(w * head.key.dim(0) + t)];
    }
  }
  return {};
}

Status rank(Job* job, int64_t h, const Observed& seen, Stream& stream) {
  const HeadTokens& head = job->tokens.heads[static_cast<size_t>(h)];
  const int64_t m = head.q.dim(0), n = job->shape().n_coded(), d = job->shape().d;
  std::vector<float> error, weight, spread, value_error, outlier;
  if (job->rule.weighs) {
    VESTIGE_TRY(logit_errors(*job, h, seen, &error, stream));
    weight.resize(static_cast<size_t>(m * n));
    spread.resize(weight.size());
  }
  std::vector<double> y(static_cast<size_t>(d)), mean(static_cast<size_t>(d), 0.0);
  for (int64_t w = 0; w < m && job->rule.weighs; ++w) {
    std::copy_n(seen.weights.data() + w * head.key.dim(0), n, weight.data() + w * n);
    for (int64_t j = 0; j < d; ++j)
      y[static_cast<size_t>(j)] = static_cast<double>(seen.outputs[static_cast<size_t>(w * d + j)]);
    for (int64_t t = 0; t < n; ++t)
      spread[static_cast<size_t>(w * n + t)] = static_cast<float>(distance(head.value, t, y.data()));
  }
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t j = 0; j < d; ++j) {
      mean[static_cast<size_t>(j)] +=
          static_cast<double>(load_number(head.value.data, head.value.dtype, t * head.value.stride[0] + j)) /
          static_cast<double>(n);
    }
  }
  const std::vector<float> key_residual = residuals(job->layer, job->tokens, h, true),
                           value_residual = residuals(job->layer, job->tokens, h, false);
  for (int64_t t = 0; t < n; ++t) {
    double square = 0;
    for (int64_t j = 0; j < d; ++j)
      square += std::pow(static_cast<double>(value_residual[static_cast<size_t>(t * d + j)]), 2);
    value_error.push_back(static_cast<float>(square));
    outlier.push_back(static_cast<float>(distance(head.value, t, mean.data())));
  }
  double variance = 0;
  for (const float x : outlier) variance += static_cast<double>(x) / static_cast<double>(n);
  job->value_variance.push_back(variance);
  const std::vector<float> key_error =
      mean_square_scores({key_residual.data(), DType::kF32, {n, d}}, head, job->tokens);
  std::vector<float> key(static_cast<size_t>(n)), value(static_cast<size_t>(n));
  job->rule.score({.m = m,
                   .n = n,
                   .weight = weight,
                   .logit_error = error,
                   .value_spread = spread,
                   .value_error = value_error,
                   .key_error = key_error,
                   .value_outlier = outlier,
                   .seed = mix(job->settings.seed) + static_cast<uint64_t>(h)},
                  key, value);
  job->key_utility.push_back(std::move(key));
  job->value_utility.push_back(std::move(value));
  return {};
}

/// Anchors, assignment and utilities of one head.
Status code_head(Job* job, int64_t h, Stream& stream) {
  const LayerShape& s = job->shape();
  const HeadTokens& head = job->tokens.heads[static_cast<size_t>(h)];
  VESTIGE_ASSIGN(Observed seen, observe(head, job->tokens, job->rule.weighs, stream));
  forget_near(job->settings.n_near, job->tokens, &seen);
  const std::vector<float> score =
      pooled_scores(mean_weights(seen, head.q.dim(0), head.key.dim(0), s.n_coded()), kPool);
  VESTIGE_ASSIGN(std::vector<int32_t> anchors,
                 choose_anchors({.n_coded = s.n_coded(),
                                 .n_selected = s.n_selected(),
                                 .rho = job->settings.rho,
                                 .seed = mix(job->settings.seed) ^ static_cast<uint64_t>(h),
                                 .rule = job->settings.anchors,
                                 .key = head.key.slice(0, s.n_tokens),
                                 .value = head.value.slice(0, s.n_tokens)},
                                score));
  job->is_anchor.emplace_back(static_cast<size_t>(s.n_coded()), 0);
  const int64_t width = job->layer.plan.layout.anchor_position_bytes;
  for (size_t a = 0; a < anchors.size(); ++a) {
    job->is_anchor.back()[static_cast<size_t>(anchors[a])] = 1;
    for (int64_t b = 0; b < width; ++b) {
      const int64_t at = (h * s.n_selected() + static_cast<int64_t>(a)) * width + b;
      job->layer.anchor_positions[static_cast<size_t>(at)] = static_cast<uint8_t>(int64_t{anchors[a]} >> (8 * b));
    }
  }
  for (int64_t t = s.n_coded(); t < s.n_tokens; ++t) anchors.push_back(static_cast<int32_t>(t));
  job->anchors.push_back(std::move(anchors));
  VESTIGE_TRY(assign(job, h, true, stream));
  VESTIGE_TRY(assign(job, h, false, stream));
  return rank(job, h, seen, stream);
}

/// Masks, prefixes, offsets, codes, scales and slots of one side.
Status write_residuals(CodedLayer* layer, const LayerTokens& tokens, bool is_key,
                       const std::vector<std::vector<uint64_t>>& masks, Stream& stream) {
  const LayerShape& s = layer->plan.shape;
  const CodeLayout& l = layer->plan.layout;
  CodedSide& side = is_key ? layer->key : layer->value;
  const int64_t row_bytes = s.d * l.bits / 8;
  int32_t total = 0;
  for (int64_t h = 0; h < s.n_heads; ++h) {
    std::vector<float> r = residuals(*layer, tokens, h, is_key);
    std::vector<float> chosen;
    int32_t count = 0;
    for (int64_t w = 0; w < s.n_words(); ++w) {
      const uint64_t word = masks[static_cast<size_t>(h)][static_cast<size_t>(w)];
      side.mask[static_cast<size_t>(h * s.n_words() + w)] = static_cast<int64_t>(word);
      side.prefix[static_cast<size_t>(h * s.n_words() + w)] = count;
      for (int64_t place = 0; place < 64; ++place) {
        if ((word >> place & 1) == 0) continue;
        const float* row = r.data() + (64 * w + place) * s.d;
        chosen.insert(chosen.end(), row, row + s.d);
        if (!is_key) side.slot.push_back(static_cast<uint8_t>(place));
        ++count;
      }
    }
    side.codes.resize(static_cast<size_t>((total + count) * row_bytes));
    side.scale.resize(static_cast<size_t>((total + count) * l.scale_bytes));
    const DType scale_dtype = l.scale_bytes == 2 ? DType::kF16 : DType::kF32;
    VESTIGE_TRY(ops::encode_rotated({.x = {chosen.data(), DType::kF32, {count, s.d}},
                                     .bits = l.bits,
                                     .seed = layer->rotation_seed,
                                     .codes = {side.codes.data() + total * row_bytes, DType::kU8, {count, row_bytes}},
                                     .scale = {side.scale.data() + total * l.scale_bytes, scale_dtype, {count}}},
                                    stream));
    total += count;
    side.offset[static_cast<size_t>(h + 1)] = total;
  }
  return {};
}

int64_t count(const std::vector<std::vector<uint64_t>>& masks) {
  int64_t n = 0;
  for (const auto& mask : masks) {
    for (const uint64_t word : mask) n += std::popcount(word);
  }
  return n;
}

}  // namespace

ResidualPick pick_own(const BareLayer& bare, const PickSettings& settings) {
  const BytePlan& plan = bare.layer.plan;
  std::vector<SideUtility> keys, values;
  for (size_t h = 0; h < bare.is_anchor.size(); ++h) {
    keys.push_back({bare.key_utility[h], bare.is_anchor[h], bare.key_cosine[h]});
    values.push_back({bare.value_utility[h], bare.is_anchor[h]});
  }
  return pick_layer(keys, values, settings, plan, {plan.n_key, plan.n_value, plan.budget_bytes - plan.base_bytes()});
}

Result<CodedLayer> add_residuals(BareLayer bare, const LayerTokens& tokens, const ResidualPick& pick, Stream& stream) {
  CodedLayer& layer = bare.layer;
  layer.plan.n_key = count(pick.key);
  layer.plan.n_value = count(pick.value);
  VESTIGE_TRY(write_residuals(&layer, tokens, true, pick.key, stream));
  VESTIGE_TRY(write_residuals(&layer, tokens, false, pick.value, stream));
  VESTIGE_TRY(write_bounds(&layer, tokens, true, stream));
  VESTIGE_TRY(write_bounds(&layer, tokens, false, stream));
  return std::move(layer);
}

Result<CodedLayer> code_layer(const LayerTokens& tokens, const CodeSettings& settings, Stream& stream) {
  VESTIGE_ASSIGN(BareLayer bare, code_bare(tokens, settings, stream));
  const ResidualPick pick = pick_own(bare, settings.pick);
  return add_residuals(std::move(bare), tokens, pick, stream);
}

Result<BareLayer> code_bare(const LayerTokens& tokens, const CodeSettings& settings, Stream& stream) {
  VESTIGE_TRY(check_tokens(tokens));
  VESTIGE_ASSIGN(const UtilityRule* const rule, find_utility(settings.utility));
  const int64_t n_rows = tokens.heads[0].key.dim(0), n_tokens = tokens.n_tokens > 0 ? tokens.n_tokens : n_rows;
  if (n_tokens > n_rows) {
    return invalid_argument("anchor: n_tokens = %lld, want at most %lld", static_cast<long long>(n_tokens),
                            static_cast<long long>(n_rows));
  }
  const LayerShape shape = {
      .n_tokens = n_tokens,
      .window = settings.window,
      .n_anchors = settings.n_anchors > 0 ? settings.n_anchors : default_anchors(n_tokens, settings.window),
      .n_heads = static_cast<int64_t>(tokens.heads.size()),
      .d = tokens.heads[0].key.dim(1)};
  Job job = {{}, tokens, settings, *rule, {}};
  VESTIGE_ASSIGN(job.layer.plan, plan_bytes(shape, settings.layout, settings.ratio));
  job.layer.rotation_seed = settings.rotation_seed;
  take_arrays(&job.layer);
  for (int64_t h = 0; h < shape.n_heads; ++h) VESTIGE_TRY(code_head(&job, h, stream));
  return BareLayer(std::move(job));
}

}  // namespace vestige::anchor
