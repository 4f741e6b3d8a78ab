#pragma once

// Closed rows by codes of equal size, all but the sinks and the last ones, which are kept: the index of policies that
// quantise (kivi, turboquant). Codes do not depend on queries, so a block is coded as it closes.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/left_rows.h"
#include "cache/policies/coded_index.h"
#include "cache/policies/row_quantiser.h"
#include "cache/policies/tile_attention.h"

namespace vestige {

class QuantisedIndex final : public CodedIndex {
 public:
  QuantisedIndex(const RowLayout& layout, const CodedSpan& span, int64_t block_rows,
                 std::unique_ptr<const RowQuantiser> quantiser)
      : CodedIndex(span, block_rows),
        d_(layout.d_content),
        quantiser_(std::move(quantiser)),
        tiles_(layout, tile_rows()) {
    ready_ = true;
  }

  /// All at once, since blocks make no difference.
  Status fit(const RecallFit& fit, Stream& stream) override {
    return fit.n_closed == n_closed_ ? Status() : code_until(whole_rows(fit.rows), fit.n_closed, stream);
  }
  int64_t size_bytes() const override { return static_cast<int64_t>(codes_.size()); }
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 protected:
  Status code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream) override;
  Status attend(const RecallStep& step, const CodedPart& part, Stream& stream) override;

 private:
  /// Rows of a piece that is coded or decoded at a time: about 256.
  int64_t tile_rows() const;
  int64_t bytes_of(int64_t n_rows) const { return n_rows / span().group_rows * quantiser_->group_bytes(); }
  ConstTensorView codes_of(int64_t first, int64_t n) const;

  int64_t d_;
  std::unique_ptr<const RowQuantiser> quantiser_;
  std::vector<uint8_t> codes_;  ///< of rows n_sinks, n_sinks + 1, ...
  TileAttention tiles_;
};

}  // namespace vestige
