#include <cstdio>

#include "eval/coverage.h"
#include "eval/report.h"

namespace vestige::eval {

namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string quality(const Cell& c) {
  if (c.measure == Measure::kText) {
    return format("%7.4f nats %6.4f b/B  %+.5f [%+.5f,%+.5f]", c.nats, c.bits_per_byte, c.delta_nats.value,
                  c.delta_nats.low, c.delta_nats.high);
  }
  return format("%3lld/%-3lld %.2f [%.2f,%.2f]  %+9.3f", static_cast<long long>(c.n_right),
                static_cast<long long>(c.n_counted), c.rate_value(), c.rate.low, c.rate.high, c.delta_nats.value);
}

std::string reads(const Cell& c) {
  const StepRecord& r = c.record;
  return format(" %6.0f %8.0f %7.1f %5.1f%% %7.1f %7.1e %7.1e %6.3f %6.3f", c.per_step(r.n_kept + r.n_tail),
                c.per_step(r.n_scanned[0]), c.per_step(r.n_recalled), 100 * c.overflow_share(),
                c.archive_bytes_per_row(), r.omitted_max, r.error_max, c.read_share(), c.attend_share());
}

std::string head(const Cell& c) {
  const char* measure = c.measure == Measure::kText     ? "text        a byte      delta a token [95%]     "
                        : c.measure == Measure::kIntact ? "intact  rate [Wilson 95%] delta nats"
                                                        : " exact  rate [Wilson 95%] delta nats";
  return format(
      "\n%s, %lld tokens, %lld trials\n  %-40s %s   kept  scanned recalled  over  B/row omitted   error  bytes  time\n",
      c.task.c_str(), static_cast<long long>(c.length), static_cast<long long>(c.n_trials), "policy", measure);
}

std::string fidelity_line(const Cell& c, bool fresh) {
  std::string out;
  if (fresh) {
    out = format(
        "\n%s, %lld tokens, mean of %lld trials\n  %-40s  error    most   certified  omitted  most   certified  "
        "broken                 lost\n",
        c.task.c_str(), static_cast<long long>(c.length), static_cast<long long>(c.n_trials), "policy");
  }
  const auto number = [&c](const char* name) {
    const auto found = c.numbers.find(name);
    return found == c.numbers.end() ? 0.0 : found->second;
  };
  return out + format("  %-40s %7.4f %7.4f %9.4f  %7.4f %7.4f %9.4f  %3g of %4g layer-steps  %g of %g\n", c.arm.c_str(),
                      number("relative output error, mean"), number("relative output error, most"),
                      number("certified output error, most"), number("omitted mass, mean"),
                      number("omitted mass, most"), number("certified omitted mass, most"),
                      number("layer-steps that break their certificate"), number("layer-steps"),
                      number("best archived rows over the threshold, lost"),
                      number("best archived rows over the threshold"));
}

}  // namespace

std::string table_text(const std::vector<Cell>& cells) {
  std::string out;
  const Cell* previous = nullptr;
  for (const Cell& c : cells) {
    const bool fresh = previous == nullptr || previous->task != c.task || previous->length != c.length;
    previous = &c;
    if (c.measure == Measure::kFidelity) {
      out += fidelity_line(c, fresh);
      continue;
    }
    if (has_numbers(c.measure)) {
      out += format("\n%s, %lld tokens, %s, mean of %lld trials\n", c.task.c_str(), static_cast<long long>(c.length),
                    c.arm.c_str(), static_cast<long long>(c.n_trials));
      for (const auto& [name, value] : c.numbers) out += format("  %-60s %.6g\n", name.c_str(), value);
      if (c.measure == Measure::kCoverage) {
        const CoverageVerdicts verdicts = coverage_verdicts(c.numbers);
        out += format("  reviewer's test: %s; certificate: %s\n", verdicts.reviewer, verdicts.certificate);
      }
      continue;
    }
    if (fresh) {
      out += head(c);
      if (c.n_counted < c.n_trials) {
        out += format("  full attention solves %lld of %lld trials; only these count\n",
                      static_cast<long long>(c.n_counted), static_cast<long long>(c.n_trials));
      }
    }
    out += format("  %-40s ", c.arm.c_str()) +
           (c.n_counted == 0 ? "nothing to compare: full attention solves no trial" : quality(c) + reads(c)) + "\n";
  }
  return out;
}

}  // namespace vestige::eval
