// Page tiers: what is recalled against float64 boxes and spheres, and that a bound never leaves out a better row.

#include <functional>
#include <set>

#include "tests/cache/cache_fixture.h"

namespace vestige::testing {
namespace {

constexpr int64_t kPageRows = 8;

struct Recalled {
  std::vector<int32_t> ids;
  int32_t n_fired = 0;
};

/// Bounds of pages in float64.
struct Truth {
  const Shape& shape;
  const std::vector<float>& rows;
  int64_t d() const { return shape.layout.d_row(); }
  double scale() const { return double(shape.scale()); }
  const float* row(int64_t u) const { return rows.data() + u * d(); }

  double box(const float* q, int64_t page) const {
    double sum = 0;
    for (int64_t k = 0; k < d(); ++k) {
      double most = -INFINITY;
      for (int64_t u = page * kPageRows; u < (page + 1) * kPageRows; ++u)
        most = std::max(most, double(q[k]) * double(row(u)[k]));
      sum += most;
    }
    return scale() * sum;
  }

  double sphere(const float* q, int64_t page, bool enclosing) const {
    std::vector<float> centre(static_cast<size_t>(d()));
    for (size_t k = 0; k < centre.size(); ++k) {
      double sum = 0;
      for (int64_t u = page * kPageRows; u < (page + 1) * kPageRows; ++u) sum += double(row(u)[k]) / double(kPageRows);
      centre[k] = static_cast<float>(sum);
      if (shape.layout.dtype == DType::kBF16) centre[k] = bf16_to_f32(f32_to_bf16(centre[k]));
    }
    double most = 0, mean = 0;
    for (int64_t u = page * kPageRows; u < (page + 1) * kPageRows; ++u) {
      double square = 0;
      for (size_t k = 0; k < centre.size(); ++k) square += std::pow(double(row(u)[k]) - double(centre[k]), 2);
      most = std::max(most, std::sqrt(square));
      mean += std::sqrt(square) / double(kPageRows);
    }
    const double length = std::sqrt(true_score(q, q, d(), 1));
    return true_score(q, centre.data(), d(), scale()) + scale() * length * (enclosing ? most : mean);
  }
};

class PagesTest : public ::testing::TestWithParam<Shape> {
 protected:
  const Shape& shape() const { return GetParam(); }
  int64_t d() const { return shape().layout.d_row(); }
  int64_t n() const { return 6 * shape().block_rows; }
  double scale() const { return double(shape().scale()); }
  const float* row(int64_t u) const { return rows_.data() + u * d(); }
  double score(const float* q, int64_t u) const { return true_score(q, row(u), d(), scale()); }

  /// Closed rows under a policy over pages; every fourth row of a page is kept, and one whole page.
  void build(const std::string& policy, std::map<std::string, double> settings) {
    settings["page_rows"] = double(kPageRows);
    cache_ = make_cache(shape(), policy, 8, std::move(settings));
    VESTIGE_ASSERT_OK(cache_->append(view_rows(rows_, shape().layout, 0, n()), *stream_));
    index_ = cache_->policy().create_index(shape().layout);
    RowPages rows = cache_->pages();
    VESTIGE_ASSERT_OK(index_->extend(rows, shape().block_rows, *stream_));
    VESTIGE_ASSERT_OK(index_->extend(rows, n(), *stream_));
    kept_.assign(static_cast<size_t>(n()), 0);
    for (size_t u = 0; u < kept_.size(); u += 4) kept_[u] = 1;
    std::fill_n(kept_.begin() + 2 * kPageRows, kPageRows, 1);
  }

  Recalled recall(const float* q, const std::vector<float>& threshold) const {
    Recalled r;
    r.ids.resize(4096);
    int32_t n_ids = 0;
    RecallStep step;
    step.q = ConstTensorView(q, DType::kF32, {1, shape().h_q, d()});
    step.kept_max = ConstTensorView(threshold.data(), DType::kF32, {1, shape().h_q});
    step.rows = cache_->pages();
    step.n_closed = n();
    step.kept = kept_.data();
    step.scale = shape().scale();
    step.ids = TensorView(r.ids.data(), DType::kI32, {1, 4096});
    step.n_ids = TensorView(&n_ids, DType::kI32, {1});
    step.n_fired = TensorView(&r.n_fired, DType::kI32, {1});
    const Status status = index_->recall(step, *stream_);
    EXPECT_TRUE(status.ok()) << status.message();
    r.ids.resize(static_cast<size_t>(n_ids));
    return r;
  }

  /// Rows of the union of each head's best k open pages.
  std::vector<int32_t> best_pages(const float* q, int64_t k,
                                  const std::function<double(const float*, int64_t)>& bound) const {
    std::set<int64_t> picked;
    for (int64_t head = 0; head < shape().h_q; ++head) {
      std::vector<std::pair<double, int64_t>> order;
      for (int64_t page = 0; page < n() / kPageRows; ++page) {
        if (page != 2) order.push_back({-bound(q + head * d(), page), page});
      }
      std::sort(order.begin(), order.end());
      for (int64_t i = 0; i < k; ++i) picked.insert(order[static_cast<size_t>(i)].second);
    }
    std::vector<int32_t> ids;
    for (int64_t page : picked) {
      for (int64_t u = page * kPageRows; u < (page + 1) * kPageRows; ++u) {
        if (kept_[static_cast<size_t>(u)] == 0) ids.push_back(static_cast<int32_t>(u));
      }
    }
    return ids;
  }

  void SetUp() override {
    stream_ = make_stream();
    rows_ = make_rows(n(), shape().layout);
    queries_ = make_queries(20, shape().h_q, shape().layout, 5);
  }
  const float* query(int64_t i) const { return queries_.data() + i * shape().h_q * d(); }

  std::vector<float> rows_, queries_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<LayerCache> cache_;
  std::unique_ptr<RecallIndex> index_;
  std::vector<uint8_t> kept_;
};

TEST_P(PagesTest, TopPagesAreThoseOfFloat64) {
  const std::vector<float> unused(static_cast<size_t>(shape().h_q));
  const struct {
    const char* policy;
    double mode;
    std::function<double(const float*, int64_t)> bound;
  } arms[] = {{"quest", 0,
               [&](const float* q, int64_t page) {
                 return Truth{shape(), rows_}.box(q, page);
               }},
              {"arkvale", 0,
               [&](const float* q, int64_t page) {
                 return Truth{shape(), rows_}.sphere(q, page, false);
               }},
              {"arkvale", 1, [&](const float* q, int64_t page) {
                 return Truth{shape(), rows_}.sphere(q, page, true);
               }}};
  for (const auto& arm : arms) {
    build(arm.policy, {{"mode", arm.mode}, {"n_pages", 3}});
    for (int64_t i = 0; i < 10; ++i) {
      const Recalled got = recall(query(i), unused);
      EXPECT_EQ(got.ids, best_pages(query(i), 3, arm.bound)) << arm.policy << " " << arm.mode << " query " << i;
      EXPECT_EQ(got.n_fired, static_cast<int32_t>(got.ids.size()));
    }
  }
}

// A threshold just below the best archived row's score: that row must be recalled, whatever the rounding. And no row
// above any threshold is left out.
TEST_P(PagesTest, BoundLeavesOutNoBetterRow) {
  build("quest", {{"mode", 1}});
  int64_t n_checked = 0, n_left = 0;
  for (int64_t i = 0; i < 20; ++i) {
    for (const double quantile : {1.0, 0.999, 0.99, 0.9}) {
      std::vector<float> threshold;
      for (int64_t head = 0; head < shape().h_q; ++head) {
        std::vector<double> all;
        for (int64_t u = 0; u < n(); ++u) {
          if (kept_[static_cast<size_t>(u)] == 0) all.push_back(score(query(i) + head * d(), u));
        }
        std::sort(all.begin(), all.end());
        const double at = all[static_cast<size_t>(quantile * double(all.size() - 1))];
        threshold.push_back(std::nextafter(static_cast<float>(at), -INFINITY));
      }
      const Recalled got = recall(query(i), threshold);
      for (int32_t u = 0; u < n(); ++u) {
        if (kept_[static_cast<size_t>(u)] != 0 || std::binary_search(got.ids.begin(), got.ids.end(), u)) continue;
        ++n_left;
        for (int64_t head = 0; head < shape().h_q; ++head) {
          ASSERT_LE(score(query(i) + head * d(), u), double(threshold[static_cast<size_t>(head)])) << "row " << u;
          ++n_checked;
        }
      }
    }
    // Nothing passes a threshold above every box, everything one below.
    const std::vector<float> high(static_cast<size_t>(shape().h_q), 1e9f), low(high.size(), -1e9f);
    EXPECT_EQ(recall(query(i), high).n_fired, 0);
    EXPECT_EQ(recall(query(i), low).n_fired, std::count(kept_.begin(), kept_.end(), 0));
  }
  RecordProperty("left_out", std::to_string(n_left));
  EXPECT_GE(n_checked, 0);
}

// Pages of equal rows: box and sphere are points, so the bound is the score itself and only rounding stands between.
TEST_P(PagesTest, PointsAreBoundedToo) {
  for (int64_t u = 0; u < n(); ++u) {
    if (u % kPageRows != 0) std::copy_n(row(u - 1), d(), rows_.data() + u * d());
  }
  build("quest", {{"mode", 1}});
  std::fill(kept_.begin(), kept_.end(), uint8_t{0});
  int64_t n_left = 0;
  for (int64_t i = 0; i < 20; ++i) {
    for (int64_t page = 0; page < n() / kPageRows; page += 5) {
      std::vector<float> threshold(static_cast<size_t>(shape().h_q), INFINITY);
      const double exact = score(query(i), page * kPageRows);
      threshold[0] = static_cast<float>(exact);
      if (double(threshold[0]) >= exact) threshold[0] = std::nextafter(threshold[0], -INFINITY);
      const Recalled got = recall(query(i), threshold);
      ASSERT_TRUE(std::binary_search(got.ids.begin(), got.ids.end(), static_cast<int32_t>(page * kPageRows)));
      n_left += n() - got.n_fired;
    }
  }
  EXPECT_GT(n_left, 0);
}

TEST(PagePolicyTest, PageRowsDivideTheBlock) {
  PolicyConfig config;
  config.name = "quest";
  config.block_rows = 96;
  config.settings["page_rows"] = 64;
  const auto made = create_policy(config, {48, 16, DType::kBF16});
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("quest.page_rows = 64"), std::string::npos) << made.status().message();
}

INSTANTIATE_TEST_SUITE_P(Layouts, PagesTest,
                         ::testing::Values(Shape{{48, 16, DType::kF32}, 64, 3}, Shape{{48, 16, DType::kBF16}, 64, 2},
                                           Shape{{512, 64, DType::kBF16}, 64, 8}),
                         [](const auto& test) {
                           return std::string(dtype_name(test.param.layout.dtype)) +
                                  std::to_string(test.param.layout.d_content);
                         });

}  // namespace
}  // namespace vestige::testing
