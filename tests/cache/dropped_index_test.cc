// The seam itself, by an index whose codes are exact copies: whatever is dropped, coded or kept, a step is attention
// over all rows. Kept rows are chosen by score, so that rows come and go anywhere.

#include <algorithm>

#include "cache/left_rows.h"
#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

const Shape kShape{{24, 8, DType::kF32}, 64, 3};
constexpr int64_t kBlock = 64;

/// What the index is told to do wrong.
struct Faults {
  bool recalls_dropped = false, fails_to_extend = false, wants_old_row = false;
};

class CopyIndex final : public RecallIndex {
 public:
  explicit CopyIndex(const Faults& faults) : faults_(faults) {}

  Status fit(const RecallFit& fit, Stream&) override {
    codes_.clear();
    for (int64_t u = 0; u < fit.n_closed; ++u) VESTIGE_TRY(fit.kept[u] ? Status() : add(block_of(fit.rows), u));
    fitted_ = true;
    return {};
  }
  Status extend(const RowPages& rows, int64_t n_closed, Stream&) override {  // which are kept is not said here
    for (int64_t u = rows.n_rows - kBlock; fitted_ && u < n_closed; ++u) VESTIGE_TRY(add(block_of(rows), u));
    return {};
  }
  Status extend_dropped(const ClosedBlock& block, Stream&) override {
    if (faults_.fails_to_extend) return internal_error("no room");
    if (faults_.wants_old_row) return add(block, codes_.begin()->first);
    const auto is_kept = [&](int64_t u) {
      return std::binary_search(block.kept_ids.begin(), block.kept_ids.end(), static_cast<int32_t>(u));
    };
    for (const int32_t u : block.held_ids) {
      if (!is_kept(u)) VESTIGE_TRY(add(block, u));
    }
    for (int64_t i = 0; i < block.rows.n_rows; ++i) {
      if (!is_kept(block.first_row + i)) VESTIGE_TRY(add(block, block.first_row + i));
    }
    return {};
  }
  Status recall(const RecallStep& step, Stream&) override {
    const bool dropped = step.kept == nullptr;
    EXPECT_EQ(step.rows.n_rows, dropped ? 0 : step.n_closed);
    EXPECT_EQ(step.kept_rows.n_rows, static_cast<int64_t>(step.kept_ids.size()));
    *step.n_ids.as<int32_t>() = *step.n_fired.as<int32_t>() = dropped && faults_.recalls_dropped ? 1 : 0;
    step.ids.as<int32_t>()[0] = 0;
    return {};
  }
  bool attends_codes() const override { return true; }
  bool replaces_rows() const override { return fitted_; }
  Status attend_codes(const RecallStep& step, const CodedPart& part, Stream&) override {
    std::vector<float> rows;
    std::vector<int64_t> ids;
    for (const auto& [u, row] : codes_) {
      if (std::binary_search(step.kept_ids.begin(), step.kept_ids.end(), static_cast<int32_t>(u))) continue;
      ids.push_back(static_cast<int64_t>(ids.size()));
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const int64_t d = kShape.layout.d_row();
    for (int32_t h = 0; h < kShape.h_q; ++h) {
      double lse = 0;
      const std::vector<double> out = attend_f64(step.q.as<float>() + h * d, rows, ids, kShape, &lse);
      std::copy(out.begin(), out.end(), part.out.as<float>() + h * kShape.layout.d_content);
      part.lse.as<float>()[h] = static_cast<float>(lse);
      std::fill_n(part.error.as<float>() + 3 * h, 3, 0.0f);
    }
    *part.n_coded.as<int64_t>() = static_cast<int64_t>(ids.size());
    return {};
  }
  float max_content_norm() const override { return 100; }
  int64_t max_recall() const override { return 1; }
  int64_t size_bytes() const override { return 0; }
  int64_t scan_bytes(int64_t) const override { return 0; }
  Status save(const std::string& prefix, TensorSink& sink) const override {
    std::vector<float> rows;
    std::vector<int64_t> ids;
    for (const auto& [u, row] : codes_) {
      ids.push_back(u);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const auto n = static_cast<int64_t>(ids.size());
    VESTIGE_TRY(sink.put(prefix + "ids", {ids.data(), DType::kI64, {n}}));
    return sink.put(prefix + "copies", {rows.data(), DType::kF32, {n, kShape.layout.d_row()}});
  }
  Status load(const std::string& prefix, const TensorSource& source, int64_t) override {
    VESTIGE_ASSIGN(const ConstTensorView ids, source.get(prefix + "ids", DType::kI64, {-1}));
    VESTIGE_ASSIGN(const ConstTensorView rows, source.get(prefix + "copies", DType::kF32, {ids.dim(0), -1}));
    for (int64_t i = 0; i < ids.dim(0); ++i) {
      const float* row = rows.as<float>() + i * rows.dim(1);
      codes_[ids.as<int64_t>()[i]] = std::vector<float>(row, row + rows.dim(1));
    }
    fitted_ = ids.dim(0) > 0;
    return {};
  }

 private:
  static ClosedBlock block_of(const RowPages& rows) {
    return {.rows = rows, .held = {}, .held_ids = {}, .kept_ids = {}};
  }
  Status add(const ClosedBlock& rows, int64_t u) {
    std::vector<float> row(static_cast<size_t>(kShape.layout.d_row()));
    VESTIGE_TRY(load_left_row(rows, u, row.data()));
    codes_[u] = std::move(row);
    return {};
  }

  const Faults& faults_;
  bool fitted_ = false;
  std::map<int64_t, std::vector<float>> codes_;
};

class NoScorer final : public PromptScorer {
 public:
  Status add(const ConstTensorView&, int64_t, const RowPages&, float, Stream&) override { return {}; }
  Status finish(const RowPages&, const TensorView& score, Stream&) override {
    std::fill_n(score.as<float>(), score.dim(0), 1.0f);
    return {};
  }
};

class CopyPolicy final : public CachePolicy {
 public:
  CopyPolicy() {
    config_.name = "copy";
    config_.block_rows = kBlock;
    config_.ratio = 8;
  }
  const PolicyConfig& config() const override { return config_; }
  Status score_block(const ConstTensorView&, const ConstTensorView&, int64_t first_position, const TensorView& score,
                     Stream&) const override {
    for (int64_t i = 0; i < score.dim(0); ++i) score.as<float>()[i] = score_of(first_position + i);
    return {};
  }
  std::unique_ptr<RecallIndex> create_index(const RowLayout&, const KeyRotation&) const override {
    return std::make_unique<CopyIndex>(faults);
  }
  ObservedQueries observes() const override { return ObservedQueries::kGiven; }
  std::unique_ptr<PromptScorer> create_scorer(const RowLayout&, int32_t) const override {
    return std::make_unique<NoScorer>();
  }
  static float score_of(int64_t u) { return static_cast<float>(u * 7919 % 1009 + 3 * u); }

  Faults faults;

 private:
  PolicyConfig config_;
};

class DroppedIndexTest : public ::testing::Test {
 protected:
  std::unique_ptr<LayerCache> cache() const {
    return LayerCache::create(kShape.layout, kShape.h_q, kShape.scale(), policy_).value();
  }
  void append(LayerCache& c, int64_t n) {
    VESTIGE_ASSERT_OK(c.append(view_rows(rows_, kShape.layout, c.n_rows(), n), *s_));
  }
  std::unique_ptr<LayerCache> fitted(int64_t n_rows) {
    auto c = cache();
    append(*c, n_rows);
    EXPECT_TRUE(fit(*c, queries_, *s_).ok());
    EXPECT_TRUE(c->rows_dropped());
    return c;
  }
  void expect_attends_all(LayerCache& c) {
    expect_attends(attend(c, queries_.data(), *s_), queries_.data(), rows_, all_ids(c.n_rows()), kShape);
  }

  std::shared_ptr<CopyPolicy> policy_ = std::make_shared<CopyPolicy>();
  std::unique_ptr<Stream> s_ = make_stream();
  std::vector<float> rows_ = make_rows(12 * kBlock, kShape.layout), queries_ = make_queries(40, 3, kShape.layout);
};

// Rows that were dropped compete no more; those kept so far and the new block's do.
TEST_F(DroppedIndexTest, KeptRowsComeFromWhatIsLeft) {
  auto c = fitted(3 * kBlock + 9);
  std::vector<int32_t> left = c->kept_ids();
  int64_t n_gone = 0;
  for (int64_t n = 4; n <= 10; ++n) {
    const std::vector<int32_t> before = left;
    append(*c, kBlock);
    for (int64_t u = (n - 1) * kBlock; u < n * kBlock; ++u) left.push_back(static_cast<int32_t>(u));
    std::stable_sort(left.begin(), left.end(),
                     [](int32_t a, int32_t b) { return CopyPolicy::score_of(a) > CopyPolicy::score_of(b); });
    std::vector<int32_t> want(left.begin(), left.begin() + n * kBlock / 8);
    for (int32_t u = 0; u < 4; ++u) want.push_back(u);  // sinks
    std::sort(want.begin(), want.end());
    want.erase(std::unique(want.begin(), want.end()), want.end());
    EXPECT_EQ(c->kept_ids(), want);
    for (const int32_t u : before) n_gone += std::binary_search(want.begin(), want.end(), u) ? 0 : 1;
    left = want;
    expect_attends_all(*c);
  }
  EXPECT_GT(n_gone, 10);
}

TEST_F(DroppedIndexTest, SavesLoadsAndGoesOn) {
  auto c = fitted(3 * kBlock + 9);
  append(*c, 2 * kBlock);
  const MemoryStore store = saved(*c);
  EXPECT_FALSE(store.tensors.contains("content"));
  auto again = cache();
  VESTIGE_ASSERT_OK(again->load("", store));
  EXPECT_TRUE(again->rows_dropped());
  for (LayerCache* one : {c.get(), again.get()}) {
    append(*one, 3 * kBlock);
    expect_attends_all(*one);
  }
  EXPECT_TRUE(saved(*again).tensors == saved(*c).tensors);
}

TEST_F(DroppedIndexTest, MistakesAreErrors) {
  auto c = fitted(3 * kBlock);
  append(*c, 60);
  policy_->faults.fails_to_extend = true;
  const auto last = view_rows(rows_, kShape.layout, 3 * kBlock + 60, 4);
  EXPECT_EQ(c->append(last, *s_).code(), StatusCode::kInternal);
  EXPECT_EQ(c->n_closed(), 3 * kBlock);  // still the open tail
  policy_->faults = {.wants_old_row = true};
  const Status status = c->commit(0, *s_);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("after it was dropped"), std::string::npos) << status.message();
  policy_->faults = {};
  VESTIGE_ASSERT_OK(c->commit(0, *s_));
  EXPECT_EQ(c->n_closed(), 4 * kBlock);
  expect_attends_all(*c);

  policy_->faults.recalls_dropped = true;
  std::vector<float> out(3 * 24);
  const ConstTensorView q(queries_.data(), DType::kF32, {1, 3, 32});
  EXPECT_EQ(c->attend(q, {out.data(), DType::kF32, {1, 3, 24}}, {}, nullptr, *s_).code(), StatusCode::kInternal);
}

TEST_F(DroppedIndexTest, NobodyObservesDroppedRows) {
  auto c = fitted(3 * kBlock);
  const std::vector<int32_t> kept = c->kept_ids();
  const ConstTensorView q(queries_.data(), DType::kF32, {2, 3, 32});
  EXPECT_EQ(c->observe(q, 0, *s_).code(), StatusCode::kUnsupported);
  VESTIGE_ASSERT_OK(c->rescore(*s_));  // nothing was observed
  EXPECT_EQ(c->kept_ids(), kept);
  auto late = cache();
  append(*late, 3 * kBlock);
  VESTIGE_ASSERT_OK(late->observe(q, 0, *s_));
  VESTIGE_ASSERT_OK(fit(*late, queries_, *s_));
  EXPECT_EQ(late->rescore(*s_).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace vestige::testing
