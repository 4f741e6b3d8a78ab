#include "vestige/policy.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vestige {

int64_t CachePolicy::n_keep(int64_t n_closed) const {
  if (n_closed <= 0) return 0;
  const auto n = static_cast<int64_t>(std::llround(static_cast<double>(n_closed) / config().ratio));
  return std::clamp<int64_t>(n, 1, n_closed);
}

ObservedQueries CachePolicy::observes() const { return ObservedQueries::kNone; }

int64_t CachePolicy::n_observed() const { return 0; }

std::unique_ptr<PromptScorer> CachePolicy::create_scorer(const RowLayout&, int32_t) const { return nullptr; }

std::unique_ptr<RecallIndex> CachePolicy::create_index(const RowLayout&, const KeyRotation&) const { return nullptr; }

std::unique_ptr<LayerFit> CachePolicy::create_layer_fit() const { return nullptr; }

std::unique_ptr<KeepBudget> CachePolicy::create_keep_budget() const { return nullptr; }

double CachePolicy::coded_row_bytes(const RowLayout&) const { return 0; }

Status RecallIndex::prepare_fit(const RecallFit&, Stream&) { return {}; }

Status RecallIndex::attend_codes(const RecallStep&, const CodedPart&, Stream&) {
  return internal_error("this recall index attends no codes");
}

Status RecallIndex::rebuild(const RebuiltRows&, Stream&) const {
  return unsupported("rebuild: the codes of this policy are not read back as rows");
}

Status RecallIndex::extend_dropped(const ClosedBlock&, Stream&) {
  return internal_error("this recall index has no codes for dropped rows");
}

Status TensorSink::put_rows(const std::string& name, std::span<const ConstTensorView> parts) {
  if (parts.empty()) return invalid_argument("put_rows %s: no parts", name.c_str());
  if (parts.size() == 1) return put(name, parts[0]);
  int64_t n_rows = 0;
  size_t n_bytes = 0;
  for (const ConstTensorView& part : parts) {
    n_rows += part.dim(0);
    n_bytes += static_cast<size_t>(part.n_elements()) * dtype_bytes(part.dtype);
  }
  VESTIGE_ASSIGN(Buffer buffer, Buffer::create(n_bytes));
  std::byte* to = buffer.data();
  for (const ConstTensorView& part : parts) {
    const size_t part_bytes = static_cast<size_t>(part.n_elements()) * dtype_bytes(part.dtype);
    std::memcpy(to, part.data, part_bytes);
    to += part_bytes;
  }
  ConstTensorView all = parts[0];
  all.data = buffer.data();
  all.shape[0] = n_rows;
  return put(name, all);
}

}  // namespace vestige
