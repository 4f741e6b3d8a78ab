#pragma once

// Closed rows of one key-value head as transform codes, all of them but the sinks and the window; and the budget that
// the heads and layers of a sequence share. Source: docs/policies/klt.md.

#include <cstdint>
#include <string>
#include <vector>

#include "cache/policies/coded_index.h"
#include "cache/policies/klt/coded_head.h"

namespace vestige::klt {

struct IndexSettings {
  double ratio = 20;
  int32_t block_rows = 4096;
  CodedSpan span = {.window = 32};
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

/// Without a fit the budget is its own.
class KltIndex final : public CodedIndex {
 public:
  KltIndex(const RowLayout& layout, KeyRotation rotation, const IndexSettings& settings)
      : CodedIndex(settings.span, settings.block_rows),
        layout_(layout),
        rotation_(std::move(rotation)),
        settings_(settings) {}

  Status prepare_fit(const RecallFit& fit, Stream& stream) override;
  Status fit(const RecallFit& fit, Stream& stream) override;
  Status rebuild(const RebuiltRows& out, Stream& stream) const override;
  int64_t size_bytes() const override { return n_closed_ > 0 && ready_ ? head_.n_bytes() : 0; }
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 protected:
  Status code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream) override;
  Status code_unfitted(const RecallStep& step, Stream& stream) override;
  Status attend(const RecallStep& step, const CodedPart& part, Stream& stream) override;

 private:
  int64_t d() const { return layout_.d_content; }
  Result<HeadRows> gather(const ClosedBlock& rows, int64_t first, int64_t end) const;
  /// With keys as they were before their turn.
  Result<HeadRows> gather_coded(const ClosedBlock& rows, int64_t first, int64_t end) const;
  Result<SharedBudget::Head> transform_of(const RecallFit& fit, Stream& stream) const;
  /// Codes rows [n_sinks, coded_end(n_closed)) by the transform at a price.
  Status settle(const HeadTransform& transform, const RowPages& rows, int64_t n_closed, double price, Stream& stream);

  RowLayout layout_;
  KeyRotation rotation_;
  IndexSettings settings_;
  CodedHead head_;
  LayerFit* prepared_by_ = nullptr;  ///< between prepare_fit() and fit(), which knows the head there by this number
  size_t prepared_as_ = 0;
};

}  // namespace vestige::klt
