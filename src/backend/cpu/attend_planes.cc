// A key is a sum with one term a bit, and so one term every four bits: tables of 16 terms, 16-bit integers, are added
// by the bytes of a row, and no coefficient is ever built. Each pair of coordinates has a step of its own, which the
// queries carry. Keys are turned by position = first of a run of kTurn rows + place in it: the queries are turned back
// by the first, and one small table of places serves every row. Values: the weights of the rows are summed by bit of
// their codes; coefficients and a product with the basis come once a piece and once a call.
// Pieces are kPlaneRun rows, in each the rows of a class follow each other; they are added in order, so the number of
// threads does not matter.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/plane_code.h"
#include "base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attend_planes.cc"
#include "hwy/foreach_target.h"
// After foreach_target: compiled once a target.
#include "backend/cpu/plane_tables-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

/// Queries turned back by the angles of a row of tables.
HWY_INLINE void turn_back(const Work& w, const float* q, const float* cosine, const float* sine, float* out) {
  const DF df;
  const int64_t n = w.n_pairs;
  for (int64_t h = 0; h < w.m; ++h, q += 2 * n, out += 2 * n) {
    for (int64_t j = 0; j < n; j += kLanes) {
      const VF a = hn::LoadU(df, q + j), b = hn::LoadU(df, q + n + j);
      const VF c = hn::LoadU(df, cosine + j), s = hn::LoadU(df, sine + j);
      hn::StoreU(hn::MulAdd(b, s, hn::Mul(a, c)), df, out + j);
      hn::StoreU(hn::NegMulAdd(a, s, hn::Mul(b, c)), df, out + n + j);
    }
  }
}

/// Rows of one class in one piece, of which the codes lie one after the other.
struct ClassRows {
  int64_t c = 0, n = 0;
  const uint16_t* at = nullptr;  // [n]: their places in the piece
  const uint8_t* codes = nullptr;
};

/// Calls work(codes, first, n) for the rows of a class: for those near the end of all codes with a copy of them, so
/// that kSlack bytes past a row can be read.
template <class F>
HWY_INLINE void with_slack(const Work& w, const ClassRows& rows, const F& work) {
  const int64_t bytes = w.layout.row_bytes[rows.c];
  const int64_t left = w.n_codes - (rows.codes - w.p->rows.codes.as<uint8_t>()) - kSlack;
  const int64_t safe = left < 0 ? 0 : bytes == 0 ? rows.n : std::min(rows.n, left / bytes);
  if (safe > 0) work(rows.codes, int64_t{0}, safe);
  if (safe == rows.n) return;
  // Fewer than kSlack + 1 bytes and the row that they begin in; of kMaxPlanes bits a coefficient and side at most.
  uint8_t copy[2 * kMaxPlaneWidth * kMaxPlanes / 8 + 2 * kSlack] = {};
  std::copy_n(rows.codes + safe * bytes, (rows.n - safe) * bytes, copy);
  work(copy, safe, rows.n - safe);
}

/// What the scores of a class's rows need.
struct Scoring {
  const int16_t *terms, *places;
  const uint16_t* at;  ///< place of a row in its piece; null where keys are not turned
  int64_t n_groups, bytes;
};

#if HWY_TARGET == HWY_SCALAR

/// scores[row, h] = q_h . key of kRows rows from `row` on, turned by their places in the tile of the queries.
template <int64_t kWidth, int64_t kCount, int64_t kRows>
HWY_INLINE void score_few(const Scoring& k, const uint8_t* codes, int64_t row, const float* q, float* scores) {
  static_assert(kRows == 1);
  int16_t key[kWidth] = {};
  for (int64_t g = 0; g < k.n_groups; ++g) {
    const int64_t code = codes[g / 2] >> (4 * (g % 2)) & 15;
    add_integers(key, k.terms + (g * kTerms + code) * kWidth, kWidth, key);
  }
  const int16_t* place = k.places + (k.at == nullptr ? 0 : k.at[row] % kTurn) * 2 * kWidth;
  scores += row * kHeads;
  std::fill(scores, scores + kHeads, 0.0f);
  for (int64_t h = 0; h < kCount; ++h, q += kWidth) {
    for (int64_t j = 0; j < kWidth / 2; ++j) {
      const int32_t a = key[2 * j], b = key[2 * j + 1];
      scores[h] += static_cast<float>(a * place[2 * j] + b * place[2 * j + 1]) * q[j];
      scores[h] += static_cast<float>(a * place[kWidth + 2 * j] + b * place[kWidth + 2 * j + 1]) * q[kWidth / 2 + j];
    }
  }
}

#else

/// kVectors vectors of the keys of kRows rows, from the table's vectors at `terms` on: one term every four bits.
template <int64_t kWidth, int64_t kRows, int64_t kVectors>
HWY_INLINE void sum_terms(const int16_t* HWY_RESTRICT terms, int64_t n_groups, const uint8_t* HWY_RESTRICT codes,
                          int64_t bytes, hn::Vec<DI16> (&key)[kRows][kVectors]) {
  const DI16 d16;
  constexpr int64_t kTable = kTerms * kWidth;
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kVectors; ++i) key[r][i] = hn::Zero(d16);
  }
  for (; n_groups > 1; n_groups -= 2, terms += 2 * kTable, ++codes) {
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
      const size_t code = codes[r * bytes];
      const int16_t *low = terms + (code & 15) * kWidth, *high = terms + kTable + (code >> 4) * kWidth;
#pragma GCC unroll 8
      for (int64_t i = 0; i < kVectors; ++i) key[r][i] = hn::Add(key[r][i], hn::LoadU(d16, low + i * kWide));
#pragma GCC unroll 8
      for (int64_t i = 0; i < kVectors; ++i) key[r][i] = hn::Add(key[r][i], hn::LoadU(d16, high + i * kWide));
    }
  }
  if (n_groups == 0) return;
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
    const int16_t* low = terms + (codes[r * bytes] & 15) * kWidth;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kVectors; ++i) key[r][i] = hn::Add(key[r][i], hn::LoadU(d16, low + i * kWide));
  }
}

/// Pairs times pairs of one half of a place's table, each pair's products summed.
HWY_INLINE VF turned(hn::Vec<DI16> pairs, const int16_t* by) {
  const DI32 d32;
  auto other = hn::Zero(d32);
  const auto sums = hn::ReorderWidenMulAccumulate(d32, pairs, hn::LoadU(DI16(), by), hn::Zero(d32), other);
  return hn::ConvertTo(DF(), hn::RearrangeToOddPlusEven(sums, other));
}

/// scores[row, h] = q_h . key of kRows rows from `row` on, turned by their places in the tile of the queries.
template <int64_t kWidth, int64_t kCount, int64_t kRows>
HWY_INLINE void score_few(const Scoring& k, const uint8_t* codes, int64_t row, const float* HWY_RESTRICT q,
                          float* HWY_RESTRICT scores) {
  constexpr int64_t kVectors = 2;  // of each row in registers
  const DF df;
  const int16_t* place[kRows];
  VF sum[kRows][kHeads];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
    place[r] = k.places + (k.at == nullptr ? 0 : k.at[row + r] % kTurn) * 2 * kWidth;
#pragma GCC unroll 8
    for (int64_t h = 0; h < kHeads; ++h) sum[r][h] = hn::Zero(df);
  }
#pragma GCC unroll 16
  for (int64_t v = 0; v < kWidth; v += kVectors * kWide) {
    hn::Vec<DI16> key[kRows][kVectors];
    sum_terms<kWidth>(k.terms + v, k.n_groups, codes, k.bytes, key);
#pragma GCC unroll 8
    for (int64_t i = 0; i < 2 * kVectors; ++i) {
      const int64_t half = i % 2, at = v + i / 2 * kWide;
      VF x[kRows];
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r) x[r] = turned(key[r][i / 2], place[r] + half * kWidth + at);
#pragma GCC unroll 8
      for (int64_t h = 0; h < kCount; ++h) {
        const VF y = hn::LoadU(df, q + h * kWidth + half * (kWidth / 2) + at / 2);
#pragma GCC unroll 8
        for (int64_t r = 0; r < kRows; ++r) sum[r][h] = hn::MulAdd(x[r], y, sum[r][h]);
      }
    }
  }
  scores += row * kHeads;
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) store_sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3], scores + r * kHeads);
}

#endif

/// Rows that share the loads of the queries.
constexpr int64_t kRowsAtOnce = HWY_TARGET <= HWY_AVX3 ? 4 : HWY_TARGET == HWY_SCALAR ? 1 : 2;

/// Scores of rows [row, end) of a class, whose codes begin at `codes`, with kCount queries; [rows, kHeads].
template <int64_t kWidth, int64_t kCount>
HWY_NOINLINE void score_rows(const Scoring k, const uint8_t* codes, int64_t row, int64_t end, const float* tiles,
                             int64_t tile_floats, float* scores) {
  while (row < end) {
    const int64_t tile = k.at == nullptr ? 0 : k.at[row] / kTurn;
    const float* q = tiles + tile * tile_floats;
    if (row + kRowsAtOnce <= end && (k.at == nullptr || k.at[row + kRowsAtOnce - 1] / kTurn == tile)) {
      score_few<kWidth, kCount, kRowsAtOnce>(k, codes, row, q, scores);
      row += kRowsAtOnce;
      codes += kRowsAtOnce * k.bytes;
    } else {
      score_few<kWidth, kCount, 1>(k, codes, row, q, scores);
      ++row;
      codes += k.bytes;
    }
  }
}

/// Scores of the rows of a class, [n_blocks, kPlaneRun, kHeads] from `scores` on.
template <int64_t kWidth>
HWY_NOINLINE void score_class(const Work& w, const ClassRows& rows, const float* tiles, float* scores) {
  const Scoring k = {w.terms[rows.c], w.places, w.n_turned > 0 ? rows.at : nullptr, w.n_groups(rows.c),
                     w.layout.row_bytes[rows.c]};
  constexpr auto kScore =
      std::array{score_rows<kWidth, 1>, score_rows<kWidth, 2>, score_rows<kWidth, 3>, score_rows<kWidth, kHeads>};
  with_slack(w, rows, [&](const uint8_t* codes, int64_t first, int64_t n) {
    for (int64_t head = 0; head < w.m; head += kHeads) {
      const auto count = static_cast<size_t>(std::min(kHeads, w.m - head));
      kScore[count - 1](k, codes, first, first + n, tiles + head * kWidth, w.m * kWidth, scores + head * kPlaneRun);
    }
  });
}

/// Scores of n rows and kHeads heads become weights; the largest score of each head.
HWY_NOINLINE void weigh(float* scores, int64_t n, float* top) {
  const DF df;
  constexpr int64_t kRepeat = std::max(kLanes, kHeads);
  float tops[kRepeat];
  std::fill(tops, tops + kRepeat, -kInf);
  // Whole vectors: what lies past the end weighs nothing.
  std::fill(scores + n * kHeads, scores + round_up(n * kHeads, kRepeat), -kInf);
  for (int64_t i = 0; i < n * kHeads; i += kRepeat) {
    for (int64_t j = 0; j < kRepeat; j += kLanes) {
      hn::StoreU(hn::Max(hn::LoadU(df, tops + j), hn::LoadU(df, scores + i + j)), df, tops + j);
    }
  }
  std::copy(tops, tops + kHeads, top);
  for (int64_t i = kHeads; i < kRepeat; ++i) top[i % kHeads] = std::max(top[i % kHeads], tops[i]);
  for (int64_t i = 0; i < kRepeat; ++i) tops[i] = top[i % kHeads];
  for (int64_t i = 0; i < n * kHeads; i += kRepeat) {
    for (int64_t j = 0; j < kRepeat; j += kLanes) {
      const VF score = hn::Sub(hn::LoadU(df, scores + i + j), hn::LoadU(df, tops + j));
      hn::StoreU(exp_nonpositive(df, score), df, scores + i + j);
    }
  }
}

/// sum[h] = of the weights of n rows.
HWY_INLINE void sum_weights(const float* weights, int64_t n, float* sum) {
  const hn::CappedTag<float, kHeads> d4;
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<float, kHeads>()));
  for (int64_t h = 0; h < kHeads; h += kStep) {
    auto total = hn::Zero(d4);
    for (int64_t k = 0; k < n; ++k) total = hn::Add(total, hn::LoadU(d4, weights + k * kHeads + h));
    hn::StoreU(total, d4, sum + h);
  }
}

#if HWY_TARGET == HWY_SCALAR

/// by_bit[h, i] += sum over rows of weight_h where bit i from byte `codes` on is set, for n_bits bits.
HWY_INLINE void add_by_bit(int64_t count, const uint8_t* codes, int64_t bytes, int64_t n, const float* weights,
                           int64_t n_bits, int64_t stride, float* by_bit) {
  for (int64_t k = 0; k < n; ++k, codes += bytes, weights += kHeads) {
    for (int64_t i = 0; i < n_bits; ++i) {
      if ((codes[i / 8] >> (i % 8) & 1) == 0) continue;
      for (int64_t h = 0; h < count; ++h) by_bit[h * stride + i] += weights[h];
    }
  }
}

#else

template <int64_t kCount, int64_t kVectors>
HWY_INLINE void add_by_bit(const uint8_t* codes, int64_t bytes, int64_t n, const float* weights, int64_t stride,
                           float* by_bit) {
  const DF df;
  VF sum[kCount][kVectors];
#pragma GCC unroll 8
  for (int64_t h = 0; h < kCount; ++h) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) sum[h][v] = hn::LoadU(df, by_bit + h * stride + v * kLanes);
  }
  for (int64_t k = 0; k < n; ++k, codes += bytes, weights += kHeads) {
    VF weight[kCount];
#pragma GCC unroll 8
    for (int64_t h = 0; h < kCount; ++h) weight[h] = hn::Set(df, weights[h]);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto set = hn::LoadMaskBits(df, codes + v * kLanes / 8);
#pragma GCC unroll 8
      for (int64_t h = 0; h < kCount; ++h) {
#if HWY_TARGET <= HWY_AVX3
        sum[h][v] = hn::IfThenElse(set, hn::Add(sum[h][v], weight[h]), sum[h][v]);  // one masked addition
#else
        sum[h][v] = hn::Add(sum[h][v], hn::IfThenElseZero(set, weight[h]));
#endif
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t h = 0; h < kCount; ++h) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sum[h][v], df, by_bit + h * stride + v * kLanes);
  }
}

template <int64_t kCount>
HWY_NOINLINE void add_by_bit(const uint8_t* codes, int64_t bytes, int64_t n, const float* weights, int64_t n_bits,
                             int64_t stride, float* by_bit) {
  constexpr int64_t kMost = HWY_TARGET <= HWY_AVX3 ? 4 : 2;  // sums of four heads in registers
  int64_t left = ceil_div(n_bits, kLanes);
  for (; left >= kMost; left -= kMost, codes += kMost * kLanes / 8, by_bit += kMost * kLanes) {
    add_by_bit<kCount, kMost>(codes, bytes, n, weights, stride, by_bit);
  }
  if (left == 3) add_by_bit<kCount, 3>(codes, bytes, n, weights, stride, by_bit);
  if (left == 2) add_by_bit<kCount, 2>(codes, bytes, n, weights, stride, by_bit);
  if (left == 1) add_by_bit<kCount, 1>(codes, bytes, n, weights, stride, by_bit);
}

/// by_bit[h, i] += sum over rows of weight_h where bit i from byte `codes` on is set, for n_bits bits.
HWY_INLINE void add_by_bit(int64_t count, const uint8_t* codes, int64_t bytes, int64_t n, const float* weights,
                           int64_t n_bits, int64_t stride, float* by_bit) {
  if (count == 1) add_by_bit<1>(codes, bytes, n, weights, n_bits, stride, by_bit);
  if (count == 2) add_by_bit<2>(codes, bytes, n, weights, n_bits, stride, by_bit);
  if (count == 3) add_by_bit<3>(codes, bytes, n, weights, n_bits, stride, by_bit);
  if (count == 4) add_by_bit<4>(codes, bytes, n, weights, n_bits, stride, by_bit);
}

#endif

/// Adds the weighted values of a class's rows, as coefficients, and their weights. weights: from the class's first row
/// on; by_bit: memory. part: [heads of the block, line_floats(r)].
HWY_NOINLINE void add_values(const Work& w, const ClassRows& rows, const float* weights, int64_t n_heads, float* by_bit,
                             float* part, float* sum) {
  const PlaneSide& value = w.p->rows.value;
  const int64_t skipped = w.layout.key_bits[rows.c] % 8, n_bits = skipped + w.layout.value_bits[rows.c];
  std::fill(by_bit, by_bit + kHeads * w.most_bits, 0.0f);
  with_slack(w, rows, [&](const uint8_t* codes, int64_t first, int64_t n) HWY_ATTR {
    add_by_bit(n_heads, codes + w.layout.key_bits[rows.c] / 8, w.layout.row_bytes[rows.c], n, weights + first * kHeads,
               n_bits, w.most_bits, by_bit);
  });
  float of_class[kHeads];
  sum_weights(weights, rows.n, of_class);
  for (int64_t h = 0; h < n_heads; ++h) {
    sum[h] += of_class[h];
    float* t = part + h * line_floats(w.r);
    add_scaled(w.middle + rows.c * line_floats(w.r), of_class[h], line_floats(w.r), t);
    const float *bits = by_bit + h * w.most_bits + skipped, *weight = w.bit_weight[rows.c];
    for (int64_t p = 0; p < kMaxPlanes; ++p) {
      const int64_t n = plane_width(value, rows.c, p);
      for (int64_t j = 0; j < n; ++j) t[j] += weight[j] * bits[j];
      weight += n;
      bits += n;
    }
  }
}

/// Rows of a piece by class. order: [kMaxPlaneClasses, kPlaneRun].
HWY_NOINLINE void sort_rows(const Work& w, int64_t piece, ClassRows (&rows)[kMaxPlaneClasses], uint16_t* order) {
  const PlaneRows& from = w.p->rows;
  const int64_t begin = piece * kPlaneRun, n = std::min(w.n - begin, kPlaneRun);
  const uint8_t* classes = from.row_class.as<uint8_t>() + begin / 4;
  uint64_t count = 0;  // four counters of 16 bits: no store has to come back before the next row
  for (int64_t t = 0; t < n; ++t) {
    const int64_t c = classes[t / 4] >> (2 * (t % 4)) & 3;
    order[c * kPlaneRun + static_cast<int64_t>(count >> (16 * c) & 0xffff)] = static_cast<uint16_t>(t);
    count += uint64_t{1} << (16 * c);
  }
  for (int64_t c = 0; c < w.layout.n_classes; ++c) {
    const int64_t start = from.run_start.as<int32_t>()[piece * w.layout.n_classes + c];
    rows[c] = {c, static_cast<int64_t>(count >> (16 * c) & 0xffff), order + c * kPlaneRun,
               from.codes.as<uint8_t>() + w.layout.begin[c] + start * w.layout.row_bytes[c]};
  }
}

HWY_NOINLINE void attend_piece(const Work& w, int64_t piece, int32_t thread) {
  Slices slices(w.local + thread * w.n_local());
  const int64_t n = std::min(w.n - piece * kPlaneRun, kPlaneRun), n_query = w.m * w.width();
  float *scores = slices.take(w.n_scores()), *q = slices.take(n_query), *tiles = slices.take(w.n_tiles() * n_query);
  float* by_bit = slices.take(kHeads * w.most_bits);
  ClassRows rows[kMaxPlaneClasses];
  uint16_t order[kMaxPlaneClasses * kPlaneRun];
  sort_rows(w, piece, rows, order);
  turn_back(w, w.q, w.piece_cos + piece * w.n_pairs, w.piece_sin + piece * w.n_pairs, q);
  for (int64_t i = 0; i < w.n_tiles(); ++i) {
    turn_back(w, q, w.tile_cos + i * w.n_pairs, w.tile_sin + i * w.n_pairs, tiles + i * n_query);
  }
  for (int64_t c = 0, at = 0; c < w.layout.n_classes; at += rows[c].n, ++c) {
    const auto score = w.width() == 64 ? score_class<64> : w.width() == 128 ? score_class<128> : score_class<256>;
    score(w, rows[c], tiles, scores + at * kHeads);
  }
  const int64_t row = line_floats(w.r);
  float *top = w.top + piece * w.n_queries(), *sum = w.sum + piece * w.n_queries();
  float* part = w.part + piece * w.m * row;
  std::fill(part, part + w.m * row, 0.0f);
  std::fill(sum, sum + w.n_queries(), 0.0f);
  for (int64_t head = 0; head < w.m; head += kHeads, scores += kPlaneRun * kHeads) {
    weigh(scores, n, top + head);
    for (int64_t c = 0, at = 0; c < w.layout.n_classes; at += rows[c].n, ++c) {
      add_values(w, rows[c], scores + at * kHeads, std::min(kHeads, w.m - head), by_bit, part + head * row, sum + head);
    }
  }
}

/// Adds the pieces of a head in order.
HWY_NOINLINE void finish(const Work& w, int64_t head) {
  const PlaneSide& value = w.p->rows.value;
  const int64_t row = line_floats(w.r);
  float top = -kInf, sum = 0, t[kMaxPlaneWidth] = {};
  for (int64_t i = 0; i < w.n_pieces; ++i) top = std::max(top, w.top[i * w.n_queries() + head]);
  for (int64_t i = 0; i < w.n_pieces; ++i) {
    const float factor = std::exp(w.top[i * w.n_queries() + head] - top);
    sum += factor * w.sum[i * w.n_queries() + head];
    add_scaled(w.part + (i * w.m + head) * row, factor, row, t);
  }
  float x[kMaxPlaneWidth] = {};
  for (int64_t j = 0; j < w.r; ++j) {
    for (int64_t i = 0; i < w.d; ++i) x[i] += t[j] * static_cast<float>(basis_level(value, j, i));
  }
  float* out = w.p->out.as<float>() + head * w.p->out.stride[0];
  for (int64_t i = 0; i < w.d; ++i) out[i] = value.mean.as<float>()[i] + x[i] / sum;
  w.p->lse.as<float>()[head] = top + std::log(sum);
}

Status run(const AttendPlanesParams& p, Stream& stream) {
  Work w(p);
  w.m = p.q.dim(0);
  w.d = p.q.dim(1);
  w.r = p.rows.value.basis.dim(0);
  w.n = p.rows.n_rows;
  if (w.n == 0) {
    for (int64_t h = 0; h < w.m; ++h) {
      std::fill_n(p.out.as<float>() + h * p.out.stride[0], w.d, 0.0f);
      p.lse.as<float>()[h] = -kInf;
    }
    return {};
  }
  w.n_codes = p.rows.codes.dim(0);
  w.n_pieces = ceil_div(w.n, kPlaneRun);
  w.n_pairs = w.d <= 64 ? 32 : w.d <= 128 ? 64 : 128;  // keys of three widths, known to the compiler
  w.n_turned = p.frequencies.data != nullptr ? p.frequencies.dim(0) : 0;
  w.n_blocks = ceil_div(w.m, kHeads);
  const int64_t most = *std::max_element(w.layout.value_bits, w.layout.value_bits + kMaxPlaneClasses);
  w.most_bits = line_floats(7 + most);
  VESTIGE_TRY(take_memory(w, stream.n_threads()));
  fill_tables(w);
  prepare_keys(w);
  prepare_values(w);
  ThreadPool& pool = *stream.pool();
  pool.run(w.layout.n_classes, [&](int64_t c, int32_t) { fill_terms(w, c); });
  pool.run(w.n_pieces, [&](int64_t piece, int32_t thread) { attend_piece(w, piece, thread); });
  pool.run(w.m, [&](int64_t head, int32_t) { finish(w, head); });
  return {};
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vestige::cpu {

HWY_EXPORT(run);

Status attend_planes(const AttendPlanesParams& p, Stream& stream) { return HWY_DYNAMIC_DISPATCH(run)(p, stream); }

}  // namespace vestige::cpu
#endif  // HWY_ONCE
