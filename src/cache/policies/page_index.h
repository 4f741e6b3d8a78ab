#pragma once

// A recall index over pages: a digest of each run of page_rows rows, from which a step picks the pages to attend.

#include <cstdint>
#include <string>
#include <vector>

#include "vestige/policy.h"

namespace vestige {

struct PageSettings {
  PageDigest digest = PageDigest::kBox;
  int32_t page_rows = 32;
  int32_t top_k = 0;          ///< pages of each head; 0 = every page whose bound passes the kept rows' best score
  int32_t max_recall = 4096;  ///< rows
};

/// Queries do not enter the digests: fit() only covers what extend() has not, and a loaded index continues as it was.
class PageIndex final : public RecallIndex {
 public:
  PageIndex(const RowLayout& layout, int32_t block_rows, const PageSettings& settings)
      : layout_(layout), block_rows_(block_rows), settings_(settings) {}

  Status fit(const RecallFit& fit, Stream& stream) override { return extend(fit.rows, fit.n_closed, stream); }
  Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) override;
  Status recall(const RecallStep& step, Stream& stream) override;
  int64_t max_recall() const override { return settings_.max_recall; }
  int64_t size_bytes() const override { return n_indexed_ / settings_.page_rows * digest_bytes(); }
  int64_t scan_bytes(int64_t n_closed) const override;
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 private:
  bool boxes() const { return settings_.digest == PageDigest::kBox; }
  int64_t block_pages() const { return block_rows_ / settings_.page_rows; }
  int64_t digest_bytes() const { return (boxes() ? 2 : 1) * layout_.row_bytes() + static_cast<int64_t>(sizeof(float)); }

  RowLayout layout_;
  int64_t block_rows_;
  PageSettings settings_;
  std::vector<const void*> upper_, lower_, radius_;  // page tables, one entry a block; lower_ of boxes only
  std::vector<Buffer> owned_;
  int64_t n_indexed_ = 0;
};

/// `page_rows`, `top_k` and `max_recall` of a policy over pages, as its PolicyInfo has them.
std::vector<PolicySetting> page_settings(std::vector<PolicySetting> own);
/// Reads them back. @return InvalidArgument if page_rows does not divide block_rows
Result<PageSettings> read_page_settings(const PolicyConfig& config);

/// The policies over pages keep the most recent rows, as streaming does, and recall pages.
Result<std::shared_ptr<const CachePolicy>> make_page_policy(PolicyConfig config, const PageSettings& settings);

}  // namespace vestige
