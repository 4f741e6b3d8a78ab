// The proof of the certificates: over a million cases (row, query, head) of random and adversarial rows, no row that
// mode sound leaves out passes its threshold, and neither the omitted mass nor the output error of a step is ever above
// what its record certifies. Truth is float64 attention over every row (checked_cache.h).

#include "tests/cache/cache_fixture.h"
#include "tests/cache/checked_cache.h"

namespace vestige::testing {
namespace {

/// Rows, the prompt's queries, and the queries of the steps.
struct Data {
  std::vector<float> rows, prompt, live;
  int64_t n_prompt_rows = 0;  ///< rows before the fit; the others come after
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : rng_(seed) {}
  float normal() { return normal_(rng_); }
  /// Student's t with two degrees of freedom: no variance.
  float heavy() { return normal() / std::sqrt(std::max(1e-6f, 0.5f * (square() + square()))); }
  float log_uniform(float low, float high) {
    return low * std::pow(high / low, std::uniform_real_distribution<float>()(rng_));
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }

 private:
  float square() {
    const float x = normal();
    return x * x;
  }
  std::mt19937_64 rng_;
  std::normal_distribution<float> normal_;
};

constexpr int64_t kPrompt = 40, kSteps = 6;

using Make = void (*)(const Shape& shape, int64_t n, Draw& draw, Data* data);

Data random_data(const Shape& shape, int64_t n, uint64_t seed) {
  return {.rows = make_rows(n, shape.layout, seed),
          .prompt = make_queries(kPrompt, shape.h_q, shape.layout, seed + 1),
          .live = make_queries(kSteps, shape.h_q, shape.layout, seed + 2),
          .n_prompt_rows = n};
}

float* row_of(Data* data, const Shape& shape, int64_t u) { return data->rows.data() + u * shape.layout.d_row(); }

/// Scores of some nats: softmax is peaked, and a missed row would matter.
void peaked(const Shape&, int64_t, Draw& draw, Data* data) {
  for (float& x : data->live) x *= draw.log_uniform(2, 8);
}

void heavy_tails(const Shape&, int64_t, Draw& draw, Data* data) {
  for (float& x : data->rows) x = draw.heavy();
  for (std::vector<float>* q : {&data->prompt, &data->live}) {
    for (float& x : *q) x = draw.heavy();
  }
}

/// Groups of records that differ in a few small coordinates, and queries that want one record's group.
void look_alikes(const Shape& shape, int64_t n, Draw& draw, Data* data) {
  const int64_t d = shape.layout.d_row();
  for (int64_t u = 0; u < n; ++u) {
    float* row = row_of(data, shape, u);
    const float* base = row_of(data, shape, u / 32 * 32);
    for (int64_t k = 0; k < d; ++k) row[k] = base[k] + (u % 32 == 0 ? 0.0f : 0.03f * draw.normal());
  }
  for (int64_t i = 0; i < kSteps * shape.h_q; ++i) {
    const float* row = row_of(data, shape, draw.below(n));
    for (int64_t k = 0; k < d; ++k) data->live[static_cast<size_t>(i * d + k)] = 1.5f * row[k];
  }
}

/// The prompt's queries see only half of the coordinates; the steps' queries look at the other half, and one archived
/// row lies exactly along each.
void planted_unseen(const Shape& shape, int64_t n, Draw& draw, Data* data) {
  const int64_t d = shape.layout.d_row();
  for (size_t i = 0; i < data->prompt.size(); ++i) {
    if (static_cast<int64_t>(i) % d % 2 == 0) data->prompt[i] = 0;
  }
  for (int64_t i = 0; i < kSteps * shape.h_q; ++i) {
    float* q = data->live.data() + i * d;
    float* row = row_of(data, shape, shape.block_rows + draw.below(n - 2 * shape.block_rows));
    for (int64_t k = 0; k < d; ++k) {
      if (k % 2 != 0) q[k] = 0;
      row[k] = 2 * q[k];
    }
  }
}

/// All queries of the prompt are alike: the moment has rank one, and every live query lies outside it.
void one_query(const Shape& shape, int64_t, Draw&, Data* data) {
  const auto width = static_cast<size_t>(shape.layout.d_row());
  for (size_t i = width; i < data->prompt.size(); ++i) data->prompt[i] = data->prompt[i % width];
  for (float& x : data->live) x *= 3;
}

/// Rows and queries from 1e-6 to 1e3 in size, side by side.
void all_sizes(const Shape& shape, int64_t n, Draw& draw, Data* data) {
  const int64_t d = shape.layout.d_row();
  for (int64_t u = 0; u < n; ++u) {
    const float size = draw.log_uniform(1e-6f, 1e3f);
    for (int64_t k = 0; k < d; ++k) row_of(data, shape, u)[k] *= size;
  }
  for (std::vector<float>* q : {&data->prompt, &data->live}) {
    for (size_t i = 0; i < q->size(); i += static_cast<size_t>(d)) {
      const float size = draw.log_uniform(1e-4f, 10);
      for (int64_t k = 0; k < d; ++k) (*q)[i + static_cast<size_t>(k)] *= size;
    }
  }
}

void tiny(const Shape&, int64_t, Draw&, Data* data) {
  for (float& x : data->rows) x *= 1e-12f;
  for (float& x : data->live) x *= 1e12f;
}

void huge(const Shape&, int64_t, Draw&, Data* data) {
  for (float& x : data->rows) x *= 1e12f;
  for (std::vector<float>* q : {&data->prompt, &data->live}) {
    for (float& x : *q) x *= 1e-12f;
  }
}

/// Rows after the fit are far from the sample, the last ones past the norm grid (byte 255).
void drift(const Shape& shape, int64_t n, Draw& draw, Data* data) {
  data->n_prompt_rows = n / 2;
  for (int64_t u = n / 2; u < n; ++u) {
    const float size = draw.below(8) == 0 ? 1e4f : draw.log_uniform(1, 40);
    for (int64_t k = 0; k < shape.layout.d_row(); ++k) row_of(data, shape, u)[k] *= size;
  }
}

/// Every row the same but a few, which are another.
void constant(const Shape& shape, int64_t n, Draw&, Data* data) {
  for (int64_t u = 1; u < n; ++u) {
    std::copy_n(row_of(data, shape, u % 97 == 5 ? 1 : 0), shape.layout.d_row(), row_of(data, shape, u));
  }
  for (float& x : data->live) x *= 4;
}

void all_zero(const Shape&, int64_t, Draw&, Data* data) { std::fill(data->rows.begin(), data->rows.end(), 0.0f); }

/// The rows lie in four directions, which the code holds almost exactly: error norms are tiny, scores are not.
void low_rank(const Shape& shape, int64_t n, Draw& draw, Data* data) {
  const int64_t d = shape.layout.d_row();
  const std::vector<float> base(data->rows.begin(), data->rows.begin() + 4 * d);
  for (int64_t u = 0; u < n; ++u) {
    for (int64_t k = 0; k < d; ++k) row_of(data, shape, u)[k] = 0;
    for (int64_t j = 0; j < 4; ++j) {
      const float w = draw.normal();
      for (int64_t k = 0; k < d; ++k) row_of(data, shape, u)[k] += w * base[static_cast<size_t>(j * d + k)];
    }
  }
  for (float& x : data->live) x *= 5;
}

struct Case {
  const char* name;
  Make make;
  Shape shape;
  int64_t n_blocks;
  bool fitted = true;
};

std::vector<Case> cases() {
  const Shape f32 = {{48, 16, DType::kF32}, 128, 4}, bf16 = {{48, 16, DType::kBF16}, 128, 4};
  const Shape one_head = {{64, 8, DType::kF32}, 128, 1}, model = {{512, 64, DType::kBF16}, 256, 8};
  const Shape key_value = {{32, 32, DType::kBF16, false}, 128, 3};
  return {
      {"peaked_f32", peaked, f32, 12},
      {"peaked_bf16", peaked, bf16, 12},
      {"peaked_model", peaked, model, 3},
      {"heavy_f32", heavy_tails, f32, 12},
      {"heavy_bf16", heavy_tails, bf16, 12},
      {"alike_f32", look_alikes, f32, 12},
      {"alike_bf16", look_alikes, bf16, 12},
      {"alike_model", look_alikes, model, 3},
      {"planted_f32", planted_unseen, f32, 12},
      {"planted_bf16", planted_unseen, bf16, 12},
      {"planted_model", planted_unseen, model, 3},
      {"one_query_f32", one_query, f32, 12},
      {"one_query_bf16", one_query, bf16, 12},
      {"sizes_f32", all_sizes, f32, 12},
      {"sizes_bf16", all_sizes, bf16, 12},
      {"tiny_f32", tiny, f32, 12},
      {"huge_f32", huge, f32, 12},
      {"huge_bf16", huge, bf16, 12},
      {"drift_f32", drift, f32, 12},
      {"drift_bf16", drift, bf16, 12},
      {"constant_f32", constant, f32, 12},
      {"constant_bf16", constant, bf16, 12},
      {"zero_f32", all_zero, f32, 6},
      {"low_rank_f32", low_rank, f32, 12},
      {"low_rank_bf16", low_rank, bf16, 12},
      {"one_head_f32", peaked, one_head, 12},
      {"one_head_alike", look_alikes, one_head, 12},
      {"provisional_f32", peaked, f32, 12, false},
      {"peaked_gqa", peaked, key_value, 12},
      {"alike_gqa", look_alikes, key_value, 12},
      {"planted_gqa", planted_unseen, key_value, 12},
      {"sizes_gqa", all_sizes, key_value, 12},
      {"provisional_alike", look_alikes, bf16, 12, false},
  };
}

struct Variant {
  const char* name;
  std::map<std::string, double> settings;
};

std::vector<Variant> variants() {
  // Few bytes for few coordinates: bounds of the small layouts are as loose as those of a model.
  return {
      {"sound", {{"mode", 1}, {"code_bytes", 8}, {"refine_bytes", 16}}},
      {"sound_raised", {{"mode", 1}, {"code_bytes", 8}, {"refine_bytes", 16}, {"raise_after", 0}}},
      {"sound_alone", {{"mode", 1}, {"code_bytes", 8}, {"refine_bytes", 16}, {"raise_after", -1}, {"margin", 0.5}}},
      {"calibrated", {{"mode", 0}, {"code_bytes", 8}, {"refine_bytes", 16}, {"n_refit", 2}}},
      {"calibrated_raised", {{"mode", 0}, {"code_bytes", 12}, {"refine_bytes", 8}, {"raise_after", 0}}},
      {"calibrated_max", {{"mode", 0}, {"code_bytes", 12}, {"refine_bytes", 0}, {"rule", 1}, {"margin", 0}}},
      {"through", {{"mode", 2}, {"code_bytes", 12}}},
      {"through_refined", {{"mode", 2}, {"code_bytes", 8}, {"refine_bytes", 24}, {"margin", -2}}},
  };
}

Checks run(const Case& c, const Variant& variant, Stream& stream) {
  const int64_t n = c.n_blocks * c.shape.block_rows + 11;
  Data data = random_data(c.shape, n, 5);
  Draw draw(17);
  c.make(c.shape, n, draw, &data);
  const int64_t d = c.shape.layout.d_row();
  for (std::vector<float>* queries : {&data.prompt, &data.live}) {
    for (size_t i = 0; i < queries->size(); i += static_cast<size_t>(d)) {
      std::fill_n(queries->data() + i, c.shape.layout.scored_begin(), 0.0f);
    }
  }
  std::map<std::string, double> settings = variant.settings;
  if (c.shape.layout.d_content >= 512) {  // the sizes that a model has
    settings.erase("code_bytes");
    if (settings["refine_bytes"] != 0) settings.erase("refine_bytes");
  }
  auto inner = make_cache(c.shape, "vestige", 16, settings);
  if (inner == nullptr) return {};
  CheckedCache cache(std::move(inner));
  const auto append = [&](int64_t begin, int64_t end) {
    const Status status = cache.append(view_rows(data.rows, c.shape.layout, begin, end - begin), stream);
    EXPECT_TRUE(status.ok()) << status.message();
  };
  append(0, data.n_prompt_rows);
  if (c.fitted) {
    const Status status = fit(cache, data.prompt, stream);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  if (data.n_prompt_rows < n) append(data.n_prompt_rows, n);
  for (int64_t i = 0; i < kSteps; ++i) {
    attend(cache, data.live.data() + i * c.shape.h_q * c.shape.layout.d_row(), stream);
  }
  return cache.checks;
}

TEST(CertificateTest, HoldsInAMillionCases) {
  auto s = make_stream();
  Checks all, of_variant;
  for (const Variant& variant : variants()) {
    of_variant = {};
    for (const Case& c : cases()) {
      SCOPED_TRACE(std::string(variant.name) + " " + c.name);
      const Checks checks = run(c, variant, *s);
      EXPECT_EQ(checks.n_broken(), 0) << checks.first_broken;
      EXPECT_GT(checks.n_cases, 0);
      of_variant.add(checks);
    }
    // The bounds say something: rows are left out, and their mass is known.
    EXPECT_GT(of_variant.n_left_out, of_variant.n_cases / 20) << variant.name;
    EXPECT_GT(of_variant.n_bounds, of_variant.n_heads / 2) << variant.name;
    EXPECT_LE(of_variant.n_differ, of_variant.n_steps / 10) << variant.name;
    if (std::string_view(variant.name).starts_with("through")) {
      EXPECT_GT(of_variant.n_coded, 0);
      EXPECT_GT(of_variant.error_ratio, 0.01);
    }
    all.add(of_variant);
  }
  EXPECT_GE(all.n_cases, 1000000);
  EXPECT_GT(all.omitted_ratio, 0.5);  // no bound of ours is far above the tightest case
  RecordProperty("cases", std::to_string(all.n_cases));
}

}  // namespace
}  // namespace vestige::testing
