#pragma once

// Closed rows as AnchorKV codes, in segments: what fit() covers, then one for each block that closed after it. Rows
// that are kept (sinks and the window, by their place) are in no segment, so that no row is attended twice.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/policies/anchor/coded_layer.h"
#include "cache/policies/coded_index.h"
#include "vestige/policy.h"

namespace vestige::anchor {

struct IndexSettings {
  double ratio = 32;
  int32_t block_rows = 4096;
  CodedSpan span = {.window = 32};  ///< of rows in segments
  bool lean = true;
  int64_t n_anchors = 0;  ///< of a segment; 0 = one for 128 rows and 32 at least, for half of the bytes at most
  double rho = 0.7;
  AnchorRule anchors = AnchorRule::kDrawn;
  int64_t n_near = 0;
  PickSettings pick = {};
  int32_t bits = 2;         ///< of a residual's coordinate, 2 to 4
  bool whole_layer = true;  ///< residuals of a fit: the best of all heads of the layer, else of each head
  bool relative = true;     ///< and that by utility relative to the head's values
  std::string utility = "query_free";
  uint64_t seed = 0;
  bool certificate = false;
  int64_t sketch_bytes = 8;  ///< of a key, with the certificate
  bool operator==(const IndexSettings&) const = default;
};

/// The arrays of a segment.
CodeLayout segment_layout(const IndexSettings& settings, int64_t n_anchors);

/// The highest ratio that codes without anchors or residuals reach, at width d.
double highest_ratio(const IndexSettings& settings, int64_t d);

/// Residuals and anchors that a ratio buys for n rows. Anchors make way first, down to one; a ratio beyond that is
/// taken for the highest there is: a few rows cannot pay for an anchor.
Result<CodeSettings> segment_settings(const IndexSettings& settings, int64_t n, int64_t d);

/// Of one key-value head.
class AnchorIndex final : public CodedIndex {
 public:
  AnchorIndex(const RowLayout& layout, KeyRotation rotation, const IndexSettings& settings)
      : CodedIndex(settings.span, settings.block_rows),
        layout_(layout),
        rotation_(std::move(rotation)),
        settings_(settings) {}

  Status prepare_fit(const RecallFit& fit, Stream& stream) override;
  Status fit(const RecallFit& fit, Stream& stream) override;
  Status rebuild(const RebuiltRows& out, Stream& stream) const override;
  int64_t size_bytes() const override;
  Status save(const std::string& prefix, TensorSink& sink) const override;
  Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) override;

 protected:
  Status code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream) override;
  Status attend(const RecallStep& step, const CodedPart& part, Stream& stream) override;

 private:
  struct Segment {
    int64_t first = 0;  ///< row of its token 0
    CodedLayer code;
    int64_t n() const { return code.plan.shape.n_coded(); }
  };
  /// Rows on their way to a segment, as floats, keys turned back.
  struct Gathered {
    int64_t first = 0;
    std::vector<float> key, value, q;
    std::vector<int32_t> q_positions;
    HeadTokens head;
    LayerTokens tokens;  ///< views of the above
    CodeSettings settings;
  };
  /// Between prepare_fit() and fit().
  struct Prepared {
    LayerFit* layer = nullptr;
    int64_t head = 0;
    BareLayer bare;
  };
  int64_t d() const { return layout_.d_content; }
  /// Rows [first, end), and those up to n_rows, which the queries see too. @param fit null: no queries
  Result<std::unique_ptr<Gathered>> gather(const ClosedBlock& rows, int64_t first, int64_t end, int64_t n_rows,
                                           const RecallFit* fit) const;
  /// What fit() codes.
  Result<std::unique_ptr<Gathered>> gather_all(const RecallFit& fit) const;
  void add_queries(const RecallFit& fit, Gathered* to) const;
  void add_directions(Gathered* to) const;
  Result<CodedLayer> code_all(const RecallFit& fit, const Gathered& rows, Stream& stream);
  std::vector<float> sketch_scores(const Segment& segment, const RecallStep& step) const;
  /// After attend() has filled scores_ and the part's output.
  Status certify(const RecallStep& step, const CodedPart& part, Stream& stream) const;
  Status load_segment(const std::string& prefix, const TensorSource& source, const int64_t* sizes, int64_t first);

  RowLayout layout_;
  KeyRotation rotation_;
  IndexSettings settings_;
  std::vector<Segment> segments_;
  Prepared prepared_;
  std::vector<float> q_, part_, lse_;  // of a step
  std::vector<float> scores_;          // with the certificate: [h, n] of each segment
};

}  // namespace vestige::anchor
