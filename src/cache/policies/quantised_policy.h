#pragma once

// What policies that code every row alike have in common: their bytes follow from their settings, so that of the ratio
// only 1 counts (every row is kept); the sinks and a window of the last closed rows stay exact.

#include <memory>
#include <utility>

#include "cache/policies/quantised_index.h"
#include "cache/policies/settings.h"

namespace vestige {

class QuantisedPolicy : public ConfiguredPolicy {
 public:
  QuantisedPolicy(PolicyConfig config, const CodedSpan& span) : ConfiguredPolicy(std::move(config)), span_(span) {}
  int64_t n_keep(int64_t n_closed) const override { return config().ratio == 1 ? n_closed : span_.n_recent(n_closed); }
  Status score_block(const ConstTensorView&, const ConstTensorView&, int64_t first_position, const TensorView& score,
                     Stream&) const override {
    return score_by_position(first_position, score);
  }
  bool scores_by_position() const override { return true; }
  std::unique_ptr<RecallIndex> create_index(const RowLayout& layout, const KeyRotation&) const override {
    if (config().ratio == 1) return nullptr;
    return std::make_unique<QuantisedIndex>(layout, span_, create_quantiser(layout.d_content));
  }
  double coded_row_bytes(const RowLayout& layout) const override {
    if (config().ratio == 1) return 0;
    const auto quantiser = create_quantiser(layout.d_content);
    return double(quantiser->group_bytes()) / double(quantiser->group_rows());
  }

 protected:
  virtual std::unique_ptr<const RowQuantiser> create_quantiser(int64_t d) const = 0;

 private:
  CodedSpan span_;
};

/// The setting `window` of all of them.
inline PolicySetting window_setting() { return {"window", 128, 0, 65536, "last closed rows, kept exact"}; }

/// @param group_rows of the quantiser
/// @return InvalidArgument if blocks do not hold whole groups
Result<CodedSpan> coded_span(const PolicyConfig& complete, int64_t group_rows);

/// @return Unsupported unless rows are [value ; key] of one width
Status check_coded_layout(const char* policy, const RowLayout& layout);

}  // namespace vestige
