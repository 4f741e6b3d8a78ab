#pragma once

// What a recall index stores of each archived row, how a query is scored against it, and the bound that comes with it.
// One implementation a codec; which rows are admitted by the bound is the index's matter (recall_index.h).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "vestige/policy.h"

namespace vestige {

/// One step's scan. Stage s of a codec bounds a score by  coded score + z[s] * reach_s.
struct CodecScan {
  const RecallStep* step = nullptr;  ///< q, rows, kept, scale; ids, n_ids, n_fired, omitted and n_stage are filled
  ConstTensorView threshold;         ///< [1, h] f32
  float z[2] = {1, 1};
  int32_t top_j = 0;  ///< rows a head may fire; 0 = any number
  /// What rows that join add to a head's threshold: see ScanCodesParams. The sketch, which has no least scores, adds
  /// none.
  float share = 0;
  int32_t n_free = 0;
};

/// Queries to calibrate z with.
struct CodecQueries {
  ConstTensorView queries;     ///< [n, h, d_row] f32
  int64_t first_position = 0;  ///< query i may see rows <= first_position + i
  RowPages rows;               ///< closed rows
  const uint8_t* kept = nullptr;
  float scale = 1.0f;
  bool hard_only =
      false;  ///< label rule A: only queries whose best row is archived, and z lifts it to the best kept score
};

class IndexCodec {
 public:
  virtual ~IndexCodec() = default;
  /// Builds everything anew.
  virtual Status fit(const RecallFit& fit, Stream& stream) = 0;
  /// Whether there is something to scan with; before, provisional() builds it without a prompt's queries.
  virtual bool ready() const = 0;
  virtual Status provisional(const RecallStep& step, Stream& stream) = 0;
  /// Adds rows up to n_closed with the present fit.
  virtual Status extend(const RowPages& rows, int64_t n_closed, Stream& stream) = 0;
  virtual int64_t n_indexed() const = 0;
  virtual Status scan(const CodecScan& scan, Stream& stream) = 0;
  /// Mode through; see RecallIndex.
  virtual bool has_values() const { return false; }
  virtual Status attend(const RecallStep& step, const CodedPart& part, Stream& stream);
  virtual float max_content_norm() const { return 0; }

  virtual int32_t n_stages() const = 0;
  /// The z at which the bound holds for certain.
  virtual float sound_z() const = 0;
  /// For each query that sees an archived row: the z of each stage that the row of best true score needs,
  /// [stage][sample]. Samples that no z moves are left out; one that is not a number is +inf.
  virtual Result<std::vector<std::vector<float>>> needed_z(const CodecQueries& queries, Stream& stream) const = 0;

  /// Bytes of one row's entry that a scan reads, by stage; the branch counted where it is read in place.
  virtual int64_t row_bytes(int32_t stage) const = 0;
  virtual int64_t size_bytes() const = 0;
  virtual Status save(const std::string& prefix, TensorSink& sink) const = 0;
  virtual Status load(const std::string& prefix, const TensorSource& source, int64_t n_closed) = 0;
};

/// The paper's: the exact branch, a rank-r sketch of the content and a residual norm (Eq. 4).
std::unique_ptr<IndexCodec> create_sketch_codec(const RowLayout& layout, int32_t block_rows, int32_t rank);

struct RowCodecSettings {
  int32_t code_bytes = 72;     ///< of stage 0, norms apart; a multiple of 4
  int32_t refine_bytes = 144;  ///< of stage 1; 0 = one stage
  bool values = false;  ///< rows may be attended by their code: error norms of the content, value map in the metric
};

/// Transform code in two nested stages with error norms (docs/policies/vestige.md).
std::unique_ptr<IndexCodec> create_row_codec(const RowLayout& layout, int32_t block_rows,
                                             const RowCodecSettings& settings);

}  // namespace vestige
