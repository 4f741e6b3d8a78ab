#pragma once

// Closed latent rows as codes, in segments as AnchorIndex has them: what fit() covers, then one for each block that
// closed after it. A tile of rows at a time is decoded and attended as rows are.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/policies/anchor/anchor_index.h"
#include "cache/policies/anchor/latent_code.h"
#include "cache/policies/tile_attention.h"

namespace vestige::anchor {

/// Of one sequence and layer. Without a fit the basis is that of the first block.
class LatentIndex final : public CodedIndex {
 public:
  LatentIndex(const RowLayout& layout, const IndexSettings& settings)
      : CodedIndex(settings.span, settings.block_rows),
        layout_(layout),
        settings_(settings),
        tiles_(layout, kTileRows) {}

  Status fit(const RecallFit& fit, Stream& stream) override;
  int64_t size_bytes() const override;
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 protected:
  Status code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream) override;
  Status attend(const RecallStep& step, const CodedPart& part, Stream& stream) override;

 private:
  static constexpr int64_t kTileRows = 256;  // decoded and attended at a time

  struct Coded {
    LatentBasis basis;
    LatentSegment segment;
    float norm = 0;  ///< >= the length of every content from `seen` on
  };
  int64_t budget(int64_t n) const;
  /// Codes rows [first, end). @param seen first row whose content counts in the norm, up to n_closed
  /// @param fit null: no queries
  Result<Coded> code(const ClosedBlock& rows, int64_t first, int64_t end, int64_t seen, int64_t n_closed,
                     const LatentBasis* basis, const RecallFit* fit, Stream& stream) const;
  Status load_basis(const std::string& prefix, const TensorSource& source, const int64_t* sizes);
  Status load_segment(const std::string& prefix, const TensorSource& source, const int64_t* sizes, int64_t first);

  RowLayout layout_;
  IndexSettings settings_;
  LatentBasis basis_;  ///< empty until there is a segment
  std::vector<LatentSegment> segments_;
  TileAttention tiles_;
};

}  // namespace vestige::anchor
