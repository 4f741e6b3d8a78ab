#include "cache/policies/adakv/head_budget.h"

#include <algorithm>
#include <cmath>

namespace vestige::adakv {

namespace {

struct Row {
  float score;
  int32_t head, place;
};

bool before(const Row& a, const Row& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.head != b.head ? a.head < b.head : a.place < b.place;
}

/// Moves the first n, as they rank, to the front.
void part(std::vector<Row>* rows, int64_t n) {
  if (n < static_cast<int64_t>(rows->size())) std::nth_element(rows->begin(), rows->begin() + n, rows->end(), before);
}

}  // namespace

Result<size_t> HeadBudget::add(const ConstTensorView& score, int64_t n_keep, int32_t) {
  heads_.push_back({score, n_keep});
  return heads_.size() - 1;
}

void HeadBudget::decide() {
  std::vector<Row> rest;
  int64_t n_free = 0;
  for (size_t h = 0; h < heads_.size(); ++h) {
    const Head& head = heads_[h];
    std::vector<Row> rows;
    for (int64_t u = 0; u < head.score.dim(0); ++u) {
      const float score = head.score.as<float>()[u];
      rows.push_back({std::isnan(score) ? -INFINITY : score, static_cast<int32_t>(h), static_cast<int32_t>(u)});
    }
    const auto share = static_cast<int64_t>(std::floor(safeguard_ * double(head.n_keep)));
    const int64_t n_safe = std::clamp<int64_t>(share, std::min<int64_t>(1, head.n_keep), head.n_keep);
    part(&rows, n_safe);
    rest.insert(rest.end(), rows.begin() + n_safe, rows.end());
    n_keep_.push_back(n_safe);
    n_free += head.n_keep - n_safe;
  }
  part(&rest, n_free);
  for (int64_t i = 0; i < n_free; ++i) ++n_keep_[static_cast<size_t>(rest[static_cast<size_t>(i)].head)];
}

int64_t HeadBudget::n_keep(size_t number) {
  if (n_keep_.empty()) decide();
  return n_keep_[number];
}

}  // namespace vestige::adakv
