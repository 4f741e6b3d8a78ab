// Source: docs/policies/vestige.md, "The transform code". Water-filling is the textbook's reverse water-filling; metric
// and stages are those of ../shared/reference/index-codec-study.md, sections 3 and 5.

#include "cache/policies/vestige/row_codec.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/ops/norm_grid.h"
#include "base/load_number.h"
#include "cache/row_store.h"

namespace vestige {

namespace {

constexpr int64_t kSampleRows = 2048;  // of the archive, for covariance and steps
constexpr int64_t kNormRows = 32;      // of the sample, for the grids of norms
constexpr int64_t kMaxGroups = 8;      // error norms a row
// The norm grid spans 15.9 octaves: four above the largest norm of the sample, for rows yet to come.
constexpr double kNormHeadroom = 16;

int64_t groups_of(int64_t h) {
  int64_t n = std::min(h, kMaxGroups);
  while (h % n != 0) --n;
  return n;
}

/// Rows of a sequence, evenly spaced, as f32 [n, d].
std::vector<float> sample_rows(const RowPages& rows, int64_t n_rows, int64_t n) {
  const RowLayout& l = rows.layout;
  std::vector<float> out;
  out.reserve(static_cast<size_t>(n * l.d_row()));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t u = i * n_rows / n, page = u / rows.page_rows, at = u % rows.page_rows;
    for (int64_t k = 0; k < l.d_content; ++k) {
      out.push_back(load_number(rows.content[page], l.dtype, at * rows.content_stride + k));
    }
    for (int64_t k = 0; k < l.d_branch; ++k) {
      out.push_back(load_number(rows.branch[page], l.dtype, at * rows.branch_stride + k));
    }
  }
  return out;
}

float grid_base(double most) {
  return static_cast<float>(std::max(most, 1e-20) * kNormHeadroom / double(norm_grid()[254]));
}

}  // namespace

int64_t RowCodec::transform_floats(int64_t d, int64_t n_groups, int64_t rank) {
  return d + 2 * d * d + 2 * n_groups * rank * d + n_groups;
}

RowTransform RowCodec::transform_view(const State& state) const {
  const int64_t n = d(), groups = state.n_groups, rank = state.rank;
  const float* at = state.transform;
  const auto take = [&at](std::initializer_list<int64_t> shape) {
    const ConstTensorView view(at, DType::kF32, shape);
    at += view.n_elements();
    return view;
  };
  RowTransform t;
  t.mean = take({n});
  t.forward = take({n, n});
  t.dual = take({n, n});
  t.metric = take({groups, rank, n});
  t.white = take({groups, rank, n});
  t.ridge = take({groups});
  return t;
}

/// Of what a stage leaves of the sample, the largest norm in any group's metric.
float RowCodec::norm_base(const State& state, std::span<const float> left) const {
  const RowTransform t = transform_view(state);
  const int64_t n = static_cast<int64_t>(left.size()) / d();
  double most = 0;
  for (int64_t i = 0; i < n; i += std::max<int64_t>(1, n / kNormRows)) {
    const float* e = left.data() + i * d();
    for (int64_t g = 0; g < state.n_groups; ++g) {
      double square = 0;
      for (int64_t k = 0; k < d(); ++k) square += double(e[k]) * double(e[k]) * double(t.ridge.as<float>()[g]);
      for (int64_t r = 0; r < state.rank; ++r) {
        const float* row = t.metric.as<float>() + (g * state.rank + r) * d();
        float sum = 0;
        for (int64_t k = 0; k < d(); ++k) sum += row[k] * e[k];
        square += double(sum) * double(sum);
      }
      most = std::max(most, square);
    }
  }
  return grid_base(std::sqrt(most));
}

/// The largest content error of a coded row of the sample.
float RowCodec::value_base(const State& state, std::span<const float> left) const {
  const RowTransform t = transform_view(state);
  const int64_t n = static_cast<int64_t>(left.size()) / d();
  std::vector<float> error(static_cast<size_t>(layout_.d_content));
  double most = 0;
  for (int64_t i = 0; i < n; i += std::max<int64_t>(1, n / kNormRows)) {
    std::fill(error.begin(), error.end(), 0.0f);
    for (int64_t j = 0; j < d(); ++j) {
      const float e = left[static_cast<size_t>(i * d() + j)];
      const float* row = t.dual.as<float>() + j * d();
      for (size_t c = 0; c < error.size(); ++c) error[c] += e * row[c];
    }
    double square = 0;
    for (const float x : error) square += double(x) * double(x);
    most = std::max(most, square);
  }
  return grid_base(std::sqrt(most));
}

Status RowCodec::allocate_transform(State* state) const {
  const int64_t n_floats = transform_floats(d(), state->n_groups, state->rank);
  VESTIGE_ASSIGN(Buffer memory, Buffer::create(static_cast<size_t>(n_floats) * sizeof(float)));
  state->transform = reinterpret_cast<const float*>(memory.data());
  state->owned.clear();
  state->owned.push_back(std::move(memory));
  return {};
}

/// A head's queries may span few dimensions (content and branch width of the model): ranks that no group has are
/// rows of zeros at the end of `metric` and `white`.
Status RowCodec::drop_empty_ranks(State* state) const {
  const std::vector<Buffer> before = std::move(state->owned);
  const RowTransform from = transform_view(*state);
  const auto empty = [&](int64_t r) {
    for (int64_t g = 0; g < state->n_groups; ++g) {
      const float* row = from.metric.as<float>() + (g * d() + r) * d();
      if (std::any_of(row, row + d(), [](float x) { return x != 0; })) return false;
    }
    return true;
  };
  while (state->rank > 1 && empty(state->rank - 1)) --state->rank;
  VESTIGE_TRY(allocate_transform(state));
  float* to = const_cast<float*>(state->transform);
  const auto put = [&to](const ConstTensorView& v) {
    std::copy_n(v.as<float>(), v.n_elements(), to);
    to += v.n_elements();
  };
  put(from.mean);
  put(from.forward);
  put(from.dual);
  for (const ConstTensorView& each : {from.metric, from.white}) {
    for (int64_t g = 0; g < state->n_groups; ++g) {
      put(ConstTensorView(each.as<float>() + g * d() * d(), DType::kF32, {state->rank, d()}));
    }
  }
  put(from.ridge);
  return {};
}

Status RowCodec::fit_state(const RecallFit& fit, State* state, Stream& stream) const {
  const int64_t n_rows = fit.n_closed > 0 ? fit.n_closed : fit.rows.n_rows;
  const int64_t n = std::min(n_rows, kSampleRows);
  if (n < 1) return invalid_argument("a recall index is fitted to at least one row");
  state->n_groups = groups_of(fit.queries.dim(1));
  state->rank = d();
  VESTIGE_TRY(allocate_transform(state));
  const RowTransform t = transform_view(*state);
  const auto writable = [](const ConstTensorView& v) {
    TensorView out(const_cast<void*>(v.data), v.dtype, {0});
    out.rank = v.rank;
    out.shape = v.shape;
    out.stride = v.stride;
    return out;
  };
  const std::vector<float> rows = sample_rows(fit.rows, n_rows, n);
  const ConstTensorView x(rows.data(), DType::kF32, {n, d()});
  std::vector<float> variance(static_cast<size_t>(d()));
  VESTIGE_TRY(ops::fit_transform({.queries = fit.queries,
                                  .rows = x,
                                  .value_gram = settings_.values ? fit.value_gram : ConstTensorView(),
                                  .mean = writable(t.mean),
                                  .forward = writable(t.forward),
                                  .dual = writable(t.dual),
                                  .metric = writable(t.metric),
                                  .white = writable(t.white),
                                  .ridge_out = writable(t.ridge),
                                  .variance = TensorView(variance.data(), DType::kF32, {d()})},
                                 stream));
  VESTIGE_TRY(drop_empty_ranks(state));
  return plan_stages(rows, variance, state, stream);
}

/// The stages one after the other, each over what the last one left of the sample.
Status RowCodec::plan_stages(std::span<const float> rows, std::vector<float> variance, State* state,
                             Stream& stream) const {
  const int64_t n = static_cast<int64_t>(rows.size()) / d();
  const RowTransform t = transform_view(*state);
  std::vector<float> centred(rows.begin(), rows.end()), left(rows.size());
  for (size_t i = 0; i < centred.size(); ++i) centred[i] -= t.mean.as<float>()[i % static_cast<size_t>(d())];
  VESTIGE_TRY(ops::matmul({.x = ConstTensorView(centred.data(), DType::kF32, {n, d()}),
                           .w = t.forward,
                           .out = TensorView(left.data(), DType::kF32, {n, d()})},
                          stream));
  for (int32_t s = 0; s < n_stages(); ++s) {
    CodePlan plan = plan_code(variance, s == 0 ? settings_.code_bytes : settings_.refine_bytes);
    tune_steps(&plan, left);
    plan.norm_base = norm_base(*state, left);
    if (s == 0 && settings_.values) state->value_base = value_base(*state, left);
    state->plans.push_back(std::move(plan));
    for (int64_t j = 0; j < d(); ++j) {
      double square = 0;
      for (int64_t i = 0; i < n; ++i) square += std::pow(double(left[static_cast<size_t>(i * d() + j)]), 2);
      variance[static_cast<size_t>(j)] = static_cast<float>(square / double(n));
    }
  }
  return {};
}

std::vector<CodeStage> RowCodec::stages(const State& state) const {
  std::vector<CodeStage> out;
  for (const CodePlan& plan : state.plans) out.push_back(plan.stage());
  return out;
}

Status RowCodec::add_rows(const RowPages& rows, int64_t n_closed, State* state, Stream& stream) const {
  const std::vector<CodeStage> coded = stages(*state);
  while (state->n_indexed < n_closed) {
    const auto block = static_cast<size_t>(state->n_indexed / block_rows_);
    Buffer codes[2], value;
    EncodeRowsParams p;
    p.content = ConstTensorView(rows.content[block], layout_.dtype, {block_rows_, layout_.d_content});
    if (layout_.d_branch > 0) {
      p.branch = ConstTensorView(rows.branch[block], layout_.dtype, {block_rows_, layout_.d_branch});
    }
    p.transform = transform_view(*state);
    p.stages = coded;
    for (size_t s = 0; s < coded.size(); ++s) {
      const int64_t row_bytes = coded[s].row_bytes(state->n_groups);
      VESTIGE_ASSIGN(codes[s], Buffer::create(static_cast<size_t>(CodeStage::padded_rows(block_rows_) * row_bytes)));
      p.codes[s] = TensorView(codes[s].data(), DType::kU8, {CodeStage::padded_rows(block_rows_), row_bytes});
    }
    if (settings_.values) {
      VESTIGE_ASSIGN(value, Buffer::create(static_cast<size_t>(block_rows_)));
      p.value_norm = TensorView(value.data(), DType::kU8, {block_rows_});
      p.value_base = state->value_base;
    }
    float most[2] = {};
    p.max_norm = TensorView(most, DType::kF32, {2});
    VESTIGE_TRY(ops::encode_rows(p, stream));
    VESTIGE_TRY(stream.synchronize());
    // Room first: whatever throws, no table points at memory that nobody owns.
    for (std::vector<const void*>& table : state->codes) make_room(&table, 1);
    make_room(&state->value_norm, 1);
    make_room(&state->owned, 3);
    for (size_t s = 0; s < coded.size(); ++s) {
      state->codes[s].push_back(codes[s].data());
      state->owned.push_back(std::move(codes[s]));
    }
    if (settings_.values) {
      state->value_norm.push_back(value.data());
      state->owned.push_back(std::move(value));
    }
    for (int i = 0; i < 2; ++i) state->max_norm[i] = std::max(state->max_norm[i], most[i]);
    state->n_indexed += block_rows_;
  }
  return {};
}

Status RowCodec::fit(const RecallFit& fit, Stream& stream) {
  State state;
  VESTIGE_TRY(fit_state(fit, &state, stream));
  VESTIGE_TRY(add_rows(fit.rows, fit.n_closed, &state, stream));
  state_ = std::move(state);
  return {};
}

Status RowCodec::provisional(const RecallStep& step, Stream& stream) {
  return fit({.queries = step.q, .rows = step.rows, .n_closed = step.n_closed, .kept = step.kept, .scale = step.scale},
             stream);
}

CodeSet RowCodec::code_set(const RecallStep& step, std::span<const CodeStage> coded) const {
  CodeSet set;
  set.transform = transform_view(state_);
  set.stages = coded;
  set.pages.page_rows = block_rows_;
  set.pages.n_rows = step.n_closed;
  for (size_t s = 0; s < coded.size(); ++s) set.pages.codes[s] = state_.codes[s].data();
  set.pages.value_norm = settings_.values ? state_.value_norm.data() : nullptr;
  set.kept = step.kept;
  set.d_content = layout_.d_content;
  set.max_row_norm = state_.max_norm[0];
  return set;
}

Status RowCodec::scan(const CodecScan& scan, Stream& stream) {
  const RecallStep& step = *scan.step;
  const std::vector<CodeStage> coded = stages(state_);
  CodeSet set = code_set(step, coded);
  std::copy_n(scan.z, 2, set.z);
  return ops::scan_codes({.q = step.q,
                          .sets = std::span(&set, 1),
                          .threshold = scan.threshold,
                          .reference = step.attended_lse,
                          .top_j = scan.top_j,
                          .share = scan.share,
                          .n_free = scan.n_free,
                          .ids = step.ids,
                          .n_ids = step.n_ids,
                          .n_fired = step.n_fired,
                          .n_stage = step.n_stage,
                          .omitted = step.omitted,
                          .scale = step.scale},
                         stream);
}

Status RowCodec::attend(const RecallStep& step, const CodedPart& part, Stream& stream) {
  const std::vector<CodeStage> coded = stages(state_);
  const CodeSet set = code_set(step, coded);
  return ops::attend_codes({.q = step.q,
                            .sets = std::span(&set, 1),
                            .value_base = state_.value_base,
                            .skip = step.ids,
                            .n_skip = step.n_ids,
                            .out = part.out,
                            .lse = part.lse,
                            .error = part.error,
                            .n_coded = part.n_coded,
                            .scale = step.scale},
                           stream);
}

int64_t RowCodec::row_bytes(int32_t stage) const {
  const int64_t values = stage == 0 && settings_.values ? 1 : 0;
  // A code may take less than its settings allow: narrow rows, or a piece that does not fit what is left.
  if (ready()) return state_.plans[static_cast<size_t>(stage)].stage().row_bytes(state_.n_groups) + values;
  return (stage == 0 ? settings_.code_bytes : settings_.refine_bytes) + (kMaxGroups + 3) / 4 * 4 + values;
}

int64_t RowCodec::size_bytes() const {
  if (!ready()) return 0;
  int64_t n = transform_floats(d(), state_.n_groups, state_.rank) * int64_t{sizeof(float)};
  const int64_t n_blocks = state_.n_indexed / block_rows_;
  for (const CodePlan& plan : state_.plans)
    n += n_blocks * CodeStage::padded_rows(block_rows_) * plan.stage().row_bytes(state_.n_groups);
  return n + (settings_.values ? state_.n_indexed : 0);
}

std::unique_ptr<IndexCodec> create_row_codec(const RowLayout& layout, int32_t block_rows,
                                             const RowCodecSettings& settings) {
  return std::make_unique<RowCodec>(layout, block_rows, settings);
}

}  // namespace vestige
