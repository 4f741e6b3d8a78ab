#pragma once

// Closed latent rows as codes, in segments as AnchorIndex has them: what fit() covers, then one for each block that
// closed after it. A tile of rows at a time is decoded and attended as rows are.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/policies/anchor/anchor_index.h"
#include "cache/policies/anchor/latent_code.h"
#include "vestige/policy.h"

namespace vestige::anchor {

/// Of one sequence and layer. Until fit() nothing is coded; recall() then codes what is closed without queries, in a
/// basis of the first block.
class LatentIndex final : public RecallIndex {
 public:
  LatentIndex(const RowLayout& layout, const IndexSettings& settings)
      : layout_(layout), settings_(settings), n_coded_(settings.n_sinks) {}

  Status fit(const RecallFit& fit, Stream& stream) override;
  Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) override;
  Status recall(const RecallStep& step, Stream& stream) override;
  bool attends_codes() const override { return true; }
  bool replaces_rows() const override { return ready_; }
  Status extend_dropped(const ClosedBlock& block, Stream& stream) override;
  Status attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream) override;
  float max_content_norm() const override { return max_norm_; }
  int64_t max_recall() const override { return 1; }  // none: rows are read by their code
  int64_t size_bytes() const override;
  int64_t scan_bytes(int64_t) const override { return size_bytes(); }
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 private:
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
  Status add_block(const ClosedBlock& rows, int64_t n_closed, Stream& stream);
  Status load_basis(const std::string& prefix, const TensorSource& source, const int64_t* sizes);
  Status load_segment(const std::string& prefix, const TensorSource& source, const int64_t* sizes);

  RowLayout layout_;
  IndexSettings settings_;
  bool ready_ = false;
  LatentBasis basis_;  ///< empty until there is a segment
  std::vector<LatentSegment> segments_;
  int64_t n_closed_ = 0, n_coded_;  ///< rows up to n_coded_ are sinks or coded
  int64_t n_checked_ = -1;          ///< closed rows when kept and coded rows were last held against each other
  float max_norm_ = 0;
  std::vector<float> tile_, part_, lse_;  // of a step
};

}  // namespace vestige::anchor
