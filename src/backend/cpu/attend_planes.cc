// A key is a sum with one term a bit, and so one term every four bits: tables of 16 terms, 16-bit integers, are added
// by the bytes of a row, and no coefficient is ever built. Each pair of coordinates has a step of its own, which the
// queries carry. Keys are turned by position = first of a run of kTurn rows + place in it: the queries are turned back
// by the first, and one small table of places serves every row. Values: the weights of the rows are summed by bit of
// their codes; coefficients and a product with the basis come once a piece and once a call.
// Pieces are kPlaneRun rows, in each the rows of a class follow each other, and keys are cut in strips, so that the
// tables in use stay in the first cache. Pieces are added in order, so the number of threads does not matter.

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
  constexpr int64_t kPairs = kStrip / 2;
  for (int64_t i = 0; i < w.n_strips * w.m; ++i, q += kStrip, out += kStrip) {
    const float *of_strip_c = cosine + i / w.m * kPairs, *of_strip_s = sine + i / w.m * kPairs;
    for (int64_t j = 0; j < kPairs; j += kLanes) {
      const VF a = hn::LoadU(df, q + j), b = hn::LoadU(df, q + kPairs + j);
      const VF c = hn::LoadU(df, of_strip_c + j), s = hn::LoadU(df, of_strip_s + j);
      hn::StoreU(hn::MulAdd(b, s, hn::Mul(a, c)), df, out + j);
      hn::StoreU(hn::NegMulAdd(a, s, hn::Mul(b, c)), df, out + kPairs + j);
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
  // Fewer than kSlack bytes and one row: of kMaxPlanes bits a coefficient and side at most.
  uint8_t copy[2 * kMaxPlaneWidth * kMaxPlanes / 8 + 2 * kSlack] = {};
  std::copy_n(rows.codes + safe * bytes, (rows.n - safe) * bytes, copy);
  work(copy, safe, rows.n - safe);
}

/// What the scores of a class's rows need of one strip.
struct Scoring {
  const int16_t *terms, *places;
  const uint16_t* at;  ///< place of a row in its piece; null where keys are not turned
  int64_t n_groups, bytes;
  bool first;  ///< strip: scores begin with it
};

#if HWY_TARGET == HWY_SCALAR

/// Scores of rows [row, end) of a class, whose codes begin at `codes`, with kCount queries; [rows, kHeads].
template <int64_t kCount>
void score_rows(const Scoring k, const uint8_t* codes, int64_t row, int64_t end, const float* tiles,
                int64_t tile_floats, float* scores) {
  for (scores += row * kHeads; row < end; ++row, codes += k.bytes, scores += kHeads) {
    int16_t key[kStrip] = {};
    for (int64_t g = 0; g < k.n_groups; ++g) {
      const int64_t code = codes[g / 2] >> (4 * (g % 2)) & 15;
      add_integers(key, k.terms + (g * kTerms + code) * kStrip, key);
    }
    const int64_t at = k.at == nullptr ? 0 : k.at[row];
    const int16_t *first = k.places + at % kTurn * 2 * kStrip, *second = first + kStrip;
    const float* q = tiles + at / kTurn * tile_floats;
    if (k.first) std::fill(scores, scores + kHeads, 0.0f);
    for (int64_t h = 0; h < kCount; ++h, q += kStrip) {
      for (int64_t j = 0; j < kStrip / 2; ++j) {
        const int32_t a = key[2 * j], b = key[2 * j + 1];
        scores[h] += static_cast<float>(a * first[2 * j] + b * first[2 * j + 1]) * q[j];
        scores[h] += static_cast<float>(a * second[2 * j] + b * second[2 * j + 1]) * q[kStrip / 2 + j];
      }
    }
  }
}

#else

constexpr int64_t kVectors = kStrip / kWide;

/// A strip of a row's key: one term every four bits.
HWY_INLINE void sum_terms(const Scoring& k, const uint8_t* HWY_RESTRICT codes, hn::Vec<DI16> (&key)[kVectors]) {
  const DI16 d16;
  constexpr int64_t kTable = kTerms * kStrip;
  const auto add = [&](const int16_t* term) HWY_ATTR {
#pragma GCC unroll 16
    for (int64_t i = 0; i < kVectors; ++i) key[i] = hn::Add(key[i], hn::LoadU(d16, term + i * kWide));
  };
#pragma GCC unroll 16
  for (int64_t i = 0; i < kVectors; ++i) key[i] = hn::Zero(d16);
  const int16_t* terms = k.terms;
  int64_t left = k.n_groups;
  for (; left > 1; left -= 2, terms += 2 * kTable, ++codes) {
    const size_t code = *codes;
    add(terms + (code & 15) * kStrip);
    add(terms + kTable + (code >> 4) * kStrip);
  }
  if (left > 0) add(terms + (*codes & 15) * kStrip);
}

/// Pairs times pairs of one half of a place's table, each pair's products summed.
HWY_INLINE VF turned(hn::Vec<DI16> pairs, const int16_t* by) {
  const DI32 d32;
  auto other = hn::Zero(d32);
  const auto sums = hn::ReorderWidenMulAccumulate(d32, pairs, hn::LoadU(DI16(), by), hn::Zero(d32), other);
  return hn::ConvertTo(DF(), hn::RearrangeToOddPlusEven(sums, other));
}

/// sum[h] = lanes of q_h . key of a row, turned by its place.
template <int64_t kCount>
HWY_INLINE void add_products(const Scoring& k, const uint8_t* codes, const int16_t* place, const float* HWY_RESTRICT q,
                             VF (&sum)[kHeads]) {
  const DF df;
  hn::Vec<DI16> key[kVectors];
  sum_terms(k, codes, key);
#pragma GCC unroll 8
  for (int64_t h = 0; h < kHeads; ++h) sum[h] = hn::Zero(df);
#pragma GCC unroll 16
  for (int64_t i = 0; i < kVectors; ++i) {
    const VF first = turned(key[i], place + i * kWide), second = turned(key[i], place + kStrip + i * kWide);
#pragma GCC unroll 8
    for (int64_t h = 0; h < kCount; ++h) {
      const float* from = q + h * kStrip + i * kLanes;
      sum[h] = hn::MulAdd(first, hn::LoadU(df, from), sum[h]);
      sum[h] = hn::MulAdd(second, hn::LoadU(df, from + kStrip / 2), sum[h]);
    }
  }
}

/// Sums over lanes become a row's scores, or are added to those of the strips before.
HWY_INLINE void store_scores(const VF (&sum)[kHeads], bool first, float* HWY_RESTRICT scores) {
  if (first) return store_sums(sum[0], sum[1], sum[2], sum[3], scores);
  const hn::FixedTag<float, kHeads> d4;
  float more[kHeads];
  store_sums(sum[0], sum[1], sum[2], sum[3], more);
  hn::StoreU(hn::Add(hn::LoadU(d4, scores), hn::LoadU(d4, more)), d4, scores);
}

/// Scores of rows [row, end) of a class, whose codes begin at `codes`, with kCount queries; [rows, kHeads].
template <int64_t kCount>
HWY_NOINLINE void score_rows(const Scoring k, const uint8_t* codes, int64_t row, int64_t end, const float* tiles,
                             int64_t tile_floats, float* scores) {
  // A row's lanes are summed after the next row's products have been asked for: a chain that nothing waits for.
  VF sum[kHeads], before[kHeads];
  const auto products = [&](VF(&out)[kHeads]) HWY_ATTR {
    const int64_t at = k.at == nullptr ? 0 : k.at[row];
    add_products<kCount>(k, codes, k.places + at % kTurn * 2 * kStrip, tiles + at / kTurn * tile_floats, out);
    codes += k.bytes;
  };
  if (row >= end) return;
  products(before);
  for (scores += row++ * kHeads; row < end; ++row, scores += kHeads) {
    products(sum);
    store_scores(before, k.first, scores);
#pragma GCC unroll 8
    for (int64_t h = 0; h < kHeads; ++h) before[h] = sum[h];
  }
  store_scores(before, k.first, scores);
}

#endif

/// Scores of the rows of a class, [n_blocks, kPlaneRun, kHeads] from `scores` on.
HWY_NOINLINE void score_class(const Work& w, const ClassRows& rows, const float* tiles, float* scores) {
  constexpr auto kScore = std::array{score_rows<1>, score_rows<2>, score_rows<3>, score_rows<kHeads>};
  const int64_t n_groups = w.n_groups(rows.c), bytes = w.layout.row_bytes[rows.c];
  with_slack(w, rows, [&](const uint8_t* codes, int64_t first, int64_t n) {
    for (int64_t strip = 0; strip < w.n_strips; ++strip) {
      const Scoring k = {w.terms[rows.c] + strip * n_groups * kTerms * kStrip,
                         w.places + strip * kTurn * 2 * kStrip,
                         w.n_turned > 0 ? rows.at : nullptr,
                         n_groups,
                         bytes,
                         strip == 0};
      for (int64_t head = 0; head < w.m; head += kHeads) {
        const auto count = static_cast<size_t>(std::min(kHeads, w.m - head));
        kScore[count - 1](k, codes, first, first + n, tiles + (strip * w.m + head) * kStrip, w.m * w.width(),
                          scores + head * kPlaneRun);
      }
    }
  });
}

/// Scores of n rows and kHeads heads become weights; the largest score of each head.
HWY_NOINLINE void weigh(float* HWY_RESTRICT scores, int64_t n, float* HWY_RESTRICT top) {
  const DF df;
  std::fill(top, top + kHeads, -kInf);
  if constexpr (kLanes < kHeads) {
    for (int64_t i = 0; i < n * kHeads; ++i) top[i % kHeads] = std::max(top[i % kHeads], scores[i]);
    for (int64_t i = 0; i < n * kHeads; ++i) {
      scores[i] = hn::GetLane(exp_nonpositive(df, hn::Set(df, scores[i] - top[i % kHeads])));
    }
    return;
  }
  // Whole vectors: what lies past the end weighs nothing.
  std::fill(scores + n * kHeads, scores + round_up(n * kHeads, kLanes), -kInf);
  VF tops = hn::Set(df, -kInf);
  for (int64_t i = 0; i < n * kHeads; i += kLanes) tops = hn::Max(tops, hn::LoadU(df, scores + i));
  float lanes[kLanes];
  hn::StoreU(tops, df, lanes);
  for (int64_t i = 0; i < kLanes; ++i) top[i % kHeads] = std::max(top[i % kHeads], lanes[i]);
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = top[i % kHeads];
  tops = hn::LoadU(df, lanes);
  for (int64_t i = 0; i < n * kHeads; i += kLanes) {
    hn::StoreU(exp_nonpositive(df, hn::Sub(hn::LoadU(df, scores + i), tops)), df, scores + i);
  }
}

/// sum[h] = of the weights of n rows. Two sums side by side: one would wait for itself.
HWY_INLINE void sum_weights(const float* weights, int64_t n, float* sum) {
  const DF df;
  constexpr int64_t kStep = 2 * std::max(kLanes, kHeads);
  VF even = hn::Zero(df), odd = even;
  int64_t i = 0;
  std::fill(sum, sum + kHeads, 0.0f);
  if constexpr (kLanes >= kHeads) {
    for (; i + kStep <= n * kHeads; i += kStep) {
      even = hn::Add(even, hn::LoadU(df, weights + i));
      odd = hn::Add(odd, hn::LoadU(df, weights + i + kLanes));
    }
    float lanes[kLanes];
    hn::StoreU(hn::Add(even, odd), df, lanes);
    for (int64_t j = 0; j < kLanes; ++j) sum[j % kHeads] += lanes[j];
  }
  for (; i < n * kHeads; ++i) sum[i % kHeads] += weights[i];
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
  [[maybe_unused]] const VF one = hn::Set(df, 1.0f);
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
        // One masked instruction. Additions and multiply-adds have ports of their own on some CPUs: half of each.
        const VF more = (h + v) % 2 == 0 ? hn::Add(sum[h][v], weight[h]) : hn::MulAdd(weight[h], one, sum[h][v]);
        sum[h][v] = hn::IfThenElse(set, more, sum[h][v]);
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
  const DF df;
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
      for (int64_t j = 0; j < n; j += kLanes) {
        const VF sum_of_bits = hn::Mul(hn::LoadU(df, weight + j), hn::LoadU(df, bits + j));
        const auto inside = hn::FirstN(df, static_cast<size_t>(n - j));
        hn::StoreU(hn::Add(hn::LoadU(df, t + j), hn::IfThenElseZero(inside, sum_of_bits)), df, t + j);
      }
      weight += n;
      bits += n;
    }
  }
}

constexpr int64_t kOrder = kPlaneRun + kLanes;  // whole vectors are written

/// Rows of a piece by class. order: [kMaxPlaneClasses, kOrder].
HWY_NOINLINE void sort_rows(const Work& w, int64_t piece, ClassRows (&rows)[kMaxPlaneClasses], uint16_t* order) {
  const PlaneRows& from = w.p->rows;
  const int64_t begin = piece * kPlaneRun, n = std::min(w.n - begin, kPlaneRun);
  const uint8_t* classes = from.row_class.as<uint8_t>() + begin / 4;
  int64_t count[kMaxPlaneClasses] = {}, t = 0;
#if HWY_TARGET != HWY_SCALAR
  const DU du;
  const hn::Rebind<uint16_t, DU> d16;
  for (; t + kLanes <= n; t += kLanes) {
    uint32_t word = 0;
    std::memcpy(&word, classes + t / 4, static_cast<size_t>(kLanes / 4));
    const auto lane = hn::Iota(du, 0), of = hn::And(hn::Shr(hn::Set(du, word), hn::Add(lane, lane)), hn::Set(du, 3));
    const auto place = hn::Add(lane, hn::Set(du, static_cast<uint32_t>(t)));
#pragma GCC unroll 4
    for (int64_t c = 0; c < kMaxPlaneClasses; ++c) {
      const auto here = hn::Eq(of, hn::Set(du, static_cast<uint32_t>(c)));
      const auto packed = hn::BitCast(DI32(), hn::Compress(place, here));
      hn::StoreU(hn::DemoteTo(d16, packed), d16, order + c * kOrder + count[c]);
      count[c] += static_cast<int64_t>(hn::CountTrue(du, here));
    }
  }
#endif
  for (; t < n; ++t) {
    const int64_t c = classes[t / 4] >> (2 * (t % 4)) & 3;
    order[c * kOrder + count[c]++] = static_cast<uint16_t>(t);
  }
  for (int64_t c = 0; c < w.layout.n_classes; ++c) {
    const int64_t start = from.run_start.as<int32_t>()[piece * w.layout.n_classes + c];
    rows[c] = {c, count[c], order + c * kOrder,
               from.codes.as<uint8_t>() + w.layout.begin[c] + start * w.layout.row_bytes[c]};
  }
}

HWY_NOINLINE void attend_piece(const Work& w, int64_t piece, int32_t thread) {
  Slices slices(w.local + thread * w.n_local());
  const int64_t n = std::min(w.n - piece * kPlaneRun, kPlaneRun), n_query = w.m * w.width();
  float *scores = slices.take(w.n_scores()), *q = slices.take(n_query), *tiles = slices.take(w.n_tiles() * n_query);
  float* by_bit = slices.take(kHeads * w.most_bits + kLanes);
  ClassRows rows[kMaxPlaneClasses];
  uint16_t order[kMaxPlaneClasses * kOrder];
  sort_rows(w, piece, rows, order);
  turn_back(w, w.q, w.piece_cos + piece * w.n_pairs(), w.piece_sin + piece * w.n_pairs(), q);
  for (int64_t i = 0; i < w.n_tiles(); ++i) {
    turn_back(w, q, w.tile_cos + i * w.n_pairs(), w.tile_sin + i * w.n_pairs(), tiles + i * n_query);
  }
  for (int64_t c = 0, at = 0; c < w.layout.n_classes; at += rows[c].n, ++c) {
    score_class(w, rows[c], tiles, scores + at * kHeads);
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
  w.n_strips = ceil_div(w.d, kStrip);
  w.n_turned = p.frequencies.data != nullptr ? p.frequencies.dim(0) : 0;
  w.n_blocks = ceil_div(w.m, kHeads);
  const int64_t most = *std::max_element(w.layout.value_bits, w.layout.value_bits + kMaxPlaneClasses);
  w.most_bits = line_floats(7 + most);
  VESTIGE_TRY(take_memory(w, stream.n_threads()));
  fill_tables(w);
  prepare_keys(w);
  prepare_values(w);
  ThreadPool& pool = *stream.pool();
  pool.run(w.layout.n_classes * w.n_strips, [&](int64_t i, int32_t) { fill_terms(w, i / w.n_strips, i % w.n_strips); });
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
