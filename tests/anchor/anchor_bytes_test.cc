// What codes take, in memory and in what is saved, is the byte plan's sum to the byte; sinks, window and tail beside
// it.

#include "cache/policies/anchor/anchor_index.h"
#include "tests/cache/cache_fixture.h"

namespace vestige::anchor {
namespace {

using testing::MemoryStore;
using testing::Shape;

struct BytesCase {
  int32_t d;
  bool lean;
  double ratio;
  int64_t block_rows, n_rows;
};
void PrintTo(const BytesCase& c, std::ostream* out) {
  *out << "d = " << c.d << (c.lean ? ", lean, " : ", paper, ") << c.ratio << "x, " << c.n_rows << " rows";
}

std::vector<BytesCase> cases() {
  std::vector<BytesCase> all;
  for (const int32_t d : {64, 128}) {
    for (const bool lean : {true, false}) {
      IndexSettings settings;
      settings.lean = lean;
      for (const double ratio : {5.0, 10.0, 20.0, 33.5}) {
        if (ratio > highest_ratio(settings, d)) continue;
        all.push_back({d, lean, ratio, 512, 512 + 3});
        all.push_back({d, lean, ratio, 384, 3 * 384 + 5});
      }
    }
  }
  return all;
}

class AnchorBytes : public ::testing::TestWithParam<BytesCase> {};

/// Bytes of the arrays of one segment.
int64_t saved_bytes(const MemoryStore& store, size_t segment) {
  int64_t n = 0;
  for (const auto& [name, tensor] : store.tensors) {
    if (name.starts_with("anchor" + std::to_string(segment) + "_")) n += static_cast<int64_t>(tensor.bytes.size());
  }
  return n;
}

/// The ratio of the case, or the highest there is for so few rows, with one anchor.
double reached_ratio(const BytesCase& k, int64_t n, int64_t n_anchors) {
  IndexSettings settings;
  settings.ratio = k.ratio;
  settings.lean = k.lean;
  const auto s = segment_settings(settings, n, k.d);
  EXPECT_TRUE(s.ok());
  EXPECT_TRUE(s->ratio == k.ratio || (n_anchors == 1 && s->ratio > 0.97 * k.ratio)) << s->ratio;
  return s->ratio;
}

TEST_P(AnchorBytes, EqualThePlan) {
  const BytesCase& k = GetParam();
  const Shape shape = {{k.d, k.d, DType::kBF16, false}, static_cast<int32_t>(k.block_rows), 2};
  auto s = testing::make_stream();
  auto c = testing::make_cache(shape, "anchor", k.ratio, {{"layout", k.lean ? 0 : 1}});
  const int64_t n_closed = k.n_rows / k.block_rows * k.block_rows, tail = k.n_rows - n_closed;
  const std::vector<float> rows = testing::make_rows(k.n_rows + k.block_rows, shape.layout);
  VESTIGE_ASSERT_OK(c->append(testing::view_rows(rows, shape.layout, 0, k.n_rows), *s));
  VESTIGE_ASSERT_OK(testing::fit(*c, testing::make_queries(32, 2, shape.layout), *s));
  for (size_t n_segments = 1; n_segments <= 2; ++n_segments) {  // the document's, and one of a block that closed later
    const MemoryStore store = testing::saved(*c);
    const std::vector<int64_t> sizes = store.values<int64_t>("anchor_sizes");
    ASSERT_EQ(sizes.size(), 5 * n_segments);
    int64_t total = 0;
    for (size_t i = 0; i < n_segments; ++i) {
      const int64_t n = sizes[5 * i + 1], n_anchors = sizes[5 * i + 2];
      EXPECT_EQ(n, i == 0 ? n_closed - 36 : k.block_rows);
      const double ratio = reached_ratio(k, n, n_anchors);
      const auto plan = plan_bytes({.n_tokens = n, .window = 0, .n_anchors = n_anchors, .n_heads = 1, .d = k.d},
                                   k.lean ? lean_layout(n_anchors) : paper_layout(), ratio);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      EXPECT_EQ(sizes[5 * i + 3], plan->n_key);
      EXPECT_EQ(sizes[5 * i + 4], plan->n_value);
      EXPECT_EQ(saved_bytes(store, i), plan->total_bytes());
      EXPECT_LE(double(plan->total_bytes()), double(4 * n * k.d) / ratio);
      // Not a byte that another pair could have had.
      if (plan->n_residuals() < 2 * plan->shape.n_candidates()) {
        EXPECT_GT(plan->total_bytes() + 2 * plan->value_residual_bytes(), plan->budget_bytes);
      }
      total += plan->total_bytes();
    }
    const LayerCache::Bytes b = c->bytes();
    const int64_t row = 4 * k.d;
    EXPECT_EQ(b.codes, total);
    EXPECT_EQ(b.index, total);
    EXPECT_EQ(b.rows, k.block_rows * row);
    EXPECT_EQ(b.kept_arena, 36 * (4 + row));
    EXPECT_EQ(b.scores, 36 * 4);
    int64_t all = 0;  // and nothing else is saved: counts, dropped, ready, norm, sizes
    for (const auto& [name, tensor] : store.tensors) all += static_cast<int64_t>(tensor.bytes.size());
    EXPECT_EQ(all, total + 36 * (8 + row) + tail * row + 24 + 8 + 1 + 4 + int64_t(n_segments) * 40);
    VESTIGE_ASSERT_OK(
        c->append(testing::view_rows(rows, shape.layout, c->n_rows(), n_segments == 1 ? k.block_rows : 0), *s));
  }
}

INSTANTIATE_TEST_SUITE_P(All, AnchorBytes, ::testing::ValuesIn(cases()));

}  // namespace
}  // namespace vestige::anchor
