// Three passes over fixed pieces of tokens: scores; weights, summed by anchor and by code; and one product with the
// anchors a head. Pieces are added in order, so the number of threads does not matter.
// Keys are turned by position = first of a run of 16 tokens + place in it: queries are turned back by the first, so
// that one small table of 16 places serves every token.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/anchored_side.h"
#include "backend/ops/gamma_code.h"
#include "backend/ops/rotated_code.h"
#include "base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attend_anchored.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "backend/cpu/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kPiece = 2048;  // tokens
constexpr int64_t kWord = 64;
constexpr int64_t kTurn = 16;  // tokens of a run, whose queries are turned once: its tables stay in the first cache
constexpr int64_t kMaxWidth = 4096;

/// Sizes and memory of one call. Keys and queries lie as [first of all pairs ; second of all pairs ; what is not
/// turned].
struct Work {
  const AttendAnchoredParams* p = nullptr;
  int64_t n_heads = 0, m = 0, d = 0, n = 0, n_pieces = 0, k = 0;  // k: the most anchors of a head
  int64_t n_pairs = 0;
  bool consecutive = true;                           // positions
  float *q = nullptr, *rotated_q = nullptr;          // [n_heads, m, d]; rotated_q where keys are not turned
  float* anchors = nullptr;                          // [n_heads, k, d] where keys are turned
  float* anchor_scores = nullptr;                    // [n_heads, m, k] where they are not
  float *place_cos = nullptr, *place_sin = nullptr;  // [kTurn, n_pairs]
  float *run_cos = nullptr, *run_sin = nullptr;      // [n / kTurn, n_pairs]
  float* scores = nullptr;                           // [n_heads, m, n_padded]
  float *top = nullptr, *sum = nullptr;              // [n_heads, n_pieces, m]
  float *by_anchor = nullptr, *by_code = nullptr;    // [n_heads, n_pieces, m, k] and [.., d]
  float* local = nullptr;                            // [n_threads, n_local()]
  const float* levels = nullptr;                     // [2 kMaxLevels]: of a code
  const float* gammas = nullptr;                     // [256]: of one-byte coefficients
  std::vector<float> signs;                          // [d]: of the rotation, over sqrt(d)

  int64_t n_padded() const { return round_up(n, kPiece); }
  int64_t n_local() const { return line_floats(2 * d + m * d + 2 * n_pairs); }
  int64_t piece(int64_t head, int64_t i) const { return head * n_pieces + i; }
  bool turned() const { return n_pairs > 0; }
};

/// Where coordinate j of a key lies in Work's order.
int64_t paired(const Work& w, int64_t j) {
  if (!w.p->interleaved || j >= 2 * w.n_pairs) return j;
  return j / 2 + j % 2 * w.n_pairs;
}

HWY_INLINE float dot(const float* a, const float* b, int64_t d) {
  const DF df;
  float tail = 0;
  VF sums = hn::Zero(df);
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes) sums = hn::MulAdd(hn::LoadU(df, a + j), hn::LoadU(df, b + j), sums);
  for (; j < d; ++j) tail += a[j] * b[j];
  return hn::GetLane(hn::SumOfLanes(df, sums)) + tail;
}

HWY_INLINE void add_scaled(const float* x, float factor, int64_t d, float* out) {
  const DF df;
  const VF f = hn::Set(df, factor);
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes)
    hn::StoreU(hn::MulAdd(f, hn::LoadU(df, x + j), hn::LoadU(df, out + j)), df, out + j);
  for (; j < d; ++j) out[j] += factor * x[j];
}

/// Levels of a residual's codes, unscaled. Two bits: the codes of a vector are shifted apart into the lanes and looked
/// up there.
HWY_INLINE void load_levels(const Work& w, const uint8_t* codes, float* out) {
#if HWY_TARGET != HWY_SCALAR
  if (w.p->bits == 2 && w.d % kLanes == 0 && kLanes >= 4) {
    const DF df;
    const DU du;
    const auto shift = hn::Add(hn::Iota(du, 0), hn::Iota(du, 0));
    const VF table = hn::LoadU(df, w.levels);
    for (int64_t j = 0; j < w.d; j += kLanes) {
      uint32_t word = 0;
      std::memcpy(&word, codes + j / 4, static_cast<size_t>(kLanes / 4));
      const auto code = hn::And(hn::Shr(hn::Set(du, word), shift), hn::Set(du, 3));
      hn::StoreU(hn::TableLookupLanes(table, hn::IndicesFromVec(df, code)), df, out + j);
    }
    return;
  }
#endif
  for (int64_t j = 0; j < w.d; ++j) out[j] = w.levels[read_code(codes, j, w.p->bits)];
}

/// x = H x, unnormalised. Butterflies inside a vector are one permutation and one multiply-add.
HWY_INLINE void fast_hadamard(float* x, int64_t d) {
  const DF df;
  int64_t half = 1;
#if HWY_TARGET != HWY_SCALAR
  if (d % kLanes == 0) {
    const DU du;
    for (; half < kLanes; half *= 2) {
      const auto bit = hn::Set(du, static_cast<uint32_t>(half));
      const auto partner = hn::IndicesFromVec(df, hn::Xor(hn::Iota(du, 0), bit));
      const auto upper = hn::MaskFromVec(hn::BitCast(df, hn::VecFromMask(du, hn::TestBit(hn::Iota(du, 0), bit))));
      const VF sign = hn::IfThenElse(upper, hn::Set(df, -1.0f), hn::Set(df, 1.0f));
      for (int64_t i = 0; i < d; i += kLanes) {
        const VF v = hn::LoadU(df, x + i);
        hn::StoreU(hn::MulAdd(v, sign, hn::TableLookupLanes(v, partner)), df, x + i);
      }
    }
  }
#endif
  for (; half < d; half *= 2) {
    for (int64_t begin = 0; begin < d; begin += 2 * half) {
      int64_t i = begin;
      for (; half >= kLanes && i < begin + half; i += kLanes) {
        const VF a = hn::LoadU(df, x + i), b = hn::LoadU(df, x + i + half);
        hn::StoreU(hn::Add(a, b), df, x + i);
        hn::StoreU(hn::Sub(a, b), df, x + i + half);
      }
      for (; i < begin + half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
}

/// out = (lo, hi) turned by the angles whose cosines and sines are given; the rest is copied.
HWY_INLINE void turn(const Work& w, const float* x, const float* cosine, const float* sine, float* out) {
  const DF df;
  const int64_t h = w.n_pairs;
  int64_t j = 0;
  for (; j + kLanes <= h; j += kLanes) {
    const VF a = hn::LoadU(df, x + j), b = hn::LoadU(df, x + h + j);
    const VF c = hn::LoadU(df, cosine + j), s = hn::LoadU(df, sine + j);
    hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), df, out + j);
    hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), df, out + h + j);
  }
  for (; j < h; ++j) {
    const float a = x[j], b = x[h + j];
    out[j] = a * cosine[j] - b * sine[j];
    out[h + j] = a * sine[j] + b * cosine[j];
  }
  std::copy(x + 2 * h, x + w.d, out + 2 * h);
}

/// Queries and anchors of one head, as the passes want them.
HWY_NOINLINE void prepare(const Work& w, int64_t head) {
  const AttendAnchoredParams& p = *w.p;
  const AnchoredSide& key = p.heads[static_cast<size_t>(head)].key;
  const int64_t k = key.anchors.dim(0);
  const float* from = p.q.as<float>() + head * w.m * w.d;
  float* q = w.q + head * w.m * w.d;
  for (int64_t i = 0; i < w.m; ++i) {
    for (int64_t j = 0; j < w.d; ++j) q[i * w.d + paired(w, j)] = from[i * w.d + j];
  }
  float row[kMaxWidth];
  for (int64_t a = 0; a < k; ++a) {
    float* anchor = w.turned() ? w.anchors + (head * w.k + a) * w.d : row;
    for (int64_t j = 0; j < w.d; ++j) {
      anchor[paired(w, j)] = load_number(key.anchors.data, key.anchors.dtype, a * w.d + j);
    }
    if (w.turned()) continue;
    for (int64_t i = 0; i < w.m; ++i) w.anchor_scores[(head * w.m + i) * w.k + a] = dot(q + i * w.d, anchor, w.d);
  }
  if (w.turned()) return;
  for (int64_t i = 0; i < w.m; ++i) {
    float* rotated = w.rotated_q + (head * w.m + i) * w.d;
    for (int64_t j = 0; j < w.d; ++j) rotated[j] = q[i * w.d + j] * w.signs[static_cast<size_t>(j)];
    fast_hadamard(rotated, w.d);
  }
}

/// Coefficient of token t, without asking for the table each time.
HWY_INLINE float gamma_at(const Work& w, const AnchoredSide& side, int64_t t) {
  if (side.gamma.dtype == DType::kU8) return w.gammas[side.gamma.as<uint8_t>()[t]];
  return load_number(side.gamma.data, side.gamma.dtype, t);
}

/// x = gamma anchor + factor residual, the residual's signs and order mended on the way.
HWY_INLINE void add_residual(const Work& w, const float* anchor, float gamma, const float* residual, float factor,
                             float* x) {
  if (w.p->interleaved && w.turned()) {
    for (int64_t j = 0; j < w.d; ++j) {
      const int64_t at = paired(w, j);
      x[at] = gamma * anchor[at] + factor * residual[j] * w.signs[static_cast<size_t>(j)];
    }
    return;
  }
  const DF df;
  const VF g = hn::Set(df, gamma), f = hn::Set(df, factor);
  const float* signs = w.signs.data();
  int64_t j = 0;
  for (; j + kLanes <= w.d; j += kLanes) {
    const VF r = hn::Mul(f, hn::Mul(hn::LoadU(df, residual + j), hn::LoadU(df, signs + j)));
    hn::StoreU(hn::MulAdd(g, hn::LoadU(df, anchor + j), r), df, x + j);
  }
  for (; j < w.d; ++j) x[j] = gamma * anchor[j] + factor * (residual[j] * signs[j]);
}

/// Scores of a run's tokens where keys are not turned: one product an anchor is enough for all its tokens.
HWY_INLINE void score_run(const Work& w, int64_t head, int64_t begin, int64_t end, float* local, float* scores) {
  const AttendAnchoredParams& p = *w.p;
  const AnchoredSide& key = p.heads[static_cast<size_t>(head)].key;
  for (int64_t t = begin; t < end; ++t) {
    const float gamma = gamma_at(w, key, t);
    const int64_t a = load_index(key.index, t), row = residual_row(key, t);
    float factor = 0;
    if (row >= 0) {
      load_levels(w, key.codes.as<uint8_t>() + row * (w.d * p.bits / 8), local);
      factor = load_number(key.scale.data, key.scale.dtype, row);
    }
    for (int64_t i = 0; i < w.m; ++i) {
      float s = gamma * w.anchor_scores[(head * w.m + i) * w.k + a];
      if (row >= 0) s += factor * dot(w.rotated_q + (head * w.m + i) * w.d, local, w.d);
      scores[i * w.n_padded() + t] = s * p.scale;
    }
  }
}

/// Queries of a group that share the turning of a key.
constexpr int64_t kQueries = 4;

/// sums[i] = q_i . (key turned by its place in the run), i < kCount.
template <int64_t kCount>
HWY_INLINE void turned_products(const Work& w, const float* key, int64_t place, const float* q, float* sums) {
  const DF df;
  const int64_t h = w.n_pairs, d = w.d;
  const float *cosine = w.place_cos + place * h, *sine = w.place_sin + place * h;
  VF s0 = hn::Zero(df), s1 = s0, s2 = s0, s3 = s0;
  const auto add = [&](int64_t at, VF x) HWY_ATTR {
    s0 = hn::MulAdd(x, hn::LoadU(df, q + at), s0);
    if constexpr (kCount > 1) s1 = hn::MulAdd(x, hn::LoadU(df, q + d + at), s1);
    if constexpr (kCount > 2) s2 = hn::MulAdd(x, hn::LoadU(df, q + 2 * d + at), s2);
    if constexpr (kCount > 3) s3 = hn::MulAdd(x, hn::LoadU(df, q + 3 * d + at), s3);
  };
  int64_t j = 0;
  for (; j + kLanes <= h; j += kLanes) {
    const VF a = hn::LoadU(df, key + j), b = hn::LoadU(df, key + h + j);
    const VF c = hn::LoadU(df, cosine + j), s = hn::LoadU(df, sine + j);
    add(j, hn::NegMulAdd(b, s, hn::Mul(a, c)));
    add(h + j, hn::MulAdd(a, s, hn::Mul(b, c)));
  }
  store_sums(s0, s1, s2, s3, sums);
  // What is left of the pairs, and what is not turned.
  for (; j < h; ++j) {
    const float first = key[j] * cosine[j] - key[h + j] * sine[j], second = key[j] * sine[j] + key[h + j] * cosine[j];
    for (int64_t i = 0; i < kCount; ++i) sums[i] += first * q[i * d + j] + second * q[i * d + h + j];
  }
  for (j = 2 * h; j < d; ++j) {
    for (int64_t i = 0; i < kCount; ++i) sums[i] += key[j] * q[i * d + j];
  }
}

HWY_INLINE void turned_products(const Work& w, const float* key, int64_t place, const float* q, int64_t count,
                                float* sums) {
  if (count == 1) return turned_products<1>(w, key, place, q, sums);
  if (count == 2) return turned_products<2>(w, key, place, q, sums);
  if (count == 3) return turned_products<3>(w, key, place, q, sums);
  turned_products<4>(w, key, place, q, sums);
}

HWY_INLINE float largest(const float* x, int64_t n) {
  const DF df;
  float top = -std::numeric_limits<float>::infinity();
  VF tops = hn::Set(df, top);
  int64_t t = 0;
  for (; t + kLanes <= n; t += kLanes) tops = hn::Max(tops, hn::LoadU(df, x + t));
  for (; t < n; ++t) top = std::max(top, x[t]);
  return std::max(top, hn::GetLane(hn::MaxOfLanes(df, tops)));
}

/// Tables of a token whose position does not follow the one before: as if it were the first of its run.
HWY_NOINLINE void turn_to_token(const Work& w, int64_t t, float* cosine, float* sine) {
  for (int64_t j = 0; j < w.n_pairs; ++j) {
    const float position = static_cast<float>(w.p->positions.as<int32_t>()[t]);
    const double angle = static_cast<double>(position * w.p->frequencies.as<float>()[j]);
    cosine[j] = static_cast<float>(std::cos(angle));
    sine[j] = static_cast<float>(-std::sin(angle));
  }
}

/// The same where keys are turned: a token's key is turned by its place and multiplied with the queries that were
/// turned back by the run's first position.
HWY_INLINE void score_turned_run(const Work& w, int64_t head, int64_t begin, int64_t end, float* local, float* scores) {
  const AttendAnchoredParams& p = *w.p;
  const AnchoredSide& key = p.heads[static_cast<size_t>(head)].key;
  float *x = local, *residual = local + w.d, *q = local + 2 * w.d, *cosine = q + w.m * w.d, *sine = cosine + w.n_pairs;
  const float* given = w.q + head * w.m * w.d;
  const auto turn_queries = [&] {  // by -base: sine is negated
    for (int64_t i = 0; i < w.m; ++i) turn(w, given + i * w.d, cosine, sine, q + i * w.d);
  };
  if (w.consecutive) {
    for (int64_t j = 0; j < w.n_pairs; ++j) {
      cosine[j] = w.run_cos[begin / kTurn * w.n_pairs + j];
      sine[j] = -w.run_sin[begin / kTurn * w.n_pairs + j];
    }
    turn_queries();
  }
  for (int64_t t = begin; t < end; ++t) {
    if (!w.consecutive) {
      turn_to_token(w, t, cosine, sine);
      turn_queries();
    }
    float gamma = gamma_at(w, key, t);
    const float* of_token = w.anchors + (head * w.k + load_index(key.index, t)) * w.d;
    const int64_t row = residual_row(key, t);
    if (row >= 0) {
      load_levels(w, key.codes.as<uint8_t>() + row * (w.d * p.bits / 8), residual);
      fast_hadamard(residual, w.d);
      add_residual(w, of_token, gamma, residual, load_number(key.scale.data, key.scale.dtype, row), x);
      of_token = x;
      gamma = 1;
    }
    const int64_t place = w.consecutive ? t - begin : 0;
    for (int64_t i = 0; i < w.m; i += kQueries) {
      const int64_t count = std::min(kQueries, w.m - i);
      float sums[kQueries];
      turned_products(w, of_token, place, q + i * w.d, count, sums);
      for (int64_t c = 0; c < count; ++c) scores[(i + c) * w.n_padded() + t] = p.scale * gamma * sums[c];
    }
  }
}

HWY_NOINLINE void score_piece(const Work& w, int64_t task, int32_t thread) {
  const int64_t head = task / w.n_pieces, piece = task % w.n_pieces;
  const int64_t begin = piece * kPiece, end = std::min(w.n, begin + kPiece);
  float* local = w.local + thread * w.n_local();
  float* scores = w.scores + head * w.m * w.n_padded();
  for (int64_t t = begin; t < end; t += kTurn) {
    const int64_t last = std::min(end, t + kTurn);
    w.turned() ? score_turned_run(w, head, t, last, local, scores) : score_run(w, head, t, last, local, scores);
  }
  for (int64_t i = 0; i < w.m; ++i) {
    const float* s = scores + i * w.n_padded();
    w.top[w.piece(head, piece) * w.m + i] = largest(s + begin, end - begin);
  }
}

/// Scores of a piece become weights; their sum, by anchor and by code.
HWY_NOINLINE void weigh_piece(const Work& w, int64_t task, int32_t thread) {
  const DF df;
  const int64_t head = task / w.n_pieces, piece = task % w.n_pieces;
  const int64_t begin = piece * kPiece, end = std::min(w.n, begin + kPiece);
  const AnchoredSide& value = w.p->heads[static_cast<size_t>(head)].value;
  float* local = w.local + thread * w.n_local();
  float* by_anchor = w.by_anchor + w.piece(head, piece) * w.m * w.k;
  float* by_code = w.by_code + w.piece(head, piece) * w.m * w.d;
  std::fill(by_anchor, by_anchor + w.m * w.k, 0.0f);
  std::fill(by_code, by_code + w.m * w.d, 0.0f);
  float* scores = w.scores + head * w.m * w.n_padded();
  for (int64_t i = 0; i < w.m; ++i) {
    float top = -std::numeric_limits<float>::infinity();
    for (int64_t other = 0; other < w.n_pieces; ++other) top = std::max(top, w.top[w.piece(head, other) * w.m + i]);
    float* s = scores + i * w.n_padded();
    // Whole vectors: n_padded leaves room, and what lies past the end weighs nothing.
    std::fill(s + end, s + round_up(end, kWord), -std::numeric_limits<float>::infinity());
    VF sums = hn::Zero(df);
    for (int64_t t = begin; t < end; t += kLanes) {
      const VF weight = exp_nonpositive(df, hn::Sub(hn::LoadU(df, s + t), hn::Set(df, top)));
      hn::StoreU(weight, df, s + t);
      sums = hn::Add(sums, weight);
    }
    w.sum[w.piece(head, piece) * w.m + i] = hn::GetLane(hn::SumOfLanes(df, sums));
  }
  for (int64_t t = begin; t < end; ++t) {
    const float gamma = gamma_at(w, value, t);
    const int64_t a = load_index(value.index, t), row = residual_row(value, t);
    for (int64_t i = 0; i < w.m; ++i) by_anchor[i * w.k + a] += gamma * scores[i * w.n_padded() + t];
    if (row < 0) continue;
    load_levels(w, value.codes.as<uint8_t>() + row * (w.d * w.p->bits / 8), local);
    const float factor = load_number(value.scale.data, value.scale.dtype, row);
    for (int64_t i = 0; i < w.m; ++i) add_scaled(local, factor * scores[i * w.n_padded() + t], w.d, by_code + i * w.d);
  }
}

HWY_NOINLINE void finish(const Work& w, int64_t head) {
  const AttendAnchoredParams& p = *w.p;
  const AnchoredSide& value = p.heads[static_cast<size_t>(head)].value;
  const int64_t k = value.anchors.dim(0);
  float* by_anchor = w.by_anchor + w.piece(head, 0) * w.m * w.k;
  float* by_code = w.by_code + w.piece(head, 0) * w.m * w.d;
  for (int64_t piece = 1; piece < w.n_pieces; ++piece) {
    add_scaled(by_anchor + piece * w.m * w.k, 1.0f, w.m * w.k, by_anchor);
    add_scaled(by_code + piece * w.m * w.d, 1.0f, w.m * w.d, by_code);
  }
  for (int64_t i = 0; i < w.m; ++i) {
    float* out = by_code + i * w.d;
    fast_hadamard(out, w.d);
    for (int64_t j = 0; j < w.d; ++j) out[j] *= w.signs[static_cast<size_t>(j)];
  }
  float row[kMaxWidth];
  for (int64_t a = 0; a < k; ++a) {
    for (int64_t j = 0; j < w.d; ++j) row[j] = load_number(value.anchors.data, value.anchors.dtype, a * w.d + j);
    for (int64_t i = 0; i < w.m; ++i) add_scaled(row, by_anchor[i * w.k + a], w.d, by_code + i * w.d);
  }
  for (int64_t i = 0; i < w.m; ++i) {
    float sum = 0, top = -std::numeric_limits<float>::infinity();
    for (int64_t piece = 0; piece < w.n_pieces; ++piece) {
      sum += w.sum[w.piece(head, piece) * w.m + i];
      top = std::max(top, w.top[w.piece(head, piece) * w.m + i]);
    }
    for (int64_t j = 0; j < w.d; ++j) p.out.as<float>()[(head * w.m + i) * w.d + j] = by_code[i * w.d + j] / sum;
    p.lse.as<float>()[head * w.m + i] = top + std::log(sum);
  }
}

/// Rows i = 0, 1, ... of cosine and sine of first + i step, by repeated turning in float64: four products, no cosine.
/// Leaves the angle after the last row in first.
void fill_table(const Work& w, std::vector<double>* first, const std::vector<double>& step, int64_t n, float* cosine,
                float* sine) {
  const int64_t h = w.n_pairs;
  double *c = first->data(), *s = c + h;
  const double *step_c = step.data(), *step_s = step_c + h;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < h; ++j) {
      cosine[i * h + j] = static_cast<float>(c[j]);
      sine[i * h + j] = static_cast<float>(s[j]);
      const double turned = c[j] * step_c[j] - s[j] * step_s[j];
      s[j] = c[j] * step_s[j] + s[j] * step_c[j];
      c[j] = turned;
    }
  }
}

/// Tables of the places in a run, and of the positions where runs begin.
void fill_tables(const Work& w) {
  const AttendAnchoredParams& p = *w.p;
  const double first = p.positions.data != nullptr ? static_cast<double>(p.positions.as<int32_t>()[0]) : 0.0;
  const auto angles = [&](double times) {
    std::vector<double> both(static_cast<size_t>(2 * w.n_pairs));
    for (int64_t j = 0; j < w.n_pairs; ++j) {
      const double angle = times * static_cast<double>(p.frequencies.as<float>()[j]);
      both[static_cast<size_t>(j)] = std::cos(angle);
      both[static_cast<size_t>(w.n_pairs + j)] = std::sin(angle);
    }
    return both;
  };
  std::vector<double> place = angles(0), begin = angles(first);
  fill_table(w, &place, angles(1), kTurn, w.place_cos, w.place_sin);
  fill_table(w, &begin, angles(kTurn), ceil_div(w.n, kTurn), w.run_cos, w.run_sin);
}

Status take_memory(Work& w, int64_t n_threads) {
  const int64_t n_rows = w.n_heads * w.m, n_parts = w.n_heads * w.n_pieces * w.m;
  const int64_t sizes[] = {n_rows * w.d,
                           w.turned() ? 0 : n_rows * w.d,
                           w.turned() ? w.n_heads * w.k * w.d : 0,
                           w.turned() ? 0 : n_rows * w.k,
                           kTurn * w.n_pairs,
                           kTurn * w.n_pairs,
                           ceil_div(w.n, kTurn) * w.n_pairs,
                           ceil_div(w.n, kTurn) * w.n_pairs,
                           n_rows * w.n_padded(),
                           n_parts,
                           n_parts,
                           n_parts * w.k,
                           n_parts * w.d,
                           n_threads * w.n_local()};
  float** const places[] = {&w.q,         &w.rotated_q, &w.anchors, &w.anchor_scores, &w.place_cos,
                            &w.place_sin, &w.run_cos,   &w.run_sin, &w.scores,        &w.top,
                            &w.sum,       &w.by_anchor, &w.by_code, &w.local};
  int64_t total = 0;
  for (int64_t size : sizes) total += line_floats(size);
  VESTIGE_ASSIGN(float* const memory, scratch_floats(ScratchSlot::kOp, total));
  Slices slices(memory);
  for (size_t i = 0; i < std::size(sizes); ++i) *places[i] = slices.take(sizes[i]);
  return {};
}

Status run(const AttendAnchoredParams& p, Stream& stream) {
  Work w;
  w.p = &p;
  w.n_heads = p.q.dim(0);
  w.m = p.q.dim(1);
  w.d = p.q.dim(2);
  w.n = p.heads[0].key.gamma.dim(0);
  if (w.n == 0) {
    std::fill_n(p.out.as<float>(), w.n_heads * w.m * w.d, 0.0f);
    std::fill_n(p.lse.as<float>(), w.n_heads * w.m, -std::numeric_limits<float>::infinity());
    return {};
  }
  w.n_pieces = ceil_div(w.n, kPiece);
  w.n_pairs = p.frequencies.data != nullptr ? p.frequencies.dim(0) : 0;
  for (const AnchoredHead& head : p.heads) w.k = std::max({w.k, head.key.anchors.dim(0), head.value.anchors.dim(0)});
  if (p.positions.data != nullptr) {
    const int32_t* at = p.positions.as<int32_t>();
    for (int64_t t = 1; t < w.n && w.consecutive; ++t) w.consecutive = int64_t{at[t]} == int64_t{at[0]} + t;
  }
  float levels[2 * kMaxLevels] = {};
  for (uint32_t code = 0; code < (1u << p.bits); ++code) {
    levels[code] = static_cast<float>(rotated_level(code, p.bits, codebook(p.bits)));
  }
  w.levels = levels;
  w.gammas = gamma_table().data();
  for (int64_t j = 0; j < w.d; ++j) {
    const double sign = rotation_minus(p.seed, j) ? -1 : 1;
    w.signs.push_back(static_cast<float>(sign / std::sqrt(static_cast<double>(w.d))));
  }
  VESTIGE_TRY(take_memory(w, stream.n_threads()));
  if (w.turned()) fill_tables(w);
  ThreadPool& pool = *stream.pool();
  const int64_t n_tasks = w.n_heads * w.n_pieces;
  pool.run(w.n_heads, [&](int64_t head, int32_t) { prepare(w, head); });
  pool.run(n_tasks, [&](int64_t task, int32_t thread) { score_piece(w, task, thread); });
  if (p.scores.data != nullptr) {
    for (int64_t row = 0; row < w.n_heads * w.m; ++row) {
      std::copy_n(w.scores + row * w.n_padded(), w.n, p.scores.as<float>() + row * w.n);
    }
  }
  pool.run(n_tasks, [&](int64_t task, int32_t thread) { weigh_piece(w, task, thread); });
  pool.run(w.n_heads, [&](int64_t head, int32_t) { finish(w, head); });
  return {};
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(run);

Status attend_anchored(const AttendAnchoredParams& p, Stream& stream) { return HWY_DYNAMIC_DISPATCH(run)(p, stream); }

}  // namespace vestige::cpu
#endif  // HWY_ONCE
