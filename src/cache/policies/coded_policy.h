#pragma once

// What policies have in common whose codes stand for closed rows: the sinks and a window of the last closed rows stay
// exact, at ratio 1 all of them.

#include <memory>
#include <utility>

#include "cache/policies/coded_index.h"
#include "cache/policies/settings.h"

namespace vestige {

class CodedPolicy : public PositionalPolicy {
 public:
  CodedPolicy(PolicyConfig config, const CodedSpan& span) : PositionalPolicy(std::move(config)), span_(span) {}
  int64_t n_keep(int64_t n_closed) const final { return exact() ? n_closed : span_.n_recent(n_closed); }
  std::unique_ptr<RecallIndex> create_index(const RowLayout& layout, const KeyRotation& rotation) const final {
    return exact() ? nullptr : make_index(layout, rotation);
  }
  double coded_row_bytes(const RowLayout& layout) const final { return exact() ? 0 : code_bytes(layout); }

 protected:
  virtual std::unique_ptr<RecallIndex> make_index(const RowLayout& layout, const KeyRotation& rotation) const = 0;
  /// Of a coded row. Default: by the ratio.
  virtual double code_bytes(const RowLayout& layout) const { return double(layout.row_bytes()) / config().ratio; }
  /// Whether every row is kept.
  bool exact() const { return config().ratio == 1; }
  const CodedSpan& span() const { return span_; }

 private:
  CodedSpan span_;
};

/// From n_sinks and the setting `window`, so that at least `fewest` rows of a first block are coded.
/// @return InvalidArgument naming what is too large
Result<CodedSpan> span_of_blocks(const PolicyConfig& complete, int32_t fewest);

}  // namespace vestige
