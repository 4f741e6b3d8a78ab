#pragma once

// Closed rows by codes of equal size, all but the sinks and the last ones, which are kept: the index of policies that
// quantise (kivi, turboquant). Codes do not depend on queries, so a block is coded as it closes.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/policies/row_quantiser.h"
#include "vestige/policy.h"

namespace vestige {

/// Which closed rows stay exact beside the sinks: the last `window`, and those before them that fill no group.
struct CodedSpan {
  int64_t n_sinks = 4, window = 128, group_rows = 1;

  /// Of n_closed rows, a multiple of group_rows.
  int64_t n_recent(int64_t n_closed) const;
  int64_t n_coded(int64_t n_closed) const;
};

class QuantisedIndex final : public RecallIndex {
 public:
  QuantisedIndex(const RowLayout& layout, const CodedSpan& span, std::unique_ptr<const RowQuantiser> quantiser)
      : layout_(layout), span_(span), quantiser_(std::move(quantiser)) {}

  Status fit(const RecallFit& fit, Stream& stream) override { return extend(fit.rows, fit.n_closed, stream); }
  Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) override;
  Status recall(const RecallStep& step, Stream& stream) override;
  bool attends_codes() const override { return true; }
  Status attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream) override;
  bool replaces_rows() const override { return span_.n_coded(n_closed_) > 0; }
  Status extend_dropped(const ClosedBlock& block, Stream& stream) override;
  float max_content_norm() const override { return max_norm_; }
  int64_t max_recall() const override { return 1; }  // none: rows are read by their code
  int64_t size_bytes() const override { return static_cast<int64_t>(codes_.size()); }
  int64_t scan_bytes(int64_t) const override { return size_bytes(); }
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 private:
  int64_t d() const { return layout_.d_content; }
  /// Rows of a piece that is coded or decoded at a time: about 256.
  int64_t tile_rows() const;
  int64_t bytes_of(int64_t n_rows) const { return n_rows / span_.group_rows * quantiser_->group_bytes(); }
  ConstTensorView codes_of(int64_t first, int64_t n) const;
  Status code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream);

  RowLayout layout_;
  CodedSpan span_;
  std::unique_ptr<const RowQuantiser> quantiser_;
  int64_t n_closed_ = 0;
  std::vector<uint8_t> codes_;  ///< of rows n_sinks, n_sinks + 1, ...
  float max_norm_ = 0;
  int64_t n_checked_ = -1;                ///< closed rows when kept and coded rows were last held against each other
  std::vector<float> tile_, part_, lse_;  ///< of a step
};

}  // namespace vestige
