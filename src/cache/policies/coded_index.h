#pragma once

// What indexes have in common whose codes stand for closed rows for good: all but the sinks and the last ones, which
// are kept (klt, anchor, and the policies that quantise).

#include <cstdint>
#include <string>

#include "vestige/policy.h"

namespace vestige {

/// Which closed rows stay exact beside the sinks: the last `window`, and those before them that fill no group.
struct CodedSpan {
  int64_t n_sinks = 4, window = 0, group_rows = 1;
  bool operator==(const CodedSpan&) const = default;

  /// Of n_closed rows; n_coded() is a multiple of group_rows.
  int64_t n_recent(int64_t n_closed) const;
  int64_t n_coded(int64_t n_closed) const;
  /// Rows [n_sinks, coded_end) are coded.
  int64_t coded_end(int64_t n_closed) const { return n_sinks + n_coded(n_closed); }
};

/// Until fit() nothing is coded; the first step then codes what is closed, without queries.
class CodedIndex : public RecallIndex {
 public:
  CodedIndex(const CodedSpan& span, int64_t block_rows) : span_(span), block_rows_(block_rows) {}

  Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) final;
  Status extend_dropped(const ClosedBlock& block, Stream& stream) final;
  Status recall(const RecallStep& step, Stream& stream) final;
  bool attends_codes() const final { return true; }
  Status attend_codes(const RecallStep& step, const CodedPart& part, Stream& stream) final;
  bool replaces_rows() const final { return ready_ && n_coded() > 0; }
  float max_content_norm() const final { return max_norm_; }
  int64_t max_recall() const final { return 1; }  // none: rows are read by their code
  int64_t scan_bytes(int64_t) const final { return size_bytes(); }

 protected:
  /// Codes the rows that leave the window when n_closed rows are closed: the block that follows those there are, or
  /// more. After an error the index is as it was.
  virtual Status code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream) = 0;
  /// At a first step without a fit. Default: block by block.
  virtual Status code_unfitted(const RecallStep& step, Stream& stream);
  /// Attention of a step's queries over the coded rows, after error and n_coded of the part are set: no bound is known.
  virtual Status attend(const RecallStep& step, const CodedPart& part, Stream& stream) = 0;

  /// Whether the index is ready and, if so, its norm.
  Status save_state(const std::string& prefix, const char* norm_name, TensorSink& sink) const;
  /// @param most that a norm may be. @return DataLoss, if the file makes no sense
  Status load_state(const std::string& prefix, const char* norm_name, float most, const TensorSource& source,
                    int64_t n_closed);

  /// What a file held of the state.
  void loaded(int64_t n_closed, float max_norm);
  /// >= the length of the values, or contents, of rows [begin, end), infinite if one is not a number.
  static Result<float> longest_content(const ClosedBlock& rows, const RowLayout& layout, int64_t begin, int64_t end);

  const CodedSpan& span() const { return span_; }
  int64_t n_coded() const { return span_.n_coded(n_closed_); }

  bool ready_ = false;
  int64_t n_closed_ = 0;
  float max_norm_ = 0;  ///< >= the length of every coded value, or content

 private:
  CodedSpan span_;
  int64_t block_rows_;
  int64_t n_checked_ = -1;  ///< closed rows when kept and coded rows were last held against each other
};

}  // namespace vestige
