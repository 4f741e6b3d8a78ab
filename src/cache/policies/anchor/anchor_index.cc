#include "cache/policies/anchor/anchor_index.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cache/key_turn.h"
#include "cache/left_rows.h"
#include "cache/policies/anchor/draw.h"
#include "cache/policies/anchor/layer_ranking.h"

namespace vestige::anchor {

namespace {

constexpr int64_t kObserved = 32;      // last tokens whose queries rank rows: the paper's observation window
constexpr int64_t kFewestWanted = 32;  // anchors

}  // namespace

CodeLayout segment_layout(const IndexSettings& settings, int64_t n_anchors) {
  CodeLayout l = settings.lean ? lean_layout(n_anchors) : paper_layout();
  l.bits = settings.bits;
  if (!settings.certificate) return l;
  l.key_bound_bytes = l.value_bound_bytes = 1;
  l.sketch_bytes = static_cast<int32_t>(settings.sketch_bytes);
  return l;
}

double highest_ratio(const IndexSettings& settings, int64_t d) {
  const CodeLayout l = segment_layout(settings, 1);
  const double sketch = l.sketch_bytes > 0 ? l.sketch_bytes + 1 : 0;
  const double row = 2 * (l.index_bytes + l.gamma_bytes) + l.position_id_bytes + l.key_bound_bytes +
                     l.value_bound_bytes + sketch + 24.0 / 64;
  return 4 * static_cast<double>(d) / row;
}

Result<CodeSettings> segment_settings(const IndexSettings& settings, int64_t n, int64_t d) {
  CodeSettings s = {.layout = {},
                    .ratio = settings.ratio,
                    .window = 0,
                    .n_anchors = std::min(n, settings.n_anchors),
                    .rho = settings.rho,
                    .anchors = settings.anchors,
                    .n_near = settings.n_near,
                    .utility = settings.utility,
                    .pick = settings.pick,
                    .seed = settings.seed};
  const bool given = settings.n_anchors > 0;
  if (!given) s.n_anchors = std::min(n, default_anchors(n, kFewestWanted));
  s.layout = segment_layout(settings, s.n_anchors);
  BytePlan plan;
  plan.shape = {.n_tokens = n, .window = 0, .n_anchors = 1, .n_heads = 1, .d = d};
  plan.layout = s.layout;
  const int64_t anchor_bytes = 4 * d + s.layout.anchor_position_bytes;
  const auto budget = static_cast<int64_t>(std::floor(static_cast<double>(4 * n * d) / settings.ratio));
  const int64_t room = budget - (plan.base_bytes() - anchor_bytes);
  s.n_anchors = std::clamp<int64_t>((given ? room : room / 2) / anchor_bytes, 1, s.n_anchors);
  s.layout = segment_layout(settings, s.n_anchors);
  plan.layout = s.layout;
  // Half a byte more than needed: the quotient rounds.
  const double highest = static_cast<double>(4 * n * d) / (static_cast<double>(plan.base_bytes()) + 0.5);
  if (room < anchor_bytes) s.ratio = std::min(s.ratio, highest);
  return s;
}

void AnchorIndex::add_queries(const RecallFit& fit, Gathered* to) const {
  const int64_t n_queries = fit.queries.dim(0), h = fit.queries.dim(1);
  for (int64_t i = std::max<int64_t>(0, n_queries - kObserved); i < n_queries; ++i) {
    const int64_t position = fit.first_position + i - to->first;
    for (int64_t g = 0; g < h && position >= 0; ++g) {
      const float* from = fit.queries.as<float>() + (i * h + g) * 2 * d() + d();
      to->q.insert(to->q.end(), from, from + d());
      to->q_positions.push_back(static_cast<int32_t>(position));
    }
  }
  turn_keys(to->q.data(), static_cast<int64_t>(to->q_positions.size()), d(), rotation_, to->first, 0, -1);
  to->tokens.scale = fit.scale;
}

// No queries: any direction alike. Where all pairs are turned, query_free sees a query by its pairs' energy alone.
void AnchorIndex::add_directions(Gathered* to) const {
  const int64_t d = this->d(), n = to->head.key.dim(0);
  const bool one = 2 * static_cast<int64_t>(rotation_.frequencies.size()) == d;
  to->q.assign(static_cast<size_t>(one ? d : d * d), one ? 1.0f : 0.0f);
  for (int64_t j = 0; j < d && !one; ++j) to->q[static_cast<size_t>(j * d + j)] = 1.0f;
  to->q_positions.assign(static_cast<size_t>(one ? 1 : d), static_cast<int32_t>(n - 1));
  if (to->settings.utility != "random") to->settings.utility = "query_free";
  to->settings.rho = 0;
  to->settings.pick.pooled = false;
}

Result<std::unique_ptr<AnchorIndex::Gathered>> AnchorIndex::gather(const ClosedBlock& rows, int64_t first, int64_t end,
                                                                   int64_t n_rows, const RecallFit* fit) const {
  const int64_t n = n_rows - first, d = this->d();
  auto to = std::make_unique<Gathered>();
  to->first = first;
  to->key.resize(static_cast<size_t>(n * d));
  to->value.resize(to->key.size());
  std::vector<float> row(static_cast<size_t>(2 * d));
  for (int64_t t = 0; t < n; ++t) {
    VESTIGE_TRY(load_left_row(rows, first + t, row.data()));
    std::copy_n(row.data(), d, to->value.data() + t * d);
    std::copy_n(row.data() + d, d, to->key.data() + t * d);
  }
  turn_keys(to->key.data(), n, d, rotation_, first, 1, -1);
  VESTIGE_ASSIGN(to->settings, segment_settings(settings_, end - first, d));
  to->settings.seed = mix(settings_.seed) ^ static_cast<uint64_t>(first);
  to->head = {.key = {to->key.data(), DType::kF32, {n, d}}, .value = {to->value.data(), DType::kF32, {n, d}}, .q = {}};
  to->tokens = {.heads = {&to->head, 1},
                .q_positions = {},
                .frequencies = frequencies_of(rotation_),
                .interleaved = rotation_.interleaved,
                .n_tokens = end - first};
  fit != nullptr ? add_queries(*fit, to.get()) : add_directions(to.get());
  const auto m = static_cast<int64_t>(to->q_positions.size());
  to->head.q = {to->q.data(), DType::kF32, {m, d}};
  to->tokens.q_positions = {to->q_positions.data(), DType::kI32, {m}};
  return to;
}

Result<std::unique_ptr<AnchorIndex::Gathered>> AnchorIndex::gather_all(const RecallFit& fit) const {
  return gather(whole_rows(fit.rows), span().n_sinks, span().coded_end(fit.n_closed), fit.rows.n_rows, &fit);
}

Status AnchorIndex::prepare_fit(const RecallFit& fit, Stream& stream) {
  prepared_ = {};
  auto* ranking = dynamic_cast<LayerRanking*>(fit.layer);
  if (ranking == nullptr) return internal_error("prepare_fit: what the layer shares is not of policy anchor");
  if (fit.n_closed == 0) return {};
  VESTIGE_ASSIGN(const auto rows, gather_all(fit));
  VESTIGE_ASSIGN(prepared_.bare, code_bare(rows->tokens, rows->settings, stream));
  prepared_.head = ranking->add(prepared_.bare);
  prepared_.layer = ranking;
  return {};
}

Result<CodedLayer> AnchorIndex::code_all(const RecallFit& fit, const Gathered& rows, Stream& stream) {
  if (fit.layer == nullptr) return code_layer(rows.tokens, rows.settings, stream);
  auto* ranking = dynamic_cast<LayerRanking*>(fit.layer);
  if (ranking == nullptr || prepared_.layer != fit.layer)
    return internal_error("fit: prepare_fit() did not come first");
  const ResidualPick pick = ranking->take(prepared_.head);
  Prepared prepared = std::exchange(prepared_, {});
  return add_residuals(std::move(prepared.bare), rows.tokens, pick, stream);
}

Status AnchorIndex::fit(const RecallFit& fit, Stream& stream) {
  std::vector<Segment> segments;
  if (fit.n_closed > 0) {
    VESTIGE_ASSIGN(const auto rows, gather_all(fit));
    Segment& segment = segments.emplace_back();
    segment.first = rows->first;
    VESTIGE_ASSIGN(segment.code, code_all(fit, *rows, stream));
    segment.code.value.slot.shrink_to_fit();
  }
  VESTIGE_ASSIGN(const float norm, longest_content(whole_rows(fit.rows), layout_, 0, fit.n_closed));
  max_norm_ = norm;
  segments_ = std::move(segments);
  n_closed_ = fit.n_closed;
  ready_ = true;
  return {};
}

Status AnchorIndex::code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream) {
  const int64_t first = span().coded_end(n_closed_), end = span().coded_end(n_closed);
  VESTIGE_ASSIGN(const auto gathered, gather(rows, first, end, end, nullptr));
  Segment segment;
  segment.first = first;
  VESTIGE_ASSIGN(segment.code, code_layer(gathered->tokens, gathered->settings, stream));
  segment.code.value.slot.shrink_to_fit();
  VESTIGE_ASSIGN(const float norm, longest_content(rows, layout_, n_closed_, n_closed));
  segments_.push_back(std::move(segment));
  max_norm_ = std::max(max_norm_, norm);
  n_closed_ = n_closed;
  return {};
}

Status AnchorIndex::attend(const RecallStep& step, const CodedPart& part, Stream& stream) {
  const int64_t h = step.q.dim(1), d = this->d(), n_parts = static_cast<int64_t>(segments_.size());
  part_.resize(static_cast<size_t>(n_parts * h * d));
  lse_.resize(static_cast<size_t>(n_parts * h));
  q_.resize(static_cast<size_t>(h * d));
  scores_.resize(static_cast<size_t>(settings_.certificate ? h * n_coded() : 0));
  float* scores = scores_.data();
  for (int64_t i = 0; i < n_parts; ++i) {
    const Segment& segment = segments_[static_cast<size_t>(i)];
    for (int64_t g = 0; g < h; ++g) std::copy_n(step.q.as<float>() + g * 2 * d + d, d, q_.data() + g * d);
    turn_keys(q_.data(), h, d, rotation_, segment.first, 0, -1);  // tokens count from the segment's first row
    const AnchoredHead head = segment.code.head(0);
    const int64_t n = segment.n();
    const TensorView of_segment = settings_.certificate ? TensorView(scores, DType::kF32, {1, h, n}) : TensorView();
    scores += settings_.certificate ? h * n : 0;
    VESTIGE_TRY(ops::attend_anchored({.q = {q_.data(), DType::kF32, {1, h, d}},
                                      .heads = {&head, 1},
                                      .bits = segment.code.plan.layout.bits,
                                      .seed = segment.code.rotation_seed,
                                      .frequencies = frequencies_of(rotation_),
                                      .interleaved = rotation_.interleaved,
                                      .scale = step.scale,
                                      .out = {part_.data() + i * h * d, DType::kF32, {1, h, d}},
                                      .lse = {lse_.data() + i * h, DType::kF32, {1, h}},
                                      .scores = of_segment},
                                     stream));
    VESTIGE_TRY(stream.synchronize());  // q_ is written anew
  }
  VESTIGE_TRY(ops::merge_parts({.part = {part_.data(), DType::kF32, {n_parts, 1, h, d}},
                                .lse = {lse_.data(), DType::kF32, {n_parts, 1, h}},
                                .out = part.out,
                                .lse_out = part.lse},
                               stream));
  if (!settings_.certificate || n_parts == 0) return {};
  VESTIGE_TRY(stream.synchronize());
  return certify(step, part, stream);
}

int64_t AnchorIndex::size_bytes() const {
  int64_t total = 0;
  for (const Segment& segment : segments_) total += segment.code.n_bytes();
  return total;
}

}  // namespace vestige::anchor
