#include "cache/policies/vestige/entropy_gate.h"

#include <algorithm>

#include "cache/policies/vestige/best_archived.h"

namespace vestige {

namespace {

constexpr float kOff = -INFINITY;

/// Best score, and entropy where wanted, of `n` queries over the rows that mask selects.
struct Looked {
  std::vector<float>*best, *entropy;
  std::vector<int32_t>* arg;
};

Status look_at(const BestRowsParams& p, const Looked& out, Stream& stream) {
  const auto n = static_cast<size_t>(p.q.dim(0));
  const auto shape = {p.q.dim(0)};
  BestRowsParams call = p;
  out.best->resize(n);
  out.arg->resize(n);
  call.best = TensorView(out.best->data(), DType::kF32, shape);
  call.arg = TensorView(out.arg->data(), DType::kI32, shape);
  if (out.entropy != nullptr) {
    out.entropy->resize(n);
    call.entropy = TensorView(out.entropy->data(), DType::kF32, shape);
  }
  return ops::best_rows(call, stream);
}

}  // namespace

void EntropyGate::clear() {
  hard_.clear();
  easy_.clear();
  theta_ = kOff;
}

bool EntropyGate::active() const { return theta_ != kOff; }

// The rank below is at least 1 from here on.
int64_t EntropyGate::min_hard() const { return static_cast<int64_t>(std::ceil(1 / alpha_ - 1 - 1e-9)); }

void EntropyGate::set_theta() {
  theta_ = kOff;
  const auto n = static_cast<int64_t>(hard_.size());
  // Of n + 1 exchangeable entropies the last is below the k-th of the others with probability at most k / (n + 1).
  const auto k = static_cast<int64_t>(std::floor(static_cast<double>(n + 1) * alpha_ + 1e-9));
  if (k < 1) return;
  std::vector<float> sorted = hard_;
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end());
  const float theta = sorted[static_cast<size_t>(k - 1)];
  const auto is_open = [theta](float x) { return x >= theta; };
  const auto n_open =
      std::count_if(hard_.begin(), hard_.end(), is_open) + std::count_if(easy_.begin(), easy_.end(), is_open);
  const auto n_all = static_cast<double>(hard_.size() + easy_.size());
  if (static_cast<double>(n_open) <= kMostOpen * n_all) theta_ = theta;
}

Status EntropyGate::add(const CodecQueries& c, Stream& stream) {
  const int64_t n = c.queries.dim(0) * c.queries.dim(1);
  const std::vector<int32_t> limit = rows_seen(c);
  std::vector<int32_t> arg, kept_arg;
  std::vector<float> archived, kept, entropy;
  BestRowsParams p = {.q = ConstTensorView(c.queries.data, DType::kF32, {n, c.queries.dim(2)}),
                      .rows = c.rows,
                      .limit = ConstTensorView(limit.data(), DType::kI32, {n}),
                      .mask = c.kept,
                      .want = 0,
                      .best = {},
                      .arg = {},
                      .scale = c.scale};
  VESTIGE_TRY(look_at(p, {&archived, nullptr, &arg}, stream));
  p.want = 1;
  VESTIGE_TRY(look_at(p, {&kept, &entropy, &kept_arg}, stream));
  VESTIGE_TRY(stream.synchronize());
  for (size_t i = 0; i < arg.size(); ++i) {
    if (arg[i] < 0 || kept_arg[i] < 0 || std::isnan(entropy[i])) continue;
    (archived[i] > kept[i] ? hard_ : easy_).push_back(entropy[i]);
  }
  set_theta();
  return {};
}

Status EntropyGate::look(const RecallStep& step, std::vector<uint8_t>* open, Stream& stream) {
  const int64_t h = step.q.dim(1);
  open->assign(static_cast<size_t>(h), 1);
  if (!active()) return {};
  limit_.assign(static_cast<size_t>(h), static_cast<int32_t>(step.kept_rows.n_rows));
  VESTIGE_TRY(look_at({.q = ConstTensorView(step.q.data, DType::kF32, {h, step.q.dim(2)}),
                       .rows = step.kept_rows,
                       .limit = ConstTensorView(limit_.data(), DType::kI32, {h}),
                       .best = {},
                       .arg = {},
                       .scale = step.scale},
                      {&best_, &entropy_, &arg_}, stream));
  VESTIGE_TRY(stream.synchronize());
  for (size_t i = 0; i < open->size(); ++i) (*open)[i] = entropy_[i] < theta_ ? 0 : 1;
  return {};
}

Status EntropyGate::save(const std::string& prefix, TensorSink& sink) const {
  for (const auto& [name, values] : {std::pair{"gate_hard", &hard_}, std::pair{"gate_easy", &easy_}}) {
    const auto n = static_cast<int64_t>(values->size());
    if (n > 0) VESTIGE_TRY(sink.put(prefix + name, ConstTensorView(values->data(), DType::kF32, {n})));
  }
  return {};
}

Status EntropyGate::load(const std::string& prefix, const TensorSource& source) {
  clear();
  for (const auto& [name, values] : {std::pair{"gate_hard", &hard_}, std::pair{"gate_easy", &easy_}}) {
    const auto stored = source.get(prefix + name, DType::kF32, {-1});
    if (!stored.ok() && stored.status().code() != StatusCode::kNotFound) return stored.status();
    if (stored.ok()) values->assign(stored->as<float>(), stored->as<float>() + stored->dim(0));
    for (const float x : *values) {
      if (std::isnan(x)) return data_loss("%s%s: an entropy is not a number", prefix.c_str(), name);
    }
  }
  set_theta();
  return {};
}

}  // namespace vestige
