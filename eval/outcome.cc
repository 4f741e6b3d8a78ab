#include "eval/outcome.h"

#include <cmath>

#include "base/json.h"

namespace vestige::eval {

namespace {

using Json = nlohmann::ordered_json;

struct CountField {
  const char* name;
  int64_t StepRecord::*member;
};
struct RealField {
  const char* name;
  double StepRecord::*member;
};
constexpr CountField kCounts[] = {{"steps", &StepRecord::n_steps},
                                  {"kept", &StepRecord::n_kept},
                                  {"tail", &StepRecord::n_tail},
                                  {"archived", &StepRecord::n_archived},
                                  {"recalled", &StepRecord::n_recalled},
                                  {"coded", &StepRecord::n_coded},
                                  {"overflowed", &StepRecord::n_overflowed},
                                  {"gated", &StepRecord::n_gated},
                                  {"read_bytes", &StepRecord::read_bytes},
                                  {"archive_bytes", &StepRecord::archive_bytes},
                                  {"full_bytes", &StepRecord::full_bytes}};
constexpr RealField kReals[] = {{"omitted_max", &StepRecord::omitted_max},
                                {"omitted_sum", &StepRecord::omitted_sum},
                                {"error_max", &StepRecord::error_max},
                                {"error_sum", &StepRecord::error_sum},
                                {"attend_us", &StepRecord::attend_us}};

Json record_json(const StepRecord& record) {
  Json out;
  for (const CountField& field : kCounts) out[field.name] = record.*field.member;
  out["scanned"] = {record.n_scanned[0], record.n_scanned[1]};
  for (const RealField& field : kReals) out[field.name] = record.*field.member;
  return out;
}

/// Numbers that JSON cannot hold are written as null.
double real(const nlohmann::json& value) { return value.is_number() ? value.get<double>() : std::nan(""); }

StepRecord parse_record(const nlohmann::json& value) {
  StepRecord record;
  for (const CountField& field : kCounts) record.*field.member = value.value(field.name, int64_t{0});
  for (size_t i = 0; i < 2; ++i) record.n_scanned[i] = value.at("scanned").at(i).get<int64_t>();
  for (const RealField& field : kReals) record.*field.member = real(value.at(field.name));
  return record;
}

Outcome parse_outcome(const nlohmann::json& value) {
  Outcome out;
  out.task = value.at("task").get<std::string>();
  out.length = value.at("length").get<int64_t>();
  out.trial = value.at("trial").get<int32_t>();
  out.arm = value.at("arm").get<std::string>();
  if (value.contains("numbers")) {
    for (const auto& [name, number] : value.at("numbers").items()) out.numbers[name] = real(number);
    return out;
  }
  out.nats = real(value.at("nats"));
  out.n_answer = value.at("answer_tokens").get<int64_t>();
  out.n_answer_bytes = value.at("answer_bytes").get<int64_t>();
  out.exact = value.at("exact").get<bool>();
  out.record = parse_record(value.at("record"));
  return out;
}

GateOutcome parse_gate(const nlohmann::json& value) {
  return {value.at("gate").get<std::string>(), value.at("length").get<int64_t>(),
          value.at("subject").get<std::string>(), value.at("passed").get<bool>(),
          value.at("detail").get<std::string>()};
}

}  // namespace

std::string outcome_line(const Outcome& o) {
  Json out = {{"task", o.task}, {"length", o.length}, {"trial", o.trial}, {"arm", o.arm}};
  if (!o.numbers.empty()) {
    out["numbers"] = o.numbers;
    return out.dump();
  }
  out["nats"] = o.nats;
  out["answer_tokens"] = o.n_answer;
  out["answer_bytes"] = o.n_answer_bytes;
  out["exact"] = o.exact;
  out["record"] = record_json(o.record);
  return out.dump();
}

std::string gate_line(const GateOutcome& g) {
  const Json out = {
      {"gate", g.gate}, {"length", g.length}, {"subject", g.subject}, {"passed", g.passed}, {"detail", g.detail}};
  return out.dump();
}

Result<ResultLine> parse_result_line(std::string_view line) {
  VESTIGE_ASSIGN(const nlohmann::json value, parse_json(line));
  ResultLine out;
  try {
    if (value.contains("gate")) {
      out.gate = parse_gate(value);
    } else {
      out.outcome = parse_outcome(value);
    }
  } catch (const nlohmann::json::exception& e) {
    return data_loss("not a line of results: %s", e.what());
  }
  return out;
}

}  // namespace vestige::eval
