// Memory and tables of attend_planes. Included once per target (Highway's -inl convention): no #pragma once.

#if defined(VESTIGE_PLANE_TABLES_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESTIGE_PLANE_TABLES_INL_
#undef VESTIGE_PLANE_TABLES_INL_
#else
#define VESTIGE_PLANE_TABLES_INL_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/row_simd-inl.h"
#include "backend/cpu/tiles.h"
#include "backend/ops/plane_code.h"

HWY_BEFORE_NAMESPACE();
namespace vestige::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kTurn = 32;   // rows whose queries are turned back once
constexpr int64_t kStrip = 64;  // coordinates of keys that are scored at once: their tables stay in the first cache
constexpr int64_t kHeads = 4;   // query heads that share a pass over the rows; scores of a row lie side by side
constexpr int64_t kTerms = 16;  // of a table: 4 bits
constexpr float kOne = 32767;   // 1.0 of cosines and sines
constexpr int64_t kSlack = 8;   // bytes that may be read past a row
constexpr float kInf = std::numeric_limits<float>::infinity();

constexpr int64_t kWide = 2 * kLanes;  // 16-bit numbers of a vector
using DI16 = hn::Repartition<int16_t, DF>;
using DI32 = hn::RebindToSigned<DU>;

/// Sizes and memory of one call. A key is pairs side by side, cut in strips; a query's strip is the firsts of its pairs
/// and then their seconds. Whatever is past d is 0.
struct Work {
  const AttendPlanesParams* p = nullptr;
  PlaneLayout layout;
  int64_t m = 0, d = 0, r = 0, n = 0, n_pieces = 0, n_codes = 0;  // r: of the values
  int64_t n_strips = 0, n_turned = 0;                             // n_turned: pairs
  int64_t n_blocks = 0;                                           // of kHeads heads
  int64_t most_bits = 0;                                          // of a row's values, whole vectors
  float *q = nullptr, *key_basis = nullptr,
        *key_base = nullptr;                         // [n_strips, m, kStrip], [r of the keys, width], [width]
  float* per_step = nullptr;                         // [width]: 1 / step of the 16-bit keys, 0 where a pair is always 0
  int16_t* terms[kMaxPlaneClasses] = {};             // [n_strips, n_groups(c), kTerms, kStrip]
  int16_t* places = nullptr;                         // [n_strips, kTurn, 2 kStrip]
  float *tile_cos = nullptr, *tile_sin = nullptr;    // [kPlaneRun / kTurn, n_pairs]
  float *piece_cos = nullptr, *piece_sin = nullptr;  // [n_pieces, n_pairs]
  float* bit_weight[kMaxPlaneClasses] = {};          // [value bits]: of a coefficient, basis_scale in it
  float* middle = nullptr;                           // [n_classes, line_floats(r)]
  float *top = nullptr, *sum = nullptr, *part = nullptr;  // [n_pieces, m], [..], [n_pieces, m, line_floats(r)]
  float* local = nullptr;                                 // [n_threads, n_local()]

  explicit Work(const AttendPlanesParams& params) : p(&params), layout(params.rows) {}
  int64_t width() const { return n_strips * kStrip; }
  int64_t n_pairs() const { return width() / 2; }
  int64_t n_groups(int64_t c) const { return std::max<int64_t>(1, ceil_div(layout.key_bits[c], 4)); }
  int64_t n_tiles() const { return n_turned > 0 ? kPlaneRun / kTurn : 1; }
  int64_t n_queries() const { return n_blocks * kHeads; }
  int64_t n_scores() const { return line_floats(n_blocks * kPlaneRun * kHeads); }
  int64_t n_local() const {
    return n_scores() + line_floats(m * width()) + line_floats(n_tiles() * m * width()) +
           line_floats(kHeads * most_bits + kLanes);
  }
};

Status take_memory(Work& w, int64_t n_threads) {
  struct Part {
    float** at;
    int64_t size;
  };
  const int64_t r_key = w.p->rows.key.basis.dim(0), n_parts = w.n_pieces * w.n_queries();
  float *terms[kMaxPlaneClasses], *places = nullptr;
  std::vector<Part> parts = {{&w.q, w.m * w.width()},
                             {&w.key_basis, r_key * w.width()},
                             {&w.key_base, w.width()},
                             {&w.per_step, w.width()},
                             {&places, kTurn * w.width()},  // 2 width() numbers of 16 bits
                             {&w.tile_cos, w.n_tiles() * w.n_pairs()},
                             {&w.tile_sin, w.n_tiles() * w.n_pairs()},
                             {&w.piece_cos, w.n_pieces * w.n_pairs()},
                             {&w.piece_sin, w.n_pieces * w.n_pairs()},
                             {&w.middle, w.layout.n_classes * line_floats(w.r)},
                             {&w.top, n_parts},
                             {&w.sum, n_parts},
                             {&w.part, w.n_pieces * w.m * line_floats(w.r)},
                             {&w.local, n_threads * w.n_local()}};
  for (int64_t c = 0; c < w.layout.n_classes; ++c) {
    parts.push_back({&terms[c], w.n_groups(c) * kTerms * w.n_pairs()});
    parts.push_back({&w.bit_weight[c], w.layout.value_bits[c] + kLanes});  // read in whole vectors
  }
  int64_t total = 0;
  for (const Part& part : parts) total += line_floats(part.size);
  VESTIGE_ASSIGN(float* const memory, scratch_floats(ScratchSlot::kOp, total));
  Slices slices(memory);
  for (const Part& part : parts) *part.at = slices.take(part.size);
  w.places = reinterpret_cast<int16_t*>(places);
  for (int64_t c = 0; c < w.layout.n_classes; ++c) w.terms[c] = reinterpret_cast<int16_t*>(terms[c]);
  return {};
}

/// out += factor x, whole vectors.
HWY_INLINE void add_scaled(const float* x, float factor, int64_t n, float* out) {
  const DF df;
  const VF f = hn::Set(df, factor);
  for (int64_t j = 0; j < n; j += kLanes) {
    hn::StoreU(hn::MulAdd(f, hn::LoadU(df, x + j), hn::LoadU(df, out + j)), df, out + j);
  }
}

/// Cosines and sines of first + i step, i < n, by repeated turning in float64: four products, no cosine.
struct Angles {
  std::vector<double> cos, sin;
};

HWY_NOINLINE Angles angles_of(const Work& w, double times) {
  Angles a;
  for (int64_t j = 0; j < w.n_turned; ++j) {
    const double angle = times * static_cast<double>(w.p->frequencies.as<float>()[j]);
    a.cos.push_back(std::cos(angle));
    a.sin.push_back(std::sin(angle));
  }
  return a;
}

HWY_NOINLINE void advance(Angles* a, const Angles& step) {
  for (size_t j = 0; j < a->cos.size(); ++j) {
    const double turned = a->cos[j] * step.cos[j] - a->sin[j] * step.sin[j];
    a->sin[j] = a->cos[j] * step.sin[j] + a->sin[j] * step.cos[j];
    a->cos[j] = turned;
  }
}

/// Pairs that are not turned have the angle 0.
HWY_NOINLINE void fill_table(const Work& w, Angles at, const Angles& step, int64_t n, float* cosine, float* sine) {
  for (int64_t i = 0; i < n; ++i, cosine += w.n_pairs(), sine += w.n_pairs()) {
    std::copy(at.cos.begin(), at.cos.end(), cosine);
    std::copy(at.sin.begin(), at.sin.end(), sine);
    std::fill(cosine + w.n_turned, cosine + w.n_pairs(), 1.0f);
    std::fill(sine + w.n_turned, sine + w.n_pairs(), 0.0f);
    advance(&at, step);
  }
}

/// Tables of the places in a tile, of the tiles in a piece and of the pieces. A place: pairs (cos, -sin), which give a
/// pair's first number, then (sin, cos).
void fill_tables(const Work& w) {
  Angles place = angles_of(w, 0), step = angles_of(w, 1);
  const Angles none = place;
  float cosine[kMaxPlaneWidth], sine[kMaxPlaneWidth];
  const auto rounded = [](float x) { return static_cast<int16_t>(x * kOne + std::copysign(0.5f, x)); };
  for (int64_t i = 0; i < (w.n_turned > 0 ? kTurn : 1); ++i) {
    fill_table(w, place, step, 1, cosine, sine);
    for (int64_t j = 0; j < w.n_pairs(); ++j) {
      int16_t* first = w.places + (2 * j / kStrip * kTurn + i) * 2 * kStrip + 2 * j % kStrip;
      int16_t* second = first + kStrip;
      first[0] = second[1] = rounded(cosine[j]);
      first[1] = rounded(-sine[j]);
      second[0] = rounded(sine[j]);
    }
    advance(&place, step);
  }
  for (int64_t n = 1; n < kTurn; n *= 2) advance(&step, Angles(step));
  fill_table(w, none, step, w.n_tiles(), w.tile_cos, w.tile_sin);
  for (int64_t n = kTurn; n < kPlaneRun; n *= 2) advance(&step, Angles(step));
  const Angles first = w.p->first_position == 0 ? none : angles_of(w, static_cast<double>(w.p->first_position));
  fill_table(w, first, step, w.n_pieces, w.piece_cos, w.piece_sin);
}

/// A vector of d numbers in the order of pairs, zeros past it.
HWY_INLINE void to_pairs(const Work& w, const float* x, float* out) {
  const int64_t h = w.p->interleaved ? 0 : w.n_turned;
  for (int64_t i = 0; i < h; ++i) {
    out[2 * i] = x[i];
    out[2 * i + 1] = x[i + h];
  }
  std::copy(x + 2 * h, x + w.d, out + 2 * h);
  std::fill(out + w.d, out + w.width(), 0.0f);
}

/// Basis, steps and queries in the order of pairs.
HWY_NOINLINE void prepare_keys(const Work& w) {
  const PlaneSide& key = w.p->rows.key;
  const int64_t n_classes = w.layout.n_classes;
  float x[kMaxPlaneWidth], step[kMaxPlaneWidth];
  to_pairs(w, key.mean.as<float>(), w.key_base);
  for (int64_t i = 0; i < w.width(); ++i) step[i] = std::abs(w.key_base[i]);
  for (int64_t j = 0; j < key.basis.dim(0); ++j) {
    float* row = w.key_basis + j * w.width();
    float most = 0;
    for (int64_t c = 0; c < n_classes; ++c) {
      if (j < plane_width(key, c, 0)) most = std::max(most, static_cast<float>(coefficient_range(key, c, j) / 2));
    }
    const float scale = key.basis_scale.as<float>()[j];
    const int8_t* level = key.basis.as<int8_t>() + j * w.d;
    for (int64_t i = 0; i < w.d; ++i) x[i] = scale * static_cast<float>(level[i]);
    to_pairs(w, x, row);
    for (int64_t i = 0; i < w.width(); ++i) step[i] += std::abs(row[i]) * most;
  }
  // A sum of rounded terms may be half a step a term further out.
  float most_terms = 2;
  for (int64_t c = 0; c < n_classes; ++c) {
    most_terms = std::max(most_terms, 2 + static_cast<float>(w.layout.key_bits[c]) / 2);
  }
  for (int64_t i = 0; i < w.width(); i += 2) {
    const float most = std::max(step[i], step[i + 1]) / (32767 - most_terms);
    step[i] = step[i + 1] = most > 1e-30f ? most : 0.0f;
    w.per_step[i] = w.per_step[i + 1] = step[i] > 0 ? 1 / step[i] : 0.0f;
  }
  for (int64_t h = 0; h < w.m; ++h) {
    to_pairs(w, w.p->q.as<float>() + h * w.p->q.stride[0], x);
    for (int64_t j = 0; j < w.n_pairs(); ++j) {
      float* first = w.q + (2 * j / kStrip * w.m + h) * kStrip + j % (kStrip / 2);
      first[0] = x[2 * j] * (w.p->scale / kOne) * step[2 * j];
      first[kStrip / 2] = x[2 * j + 1] * (w.p->scale / kOne) * step[2 * j];
    }
  }
}

/// out = factor x per_step, to the nearest integers: one strip.
HWY_INLINE void to_steps(const float* x, const float* per_step, double factor, int16_t* out) {
  const DF df;
  const VF f = hn::Set(df, static_cast<float>(factor));
  for (int64_t i = 0; i < kStrip; i += kLanes) {
    const VF steps = hn::Mul(hn::Mul(f, hn::LoadU(df, x + i)), hn::LoadU(df, per_step + i));
    hn::StoreU(hn::DemoteTo(hn::Rebind<int16_t, DF>(), hn::NearestInt(steps)), hn::Rebind<int16_t, DF>(), out + i);
  }
}

HWY_INLINE void add_integers(const int16_t* a, const int16_t* b, int16_t* out) {
  for (int64_t i = 0; i < kStrip; ++i) out[i] = static_cast<int16_t>(a[i] + b[i]);
}

/// Terms of class c and one strip: of every 4 bits of the codes all 16 sums. The part that all rows share is in the
/// first table.
HWY_NOINLINE void fill_terms(const Work& w, int64_t c, int64_t strip) {
  constexpr int64_t kTable = kTerms * kStrip;
  const PlaneSide& key = w.p->rows.key;
  const int64_t n_groups = w.n_groups(c);
  const float *basis = w.key_basis + strip * kStrip, *per_step = w.per_step + strip * kStrip;
  int16_t* terms = w.terms[c] + strip * n_groups * kTable;
  for (int64_t g = 0; g < n_groups; ++g) std::fill_n(terms + g * kTable, kStrip, int16_t{0});
  std::fill_n(terms + (n_groups - 1) * kTable, kTable, int16_t{0});  // of bits past the last
  float base[kStrip];
  std::copy_n(w.key_base + strip * kStrip, kStrip, base);
  int64_t bit = 0;
  for (int64_t p = 0; p < kMaxPlanes; ++p) {
    for (int64_t j = 0; j < plane_width(key, c, p); ++j, ++bit) {
      const double range = coefficient_range(key, c, j), of_plane = power_of_two(-static_cast<int>(p) - 1);
      const float* row = basis + j * w.width();
      to_steps(row, per_step, range * of_plane, terms + bit / 4 * kTable + (int64_t{1} << (bit % 4)) * kStrip);
      if (p > 0) continue;
      const double middle = power_of_two(-coefficient_bits(key, c, j) - 1) - 0.5;
      add_scaled(row, static_cast<float>(middle * range), kStrip, base);
    }
  }
  for (int64_t g = 0; g < n_groups; ++g) {
    int16_t* sums = terms + g * kTable;
    for (int64_t code = 3; code < kTerms; ++code) {
      const int64_t rest = code & (code - 1);
      if (rest != 0) add_integers(sums + rest * kStrip, sums + (code & -code) * kStrip, sums + code * kStrip);
    }
  }
  int16_t steps[kStrip];
  to_steps(base, per_step, 1, steps);
  for (int64_t code = 0; code < kTerms; ++code) add_integers(terms + code * kStrip, steps, terms + code * kStrip);
}

/// What bits of values weigh, in the order of codes, and what a row of a class has of each coefficient without them.
void prepare_values(const Work& w) {
  const PlaneSide& value = w.p->rows.value;
  std::fill(w.middle, w.middle + w.layout.n_classes * line_floats(w.r), 0.0f);
  for (int64_t c = 0; c < w.layout.n_classes; ++c) {
    int64_t bit = 0;
    for (int64_t p = 0; p < kMaxPlanes; ++p) {
      for (int64_t j = 0; j < plane_width(value, c, p); ++j, ++bit) {
        const double range = coefficient_range(value, c, j) * static_cast<double>(value.basis_scale.as<float>()[j]);
        w.bit_weight[c][bit] = static_cast<float>(range * power_of_two(-static_cast<int>(p) - 1));
        if (p > 0) continue;
        const double middle = power_of_two(-coefficient_bits(value, c, j) - 1) - 0.5;
        w.middle[c * line_floats(w.r) + j] = static_cast<float>(middle * range);
      }
    }
  }
}

}  // namespace
}  // namespace vestige::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VESTIGE_PLANE_TABLES_INL_
