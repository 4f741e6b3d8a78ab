#include "base/json.h"
#include "eval/report.h"

namespace vestige::eval {

namespace {

using Json = nlohmann::ordered_json;

Json record_json(const Cell& c) {
  const StepRecord& r = c.record;
  return {{"steps", r.n_steps},
          {"kept_rows", c.per_step(r.n_kept)},
          {"tail_rows", c.per_step(r.n_tail)},
          {"archived_rows", c.per_step(r.n_archived)},
          {"scanned_rows", {c.per_step(r.n_scanned[0]), c.per_step(r.n_scanned[1])}},
          {"recalled_rows", c.per_step(r.n_recalled)},
          {"gated_heads", c.per_step(r.n_gated)},
          {"coded_rows", c.per_step(r.n_coded)},
          {"overflow_share", c.overflow_share()},
          {"archive_bytes_per_row", c.archive_bytes_per_row()},
          {"read_share", c.read_share()},
          {"attend_us", c.per_step(r.attend_us)},
          {"attend_share", c.attend_share()},
          {"omitted_max", r.omitted_max},
          {"omitted_mean", c.per_step(r.omitted_sum)},
          {"error_max", r.error_max},
          {"error_mean", c.per_step(r.error_sum)}};
}

Json cell_json(const Cell& c) {
  Json out = {{"task", c.task}, {"length", c.length}, {"policy", c.arm}, {"ratio", c.ratio}, {"trials", c.n_trials}};
  if (has_numbers(c.measure)) {
    out["numbers"] = c.numbers;
    return out;
  }
  out["counted"] = c.n_counted;
  if (c.measure == Measure::kText) {
    out["nats_per_token"] = c.nats;
    out["bits_per_byte"] = c.bits_per_byte;
  } else {
    out["measure"] = c.measure == Measure::kIntact ? "intact" : "exact";
    out["right"] = c.n_right;
    out["rate"] = c.rate_value();
    out["wilson_95"] = {c.rate.low, c.rate.high};
    out["sign_test_p"] = c.sign_p;
  }
  out["delta_nats"] = c.delta_nats.value;
  out["delta_nats_95"] = {c.delta_nats.low, c.delta_nats.high};
  out["steps"] = record_json(c);
  return out;
}

}  // namespace

std::string report_json(const ReportHead& head, const std::vector<Cell>& cells, const std::vector<GateOutcome>& gates) {
  Json out;
  out["run"] = {{"vestige_version", head.identity.vestige_version},
                {"model", head.model_dir},
                {"model_identity", head.identity.model},
                {"tokenizer_identity", head.identity.tokenizer},
                {"corpus", head.identity.corpus},
                {"seed", head.identity.seed},
                {"block_rows", head.identity.block_rows},
                {"aware", head.identity.aware},
                {"trials", head.n_trials},
                {"command", head.command}};
  out["gates"] = Json::array();
  for (const GateOutcome& g : gates) {
    out["gates"].push_back(
        {{"gate", g.gate}, {"length", g.length}, {"subject", g.subject}, {"passed", g.passed}, {"detail", g.detail}});
  }
  out["cells"] = Json::array();
  for (const Cell& c : cells) out["cells"].push_back(cell_json(c));
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace vestige::eval
