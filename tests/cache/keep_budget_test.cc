// How caches share a budget of kept rows: counts worked by hand, and what becomes of them in caches and files.

#include "cache/policies/adakv/head_budget.h"
#include "cache/policies/pyramidkv/layer_budget.h"
#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

std::vector<int64_t> counts(const std::vector<std::vector<float>>& scores, int64_t n_keep, double safeguard) {
  adakv::HeadBudget budget(safeguard);
  std::vector<int64_t> out;
  for (const auto& s : scores) {
    const auto n = static_cast<int64_t>(s.size());
    EXPECT_EQ(budget.add({s.data(), DType::kF32, {n}}, n_keep, 0).value(), out.size());
    out.push_back(0);
  }
  for (size_t i = 0; i < out.size(); ++i) out[i] = budget.n_keep(i);
  return out;
}

TEST(HeadBudget, WorkedExample) {
  const std::vector<float> sharp = {9, 8, 7, 6, 1, 1, 1, 1, 1, 1}, low = {5, 0, 0, 2, 0, 3, 0, 0, 4, 0};
  // Sure: 9 and 5. Eight more: 8 7 6 4 3 2 and, of equal ones, the first two.
  EXPECT_EQ(counts({sharp, low}, 5, 0.2), (std::vector<int64_t>{6, 4}));
  EXPECT_EQ(counts({low, sharp}, 5, 0.2), (std::vector<int64_t>{4, 6}));
  // Sure: four each. Two more: of equal ones, the first.
  EXPECT_EQ(counts({sharp, low}, 5, 0.8), (std::vector<int64_t>{6, 4}));
  EXPECT_EQ(counts({sharp, low}, 5, 1), (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(counts({sharp, low}, 10, 0.2), (std::vector<int64_t>{10, 10}));
  const std::vector<float> none(10, 0.5f);
  EXPECT_EQ(counts({sharp, none}, 5, 0), (std::vector<int64_t>{9, 1}));            // one is always sure, and 1 > 0.5
  EXPECT_EQ(counts({sharp, none, low}, 2, 0.5), (std::vector<int64_t>{4, 1, 1}));  // 8 7 6
  EXPECT_EQ(counts({none, std::vector<float>(10, NAN)}, 3, 0.4), (std::vector<int64_t>{5, 1}));
  EXPECT_EQ(counts({{}, {}}, 0, 0.2), (std::vector<int64_t>{0, 0}));
}

TEST(LayerBudget, WorkedExample) {
  const auto rows = [](int64_t n_keep, int64_t n_closed, double beta, int32_t n_layers) {
    std::vector<int64_t> out;
    for (int32_t l = 0; l < n_layers; ++l) {
      out.push_back(pyramidkv::layer_rows(n_keep, n_closed, beta, l, n_layers));
    }
    return out;
  };
  // From 200 - 5 to 100 / 20, in steps of 31.67.
  EXPECT_EQ(rows(100, 10000, 20, 7), (std::vector<int64_t>{195, 163, 132, 100, 68, 37, 5}));
  EXPECT_EQ(rows(60, 100, 20, 3), (std::vector<int64_t>{100, 60, 20}));  // no more than there are
  EXPECT_EQ(rows(100, 100, 20, 4), (std::vector<int64_t>{100, 100, 100, 100}));
  EXPECT_EQ(rows(7, 100, 1, 4), (std::vector<int64_t>{7, 7, 7, 7}));
  EXPECT_EQ(rows(1, 100, 20, 2), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(rows(9, 100, 20, 1), (std::vector<int64_t>{9}));
}

constexpr int64_t kBlock = 64;
const Shape kShape{{32, 32, DType::kBF16, false}, kBlock, 3};

class SharedBudgetTest : public ::testing::Test {
 protected:
  static std::unique_ptr<LayerCache> cache() { return make_cache(kShape, "adakv", 8); }
  /// Two heads, of which the second has long keys and so sharp weights, that choose together.
  std::vector<std::unique_ptr<LayerCache>> chosen() {
    std::vector<std::unique_ptr<LayerCache>> caches;
    const ConstTensorView q(queries_.data(), DType::kF32, {40, 3, 64});
    for (size_t h = 0; h < 2; ++h) {
      caches.push_back(cache());
      EXPECT_TRUE(caches[h]->append(view_rows(rows_[h], kShape.layout, 0, 8 * kBlock + 7), *s_).ok());
      EXPECT_TRUE(caches[h]->observe(q, caches[h]->n_rows() - 40, *s_).ok());
    }
    const auto budget = caches[0]->policy().create_keep_budget();
    for (const auto& c : caches) EXPECT_TRUE(c->prepare_rescore(*budget, 0, *s_).ok());
    for (const auto& c : caches) EXPECT_TRUE(c->rescore(*s_, budget.get()).ok());
    return caches;
  }
  void SetUp() override {
    for (uint64_t h = 0; h < 2; ++h) rows_[h] = make_rows(12 * kBlock, kShape.layout, h + 1);
    for (size_t i = 0; i < rows_[1].size(); ++i) rows_[1][i] *= i % 64 < 32 ? 1.0f : 4.0f;
  }

  std::unique_ptr<Stream> s_ = make_stream();
  std::vector<float> rows_[2], queries_ = make_queries(40, 3, kShape.layout);
};

TEST_F(SharedBudgetTest, KeepsTheBestRowsOfBothHeads) {
  const auto caches = chosen();
  std::vector<std::pair<float, int>> all;  // rows by score, with their head
  for (int h = 0; h < 2; ++h) {
    for (const float x : saved(*caches[size_t(h)]).values<float>("score")) all.push_back({x, h});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  int64_t want[2] = {0, 0};
  for (size_t i = 0; i < 128; ++i) ++want[all[i].second];
  ASSERT_GT(want[0], 64 / 5) << "the safeguard decides nothing here";
  ASSERT_NE(want[0], 64);
  for (size_t h = 0; h < 2; ++h) {
    EXPECT_GE(caches[h]->n_kept(), want[h]);
    EXPECT_LE(caches[h]->n_kept(), want[h] + 4);  // sinks
  }
}

TEST_F(SharedBudgetTest, SharesGoOnInLaterBlocksAndFiles) {
  const auto caches = chosen();
  for (size_t h = 0; h < 2; ++h) {
    LayerCache& c = *caches[h];
    const MemoryStore store = saved(c);
    const std::vector<int64_t> share = store.values<int64_t>("keep_share");
    ASSERT_EQ(share.size(), 2u);
    EXPECT_EQ(share[1], 64);
    auto again = cache();
    VESTIGE_ASSERT_OK(again->load("", store));
    EXPECT_TRUE(saved(*again).tensors == store.tensors);
    for (LayerCache* one : {&c, again.get()}) {
      VESTIGE_ASSERT_OK(one->append(view_rows(rows_[h], kShape.layout, 8 * kBlock + 7, 3 * kBlock), *s_));
    }
    EXPECT_TRUE(saved(*again).tensors == saved(c).tensors);
    const int64_t want = (share[0] * 88 + 32) / 64;  // 11 blocks of 64 rows, an eighth
    EXPECT_GE(c.n_kept(), want);
    EXPECT_LE(c.n_kept(), want + 4);
  }
}

TEST_F(SharedBudgetTest, RefusesHostileShares) {
  const MemoryStore store = saved(*chosen()[0]);
  const auto load = [&](int64_t kept, int64_t usual) {
    MemoryStore bad = store;
    const int64_t share[] = {kept, usual};
    std::memcpy(bad.tensors.at("keep_share").bytes.data(), share, sizeof share);
    return cache()->load("", bad).code();
  };
  const int64_t kept = store.values<int64_t>("keep_share")[0];
  EXPECT_EQ(load(kept, 64), StatusCode::kOk);
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{-1, 64},
                             {kept, 0},
                             {kept, -64},
                             {INT64_MAX, 64},
                             {kept, INT64_MAX},
                             {INT32_MAX, 1},
                             {kept + 8, 64}}) {
    EXPECT_EQ(load(a, b), StatusCode::kDataLoss) << a << " / " << b;
  }
  MemoryStore without = store;
  without.tensors.erase("keep_share");
  EXPECT_EQ(cache()->load("", without).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace vestige::testing
