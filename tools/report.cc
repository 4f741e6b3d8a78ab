#include "tools/report.h"

#include <algorithm>
#include <cstdio>

#include "tools/settings.h"

namespace vestige::tools {

void print_json(const Json& value) {
  const std::string text = value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

namespace {

Json settings_json(const PolicyConfig& policy) {
  Json out = Json::object();
  for (const auto& [name, value] : policy.settings) {
    const PolicySetting* setting = find_setting(policy.name, name);
    const bool named = setting != nullptr && value >= 0 && value < static_cast<double>(setting->choices.size());
    if (named) {
      out[name] = setting->choices[static_cast<size_t>(value)];
    } else {
      out[name] = value;
    }
  }
  return out;
}

}  // namespace

Json policy_json(const PolicyConfig& policy) {
  return {{"name", policy.name},
          {"ratio", policy.ratio},
          {"keep", 1 / policy.ratio},
          {"block_rows", policy.block_rows},
          {"n_sinks", policy.n_sinks},
          {"seed", policy.seed},
          {"settings", settings_json(policy)}};
}

RowCounts count_rows(const Context& context) {
  RowCounts out;
  for (const LayerCache* cache : context.caches()) {
    ++out.n_layers;
    out.n_rows = cache->n_rows();
    out.n_kept += cache->n_kept();
    out.n_tail = cache->n_rows() - cache->n_closed();
    out.attended_bytes += (cache->n_kept() + out.n_tail) * cache->layout().row_bytes() + cache->bytes().codes;
    out.full_bytes += out.n_rows * cache->layout().row_bytes();
  }
  if (out.n_layers > 0) out.n_kept = (out.n_kept + out.n_layers / 2) / out.n_layers;
  out.n_archived = out.n_rows - out.n_tail - out.n_kept;
  return out;
}

Result<RowCounts> plan_rows(const ModelInfo& info, const PolicyConfig& config, int64_t n_tokens) {
  RowCounts out;
  out.n_rows = n_tokens;
  for (const CacheLayer& layer : info.cache_layers) {
    VESTIGE_ASSIGN(const auto policy, create_policy(config, layer.layout));
    const int64_t n_closed = n_tokens / config.block_rows * config.block_rows;
    ++out.n_layers;
    out.n_kept = std::min(n_closed, policy->n_keep(n_closed) + config.n_sinks);
    out.n_tail = n_tokens - n_closed;
    out.n_archived = n_closed - out.n_kept;
    out.attended_bytes += (out.n_kept + out.n_tail) * layer.layout.row_bytes();
    out.full_bytes += n_tokens * layer.layout.row_bytes();
    out.attended_bytes += static_cast<int64_t>(double(out.n_archived) * policy->coded_row_bytes(layer.layout));
  }
  return out;
}

Json rows_json(const RowCounts& rows) {
  return {{"layers", rows.n_layers},      {"total", rows.n_rows}, {"kept", rows.n_kept},
          {"archived", rows.n_archived},  {"tail", rows.n_tail},  {"attended_bytes", rows.attended_bytes},
          {"full_bytes", rows.full_bytes}};
}

void print_rows(const RowCounts& rows, const PolicyConfig& policy) {
  std::printf("rows a layer  %lld = %lld kept + %lld archived + %lld tail (%lld layers)\n",
              static_cast<long long>(rows.n_rows), static_cast<long long>(rows.n_kept),
              static_cast<long long>(rows.n_archived), static_cast<long long>(rows.n_tail),
              static_cast<long long>(rows.n_layers));
  std::printf("attended      %s of %s (policy %s", bytes_text(rows.attended_bytes).c_str(),
              bytes_text(rows.full_bytes).c_str(), policy.name.c_str());
  if (takes_ratio(policy.name)) std::printf(", ratio %gx = keep %.4g", policy.ratio, 1 / policy.ratio);
  std::printf(")\n");
}

namespace {

/// A step record as means; zero steps give zeros.
struct Means {
  Means(const GenerateResult& result, size_t n_layers)
      : r(result.record),
        per_step(1.0 / static_cast<double>(std::max<int64_t>(r.n_steps, 1))),
        per_token(per_step * static_cast<double>(n_layers)),
        tokens_per_s(static_cast<double>(result.tokens.size()) / std::max(result.decode_s, 1e-9)) {}
  double step(int64_t sum) const { return static_cast<double>(sum) * per_step; }
  double token(int64_t sum) const { return static_cast<double>(sum) * per_token; }
  const StepRecord& r;
  double per_step, per_token, tokens_per_s;
};

}  // namespace

Json stats_json(const GenerateResult& result, size_t n_layers) {
  const Means m(result, n_layers);
  return {{"tokens_per_s", m.tokens_per_s},
          {"layers", n_layers},
          {"kept_rows", m.step(m.r.n_kept)},
          {"archived_rows", m.step(m.r.n_archived)},
          {"tail_rows", m.step(m.r.n_tail)},
          {"recalled_rows", m.step(m.r.n_recalled)},
          {"worst_recalled_rows", static_cast<double>(result.worst.n_recalled) /
                                      static_cast<double>(std::max<int64_t>(result.worst.n_steps, 1))},
          {"coded_rows", m.step(m.r.n_coded)},
          {"scanned_rows", {m.step(m.r.n_scanned[0]), m.step(m.r.n_scanned[1])}},
          {"archive_bytes_per_row",
           static_cast<double>(m.r.archive_bytes) / static_cast<double>(std::max<int64_t>(m.r.n_archived, 1))},
          {"omitted_mass_bound", {{"max", m.r.omitted_max}, {"mean", m.r.omitted_sum * m.per_step}}},
          {"output_error_bound", {{"max", m.r.error_max}, {"mean", m.r.error_sum * m.per_step}}},
          {"overflowed_steps", m.r.n_overflowed},
          {"gated_heads", m.step(m.r.n_gated)},
          {"steps", m.r.n_steps},
          {"read_bytes_per_token", m.token(m.r.read_bytes)},
          {"full_bytes_per_token", m.token(m.r.full_bytes)},
          {"attend_us_per_token", m.r.attend_us * m.per_token}};
}

std::string stats_text(const GenerateResult& result, size_t n_layers) {
  const Means m(result, n_layers);
  char text[1024], error[96] = "";
  if (m.r.n_coded > 0) {
    std::snprintf(error, sizeof error, ", output error at most %.3g (mean %.3g)", m.r.error_max,
                  m.r.error_sum * m.per_step);
  }
  std::snprintf(
      text, sizeof text,
      "  speed      %.1f tokens/s (%zu tokens in %.3f s), attention %.1f us a token\n"
      "  rows       %.0f kept + %.0f tail + %.1f recalled attended, of %.0f archived (means per layer)\n"
      "  index      %.0f + %.0f codes read, %.1f B an archived row and step, exact rows included\n"
      "  certified  at most %.3g of a head's softmax mass left out (mean %.3g)%s\n"
      "  worst step %.1f rows recalled; %lld of %lld steps overflowed\n"
      "  bytes      %s read a token, full attention reads %s\n",
      m.tokens_per_s, result.tokens.size(), result.decode_s, m.r.attend_us * m.per_token, m.step(m.r.n_kept),
      m.step(m.r.n_tail), m.step(m.r.n_recalled), m.step(m.r.n_archived), m.step(m.r.n_scanned[0]),
      m.step(m.r.n_scanned[1]),
      static_cast<double>(m.r.archive_bytes) / static_cast<double>(std::max<int64_t>(m.r.n_archived, 1)),
      m.r.omitted_max, m.r.omitted_sum * m.per_step, error,
      static_cast<double>(result.worst.n_recalled) / static_cast<double>(std::max<int64_t>(result.worst.n_steps, 1)),
      static_cast<long long>(m.r.n_overflowed), static_cast<long long>(m.r.n_steps),
      bytes_text(static_cast<int64_t>(m.token(m.r.read_bytes))).c_str(),
      bytes_text(static_cast<int64_t>(m.token(m.r.full_bytes))).c_str());
  return text;
}

std::string bytes_text(int64_t n_bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(n_bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace vestige::tools
