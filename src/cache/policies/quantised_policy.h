#pragma once

// Policies that code every row alike: their bytes follow from their settings, so that of the ratio only 1 counts.

#include <memory>

#include "cache/policies/coded_policy.h"
#include "cache/policies/quantised_index.h"

namespace vestige {

class QuantisedPolicy : public CodedPolicy {
 public:
  using CodedPolicy::CodedPolicy;

 protected:
  virtual std::unique_ptr<const RowQuantiser> create_quantiser(int64_t d) const = 0;

 private:
  std::unique_ptr<RecallIndex> make_index(const RowLayout& layout, const KeyRotation&) const final {
    return std::make_unique<QuantisedIndex>(layout, span(), config().block_rows, create_quantiser(layout.d_content));
  }
  double code_bytes(const RowLayout& layout) const final {
    const auto quantiser = create_quantiser(layout.d_content);
    return double(quantiser->group_bytes()) / double(quantiser->group_rows());
  }
};

/// The setting `window` of all of them.
inline PolicySetting window_setting() { return {"window", 128, 0, 65536, "last closed rows, kept exact"}; }

/// @param group_rows of the quantiser
/// @return InvalidArgument if blocks do not hold whole groups
Result<CodedSpan> coded_span(const PolicyConfig& complete, int64_t group_rows);

/// @return Unsupported unless rows are [value ; key] of one width
Status check_coded_layout(const char* policy, const RowLayout& layout);

}  // namespace vestige
