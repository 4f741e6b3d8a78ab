// A key is a sum with one term a bit, and so one term every four bits: tables of 16 terms, 16-bit integers, are added
// by the bytes of a row, and no coefficient is ever built. Each pair of coordinates has a step of its own, which the
// queries carry. Keys are turned by position = first of a run of kTurn rows + place in it: the queries are turned back
// by the first, and one small table of places serves every row. Values: the weights of the rows are summed by bit of
// their codes; coefficients and a product with the basis come once a piece and once a call.
// Pieces are kPlaneRun rows, in each the rows of a class follow each other; they are added in order, so the number of
// threads does not matter.

#include <algorithm>
#include <cmath>
#include <cstring>
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

/// out[h] = (lo, hi) of each query turned back by the angles of a row of tables.
HWY_INLINE void turn_back(const Work& w, const float* q, const float* cosine, const float* sine, float* out) {
  for (int64_t h = 0; h < w.n_queries(); ++h, q += w.width(), out += w.width()) {
    const float *a = q, *b = q + w.n_pairs;
    float *first = out, *second = out + w.n_pairs;
    int64_t j = 0;
    for (; j < w.n_turned; ++j) {
      first[j] = a[j] * cosine[j] + b[j] * sine[j];
      second[j] = b[j] * cosine[j] - a[j] * sine[j];
    }
    for (; j < w.n_pairs; ++j) {
      first[j] = a[j];
      second[j] = b[j];
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
  std::memcpy(copy, rows.codes + safe * bytes, static_cast<size_t>((rows.n - safe) * bytes));
  work(copy, safe, rows.n - safe);
}

#if HWY_TARGET == HWY_SCALAR

/// sums[h] = q_h . key of a row, turned by its place.
HWY_INLINE void row_products(const Work& w, int64_t c, const uint8_t* codes, const int16_t* place, const float* q,
                             float* sums) {
  const int64_t width = w.width();
  int16_t key[2 * kMaxPlaneWidth] = {};
  for (int64_t g = 0; g < w.n_groups(c); ++g) {
    const int64_t code = codes[g / 2] >> (4 * (g % 2)) & 15;
    add_integers(key, w.terms[c] + (g * kTerms + code) * width, width, key);
  }
  for (int64_t h = 0; h < w.n_queries(); ++h, q += width) {
    float sum = 0;
    for (int64_t j = 0; j < w.n_pairs; ++j) {
      const int32_t a = key[2 * j], b = key[2 * j + 1];
      sum += static_cast<float>(a * place[2 * j] + b * place[2 * j + 1]) * q[j];
      sum += static_cast<float>(a * place[width + 2 * j] + b * place[width + 2 * j + 1]) * q[w.n_pairs + j];
    }
    sums[h / kHeads * kPlaneRun * kHeads + h % kHeads] = sum;
  }
}

#else

/// first, second += of kVectors vectors of pairs: the key's terms summed, turned, multiplied with the queries.
template <int64_t kVectors>
HWY_INLINE void add_products(const Work& w, int64_t c, const uint8_t* codes, const int16_t* place, const float* q,
                             int64_t at, VF (&sum)[kHeads]) {
  const DF df;
  const DI16 d16;
  const DI32 d32;
  const int64_t width = w.width();
  const int16_t* terms = w.terms[c] + at * kWide;
  hn::Vec<DI16> key[kVectors];
  for (int64_t v = 0; v < kVectors; ++v) key[v] = hn::Zero(d16);
  for (int64_t g = 0; g < w.n_groups(c); g += 2, terms += 2 * kTerms * width) {
    const int64_t code = codes[g / 2];
    const int16_t* low = terms + (code & 15) * width;
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) key[v] = hn::Add(key[v], hn::LoadU(d16, low + v * kWide));
    if (g + 1 == w.n_groups(c)) break;
    const int16_t* high = terms + (kTerms + (code >> 4)) * width;
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) key[v] = hn::Add(key[v], hn::LoadU(d16, high + v * kWide));
  }
  const auto turned = [&](hn::Vec<DI16> pairs, const int16_t* by) HWY_ATTR {
    auto other = hn::Zero(d32);
    const auto sums = hn::ReorderWidenMulAccumulate(d32, pairs, hn::LoadU(d16, by), hn::Zero(d32), other);
    return hn::ConvertTo(df, hn::RearrangeToOddPlusEven(sums, other));
  };
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) {
    const VF first = turned(key[v], place + (at + v) * kWide);
    const VF second = turned(key[v], place + width + (at + v) * kWide);
#pragma GCC unroll 8
    for (int64_t h = 0; h < kHeads; ++h) {
      const float* from = q + h * width + (at + v) * kLanes;
      sum[h] = hn::MulAdd(first, hn::LoadU(df, from), sum[h]);
      sum[h] = hn::MulAdd(second, hn::LoadU(df, from + w.n_pairs), sum[h]);
    }
  }
}

/// sums[h] = q_h . key of a row, turned by its place.
HWY_INLINE void row_products(const Work& w, int64_t c, const uint8_t* codes, const int16_t* place, const float* q,
                             float* sums) {
  for (int64_t block = 0; block < w.n_blocks; ++block) {
    VF sum[kHeads];
    for (int64_t h = 0; h < kHeads; ++h) sum[h] = hn::Zero(DF());
    const int64_t n_vectors = w.width() / kWide;
    int64_t at = 0;
    for (; at + 4 <= n_vectors; at += 4) add_products<4>(w, c, codes, place, q, at, sum);
    for (; at + 2 <= n_vectors; at += 2) add_products<2>(w, c, codes, place, q, at, sum);
    for (; at < n_vectors; ++at) add_products<1>(w, c, codes, place, q, at, sum);
    store_sums(sum[0], sum[1], sum[2], sum[3], sums + block * kPlaneRun * kHeads);
    q += kHeads * w.width();
  }
}

#endif

/// Scores of the rows of a class, [n_blocks, kPlaneRun, kHeads] from `scores` on.
HWY_NOINLINE void score_rows_of(const Work& w, const ClassRows& rows, const float* tiles, float* scores) {
  const int64_t bytes = w.layout.row_bytes[rows.c];
  const bool turned = w.n_turned > 0;
  with_slack(w, rows, [&](const uint8_t* codes, int64_t first, int64_t n) HWY_ATTR {
    for (int64_t k = first; k < first + n; ++k, codes += bytes) {
      const int64_t at = turned ? rows.at[k] : 0;
      row_products(w, rows.c, codes, w.places + at % kTurn * 2 * w.width(),
                   tiles + at / kTurn * w.n_queries() * w.width(), scores + k * kHeads);
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
HWY_INLINE void add_by_bit(const uint8_t* codes, int64_t bytes, int64_t n, const float* weights, int64_t n_bits,
                           int64_t stride, float* by_bit) {
  for (int64_t k = 0; k < n; ++k, codes += bytes, weights += kHeads) {
    for (int64_t i = 0; i < n_bits; ++i) {
      if ((codes[i / 8] >> (i % 8) & 1) == 0) continue;
      for (int64_t h = 0; h < kHeads; ++h) by_bit[h * stride + i] += weights[h];
    }
  }
}

#else

template <int64_t kVectors>
HWY_INLINE void add_by_bit(const uint8_t* codes, int64_t bytes, int64_t n, const float* weights, int64_t stride,
                           float* by_bit) {
  const DF df;
  VF sum[kHeads][kVectors];
#pragma GCC unroll 8
  for (int64_t h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) sum[h][v] = hn::LoadU(df, by_bit + h * stride + v * kLanes);
  }
  for (int64_t k = 0; k < n; ++k, codes += bytes, weights += kHeads) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto set = hn::LoadMaskBits(df, codes + v * kLanes / 8);
#pragma GCC unroll 8
      for (int64_t h = 0; h < kHeads; ++h) {
        sum[h][v] = hn::Add(sum[h][v], hn::IfThenElseZero(set, hn::Set(df, weights[h])));
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sum[h][v], df, by_bit + h * stride + v * kLanes);
  }
}

/// by_bit[h, i] += sum over rows of weight_h where bit i from byte `codes` on is set, for n_bits bits.
HWY_INLINE void add_by_bit(const uint8_t* codes, int64_t bytes, int64_t n, const float* weights, int64_t n_bits,
                           int64_t stride, float* by_bit) {
  constexpr int64_t kMost = HWY_TARGET <= HWY_AVX3 ? 4 : 2;  // sums of four heads in registers
  const int64_t n_vectors = ceil_div(n_bits, kLanes);
  int64_t v = 0;
  for (; v + kMost <= n_vectors; v += kMost) {
    add_by_bit<kMost>(codes + v * kLanes / 8, bytes, n, weights, stride, by_bit + v * kLanes);
  }
  for (; v < n_vectors; ++v) {
    add_by_bit<1>(codes + v * kLanes / 8, bytes, n, weights, stride, by_bit + v * kLanes);
  }
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
    add_by_bit(codes + w.layout.key_bits[rows.c] / 8, w.layout.row_bytes[rows.c], n, weights + first * kHeads, n_bits,
               w.most_bits, by_bit);
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

/// Rows of a piece by class.
void sort_rows(const Work& w, int64_t piece, ClassRows (&rows)[kMaxPlaneClasses], uint16_t* order) {
  const PlaneRows& from = w.p->rows;
  const int64_t begin = piece * kPlaneRun, n = std::min(w.n - begin, kPlaneRun);
  for (int64_t c = 0; c < w.layout.n_classes; ++c) {
    uint16_t* at = order;
    for (int64_t t = 0; t < n; ++t) {
      *at = static_cast<uint16_t>(t);
      at += plane_row_class(from, begin + t) == c ? 1 : 0;
    }
    const int64_t start = from.run_start.as<int32_t>()[piece * w.layout.n_classes + c];
    rows[c] = {c, at - order, order, from.codes.as<uint8_t>() + w.layout.begin[c] + start * w.layout.row_bytes[c]};
    order = at;
  }
}

HWY_NOINLINE void attend_piece(const Work& w, int64_t piece, int32_t thread) {
  Slices slices(w.local + thread * w.n_local());
  const int64_t n = std::min(w.n - piece * kPlaneRun, kPlaneRun), n_query = w.n_queries() * w.width();
  float *scores = slices.take(w.n_scores()), *q = slices.take(n_query), *tiles = slices.take(w.n_tiles() * n_query);
  float* by_bit = slices.take(kHeads * w.most_bits);
  ClassRows rows[kMaxPlaneClasses];
  uint16_t order[kPlaneRun + 1];  // one is written past the last
  sort_rows(w, piece, rows, order);
  turn_back(w, w.q, w.piece_cos + piece * w.n_turned, w.piece_sin + piece * w.n_turned, q);
  for (int64_t i = 0; i < w.n_tiles(); ++i) {
    turn_back(w, q, w.tile_cos + i * w.n_turned, w.tile_sin + i * w.n_turned, tiles + i * n_query);
  }
  for (int64_t c = 0, at = 0; c < w.layout.n_classes; at += rows[c].n, ++c) {
    score_rows_of(w, rows[c], tiles, scores + at * kHeads);
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
  w.n_pairs = round_up(w.d / 2, kLanes);
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
