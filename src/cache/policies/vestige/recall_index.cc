#include "cache/policies/vestige/recall_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "cache/policies/vestige/calibration.h"
#include "cache/policies/vestige/needed_z.h"
#include "cache/row_store.h"

namespace vestige {

SketchIndex::SketchIndex(const RowLayout& layout, int32_t block_rows, const RecallSettings& settings)
    : layout_(layout),
      block_rows_(block_rows),
      settings_(settings),
      rank_(std::min(settings.sketch_rank, layout.d_content)),
      z_(settings.z_max) {}

TensorView SketchIndex::basis_view(const State& state) const {
  return TensorView(state.basis.data(), DType::kF32, {rank_, layout_.d_content});
}

Status SketchIndex::add_rows(const RowPages& rows, int64_t n_closed, State* state, Stream& stream) const {
  while (state->n_indexed < n_closed) {
    const auto n = static_cast<size_t>(block_rows_);
    VESTIGE_ASSIGN(Buffer sketch, Buffer::create(n * static_cast<size_t>(rank_) * sizeof(uint16_t)));
    VESTIGE_ASSIGN(Buffer residual, Buffer::create(n * sizeof(float)));
    const void* content = rows.content[state->n_indexed / block_rows_];
    VESTIGE_TRY(ops::sketch_rows({.content = ConstTensorView(content, layout_.dtype, {block_rows_, layout_.d_content}),
                                  .basis = basis_view(*state),
                                  .sketch = TensorView(sketch.data(), DType::kF16, {block_rows_, rank_}),
                                  .residual = TensorView(residual.data(), DType::kF32, {block_rows_})},
                                 stream));
    // Room first: whatever throws, no table points at memory that nobody owns.
    make_room(&state->sketch, 1);
    make_room(&state->residual, 1);
    make_room(&state->owned, 2);
    state->sketch.push_back(sketch.data());
    state->residual.push_back(residual.data());
    state->owned.push_back(std::move(sketch));
    state->owned.push_back(std::move(residual));
    state->n_indexed += block_rows_;
  }
  return {};
}

Status SketchIndex::fit(const RecallFit& fit, Stream& stream) {
  State state;
  VESTIGE_ASSIGN(state.basis, Buffer::create(static_cast<size_t>(rank_ * layout_.d_content) * sizeof(float)));
  state.ready = true;
  // Content columns of all heads' queries: rows of d_content numbers, d_row apart.
  ConstTensorView x(fit.queries.data, DType::kF32, {fit.queries.dim(0) * fit.queries.dim(1), layout_.d_row()});
  x.shape[1] = layout_.d_content;
  VESTIGE_TRY(ops::fit_basis({.x = x, .basis = basis_view(state)}, stream));
  VESTIGE_TRY(add_rows(fit.rows, fit.n_closed, &state, stream));
  VESTIGE_ASSIGN(const float z, calibrate(fit, state, stream));
  z_ = z;
  state_ = std::move(state);
  return {};
}

Status SketchIndex::build_provisional(const RowPages& rows, int64_t n_closed, Stream& stream) {
  State state;
  VESTIGE_ASSIGN(state.basis, Buffer::create(static_cast<size_t>(rank_ * layout_.d_content) * sizeof(float)));
  state.ready = true;
  for (int64_t i = 0; i < rank_; ++i) basis_view(state).as<float>()[i * layout_.d_content + i] = 1.0f;
  VESTIGE_TRY(add_rows(rows, n_closed, &state, stream));
  state_ = std::move(state);
  return {};
}

Status SketchIndex::extend(const RowPages& rows, int64_t n_closed, Stream& stream) {
  // Without a basis there is nothing to add yet: fit() or the first recall() indexes all rows at once.
  return state_.ready ? add_rows(rows, n_closed, &state_, stream) : Status();
}

Status SketchIndex::recall(const RecallStep& step, Stream& stream) {
  if (!state_.ready) VESTIGE_TRY(build_provisional(step.rows, step.n_closed, stream));
  if (state_.n_indexed != step.n_closed) {
    return internal_error("recall over %lld closed rows, the index has %lld", static_cast<long long>(step.n_closed),
                          static_cast<long long>(state_.n_indexed));
  }
  const ScanSet set = {.pages = {.branch = step.rows.branch,
                                 .sketch = state_.sketch.data(),
                                 .residual = state_.residual.data(),
                                 .page_rows = block_rows_,
                                 .n_rows = step.n_closed,
                                 .d_branch = layout_.d_branch,
                                 .rank = rank_,
                                 .branch_dtype = layout_.dtype},
                       .basis = basis_view(state_),
                       .kept = step.kept,
                       .z = z_};
  return ops::scan_archive({.q = step.q,
                            .sets = std::span(&set, 1),
                            .threshold = step.kept_max,
                            .ids = step.ids,
                            .n_ids = step.n_ids,
                            .n_fired = step.n_fired,
                            .scale = step.scale},
                           stream);
}

Result<float> SketchIndex::calibrate(const RecallFit& fit, const State& state, Stream& stream) const {
  if (fit.n_closed == 0) return settings_.z_max;
  const int64_t n_tokens = std::min<int64_t>(fit.queries.dim(0), settings_.n_calibrate);
  const int64_t skipped = fit.queries.dim(0) - n_tokens;
  const int64_t h = fit.queries.dim(1);
  const ConstTensorView last = fit.queries.slice(skipped, n_tokens);
  RowPages closed = fit.rows;
  closed.n_rows = fit.n_closed;
  NeededZ needed = {.queries = ConstTensorView(last.data, DType::kF32, {n_tokens * h, layout_.d_row()}),
                    .heads = h,
                    .first_position = fit.first_position + skipped,
                    .rows = closed,
                    .kept = fit.kept,
                    .basis = basis_view(state),
                    .sketch = state.sketch,
                    .residual = state.residual,
                    .scale = fit.scale};
  VESTIGE_ASSIGN(std::vector<float> samples, needed_z(needed, stream));
  return calibrated_z(samples, settings_.tau, settings_.z_max);
}

int64_t SketchIndex::size_bytes() const {
  const int64_t row = rank_ * static_cast<int64_t>(sizeof(uint16_t)) + static_cast<int64_t>(sizeof(float));
  return static_cast<int64_t>(state_.basis.size_bytes()) + state_.n_indexed * row;
}

int64_t SketchIndex::scan_bytes(int64_t n_closed) const {
  const auto branch = static_cast<int64_t>(dtype_bytes(layout_.dtype)) * layout_.d_branch;
  const int64_t entry = rank_ * static_cast<int64_t>(sizeof(uint16_t)) + static_cast<int64_t>(sizeof(float));
  return n_closed * (branch + entry + 1);  // 1: the kept mask
}

Status SketchIndex::save(const std::string& prefix, TensorSink& sink) const {
  const uint8_t ready = state_.ready ? 1 : 0;
  VESTIGE_TRY(sink.put(prefix + "index_ready", ConstTensorView(&ready, DType::kU8, {1})));
  if (!state_.ready) return {};
  VESTIGE_TRY(sink.put(prefix + "z", ConstTensorView(&z_, DType::kF32, {1})));
  VESTIGE_TRY(sink.put(prefix + "basis", basis_view(state_)));
  if (state_.n_indexed == 0) return {};
  std::vector<ConstTensorView> sketch, residual;
  for (size_t i = 0; i < state_.sketch.size(); ++i) {
    sketch.push_back(ConstTensorView(state_.sketch[i], DType::kF16, {block_rows_, rank_}));
    residual.push_back(ConstTensorView(state_.residual[i], DType::kF32, {block_rows_}));
  }
  VESTIGE_TRY(sink.put_rows(prefix + "sketch", sketch));
  return sink.put_rows(prefix + "residual", residual);
}

Status SketchIndex::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  VESTIGE_ASSIGN(const ConstTensorView ready, source.get(prefix + "index_ready", DType::kU8, {1}));
  State state;
  state.ready = *ready.as<uint8_t>() != 0;
  float z = settings_.z_max;
  if (state.ready) {
    VESTIGE_ASSIGN(const ConstTensorView z_view, source.get(prefix + "z", DType::kF32, {1}));
    std::memcpy(&z, z_view.data, sizeof z);
    if (!(z >= 0 && z <= settings_.z_max)) {
      return data_loss("%sz = %g, want 0 to z_max = %g", prefix.c_str(), z, settings_.z_max);
    }
    VESTIGE_ASSIGN(const ConstTensorView basis, source.get(prefix + "basis", DType::kF32, {rank_, layout_.d_content}));
    VESTIGE_ASSIGN(state.basis, Buffer::create(static_cast<size_t>(rank_ * layout_.d_content) * sizeof(float)));
    std::memcpy(state.basis.data(), basis.data, state.basis.size_bytes());
  }
  if (state.ready && n_closed > 0) {
    VESTIGE_ASSIGN(const ConstTensorView sketch, source.get(prefix + "sketch", DType::kF16, {n_closed, rank_}));
    VESTIGE_ASSIGN(const ConstTensorView residual, source.get(prefix + "residual", DType::kF32, {n_closed}));
    for (int64_t row = 0; row < n_closed; row += block_rows_) {
      state.sketch.push_back(sketch.slice(row, block_rows_).data);
      state.residual.push_back(residual.slice(row, block_rows_).data);
    }
    state.n_indexed = n_closed;
  }
  state_ = std::move(state);
  z_ = z;
  return {};
}

}  // namespace vestige
