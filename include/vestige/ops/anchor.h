#pragma once

// Ops of the anchor codec: every token as a multiple of its nearest anchor, and for some the coded rest.
// Source: AnchorKV (arXiv:2608.02901), with the scale of docs/policies/anchor.md.

#include <span>

#include "vestige/device.h"
#include "vestige/tensor.h"

namespace vestige {

/// Codes vectors in a randomised Hadamard basis, a few bits a coordinate:
///   t = H diag(s) x / sqrt(d),  s_j = +-1 drawn from `seed`
///   code j = the Lloyd-Max level c_j of the unit Gaussian nearest to t_j / rms(t)
///   scale  = <t, c> / <c, c>, rounded toward zero (and to the largest number of its type, if beyond it)
/// so that || x - decoded || <= || x || for every x, and about 0.117 (2 bits), 0.0345 (3), 0.0095 (4) of the energy of
/// Gaussian vectors is left. A vector shorter than 2^-100, or with a number that is not finite, has all bytes 0: zero.
/// Level j of b bits: sign in bit b - 1, the rank of the magnitude below it. A row's codes are a stream of bits, code j
/// at bits [b j, b j + b), lowest bits of a byte first. Same bytes for any number of threads and on any CPU.
struct EncodeRotatedParams {
  ConstTensorView x;  ///< [n, d] f32 or bf16, d a power of two from 8 to 4096; row stride free
  int32_t bits = 2;   ///< 2, 3 or 4
  uint64_t seed = 0;
  TensorView codes;  ///< [n, d bits / 8] u8, out
  TensorView scale;  ///< [n] f16 or f32, out, >= 0
};
Status encode_rotated_check(const EncodeRotatedParams& p);

/// The vectors that codes stand for: x = diag(s) H c scale / sqrt(d).
struct DecodeRotatedParams {
  ConstTensorView codes;  ///< [n, d bits / 8] u8
  ConstTensorView scale;  ///< [n] f16 or f32
  int32_t bits = 2;       ///< as encoded
  uint64_t seed = 0;      ///< as encoded
  TensorView x;           ///< [n, d] f32, out; row stride free
};
Status decode_rotated_check(const DecodeRotatedParams& p);

/// The anchor of each vector, and the multiple of it that lies nearest:
///   index = argmax_a |<x, a>| / ||a|| (ties: the lowest index),  gamma = <x, a> / ||a||^2,  cosine = |cos(x, a)|
/// float64 sums in order of coordinates decide, on every backend, so index and gamma are the same bits for any number
/// of threads and on any CPU. Anchors that are zero are never chosen. A vector that is zero or holds a number that is
/// not finite, or one with no anchor to choose, has index, gamma and cosine 0.
/// Source: AnchorKV Eq. 1.
struct NearestAnchorParams {
  ConstTensorView x;        ///< [n, d] f32 or bf16; row stride free
  ConstTensorView anchors;  ///< [k, d] f32 or bf16, finite, 1 <= k <= 65536; row stride free
  TensorView index;         ///< [n] i32, out
  TensorView gamma;         ///< [n] f32, out
  TensorView cosine;        ///< [n] f32, out; may be empty
};
Status nearest_anchor_check(const NearestAnchorParams& p);

/// Keys or values of one head's coded tokens 0 .. n - 1. Token t stands for
///   gamma_t anchors[index_t] + residual_t
/// with a residual where bit t % 64 of mask[t / 64] is set: row prefix[t / 64] + (set bits below it) of codes.
/// Indices and prefixes are trusted: whoever reads them from a file checks them.
struct AnchoredSide {
  ConstTensorView anchors;  ///< [k, d] bf16 or f32
  ConstTensorView index;    ///< [n, 1 or 2] u8, low byte first, < k
  ConstTensorView gamma;    ///< [n] bf16, or u8: logarithmic (docs/policies/anchor.md)
  ConstTensorView mask;     ///< [ceil(n / 64)] i64; bits past n are 0
  ConstTensorView prefix;   ///< [ceil(n / 64)] i32: set bits in the words before
  ConstTensorView codes;    ///< [n_residuals, d bits / 8] u8, as encode_rotated writes them
  ConstTensorView scale;    ///< [n_residuals] f16 or f32
};
struct AnchoredHead {
  AnchoredSide key, value;
};

/// Attention over the coded tokens of n_heads KV heads, m query rows each (all its query heads' of one sequence):
///   s_t = scale q . R_t key_t,  out = sum softmax(s)_t value_t,  lse = log sum exp s_t
/// R_t turns the first 2 n_frequencies coordinates as `rotate` does, by position_t. Neither keys nor values are built
/// as arrays: values are summed by anchor and, in the rotated basis, by code. No tokens: out = 0, lse = -inf.
/// Same bits for any number of threads.
struct AttendAnchoredParams {
  ConstTensorView q;                    ///< [n_heads, m, d] f32, turned to its own positions; m >= 1
  std::span<const AnchoredHead> heads;  ///< [n_heads], all of the same n, d and types; k is free
  int32_t bits = 2;                     ///< of the codes
  uint64_t seed = 0;                    ///< of the codes
  ConstTensorView frequencies = {};     ///< [at most d / 2] f32, radians a position; empty: keys are not turned
  bool interleaved = true;              ///< as in `rotate`
  ConstTensorView positions = {};       ///< [n] i32, >= 0; empty: 0, 1, ...
  float scale = 1.0f;
  TensorView out;          ///< [n_heads, m, d] f32
  TensorView lse;          ///< [n_heads, m] f32
  TensorView scores = {};  ///< [n_heads, m, n] f32, out: s_t; may be empty
};
Status attend_anchored_check(const AttendAnchoredParams& p);

}  // namespace vestige
