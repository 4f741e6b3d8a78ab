#pragma once

// Closed rows of one key-value head as transform codes, all of them but the sinks and the window; and the budget that
// the heads and layers of a sequence share. Source: docs/policies/klt.md.

#include <cstdint>
#include <string>
#include <vector>

#include "cache/policies/klt/coded_head.h"
#include "vestige/policy.h"

namespace vestige::klt {

struct IndexSettings {
  double ratio = 20;
  int32_t block_rows = 4096;
  int64_t n_sinks = 4;  ///< first rows, not coded
  int64_t window = 32;  ///< last closed rows, not coded yet
  Weighting weighting;  ///< of errors
};

/// Collects the variances of all heads of a sequence and finds the price that spends their bytes.
class SharedBudget final : public LayerFit {
 public:
  struct Head {
    HeadTransform transform;
    double budget_bytes = 0;
  };
  /// @return the head's number
  size_t add(Head head);
  /// Once each.
  Head take(size_t number) { return std::move(heads_[number]); }
  /// Found at the first call, after the last add().
  double price();

 private:
  std::vector<Head> heads_;
  double price_ = 0;
};

/// Until fit() nothing is coded; recall() then codes what is closed, without queries and by its own budget.
class KltIndex final : public RecallIndex {
 public:
  KltIndex(const RowLayout& layout, KeyRotation rotation, const IndexSettings& settings)
      : layout_(layout), rotation_(std::move(rotation)), settings_(settings) {}

  Status prepare_fit(const RecallFit& fit, Stream& stream) override;
  Status fit(const RecallFit& fit, Stream& stream) override;
  Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) override;
  Status recall(const RecallStep& step, Stream& stream) override;
  bool attends_codes() const override { return true; }
  Status attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream) override;
  bool replaces_rows() const override { return ready_ && n_closed_ > 0; }
  Status extend_dropped(const ClosedBlock& block, Stream& stream) override;
  float max_content_norm() const override { return max_norm_; }
  int64_t max_recall() const override { return 1; }  // none: rows are read by their code
  int64_t size_bytes() const override { return n_closed_ > 0 && ready_ ? head_.n_bytes() : 0; }
  int64_t scan_bytes(int64_t) const override { return size_bytes(); }
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 private:
  int64_t d() const { return layout_.d_content; }
  int64_t coded_end(int64_t n_closed) const { return n_closed - settings_.window; }
  Result<HeadRows> gather(const ClosedBlock& rows, int64_t first, int64_t end) const;
  Result<SharedBudget::Head> transform_of(const RecallFit& fit, Stream& stream) const;
  /// Codes rows [n_sinks, coded_end(n_closed)) by the transform at a price.
  Status settle(const HeadTransform& transform, const RowPages& rows, int64_t n_closed, double price, Stream& stream);
  /// One more block. @param rows those of the window and the block's
  Status add(const ClosedBlock& rows, Stream& stream);
  void see_norms(const HeadRows& rows);

  RowLayout layout_;
  KeyRotation rotation_;
  IndexSettings settings_;
  bool ready_ = false;
  int64_t n_closed_ = 0;
  int64_t n_checked_ = -1;  ///< closed rows when kept and coded rows were last held against each other
  CodedHead head_;
  LayerFit* prepared_by_ = nullptr;  ///< between prepare_fit() and fit(), which knows the head there by this number
  size_t prepared_as_ = 0;
  float max_norm_ = 0;
};

}  // namespace vestige::klt
