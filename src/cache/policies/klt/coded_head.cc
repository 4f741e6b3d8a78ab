#include "cache/policies/klt/coded_head.h"

#include <algorithm>
#include <cmath>

#include "vestige/ops.h"

namespace vestige::klt {

namespace {

constexpr int64_t kTuned = 512;  // rows of a class that a range is tuned on, up to twice as many

template <class T>
ConstTensorView table(const std::vector<T>& x, DType dtype, std::initializer_list<int64_t> shape) {
  return {x.data(), dtype, shape};
}

/// Squared error of `b` bits over values, at a range.
double error_at(const std::vector<float>& values, int32_t bits, double range) {
  const double n = std::exp2(bits), step = range / n;
  double sum = 0;
  for (const float v : values) {
    const double code = std::clamp(std::floor(double(v) / step + n / 2), 0.0, n - 1);
    const double e = double(v) - step * (code + 0.5 - n / 2);
    sum += e * e;
  }
  return sum;
}

/// The code of the range at which the values' error is least; ties: the lowest.
uint8_t tune_range(const std::vector<float>& values, int32_t bits) {
  static constexpr double kStep[] = {0, 1.596, 0.9957, 0.586, 0.3352, 0.1881, 0.1041, 0.0569, 0.0308};  // of a Gaussian
  double square = 0;
  for (const float v : values) square += double(v) * double(v);
  if (!(square > 0) || !std::isfinite(square)) return 0;
  const double range = kStep[bits] * std::exp2(bits) * std::sqrt(square / double(values.size()));
  const auto centre = static_cast<int32_t>(std::lround(8 * std::log2(range) + 160));
  int32_t best = 0;
  double least = square;
  for (int32_t code = std::max(1, centre - 5); code <= std::min(255, centre + 9); ++code) {
    const double error = error_at(values, bits, plane_range(static_cast<uint8_t>(code)));
    if (error < least) {
      least = error;
      best = code;
    }
  }
  return static_cast<uint8_t>(best);
}

/// Coefficient j of kTuned to 2 kTuned - 1 rows of class c, evenly among them; of all, if there are fewer.
std::vector<float> sample(const std::vector<float>& t, int64_t d, const std::vector<std::vector<int64_t>>& rows,
                          size_t c, int64_t j) {
  const auto n = static_cast<int64_t>(rows[c].size()), step = std::max<int64_t>(1, n / kTuned);
  std::vector<float> out;
  for (int64_t i = 0; i < n; i += step) out.push_back(t[static_cast<size_t>(rows[c][static_cast<size_t>(i)] * d + j)]);
  return out;
}

CodedSide make_side(const SideTransform& transform, const std::array<std::vector<uint8_t>, kClasses>& bits,
                    int64_t rank, int64_t d, const std::vector<float>& t, const RowClasses& classes) {
  CodedSide out;
  out.rank = rank;
  out.mean = transform.mean;
  for (int64_t j = 0; j < rank; ++j) {
    const float* row = transform.dual.data() + j * d;
    float most = 0;
    for (int64_t i = 0; i < d; ++i) most = std::max(most, std::abs(row[i]));
    const float scale = most / 127;
    out.basis_scale.push_back(scale);
    for (int64_t i = 0; i < d; ++i) {
      out.basis.push_back(static_cast<int8_t>(scale > 0 ? std::lround(row[i] / scale) : 0));
    }
  }
  std::vector<std::vector<int64_t>> rows(kClasses), all(1);
  for (size_t i = 0; i < classes.of_row.size(); ++i) {
    rows[classes.of_row[i]].push_back(static_cast<int64_t>(i));
    all[0].push_back(static_cast<int64_t>(i));
  }
  for (size_t c = 0; c < kClasses; ++c) {
    for (int32_t p = 0; p < kMaxBits; ++p) {
      out.n_planes.push_back(
          static_cast<int32_t>(std::count_if(bits[c].begin(), bits[c].end(), [p](uint8_t b) { return b > p; })));
    }
    for (int64_t j = 0; j < rank; ++j) {
      const int32_t b = bits[c][static_cast<size_t>(j)];
      const std::vector<float> values = rows[c].empty() ? sample(t, d, all, 0, j) : sample(t, d, rows, c, j);
      out.range.push_back(b == 0 ? 0 : tune_range(values, b));
    }
  }
  return out;
}

/// Two bits a row, and rows before each run.
void index_rows(const std::vector<uint8_t>& of_row, CodedHead* head) {
  const size_t n = of_row.size();
  head->n_rows = static_cast<int64_t>(n);
  head->row_class.assign((n + 3) / 4, 0);
  head->run_start.clear();
  std::array<int32_t, kClasses> seen = {};
  for (size_t i = 0; i < n; ++i) {
    if (i % static_cast<size_t>(kPlaneRun) == 0)
      head->run_start.insert(head->run_start.end(), seen.begin(), seen.end());
    head->row_class[i / 4] |= static_cast<uint8_t>(of_row[i] << (i % 4 * 2));
    ++seen[of_row[i]];
  }
}

/// Where the codes of each class begin, and where the last one's end.
std::array<int64_t, kClasses + 1> class_begins(const CodedHead& head) {
  const PlaneRows rows = head.view();
  const PlaneLayout layout(rows);
  std::array<int64_t, kClasses + 1> begin = {};
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    const auto c = static_cast<size_t>(plane_row_class(rows, i));
    begin[c + 1] += layout.row_bytes[c];
  }
  for (size_t c = 1; c <= kClasses; ++c) begin[c] += begin[c - 1];
  return begin;
}

Status encode(const std::vector<float>& key, const std::vector<float>& value, int64_t key_width, int64_t value_width,
              CodedHead* head, Stream& stream) {
  const int64_t bytes = class_begins(*head)[kClasses];
  head->codes.assign(static_cast<size_t>(bytes), 0);
  VESTIGE_TRY(ops::encode_planes({.key = {key.data(), DType::kF32, {head->n_rows, key_width}},
                                  .value = {value.data(), DType::kF32, {head->n_rows, value_width}},
                                  .rows = head->view(),
                                  .codes = {head->codes.data(), DType::kU8, {bytes}}},
                                 stream));
  return stream.synchronize();
}

/// Lower Cholesky factor of B B^T, B [rank, d] the basis with its scales, with a little on the diagonal.
std::vector<double> gram_factor(const CodedSide& side, int64_t d) {
  const int64_t r = side.rank;
  std::vector<double> l(static_cast<size_t>(r * r), 0.0);
  for (int64_t i = 0; i < r; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < d; ++k)
        sum += double(side.basis[size_t(i * d + k)]) * double(side.basis[size_t(j * d + k)]);
      sum *= double(side.basis_scale[size_t(i)]) * double(side.basis_scale[size_t(j)]);
      if (i == j) sum *= 1 + 1e-9;
      for (int64_t k = 0; k < j; ++k) sum -= l[size_t(i * r + k)] * l[size_t(j * r + k)];
      l[size_t(i * r + j)] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / l[size_t(j * r + j)];
    }
  }
  return l;
}

/// Coefficients of least squared error, [n, rank].
std::vector<float> nearest_coefficients(const CodedSide& side, const std::vector<float>& x, int64_t n, int64_t d) {
  const int64_t r = side.rank;
  const std::vector<double> l = gram_factor(side, d);
  std::vector<float> out(static_cast<size_t>(n * r));
  std::vector<double> y(static_cast<size_t>(r));
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t i = 0; i < r; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < d; ++k) {
        sum += double(side.basis[size_t(i * d + k)]) * (double(x[size_t(t * d + k)]) - double(side.mean[size_t(k)]));
      }
      sum *= double(side.basis_scale[size_t(i)]);
      for (int64_t k = 0; k < i; ++k) sum -= l[size_t(i * r + k)] * y[size_t(k)];
      y[size_t(i)] = sum / l[size_t(i * r + i)];
    }
    for (int64_t i = r; i-- > 0;) {
      double sum = y[size_t(i)];
      for (int64_t k = i + 1; k < r; ++k) sum -= l[size_t(k * r + i)] * y[size_t(k)];
      y[size_t(i)] = sum / l[size_t(i * r + i)];
      out[size_t(t * r + i)] = static_cast<float>(y[size_t(i)]);
    }
  }
  return out;
}

}  // namespace

PlaneSide CodedSide::view(int64_t d) const {
  return {.basis = table(basis, DType::kU8, {rank, d}),
          .basis_scale = table(basis_scale, DType::kF32, {rank}),
          .mean = table(mean, DType::kF32, {d}),
          .n_planes = table(n_planes, DType::kI32, {kClasses, kMaxBits}),
          .range = table(range, DType::kU8, {kClasses, rank})};
}

PlaneRows CodedHead::view() const {
  return {.key = side[0].view(d),
          .value = side[1].view(d),
          .row_class = table(row_class, DType::kU8, {static_cast<int64_t>(row_class.size())}),
          .run_start = table(run_start, DType::kI32, {static_cast<int64_t>(run_start.size()) / kClasses, kClasses}),
          .codes = table(codes, DType::kU8, {static_cast<int64_t>(codes.size())}),
          .n_rows = n_rows};
}

int64_t CodedHead::n_bytes() const {
  return table_bytes(d, side[0].rank, side[1].rank) +
         static_cast<int64_t>(row_class.size() + 4 * run_start.size() + codes.size());
}

Result<CodedHead> code_head(const HeadTransform& transform, const BitPlan& plan, const HeadRows& coded,
                            Stream& stream) {
  CodedHead head;
  head.d = coded.d;
  head.limits = transform.classes.limits;
  std::vector<float> t[2];
  for (size_t s = 0; s < 2; ++s) {
    VESTIGE_ASSIGN(t[s],
                   coefficients_of(s == 0 ? coded.key : coded.value, coded.n, coded.d, transform.side[s], stream));
    head.side[s] = make_side(transform.side[s], plan.of_side[s], plan.rank[s], coded.d, t[s], transform.classes);
    head.unit[s] = static_cast<float>(transform.side[s].unit);
  }
  index_rows(transform.classes.of_row, &head);
  VESTIGE_TRY(encode(t[0], t[1], coded.d, coded.d, &head, stream));
  return head;
}

Status CodedHead::append(const HeadRows& rows, Stream& stream) {
  CodedHead added;
  added.d = d;
  added.side[0] = side[0];
  added.side[1] = side[1];
  std::vector<float> t[2];
  std::vector<double> energy(static_cast<size_t>(rows.n), 0.0);
  for (size_t s = 0; s < 2; ++s) {
    t[s] = nearest_coefficients(side[s], s == 0 ? rows.key : rows.value, rows.n, d);
    for (size_t i = 0; i < t[s].size(); ++i) {
      energy[i / static_cast<size_t>(std::max<int64_t>(1, side[s].rank))] +=
          double(unit[s]) * double(t[s][i]) * double(t[s][i]);
    }
  }
  std::vector<uint8_t> of_row;
  const PlaneRows present = view();
  for (int64_t i = 0; i < n_rows; ++i) of_row.push_back(static_cast<uint8_t>(plane_row_class(present, i)));
  std::vector<uint8_t> new_rows;
  for (const double e : energy) new_rows.push_back(class_of(e, limits));
  index_rows(new_rows, &added);
  VESTIGE_TRY(encode(t[0], t[1], side[0].rank, side[1].rank, &added, stream));
  const auto begin = class_begins(*this), more = class_begins(added);
  std::vector<uint8_t> joined;
  joined.reserve(codes.size() + added.codes.size());
  for (size_t c = 0; c < kClasses; ++c) {
    joined.insert(joined.end(), codes.begin() + begin[c], codes.begin() + begin[c + 1]);
    joined.insert(joined.end(), added.codes.begin() + more[c], added.codes.begin() + more[c + 1]);
  }
  of_row.insert(of_row.end(), new_rows.begin(), new_rows.end());
  CodedHead whole;  // nothing of this one changes before the last allocation
  index_rows(of_row, &whole);
  n_rows = whole.n_rows;
  row_class = std::move(whole.row_class);
  run_start = std::move(whole.run_start);
  codes = std::move(joined);
  return {};
}

Status CodedHead::check(const std::string& name) const {
  const auto bad = [&](const char* what) { return data_loss("%s: %s", name.c_str(), what); };
  for (const CodedSide& s : side) {
    for (const auto* numbers : {&s.basis_scale, &s.mean}) {
      if (!std::all_of(numbers->begin(), numbers->end(), [](float x) { return std::isfinite(x); })) {
        return bad("a number is not finite");
      }
    }
    for (size_t i = 0; i < s.n_planes.size(); ++i) {
      const int32_t most = i % kMaxBits == 0 ? static_cast<int32_t>(s.rank) : s.n_planes[i - 1];
      if (s.n_planes[i] < 0 || s.n_planes[i] > most) return bad("planes do not fall from the rank on");
    }
  }
  for (const float x : limits) {
    if (std::isnan(x)) return bad("a limit is not a number");
  }
  for (const float x : unit) {
    if (!(x >= 0) || !std::isfinite(x)) return bad("a unit is not a number from 0 on");
  }
  const PlaneRows rows = view();
  std::array<int32_t, kClasses> seen = {};
  for (int64_t i = 0; i < n_rows; ++i) {
    if (i % kPlaneRun == 0 && !std::equal(seen.begin(), seen.end(), run_start.begin() + i / kPlaneRun * kClasses)) {
      return bad("run starts and row classes disagree");
    }
    ++seen[static_cast<size_t>(plane_row_class(rows, i))];
  }
  if (class_begins(*this)[kClasses] != static_cast<int64_t>(codes.size()))
    return bad("codes have another size than their rows");
  return {};
}

}  // namespace vestige::klt
