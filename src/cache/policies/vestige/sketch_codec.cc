// A sketch and a residual norm for every closed row. Source: arXiv:2609.03949v1, Eq. 4.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "cache/policies/vestige/index_codec.h"
#include "cache/policies/vestige/needed_z.h"
#include "cache/row_store.h"

namespace vestige {

Status IndexCodec::attend(const RecallStep&, const CodedPart&, Stream&) {
  return internal_error("this codec holds no values");
}

namespace {

class SketchCodec final : public IndexCodec {
 public:
  SketchCodec(const RowLayout& layout, int32_t block_rows, int32_t rank)
      : layout_(layout), block_rows_(block_rows), rank_(std::min(rank, layout.d_content)) {}

  Status fit(const RecallFit& fit, Stream& stream) override;
  bool ready() const override { return state_.ready; }
  Status provisional(const RecallStep& step, Stream& stream) override;
  Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) override {
    // Without a basis there is nothing to add yet: fit() or provisional() indexes all rows at once.
    return state_.ready ? add_rows(rows, n_closed, &state_, stream) : Status();
  }
  int64_t n_indexed() const override { return state_.n_indexed; }
  Status scan(const CodecScan& scan, Stream& stream) override;
  int32_t n_stages() const override { return 1; }
  float sound_z() const override { return std::sqrt(static_cast<float>(std::max(1, layout_.d_content - rank_))); }
  Result<std::vector<std::vector<float>>> needed_z(const CodecQueries& queries, Stream& stream) const override;
  int64_t row_bytes(int32_t) const override {
    return rank_ * int64_t{2} + int64_t{4} + layout_.d_branch * static_cast<int64_t>(dtype_bytes(layout_.dtype));
  }
  int64_t size_bytes() const override {
    return state_.n_indexed * (rank_ * int64_t{2} + 4) + static_cast<int64_t>(state_.basis.size_bytes());
  }
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 private:
  /// The parts of a fitted index, built aside and moved in when whole.
  struct State {
    Buffer basis;                               // [r, d_content] f32
    std::vector<const void*> sketch, residual;  // page tables, one entry a block
    std::vector<Buffer> owned;
    int64_t n_indexed = 0;
    bool ready = false;  // there is a basis
  };
  TensorView basis_view(const State& state) const {
    return TensorView(state.basis.data(), DType::kF32, {rank_, layout_.d_content});
  }
  Result<State> empty_state() const;
  Status add_rows(const RowPages& rows, int64_t n_closed, State* state, Stream& stream) const;

  RowLayout layout_;
  int64_t block_rows_;
  int32_t rank_;
  State state_;
};

Result<SketchCodec::State> SketchCodec::empty_state() const {
  State state;
  VESTIGE_ASSIGN(state.basis, Buffer::create(static_cast<size_t>(rank_ * layout_.d_content) * sizeof(float)));
  state.ready = true;
  return state;
}

Status SketchCodec::add_rows(const RowPages& rows, int64_t n_closed, State* state, Stream& stream) const {
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

Status SketchCodec::fit(const RecallFit& fit, Stream& stream) {
  VESTIGE_ASSIGN(State state, empty_state());
  // Content columns of all heads' queries: rows of d_content numbers, d_row apart.
  ConstTensorView x(fit.queries.data, DType::kF32, {fit.queries.dim(0) * fit.queries.dim(1), layout_.d_row()});
  x.shape[1] = layout_.d_content;
  VESTIGE_TRY(ops::fit_basis({.x = x, .basis = basis_view(state)}, stream));
  VESTIGE_TRY(add_rows(fit.rows, fit.n_closed, &state, stream));
  state_ = std::move(state);
  return {};
}

/// The first r content channels as the basis.
Status SketchCodec::provisional(const RecallStep& step, Stream& stream) {
  VESTIGE_ASSIGN(State state, empty_state());
  for (int64_t i = 0; i < rank_; ++i) basis_view(state).as<float>()[i * layout_.d_content + i] = 1.0f;
  VESTIGE_TRY(add_rows(step.rows, step.n_closed, &state, stream));
  state_ = std::move(state);
  return {};
}

Status SketchCodec::scan(const CodecScan& scan, Stream& stream) {
  const RecallStep& step = *scan.step;
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
                       .z = scan.z[0]};
  VESTIGE_TRY(ops::scan_archive({.q = step.q,
                                 .sets = std::span(&set, 1),
                                 .threshold = scan.threshold,
                                 .ids = step.ids,
                                 .n_ids = step.n_ids,
                                 .n_fired = step.n_fired,
                                 .scale = step.scale},
                                stream));
  step.n_stage.as<int64_t>()[0] = step.n_closed;
  return {};
}

Result<std::vector<std::vector<float>>> SketchCodec::needed_z(const CodecQueries& c, Stream& stream) const {
  const NeededZ needed = {.of = c, .basis = basis_view(state_), .sketch = state_.sketch, .residual = state_.residual};
  VESTIGE_ASSIGN(std::vector<float> samples, vestige::needed_z(needed, stream));
  std::vector<std::vector<float>> out;
  out.push_back(std::move(samples));
  return out;
}

Status SketchCodec::save(const std::string& prefix, TensorSink& sink) const {
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

Status SketchCodec::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  VESTIGE_ASSIGN(State state, empty_state());
  VESTIGE_ASSIGN(const ConstTensorView basis, source.get(prefix + "basis", DType::kF32, {rank_, layout_.d_content}));
  std::memcpy(state.basis.data(), basis.data, state.basis.size_bytes());
  if (n_closed > 0) {
    VESTIGE_ASSIGN(const ConstTensorView sketch, source.get(prefix + "sketch", DType::kF16, {n_closed, rank_}));
    VESTIGE_ASSIGN(const ConstTensorView residual, source.get(prefix + "residual", DType::kF32, {n_closed}));
    for (int64_t row = 0; row < n_closed; row += block_rows_) {
      state.sketch.push_back(sketch.slice(row, block_rows_).data);
      state.residual.push_back(residual.slice(row, block_rows_).data);
    }
    state.n_indexed = n_closed;
  }
  state_ = std::move(state);
  return {};
}

}  // namespace

std::unique_ptr<IndexCodec> create_sketch_codec(const RowLayout& layout, int32_t block_rows, int32_t rank) {
  return std::make_unique<SketchCodec>(layout, block_rows, rank);
}

}  // namespace vestige
