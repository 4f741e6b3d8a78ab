#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/ref/code_rows.h"
#include "backend/ref/ref_ops.h"

namespace vestige::ref {

namespace {

struct Fired {
  int32_t id;
  std::vector<double> bound, sound, least;  // [h]
};

/// The fired rows that join for some head; adds what the others may weigh to `omitted`.
std::vector<Fired> pick(const std::vector<Fired>& fired, const ScanCodesParams& p, int64_t b,
                        std::vector<double>* omitted) {
  const int64_t h = p.q.dim(1);
  const float *threshold = p.threshold.as<float>() + b * h, *reference = p.reference.as<float>() + b * h;
  std::vector<uint8_t> wanted(fired.size());
  for (size_t head = 0; head < static_cast<size_t>(h); ++head) {
    std::vector<size_t> order;
    for (size_t i = 0; i < fired.size(); ++i) {
      if (threshold[head] != INFINITY && !(fired[i].bound[head] <= double(threshold[head]))) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t k) {
      const double x = fired[i].bound[head], y = fired[k].bound[head];
      return std::isnan(x) != std::isnan(y) ? std::isnan(x) : x > y;
    });
    double raised = double(threshold[head]);
    std::vector<double> terms = {raised};
    for (size_t i = 0; i < order.size(); ++i) {
      const Fired& row = fired[order[i]];
      if (row.bound[head] <= raised || (p.top_j > 0 && i >= static_cast<size_t>(p.top_j))) break;
      wanted[order[i]] = 1;
      if (p.share == 0 || i < static_cast<size_t>(p.n_free) || !std::isfinite(row.least[head])) continue;
      terms.push_back(row.least[head] + std::log(double(p.share)));
      const double most = *std::max_element(terms.begin(), terms.end());
      double sum = 0;
      for (const double x : terms) sum += std::exp(x - most);
      // 1e-12: more than what doubles round.
      const double next = most + std::log(sum);
      raised = std::max(raised, next - 1e-12 * (1 + std::abs(next)));
    }
  }
  std::vector<Fired> out;
  for (size_t i = 0; i < fired.size(); ++i) {
    if (wanted[i] != 0) {
      out.push_back(fired[i]);
      continue;
    }
    for (size_t head = 0; head < omitted->size(); ++head) {
      const double over = fired[i].sound[head] - double(reference[head]);
      (*omitted)[head] += std::isnan(over) ? INFINITY : std::exp(over);
    }
  }
  return out;
}

}  // namespace

Status scan_codes(const ScanCodesParams& p, Stream&) {
  const int64_t h = p.q.dim(1), d = p.q.dim(2), capacity = p.ids.dim(1);
  for (int64_t b = 0; b < p.q.dim(0); ++b) {
    const CodeSet& set = p.sets[static_cast<size_t>(b)];
    const float *threshold = p.threshold.as<float>() + b * h, *reference = p.reference.as<float>() + b * h;
    std::vector<CodedHead> heads;
    for (int64_t i = 0; i < h; ++i) {
      heads.push_back(coded_head(set, p.q.as<float>() + (b * h + i) * d, i, h, p.scale));
    }
    std::vector<double> omitted(static_cast<size_t>(h));
    std::vector<Fired> fired;
    int64_t n_stage[2] = {};
    for (int64_t u = 0; u < set.pages.n_rows; ++u) {
      if (set.kept != nullptr && set.kept[u] != 0) continue;
      std::vector<double> t(static_cast<size_t>(d)), bound(static_cast<size_t>(h), INFINITY), sound = bound;
      std::vector<double> least(static_cast<size_t>(h), -INFINITY);
      bool hit = true;
      for (size_t s = 0; s < set.stages.size() && hit; ++s) {
        ++n_stage[s];
        add_coded(set, s, u, &t);
        hit = false;
        for (size_t i = 0; i < heads.size(); ++i) {
          double score = heads[i].at_mean;
          for (size_t k = 0; k < t.size(); ++k) score += heads[i].dual[k] * t[k];
          score = score * double(p.scale) + heads[i].slack;
          const double reach = double(p.scale) * heads[i].norm * coded_norm(set, s, u, heads[i].group);
          const double by_stage = score + double(set.z[s]) * reach;
          if (!(bound[i] < by_stage)) bound[i] = by_stage;
          if (!(sound[i] < score + reach)) sound[i] = score + reach;
          const double low = score - 2 * heads[i].slack - double(set.z[s]) * reach;
          if (!(low < least[i])) least[i] = low;
          hit = hit || (threshold[i] != INFINITY && !(bound[i] <= double(threshold[i])));
        }
      }
      if (hit) fired.push_back({static_cast<int32_t>(u), bound, sound, least});
      for (size_t i = 0; i < heads.size() && !hit; ++i) omitted[i] += std::exp(sound[i] - double(reference[i]));
    }
    if (p.top_j > 0 || p.share > 0) fired = pick(fired, p, b, &omitted);
    const auto total = static_cast<int64_t>(fired.size()), n = std::min(total, capacity);
    for (int64_t i = 0; i < n; ++i) p.ids.as<int32_t>()[b * capacity + i] = fired[static_cast<size_t>(i)].id;
    p.n_ids.as<int32_t>()[b] = static_cast<int32_t>(n);
    p.n_fired.as<int32_t>()[b] = static_cast<int32_t>(total);
    std::copy_n(n_stage, 2, p.n_stage.as<int64_t>() + 2 * b);
    for (int64_t i = 0; i < h; ++i) {
      p.omitted.as<float>()[b * h + i] =
          std::isfinite(reference[i]) ? static_cast<float>(omitted[static_cast<size_t>(i)] * 1.0001) : INFINITY;
    }
  }
  return {};
}

}  // namespace vestige::ref
