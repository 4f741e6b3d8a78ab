#include "cache/policies/quantised_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cache/left_rows.h"

namespace vestige {

namespace {

/// >= the length of the longest value. @param rows [n, 2 d]
/// @return InvalidArgument if a number is not finite
Result<float> longest_value(const float* rows, int64_t n, int64_t d, int64_t first_row) {
  double most = 0;
  for (int64_t t = 0; t < n; ++t) {
    double square = 0;
    for (int64_t j = 0; j < 2 * d; ++j) {
      const auto x = double(rows[t * 2 * d + j]);
      if (!std::isfinite(x)) {
        return invalid_argument("row %lld holds a number that is not finite, which codes cannot stand for",
                                static_cast<long long>(first_row + t));
      }
      if (j < d) square += x * x;
    }
    most = std::max(most, square);
  }
  return static_cast<float>(std::sqrt(most) * (1 + 1e-6));
}

}  // namespace

int64_t QuantisedIndex::tile_rows() const {
  constexpr int64_t kAbout = 256;  // floats of a tile stay in the second-level cache
  return std::max<int64_t>(1, kAbout / span().group_rows) * span().group_rows;
}

ConstTensorView QuantisedIndex::codes_of(int64_t first, int64_t n) const {
  return {codes_.data() + bytes_of(first), DType::kU8, {n / span().group_rows, quantiser_->group_bytes()}};
}

// Built aside and moved in at the end: after an error the index is as it was.
Status QuantisedIndex::code_until(const ClosedBlock& rows, int64_t n_closed, Stream& stream) {
  const int64_t begin = span().n_coded(n_closed_), end = span().n_coded(n_closed), width = 2 * d_;
  std::vector<uint8_t> codes(static_cast<size_t>(bytes_of(end)));  // just as large as needed: it is counted
  std::copy(codes_.begin(), codes_.end(), codes.begin());
  std::vector<float> tile(static_cast<size_t>(std::min(tile_rows(), end - begin) * width));
  float norm = max_norm_;
  for (int64_t first = begin; first < end; first += tile_rows()) {
    const int64_t n = std::min(tile_rows(), end - first), row = span().n_sinks + first;
    for (int64_t t = 0; t < n; ++t) VESTIGE_TRY(load_left_row(rows, row + t, tile.data() + t * width));
    VESTIGE_ASSIGN(const float longest, longest_value(tile.data(), n, d_, row));
    norm = std::max(norm, longest);
    VESTIGE_TRY(quantiser_->encode(
        {tile.data(), DType::kF32, {n, width}},
        {codes.data() + bytes_of(first), DType::kU8, {n / span().group_rows, quantiser_->group_bytes()}}, stream));
    VESTIGE_TRY(stream.synchronize());  // the tile is written anew
  }
  codes_ = std::move(codes);
  max_norm_ = norm;
  n_closed_ = n_closed;
  return {};
}

Status QuantisedIndex::attend(const RecallStep& step, const CodedPart& part, Stream& stream) {
  tiles_.begin();
  for (int64_t first = 0; first < n_coded(); first += tile_rows()) {
    const int64_t n = std::min(tile_rows(), n_coded() - first);
    VESTIGE_TRY(quantiser_->decode(codes_of(first, n), tiles_.tile(n), stream));
    VESTIGE_TRY(tiles_.attend(step, n, stream));
  }
  return tiles_.merge(part, stream);
}

Status QuantisedIndex::save(const std::string& prefix, TensorSink& sink) const {
  if (n_coded() == 0) return {};
  VESTIGE_TRY(sink.put(prefix + "quantised_norm", ConstTensorView(&max_norm_, DType::kF32, {1})));
  return sink.put(prefix + "quantised_codes", codes_of(0, n_coded()));
}

Status QuantisedIndex::load(const std::string& prefix, const TensorSource& source, int64_t n_closed) {
  const int64_t n = span().n_coded(n_closed);
  std::vector<uint8_t> codes;
  float norm = 0;
  if (n > 0) {
    VESTIGE_ASSIGN(const ConstTensorView stored, source.get(prefix + "quantised_norm", DType::kF32, {1}));
    std::memcpy(&norm, stored.data, sizeof norm);
    if (!(norm >= 0)) return data_loss("%squantised_norm: want 0 or more", prefix.c_str());
    VESTIGE_ASSIGN(const ConstTensorView view, source.get(prefix + "quantised_codes", DType::kU8,
                                                          {n / span().group_rows, quantiser_->group_bytes()}));
    if (!quantiser_->check(view)) {
      return data_loss("%squantised_codes: a scale is no finite number from 0 on", prefix.c_str());
    }
    codes.assign(view.as<uint8_t>(), view.as<uint8_t>() + bytes_of(n));
  }
  codes_ = std::move(codes);
  loaded(n_closed, norm);
  return {};
}

}  // namespace vestige
