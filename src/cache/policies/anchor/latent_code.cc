#include "cache/policies/anchor/latent_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace vestige::anchor {

namespace {

constexpr uint64_t kSeed = 42;      // of the rotations
constexpr int64_t kTileRows = 256;  // coded or decoded at a time

/// One vector of a row's code: where it lies, how wide it is.
struct Vector {
  int64_t at, d;
  int32_t bits;
  int64_t end() const { return at + rotated_bytes(d, bits); }
};

Vector content_of(const LatentForm& f) { return {0, f.rank, f.bits}; }
Vector branch_of(const LatentForm& f) { return {content_of(f).end(), f.d_branch, LatentForm::kBranchBits}; }
Vector content_residual(const LatentForm& f) { return {0, f.d_content, LatentForm::kResidualBits}; }
Vector branch_residual(const LatentForm& f) {
  return {content_residual(f).end(), f.d_branch, LatentForm::kResidualBits};
}

/// visit(first coordinate, width, byte, bytes of codes) of each power of two; its scale follows its codes.
template <class F>
void each_piece(const Vector& v, F&& visit) {
  int64_t at = v.at, first = 0;
  while (first < v.d) {
    const auto width = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(v.d - first)));
    const int64_t bytes = width / 8 * v.bits;
    visit(first, width, at, bytes);
    at += bytes + 2;
    first += width;
  }
}

/// A piece of n vectors, as the ops want it.
struct Apart {
  Apart(int64_t n, int64_t bytes_in)
      : bytes(bytes_in), codes(static_cast<size_t>(n * bytes_in)), scale(static_cast<size_t>(n)) {}
  TensorView code_view() { return {codes.data(), DType::kU8, {static_cast<int64_t>(scale.size()), bytes}}; }
  TensorView scale_view() { return {scale.data(), DType::kF16, {static_cast<int64_t>(scale.size())}}; }
  int64_t bytes;
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scale;
};

/// @param x [n, v.d], stride elements apart. @param out codes of n rows, out_stride bytes apart
Status encode_vectors(const Vector& v, const float* x, int64_t n, int64_t stride, uint8_t* out, int64_t out_stride,
                      Stream& stream) {
  Status status;
  each_piece(v, [&](int64_t first, int64_t width, int64_t at, int64_t bytes) {
    if (!status.ok()) return;
    Apart apart(n, bytes);
    ConstTensorView from(x + first, DType::kF32, {n, width});
    from.stride[0] = stride;
    status = ops::encode_rotated(
        {.x = from, .bits = v.bits, .seed = kSeed, .codes = apart.code_view(), .scale = apart.scale_view()}, stream);
    if (status.ok()) status = stream.synchronize();
    for (int64_t t = 0; t < n && status.ok(); ++t) {
      uint8_t* to = out + t * out_stride + at;
      std::memcpy(to, apart.codes.data() + t * bytes, static_cast<size_t>(bytes));
      std::memcpy(to + bytes, &apart.scale[static_cast<size_t>(t)], 2);
    }
  });
  return status;
}

/// @param x [n, v.d] dense, out
Status decode_vectors(const Vector& v, const uint8_t* codes, int64_t code_stride, int64_t n, float* x, Stream& stream) {
  Status status;
  each_piece(v, [&](int64_t first, int64_t width, int64_t at, int64_t bytes) {
    if (!status.ok()) return;
    Apart apart(n, bytes);
    for (int64_t t = 0; t < n; ++t) {
      const uint8_t* from = codes + t * code_stride + at;
      std::memcpy(apart.codes.data() + t * bytes, from, static_cast<size_t>(bytes));
      std::memcpy(&apart.scale[static_cast<size_t>(t)], from + bytes, 2);
    }
    TensorView to(x + first, DType::kF32, {n, width});
    to.stride[0] = v.d;
    status = ops::decode_rotated(
        {.codes = apart.code_view(), .scale = apart.scale_view(), .bits = v.bits, .seed = kSeed, .x = to}, stream);
    if (status.ok()) status = stream.synchronize();
  });
  return status;
}

bool scales_hold(const Vector& v, const uint8_t* code) {
  bool hold = true;
  each_piece(v, [&](int64_t, int64_t, int64_t at, int64_t bytes) {
    uint16_t bits;
    std::memcpy(&bits, code + at + bytes, 2);
    const float scale = f16_to_f32(bits);
    hold = hold && std::isfinite(scale) && scale >= 0;
  });
  return hold;
}

bool has_residual(const LatentSegment& s, int64_t t) {
  return (s.mask[static_cast<size_t>(t / 64)] >> (t % 64) & 1) != 0;
}

std::vector<float> widened(const std::vector<uint16_t>& bf16) {
  std::vector<float> out;
  for (const uint16_t x : bf16) out.push_back(bf16_to_f32(x));
  return out;
}

}  // namespace

int64_t residuals_in(const LatentSegment& segment, int64_t begin, int64_t n) {
  int64_t count = 0;
  for (int64_t t = begin; t < begin + n; ++t) count += has_residual(segment, t) ? 1 : 0;
  return count;
}

Result<LatentSegment> code_coarse(const FittedBasis& basis, const ConstTensorView& rows, const TensorView& left,
                                  Stream& stream) {
  const LatentForm& form = basis.basis.form;
  const int64_t n = rows.dim(0), d = form.d_row(), bytes = form.coarse_bytes();
  LatentSegment out;
  out.n = n;
  out.codes.resize(static_cast<size_t>(n * bytes));
  out.mask.resize(static_cast<size_t>((n + 63) / 64));
  const std::vector<float> mean = widened(basis.basis.mean);
  std::vector<float> centred(static_cast<size_t>(kTileRows * d)), t(static_cast<size_t>(kTileRows * form.rank));
  for (int64_t first = 0; first < n; first += kTileRows) {
    const int64_t m = std::min(kTileRows, n - first);
    const float* x = rows.as<float>() + first * d;
    for (int64_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < mean.size(); ++j)
        centred[static_cast<size_t>(i * d) + j] = x[i * d + int64_t(j)] - mean[j];
    }
    ConstTensorView content(centred.data(), DType::kF32, {m, form.d_content});
    content.stride[0] = d;
    VESTIGE_TRY(ops::matmul({.x = content,
                             .w = {basis.forward.data(), DType::kF32, {form.rank, form.d_content}},
                             .out = {t.data(), DType::kF32, {m, form.rank}}},
                            stream));
    VESTIGE_TRY(stream.synchronize());
    uint8_t* to = out.codes.data() + first * bytes;
    VESTIGE_TRY(encode_vectors(content_of(form), t.data(), m, form.rank, to, bytes, stream));
    VESTIGE_TRY(encode_vectors(branch_of(form), centred.data() + form.d_content, m, d, to, bytes, stream));
    float* rest = left.as<float>() + first * d;
    VESTIGE_TRY(decode_latent(basis.basis, out, first, m, 0, {rest, DType::kF32, {m, d}}, stream));
    for (int64_t i = 0; i < m * d; ++i) rest[i] = x[i] - rest[i];
  }
  return out;
}

Status add_latent_residuals(const LatentForm& form, const ConstTensorView& left, std::vector<uint64_t> mask,
                            LatentSegment* segment, Stream& stream) {
  const int64_t d = form.d_row(), bytes = form.residual_bytes();
  segment->mask = std::move(mask);
  segment->n_residuals = residuals_in(*segment, 0, segment->n);
  segment->residuals.resize(static_cast<size_t>(segment->n_residuals * bytes));
  std::vector<float> rows(static_cast<size_t>(kTileRows * d));
  int64_t n = 0, done = 0;
  for (int64_t t = 0; t < segment->n; ++t) {
    if (has_residual(*segment, t)) std::copy_n(left.as<float>() + t * d, d, rows.data() + n++ * d);
    if (n < kTileRows && t + 1 < segment->n) continue;
    uint8_t* to = segment->residuals.data() + done * bytes;
    if (n > 0) VESTIGE_TRY(encode_vectors(content_residual(form), rows.data(), n, d, to, bytes, stream));
    if (n > 0)
      VESTIGE_TRY(encode_vectors(branch_residual(form), rows.data() + form.d_content, n, d, to, bytes, stream));
    done += std::exchange(n, 0);
  }
  return {};
}

Status decode_latent(const LatentBasis& basis, const LatentSegment& segment, int64_t begin, int64_t n, int64_t n_before,
                     const TensorView& out, Stream& stream) {
  const LatentForm& form = basis.form;
  const int64_t d = form.d_row(), d_content = form.d_content, d_branch = form.d_branch;
  std::vector<float> t(static_cast<size_t>(n * form.rank)), branch(static_cast<size_t>(n * d_branch));
  const uint8_t* codes = segment.codes.data() + begin * form.coarse_bytes();
  VESTIGE_TRY(decode_vectors(content_of(form), codes, form.coarse_bytes(), n, t.data(), stream));
  VESTIGE_TRY(decode_vectors(branch_of(form), codes, form.coarse_bytes(), n, branch.data(), stream));
  float* x = out.as<float>();
  const std::vector<float> mean = widened(basis.mean);
  for (int64_t i = 0; i < n; ++i) {
    std::copy(mean.begin(), mean.end(), x + i * d);
    for (int64_t j = 0; j < d_branch; ++j) x[i * d + d_content + j] += branch[static_cast<size_t>(i * d_branch + j)];
  }
  TensorView content(x, DType::kF32, {n, d_content});
  content.stride[0] = d;
  VESTIGE_TRY(ops::matmul({.x = {t.data(), DType::kF32, {n, form.rank}},
                           .w = {basis.basis.data(), DType::kBF16, {d_content, form.rank}},
                           .out = content,
                           .accumulate = true},
                          stream));
  VESTIGE_TRY(stream.synchronize());
  const int64_t m = residuals_in(segment, begin, n);
  if (m == 0) return {};
  std::vector<float> rest(static_cast<size_t>(m * d_content)), rest_branch(static_cast<size_t>(m * d_branch));
  const uint8_t* from = segment.residuals.data() + n_before * form.residual_bytes();
  VESTIGE_TRY(decode_vectors(content_residual(form), from, form.residual_bytes(), m, rest.data(), stream));
  VESTIGE_TRY(decode_vectors(branch_residual(form), from, form.residual_bytes(), m, rest_branch.data(), stream));
  for (int64_t i = 0, r = 0; i < n; ++i) {
    if (!has_residual(segment, begin + i)) continue;
    for (int64_t j = 0; j < d_content; ++j) x[i * d + j] += rest[static_cast<size_t>(r * d_content + j)];
    for (int64_t j = 0; j < d_branch; ++j)
      x[i * d + d_content + j] += rest_branch[static_cast<size_t>(r * d_branch + j)];
    ++r;
  }
  return {};
}

bool check_latent(const LatentForm& form, const LatentSegment& segment) {
  int64_t set = 0;
  for (const uint64_t word : segment.mask) set += std::popcount(word);
  if (set != segment.n_residuals || residuals_in(segment, 0, segment.n) != set) return false;
  bool hold = true;
  for (int64_t t = 0; t < segment.n; ++t) {
    const uint8_t* code = segment.codes.data() + t * form.coarse_bytes();
    hold = hold && scales_hold(content_of(form), code) && scales_hold(branch_of(form), code);
  }
  for (int64_t i = 0; i < segment.n_residuals; ++i) {
    const uint8_t* code = segment.residuals.data() + i * form.residual_bytes();
    hold = hold && scales_hold(content_residual(form), code) && scales_hold(branch_residual(form), code);
  }
  return hold;
}

}  // namespace vestige::anchor
