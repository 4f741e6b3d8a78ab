// The policy: every closed row is attended once, by its code or exactly; codes turn keys back; bytes follow the ratio;
// what a damaged file holds is refused.

#include "cache/policies/anchor/anchor_index.h"

#include <gtest/gtest.h>

#include "tests/cache/cache_fixture.h"

namespace vestige::anchor {
namespace {

using testing::Attended;
using testing::make_stream;
using testing::MemoryStore;
using testing::Shape;

constexpr int64_t kD = 32;
const Shape kShape = {{kD, kD, DType::kBF16, false}, 128, 3};

KeyRotation rotation(bool interleaved) {
  KeyRotation r;
  r.interleaved = interleaved;
  for (int j = 0; j < kD / 2; ++j) r.frequencies.push_back(std::pow(1e4f, -2.0f * float(j) / float(kD)));
  return r;
}

/// x turned by position (the op `rotate` has its own tests).
void turn(const KeyRotation& r, int64_t position, double* x) {
  const auto n = static_cast<int64_t>(r.frequencies.size());
  for (int64_t j = 0; j < n; ++j) {
    const double angle = double(position) * double(r.frequencies[static_cast<size_t>(j)]);
    double &a = x[r.interleaved ? 2 * j : j], &b = x[r.interleaved ? 2 * j + 1 : j + n];
    const double turned = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
    a = turned;
  }
}

/// [value ; key] whose keys before their turn lie on a few lines.
std::vector<float> lined_rows(int64_t n, const KeyRotation& r) {
  std::mt19937_64 rng(5);
  std::normal_distribution<double> normal;
  std::vector<double> lines(6 * kD);
  for (double& x : lines) x = normal(rng);
  std::vector<float> rows;
  for (int64_t u = 0; u < n; ++u) {
    const size_t line = rng() % 6 * kD;
    const double size = 0.5 + double(rng() % 100) / 100;
    double key[kD];
    for (size_t j = 0; j < kD; ++j) key[j] = size * lines[line + j];
    turn(r, u, key);
    for (int64_t j = 0; j < kD; ++j) rows.push_back(bf16_to_f32(f32_to_bf16(float(normal(rng)))));
    for (double x : key) rows.push_back(bf16_to_f32(f32_to_bf16(float(x))));
  }
  return rows;
}

std::unique_ptr<LayerCache> cache_of(const KeyRotation& r, double ratio, std::map<std::string, double> settings = {}) {
  PolicyConfig config;
  config.name = "anchor";
  config.block_rows = kShape.block_rows;
  config.ratio = ratio;
  config.settings = std::move(settings);
  auto policy = create_policy(config, kShape.layout);
  EXPECT_TRUE(policy.ok()) << policy.status().message();
  auto cache = LayerCache::create(kShape.layout, kShape.h_q, kShape.scale(), *policy, r);
  EXPECT_TRUE(cache.ok());
  return std::move(cache).value();
}

/// The coded rows put back in place of those in `rows`, from what a cache saves.
void decode_saved(const MemoryStore& store, const KeyRotation& r, int32_t bits, std::vector<float>* rows,
                  Stream& stream) {
  const std::vector<int64_t> sizes = store.values<int64_t>("anchor_sizes");
  for (size_t i = 0; i < sizes.size() / 5; ++i) {
    const int64_t* size = &sizes[5 * i];
    CodedLayer c;
    c.plan.shape = {.n_tokens = size[1], .window = 0, .n_anchors = size[2], .n_heads = 1, .d = kD};
    c.plan.layout = lean_layout(size[2]);
    c.plan.layout.bits = bits;
    for (CodedSide* side : {&c.key, &c.value}) {
      const std::string name = "anchor" + std::to_string(i) + (side == &c.key ? "_key_" : "_value_");
      side->anchors = store.values<uint16_t>(name + "anchors");
      side->index = store.values<uint8_t>(name + "index");
      side->gamma = store.values<uint8_t>(name + "gamma");
      side->mask = store.values<int64_t>(name + "mask");
      side->prefix = store.values<int32_t>(name + "prefix");
      side->offset = store.values<int32_t>(name + "offset");
      if (side->offset[1] > 0) side->codes = store.values<uint8_t>(name + "codes");
      if (side->offset[1] > 0) side->scale = store.values<uint8_t>(name + "scale");
    }
    c.rotation_seed = CodeSettings().rotation_seed;
    std::vector<float> key(static_cast<size_t>(size[1] * kD)), value(key.size());
    ASSERT_TRUE(decode_side(c, c.key, 0, {key.data(), DType::kF32, {size[1], kD}}, stream).ok());
    ASSERT_TRUE(decode_side(c, c.value, 0, {value.data(), DType::kF32, {size[1], kD}}, stream).ok());
    for (int64_t t = 0; t < size[1]; ++t) {
      double x[kD];
      std::copy_n(key.data() + t * kD, kD, x);
      turn(r, size[0] + t, x);
      float* row = rows->data() + (size[0] + t) * 2 * kD;
      std::copy_n(value.data() + t * kD, kD, row);
      for (int64_t j = 0; j < kD; ++j) row[kD + j] = float(x[j]);
    }
  }
}

// Sinks, window and tail exactly, all others by their code, each once: against float64 over the decoded rows.
TEST(AnchorIndex, AttendsEveryRowOnce) {
  auto s = make_stream();
  for (const bool interleaved : {false, true}) {
    const KeyRotation r = rotation(interleaved);
    const std::vector<float> rows = lined_rows(700, r), queries = testing::make_queries(40, kShape.h_q, kShape.layout);
    for (auto settings : std::vector<std::map<std::string, double>>{
             {{"window", 32}},
             {{"window", 0}},
             {{"anchors", 1}, {"rho", 0}, {"bits", 3}},
             {{"anchors", 2}, {"near", 64}, {"key_share", 0.3}, {"bits", 4}},
         }) {
      const double window = settings.try_emplace("window", 32).first->second;
      const auto bits = static_cast<int32_t>(settings.try_emplace("bits", 2).first->second);
      for (const bool fitted : {true, false}) {
        auto c = cache_of(r, 8, settings);
        VESTIGE_ASSERT_OK(c->append(testing::view_rows(rows, kShape.layout, 0, 300), *s));
        if (fitted) VESTIGE_ASSERT_OK(testing::fit(*c, queries, *s));
        VESTIGE_ASSERT_OK(c->append(testing::view_rows(rows, kShape.layout, 300, 400), *s));
        const Attended a = testing::attend(*c, queries.data(), *s);
        EXPECT_EQ(a.record.n_coded, 640 - 4 - int64_t(window));
        EXPECT_EQ(a.record.n_recalled, 0);
        EXPECT_LE(a.record.archive_bytes, (640 - 4 - int64_t(window)) * 4 * kD / 8);
        std::vector<float> decoded = rows;
        decode_saved(testing::saved(*c), r, bits, &decoded, *s);
        auto again = cache_of(r, 8, settings);
        VESTIGE_ASSERT_OK(again->load("", testing::saved(*c)));
        EXPECT_EQ(testing::attend(*again, queries.data(), *s).out, a.out);
        EXPECT_NE(decoded, rows);
        std::vector<float> rebuilt(rows.size());
        std::vector<uint8_t> finely(700);
        VESTIGE_ASSERT_OK(
            c->rebuild({{rebuilt.data(), DType::kF32, {700, 2 * kD}}, {finely.data(), DType::kU8, {700}}}, *s));
        for (size_t i = 0; i < rows.size(); ++i) ASSERT_NEAR(rebuilt[i], decoded[i], 1e-5) << i;
        EXPECT_GT(std::count(finely.begin(), finely.end(), 1), 60 + 4 + int64_t(window));
        EXPECT_LT(std::count(finely.begin(), finely.end(), 1), 650);
        EXPECT_FALSE(c->rebuild({{rebuilt.data(), DType::kF32, {699, 2 * kD}}, {}}, *s).ok());
        testing::expect_attends(a, queries.data(), decoded, testing::all_ids(700), kShape);
      }
    }
  }
}

// Keys on a few lines are multiples of anchors once they are turned back, and of none if they are not.
TEST(AnchorIndex, TurnsKeysBack) {
  auto s = make_stream();
  const KeyRotation r = rotation(false);
  const std::vector<float> rows = lined_rows(600, r), queries = testing::make_queries(40, kShape.h_q, kShape.layout);
  const auto key_error = [&](const KeyRotation& given) {
    auto c = cache_of(given, 8);
    EXPECT_TRUE(c->append(testing::view_rows(rows, kShape.layout, 0, 600), *s).ok());
    EXPECT_TRUE(testing::fit(*c, queries, *s).ok());
    std::vector<float> decoded = rows;
    decode_saved(testing::saved(*c), given, 2, &decoded, *s);
    double error = 0, energy = 0;
    for (int64_t u = 4; u < 512 - 32; ++u) {
      for (int64_t j = kD; j < 2 * kD; ++j) {
        const auto at = static_cast<size_t>(u * 2 * kD + j);
        error += std::pow(double(decoded[at]) - double(rows[at]), 2);
        energy += std::pow(double(rows[at]), 2);
      }
    }
    return error / energy;
  };
  EXPECT_LT(key_error(r), 0.002);
  EXPECT_GT(key_error({}), 0.2);
  EXPECT_GT(key_error(rotation(true)), 0.2);
}

TEST(AnchorIndex, SegmentsTakeTheirShareOfBytes) {
  for (const bool lean : {true, false}) {
    for (const int64_t n : {16, 60, 500, 4096, 100000}) {
      for (const double ratio : {1.5, 4.0, 8.0, 20.0}) {
        IndexSettings settings;
        settings.ratio = ratio;
        settings.lean = lean;
        const auto s = segment_settings(settings, n, 64);
        ASSERT_TRUE(s.ok());
        const LayerShape shape = {.n_tokens = n, .window = 0, .n_anchors = s->n_anchors, .n_heads = 1, .d = 64};
        const auto plan = plan_bytes(shape, s->layout, s->ratio);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        if (s->ratio == ratio) {
          EXPECT_LE(plan->total_bytes(), double(4 * n * 64) / ratio);
        } else {
          EXPECT_EQ(s->n_anchors, 1);
        }
      }
    }
  }
}

TEST(AnchorPolicy, RefusesLayouts) {
  const auto refused = [](const RowLayout& layout, const char* word, auto change) {
    PolicyConfig config;
    config.name = "anchor";
    config.ratio = 8;
    change(config);
    const auto made = create_policy(config, layout);
    ASSERT_FALSE(made.ok()) << word;
    EXPECT_NE(made.status().message().find(word), std::string::npos) << made.status().message();
  };
  const auto nothing = [](PolicyConfig&) {};
  refused({508, 64, DType::kBF16}, "multiples of 8", nothing);
  refused({512, 64, DType::kBF16}, "at most 52.0", [](PolicyConfig& c) { c.ratio = 53; });
  refused({512, 64, DType::kBF16}, "certificate", [](PolicyConfig& c) { c.settings["certificate"] = 1; });
  // Unsupported: flags are checked before the rows of a model are known, and others take such a ratio.
  PolicyConfig high;
  high.name = "anchor";
  high.ratio = 55;
  EXPECT_EQ(create_policy(high, RowLayout{}).status().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(create_policy(high, {64, 64, DType::kBF16, false}).ok());
  refused({64, 32, DType::kBF16, false}, "same power of two", nothing);
  refused({96, 96, DType::kBF16, false}, "same power of two", nothing);
  refused({64, 64, DType::kBF16, false}, "at most 58.5", [](PolicyConfig& c) { c.ratio = 59; });
  refused({64, 64, DType::kBF16, false}, "n_sinks", [](PolicyConfig& c) { c.n_sinks = c.block_rows - 40; });
}

/// Steps of a cache with the certificate: no error above its bound, and bounds below the trivial one if sketches are
/// large.
void expect_certified(LayerCache& c, const std::vector<float>& rows, const float* queries, int64_t n_steps,
                      int64_t* n_below_cap, Stream& s) {
  for (int64_t i = 0; i < n_steps; ++i) {
    const float* q = queries + i * kShape.h_q * kShape.layout.d_row();
    const Attended a = testing::attend(c, q, s);
    double longest = 0, worst = 0;
    for (int64_t u = 0; u < c.n_closed(); ++u) {
      double square = 0;
      for (int64_t j = 0; j < kD; ++j) square += std::pow(double(rows[size_t(u * 2 * kD + j)]), 2);
      longest = std::max(longest, std::sqrt(square));
    }
    for (int32_t h = 0; h < kShape.h_q; ++h) {
      double lse = 0, square = 0;
      const std::vector<double> want =
          testing::attend_f64(q + h * 2 * kD, rows, testing::all_ids(c.n_rows()), kShape, &lse);
      for (size_t j = 0; j < want.size(); ++j) square += std::pow(want[j] - double(a.out[size_t(h) * kD + j]), 2);
      worst = std::max(worst, std::sqrt(square));
    }
    EXPECT_LE(worst, a.record.error_max * longest * 1.000002) << i;
    *n_below_cap += kShape.h_q - a.record.n_capped;
  }
}

TEST(AnchorIndex, CertifiesEveryStep) {
  auto s = make_stream();
  for (const bool interleaved : {false, true}) {
    const KeyRotation r = rotation(interleaved);
    const std::vector<float> rows = lined_rows(700, r), queries = testing::make_queries(40, kShape.h_q, kShape.layout);
    for (const double sketch_bytes : {0.0, 2.0, 8.0, 16.0}) {
      const double ratio = sketch_bytes > 8 ? 2 : 3;
      const std::map<std::string, double> with = {{"certificate", 1}, {"sketch_bytes", sketch_bytes}};
      auto c = cache_of(r, ratio, with);
      VESTIGE_ASSERT_OK(c->append(testing::view_rows(rows, kShape.layout, 0, 300), *s));
      VESTIGE_ASSERT_OK(testing::fit(*c, queries, *s));
      VESTIGE_ASSERT_OK(c->append(testing::view_rows(rows, kShape.layout, 300, 400), *s));
      int64_t n_below = 0;
      expect_certified(*c, rows, queries.data(), 40, &n_below, *s);
      if (sketch_bytes >= 8) {
        EXPECT_GT(n_below, 40 * kShape.h_q / 2) << sketch_bytes;
      }
      // And the same from a file.
      const MemoryStore whole = testing::saved(*c);
      auto again = cache_of(r, ratio, with);
      VESTIGE_ASSERT_OK(again->load("", whole));
      const Attended a = testing::attend(*c, queries.data(), *s), b = testing::attend(*again, queries.data(), *s);
      EXPECT_EQ(a.record.error_max, b.record.error_max);
      EXPECT_TRUE(testing::saved(*again).tensors == whole.tensors);
      for (const auto& [name, tensor] : whole.tensors) {
        if (name.find("_sketch_") == std::string::npos && name.find("_bound") == std::string::npos) continue;
        MemoryStore store = whole;
        store.tensors.erase(name);
        EXPECT_FALSE(cache_of(r, ratio, with)->load("", store).ok()) << name;
        store = whole;
        store.tensors[name].shape[0] -= 1;
        EXPECT_EQ(cache_of(r, ratio, with)->load("", store).code(), StatusCode::kDataLoss) << name;
      }
    }
  }
}

TEST(AnchorIndex, RefusesDamage) {
  auto s = make_stream();
  const KeyRotation r = rotation(false);
  auto c = cache_of(r, 6);
  const std::vector<float> rows = lined_rows(600, r), queries = testing::make_queries(40, kShape.h_q, kShape.layout);
  VESTIGE_ASSERT_OK(c->append(testing::view_rows(rows, kShape.layout, 0, 300), *s));
  VESTIGE_ASSERT_OK(testing::fit(*c, queries, *s));
  VESTIGE_ASSERT_OK(c->append(testing::view_rows(rows, kShape.layout, 300, 300), *s));
  const MemoryStore whole = testing::saved(*c);
  const Attended want = testing::attend(*c, queries.data(), *s);
  const auto load = [&](const MemoryStore& store) { return cache_of(r, 6)->load("", store).code(); };
  auto again = cache_of(r, 6);
  VESTIGE_ASSERT_OK(again->load("", whole));
  EXPECT_TRUE(testing::same_bits(testing::attend(*again, queries.data(), *s).out, want.out));
  EXPECT_TRUE(testing::saved(*again).tensors == whole.tensors);
  const auto with = [&](const std::string& name, size_t at, uint8_t byte) {
    MemoryStore store = whole;
    EXPECT_TRUE(store.tensors.contains(name)) << name;
    store.tensors[name].bytes.at(at) = std::byte{byte};
    return load(store);
  };
  for (const char* segment : {"anchor0_", "anchor1_"}) {
    const std::string name = segment;
    EXPECT_EQ(with(name + "key_index", 5, 255), StatusCode::kDataLoss);
    EXPECT_EQ(with(name + "value_index", 5, 255), StatusCode::kDataLoss);
    EXPECT_EQ(with(name + "key_prefix", 4, 99), StatusCode::kDataLoss);
    EXPECT_EQ(with(name + "key_offset", 0, 1), StatusCode::kDataLoss);
    EXPECT_EQ(with(name + "value_offset", 4, 255), StatusCode::kDataLoss);
    EXPECT_EQ(with(name + "value_slot", 0, 77), StatusCode::kDataLoss);
    EXPECT_EQ(with(name + "anchor_positions", 3, 255), StatusCode::kDataLoss);
    EXPECT_EQ(with(name + "key_scale", 1, 0x7c), StatusCode::kDataLoss);    // infinite or not a number
    EXPECT_EQ(with(name + "value_scale", 1, 0xbc), StatusCode::kDataLoss);  // negative
    MemoryStore store = whole;
    for (std::byte& b : store.tensors[name + "value_mask"].bytes) b = std::byte{255};
    EXPECT_EQ(load(store), StatusCode::kDataLoss) << "more residuals than codes";
    for (const char* array : {"key_anchors", "key_gamma", "key_codes", "value_codes"}) {
      store = whole;
      store.tensors.erase(name + array);
      EXPECT_NE(load(store), StatusCode::kOk) << array;
      store = whole;
      store.tensors[name + array].shape[0] -= 1;
      EXPECT_EQ(load(store), StatusCode::kDataLoss) << array;
    }
  }
  const int64_t hostile[] = {-1, 0, 1, 300, INT32_MAX, INT64_MAX, INT64_MIN};
  for (size_t field = 0; field < 5; ++field) {
    for (const int64_t value : hostile) {
      MemoryStore store = whole;
      std::memcpy(store.tensors["anchor_sizes"].bytes.data() + 8 * field, &value, 8);
      EXPECT_EQ(load(store), StatusCode::kDataLoss) << field << " = " << value;
    }
  }
  EXPECT_EQ(with("index_ready", 0, 2), StatusCode::kDataLoss);
  EXPECT_EQ(with("anchor_norm", 3, 0xff), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace vestige::anchor
