#include "cache/policies/vestige/recall_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "cache/policies/vestige/calibration.h"

namespace vestige {

namespace {

constexpr int64_t kMostSteps = int64_t{1} << 48;  // that a file may say; a multiple of the window's

/// exp(-margin), never above it.
float share_of(float margin) { return static_cast<float>(std::exp(-double(margin)) * (1 - 1e-6)); }

}  // namespace

VestigeIndex::VestigeIndex(const RecallSettings& settings, std::unique_ptr<IndexCodec> codec)
    : settings_(settings), codec_(std::move(codec)), gate_(settings.tau) {
  z_[0] = z_[1] = largest_z();
}

/// Beyond sound_z a larger z only fetches rows that cannot matter.
float VestigeIndex::largest_z() const {
  return settings_.mode == RecallMode::kSound ? codec_->sound_z() : std::min(settings_.z_max, codec_->sound_z());
}

void VestigeIndex::set_z(std::vector<std::vector<float>> samples) {
  if (samples_.empty()) samples_.resize(samples.size());
  for (size_t s = 0; s < samples.size(); ++s) {
    samples_[s].insert(samples_[s].end(), samples[s].begin(), samples[s].end());
    std::vector<float>& all = samples_[s];
    if (settings_.quantile == ZQuantile::kOrder) {
      z_[s] = calibrated_z(all, settings_.tau, largest_z());
    } else {
      const auto most = std::max_element(all.begin(), all.end());
      z_[s] = most == all.end() ? largest_z() : std::clamp(*most, 0.0f, largest_z());
      // The largest of all is the largest of this one and what comes.
      if (most != all.end()) all.assign(1, *most);
    }
  }
}

Status VestigeIndex::calibrate(const RecallFit& fit, Stream& stream) {
  samples_.clear();
  gate_.clear();
  window_.clear();
  z_[0] = z_[1] = largest_z();
  if (fit.n_closed == 0 || settings_.mode == RecallMode::kSound) return {};
  const int64_t n = std::min<int64_t>(fit.queries.dim(0), settings_.n_calibrate), skipped = fit.queries.dim(0) - n;
  RowPages closed = fit.rows;
  closed.n_rows = fit.n_closed;
  return learn({.queries = fit.queries.slice(skipped, n),
                .first_position = fit.first_position + skipped,
                .rows = closed,
                .kept = fit.kept,
                .scale = fit.scale,
                .hard_only = settings_.hard_only},
               stream);
}

Status VestigeIndex::learn(const CodecQueries& queries, Stream& stream) {
  VESTIGE_ASSIGN(auto samples, codec_->needed_z(queries, stream));
  if (settings_.entropy_gate) VESTIGE_TRY(gate_.add(queries, stream));
  set_z(std::move(samples));
  return {};
}

Status VestigeIndex::fit(const RecallFit& fit, Stream& stream) {
  // There is nothing to recall, and the transform is megabytes: it is built when a step first needs it.
  if (fit.n_closed == 0) return {};
  VESTIGE_TRY(codec_->fit(fit, stream));
  return calibrate(fit, stream);
}

Status VestigeIndex::extend(const RowPages& rows, int64_t n_closed, Stream& stream) {
  return codec_->extend(rows, n_closed, stream);
}

Status VestigeIndex::refit(const RecallStep& step, Stream& stream) {
  if (settings_.n_refit == 0 || settings_.mode == RecallMode::kSound) return {};
  window_.add(step.q);
  const int64_t n_steps = window_.n_steps(), times = n_steps / settings_.n_refit;
  if (n_steps % settings_.n_refit != 0 || (times & (times - 1)) != 0) return {};
  RowPages closed = step.rows;
  closed.n_rows = step.n_closed;
  return learn({.queries = window_.queries(),
                .first_position = step.n_closed,
                .rows = closed,
                .kept = step.kept,
                .scale = step.scale,
                .hard_only = settings_.hard_only},
               stream);
}

Status VestigeIndex::recall(const RecallStep& step, Stream& stream) {
  if (!codec_->ready()) VESTIGE_TRY(codec_->provisional(step, stream));
  if (codec_->n_indexed() != step.n_closed) {
    return internal_error("recall over %lld closed rows, the index has %lld", static_cast<long long>(step.n_closed),
                          static_cast<long long>(codec_->n_indexed()));
  }
  const int64_t h = step.q.dim(1);
  threshold_.resize(static_cast<size_t>(h));
  const ConstTensorView& mark = settings_.rule == RecallRule::kMax ? step.kept_max : step.attended_lse;
  for (int64_t i = 0; i < h; ++i) {
    threshold_[static_cast<size_t>(i)] = mark.as<float>()[i] - settings_.margin;
  }
  if (settings_.entropy_gate) {
    VESTIGE_TRY(gate_.look(step, &open_, stream));
    const auto n_gated = static_cast<int32_t>(std::count(open_.begin(), open_.end(), uint8_t{0}));
    *step.n_gated.as<int32_t>() = n_gated;
    if (n_gated == h) {
      *step.n_ids.as<int32_t>() = *step.n_fired.as<int32_t>() = 0;
      return refit(step, stream);
    }
    for (size_t i = 0; i < open_.size(); ++i) {
      if (open_[i] == 0) threshold_[i] = INFINITY;
    }
  }
  const bool raises = settings_.rule == RecallRule::kMass && settings_.raise_after >= 0;
  const CodecScan scan = {.step = &step,
                          .threshold = ConstTensorView(threshold_.data(), DType::kF32, {1, h}),
                          .z = {z_[0], z_[1]},
                          .top_j = settings_.top_j,
                          .share = raises ? share_of(settings_.margin) : 0,
                          .n_free = std::max(settings_.raise_after, 0)};
  VESTIGE_TRY(codec_->scan(scan, stream));
  return refit(step, stream);
}

Status VestigeIndex::attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream) {
  return codec_->attend(step, part, stream);
}

int64_t VestigeIndex::scan_bytes(int64_t n_closed) const {
  return n_closed * (codec_->row_bytes(0) + 1);  // 1: the kept mask
}

Status VestigeIndex::save(const std::string& prefix, TensorSink& sink) const {
  const uint8_t ready = codec_->ready() ? 1 : 0;
  VESTIGE_TRY(sink.put(prefix + "index_ready", ConstTensorView(&ready, DType::kU8, {1})));
  if (!codec_->ready()) return {};
  VESTIGE_TRY(sink.put(prefix + "z", ConstTensorView(z_, DType::kF32, {codec_->n_stages()})));
  for (size_t s = 0; s < samples_.size(); ++s) {
    const auto n = static_cast<int64_t>(samples_[s].size());
    const std::string name = prefix + "z_samples" + std::to_string(s);
    if (n > 0) VESTIGE_TRY(sink.put(name, ConstTensorView(samples_[s].data(), DType::kF32, {n})));
  }
  if (settings_.entropy_gate) VESTIGE_TRY(gate_.save(prefix, sink));
  if (window_.n_steps() > 0) {
    const int64_t n_steps = std::min(window_.n_steps(), kMostSteps);
    VESTIGE_TRY(sink.put(prefix + "refit_steps", ConstTensorView(&n_steps, DType::kI64, {1})));
    VESTIGE_TRY(sink.put(prefix + "refit_queries", window_.queries()));
  }
  return codec_->save(prefix, sink);
}

Status VestigeIndex::load_window(const std::string& prefix, const TensorSource& source) {
  const auto steps = source.get(prefix + "refit_steps", DType::kI64, {1});
  if (!steps.ok()) return steps.status().code() == StatusCode::kNotFound ? Status() : steps.status();
  int64_t n;
  std::memcpy(&n, steps->data, sizeof n);
  if (n < 1 || n > kMostSteps) {
    return data_loss("%srefit_steps = %lld, want 1 to %lld", prefix.c_str(), static_cast<long long>(n),
                     static_cast<long long>(kMostSteps));
  }
  VESTIGE_ASSIGN(const ConstTensorView queries,
                 source.get(prefix + "refit_queries", DType::kF32, {std::min(n, QueryWindow::kSteps), -1, -1}));
  window_.restore(n, queries);
  return {};
}

Status VestigeIndex::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  VESTIGE_ASSIGN(const ConstTensorView ready, source.get(prefix + "index_ready", DType::kU8, {1}));
  if (*ready.as<uint8_t>() == 0) return {};
  VESTIGE_ASSIGN(const ConstTensorView view, source.get(prefix + "z", DType::kF32, {codec_->n_stages()}));
  float z[2] = {largest_z(), largest_z()};
  std::memcpy(z, view.data, static_cast<size_t>(codec_->n_stages()) * sizeof(float));
  for (const float value : z) {
    if (!(value >= 0 && value <= largest_z())) {
      return data_loss("%sz = %g, want 0 to %g", prefix.c_str(), double(value), double(largest_z()));
    }
  }
  std::vector<std::vector<float>> samples;
  for (int32_t s = 0; s < codec_->n_stages(); ++s) {
    const auto stored = source.get(prefix + "z_samples" + std::to_string(s), DType::kF32, {-1});
    samples.emplace_back();
    if (stored.ok()) samples.back().assign(stored->as<float>(), stored->as<float>() + stored->dim(0));
    if (!stored.ok() && stored.status().code() != StatusCode::kNotFound) return stored.status();
    for (const float x : samples.back()) {
      if (std::isnan(x)) return data_loss("%sz_samples%d: one is not a number", prefix.c_str(), s);
    }
  }
  VESTIGE_TRY(load_window(prefix, source));
  VESTIGE_TRY(gate_.load(prefix, source));
  VESTIGE_TRY(codec_->load(prefix, source, n_closed));
  std::copy_n(z, 2, z_);
  samples_ = std::move(samples);
  return {};
}

}  // namespace vestige
