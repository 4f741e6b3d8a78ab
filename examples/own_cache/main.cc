// VestigeKV on a cache of your own: no model, no file, only rows. One row of 20,000 is planted so that a query
// wants it. The policy archives it, recalls it for that query, and comes near full attention; eviction cannot.

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "vestige/cache.h"

namespace {

constexpr int32_t kHeads = 4;
constexpr int64_t kRows = 20000, kPlanted = 7777, kPromptQueries = 64;
const vestige::RowLayout kLayout;  // 512 content + 64 branch, bf16

struct Data {
  std::vector<float> rows;    // [kRows, d_row]
  std::vector<float> prompt;  // [kPromptQueries, kHeads, d_row]: what the prompt's last tokens asked for
  std::vector<float> query;   // [1, kHeads, d_row]
};

/// Queries of a trained model lie near few directions; so do these. Rows lie anywhere, their branches move slowly.
Data make_data() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const int64_t d = kLayout.d_row(), d_content = kLayout.d_content, n_directions = 16;
  std::vector<float> directions;
  for (int64_t i = 0; i < n_directions * d_content; ++i) directions.push_back(0.25f * normal(random));
  const auto add_query = [&](std::vector<float>* to) {
    const auto first = static_cast<int64_t>(to->size());
    for (int64_t k = 0; k < d; ++k) to->push_back((k < d_content ? 0.05f : 1.0f) * normal(random));
    for (int64_t i = 0; i < n_directions; ++i) {
      const float weight = normal(random);
      for (int64_t k = 0; k < d_content; ++k) {
        (*to)[static_cast<size_t>(first + k)] += weight * directions[static_cast<size_t>(i * d_content + k)];
      }
    }
  };
  Data data;
  for (int64_t i = 0; i < kPromptQueries * kHeads; ++i) add_query(&data.prompt);
  for (int64_t i = 0; i < kHeads; ++i) add_query(&data.query);
  for (int64_t u = 0; u < kRows; ++u) {
    for (int64_t k = 0; k < d; ++k) {
      const float slow = std::sin(0.002f * static_cast<float>(u + 100 * k));
      data.rows.push_back(k < d_content ? normal(random) : slow + 0.2f * normal(random));
    }
  }
  for (int64_t k = 0; k < d_content; ++k) {  // what head 0 looks for
    data.rows[static_cast<size_t>(kPlanted * d + k)] = 0.5f * data.query[static_cast<size_t>(k)];
  }
  return data;
}

struct Answer {
  std::vector<float> out;
  vestige::StepRecord record;
};

// README: begin
vestige::Result<Answer> answer(const char* policy_name, const Data& data, vestige::Stream& stream) {
  using namespace vestige;
  PolicyConfig config;
  config.name = policy_name;
  config.ratio = 32;  // 1 row in 32 stays attended, the others are recalled when a query wants them
  VESTIGE_ASSIGN(const auto policy, create_policy(config, kLayout));
  VESTIGE_ASSIGN(auto cache, LayerCache::create(kLayout, kHeads, 1.0f / std::sqrt(192.0f), policy));

  VESTIGE_TRY(cache->append({data.rows.data(), DType::kF32, {kRows, kLayout.d_row()}}, stream));
  VESTIGE_TRY(cache->fit_recall({data.prompt.data(), DType::kF32, {kPromptQueries, kHeads, kLayout.d_row()}}, stream));

  Answer a;
  a.out.resize(static_cast<size_t>(kHeads * kLayout.d_content));
  const TensorView out(a.out.data(), DType::kF32, {1, kHeads, kLayout.d_content});
  VESTIGE_TRY(
      cache->attend({data.query.data(), DType::kF32, {1, kHeads, kLayout.d_row()}}, out, {}, &a.record, stream));
  return a;
}
// README: end

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

vestige::Status run() {
  VESTIGE_ASSIGN(const auto stream, vestige::Stream::create());
  const Data data = make_data();
  VESTIGE_ASSIGN(const Answer full, answer("full", data, *stream));
  std::printf("%-10s %7s %7s %9s %9s %10s %9s\n", "policy", "kept", "tail", "archived", "recalled", "read", "error");
  for (const vestige::PolicyInfo& info : vestige::policy_infos()) {
    const auto made = answer(info.name, data, *stream);
    if (made.status().code() == vestige::StatusCode::kUnsupported) {  // of other rows: the message says which
      std::printf("%-10s %s\n", info.name, made.status().message().c_str());
      continue;
    }
    VESTIGE_TRY(made.status());
    const Answer& a = *made;
    const vestige::StepRecord& r = a.record;
    std::printf(
        "%-10s %7lld %7lld %9lld %9lld %9.1f%% %9.4f\n", info.name, static_cast<long long>(r.n_kept),
        static_cast<long long>(r.n_tail), static_cast<long long>(r.n_archived), static_cast<long long>(r.n_recalled),
        100.0 * static_cast<double>(r.read_bytes) / static_cast<double>(r.full_bytes), distance(a.out, full.out));
  }
  return {};
}

}  // namespace

int main() {
  const vestige::Status status = run();
  if (!status.ok()) std::fprintf(stderr, "own_cache: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
