#include <algorithm>
#include <cmath>
#include <cstdio>

#include "eval/plot.h"
#include "eval/report.h"

namespace vestige::eval {

namespace {

constexpr char kStyle[] =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0;font-size:13px}td,th{padding:3px "
    "8px;text-align:right;border-bottom:1px "
    "solid #ddd}td:first-child,th:first-child{text-align:left;font-family:monospace}svg{margin:.5em 1em .5em 0}code{"
    "font-size:13px;overflow-wrap:anywhere}.no{color:#b00}";

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }

std::string row_html(const Cell& c) {
  std::string out = "<tr>" + cell(escape_html(c.arm));
  if (c.n_counted == 0)
    return out + "<td colspan=12 class=no>full attention solves no trial: nothing to compare</td></tr>\n";
  if (c.measure == Measure::kText) {
    out += cell(format("%.4f", c.nats)) + cell(format("%.4f", c.bits_per_byte));
    out += cell(format("%+.5f [%+.5f, %+.5f]", c.delta_nats.value, c.delta_nats.low, c.delta_nats.high));
  } else {
    out += cell(format("%lld/%lld", static_cast<long long>(c.n_right), static_cast<long long>(c.n_counted)));
    out += cell(format("%.2f [%.2f, %.2f]", c.rate_value(), c.rate.low, c.rate.high));
    out += cell(format("%+.3f", c.delta_nats.value));
  }
  const StepRecord& r = c.record;
  out += cell(format("%.0f", c.per_step(r.n_kept + r.n_tail))) + cell(format("%.0f", c.per_step(r.n_scanned[0])));
  out += cell(format("%.1f", c.per_step(r.n_recalled))) + cell(format("%.1f%%", 100 * c.overflow_share()));
  out += cell(format("%.1f", c.archive_bytes_per_row())) + cell(format("%.1e", r.omitted_max));
  out +=
      cell(format("%.1e", r.error_max)) + cell(format("%.3f", c.read_share())) + cell(format("%.3f", c.attend_share()));
  return out + "</tr>\n";
}

std::string table_html(std::span<const Cell> cells) {
  const bool text = cells[0].measure == Measure::kText;
  std::string out = "<table><tr><th>policy</th>";
  out += text ? "<th>nats a token</th><th>bits a byte</th><th>over full [95%]</th>"
              : "<th>right</th><th>rate [Wilson 95%]</th><th>nats over full</th>";
  out +=
      "<th>kept and tail rows</th><th>scanned</th><th>recalled</th><th>overflowed</th><th>archive "
      "B/row</th><th>omitted, "
      "most</th><th>error, most</th><th>bytes / full</th><th>time / full</th></tr>\n";
  for (const Cell& c : cells) out += row_html(c);
  return out + "</table>\n";
}

std::string numbers_html(const Cell& c) {
  std::string out = "<table><tr><th>" + escape_html(c.arm) + "</th><th>mean</th></tr>\n";
  for (const auto& [name, value] : c.numbers)
    out += "<tr>" + cell(escape_html(name)) + cell(format("%.6g", value)) + "</tr>\n";
  return out + "</table>\n";
}

/// The quality of a cell with its interval: a rate, or nats over full.
PlotPoint quality_point(const Cell& c, double x) {
  if (c.measure == Measure::kText) return {x, c.delta_nats.value, c.delta_nats.low, c.delta_nats.high};
  return {x, c.rate_value(), c.rate.low, c.rate.high};
}

Plot base_plot(const Cell& c, const std::string& title) {
  Plot plot;
  plot.title = title;
  plot.y_label = c.measure == Measure::kText ? "nats a token over full" : "rate";
  if (c.measure != Measure::kText) plot.y_range = {0, 1};
  return plot;
}

/// Every family of the report, so that a policy looks the same in all plots.
using Families = std::vector<std::string>;

void add_point(Plot* plot, const Families& families, const Cell& c, double x) {
  const std::string family = arm_family(c.arm);
  for (PlotLine& known : plot->lines) {
    if (known.name == family) return known.points.push_back(quality_point(c, x));
  }
  const auto style = std::find(families.begin(), families.end(), family) - families.begin();
  plot->lines.push_back({family, {quality_point(c, x)}, static_cast<size_t>(style)});
}

/// Whether its spec has one: bytes of others follow from their settings.
bool has_ratio(const std::string& arm) { return arm.substr(0, arm.find('@')).find(':') != std::string::npos; }

std::string ratio_plot(std::span<const Cell> cells, int64_t length, const Families& families) {
  Plot plot = base_plot(cells[0], std::to_string(length) + " tokens");
  plot.x_label = "ratio";
  plot.log_x = true;
  for (const Cell& c : cells) {
    if (c.length == length && c.n_counted > 0 && has_ratio(c.arm)) add_point(&plot, families, c, c.ratio);
  }
  return plot_svg(plot);
}

std::string length_plot(std::span<const Cell> cells, double ratio, const Families& families) {
  Plot plot = base_plot(cells[0], format("ratio %g", ratio));
  plot.x_label = "tokens";
  plot.log_x = true;
  for (const Cell& c : cells) {
    if (c.ratio == ratio && c.n_counted > 0 && has_ratio(c.arm)) {
      add_point(&plot, families, c, static_cast<double>(c.length));
    }
  }
  return plot_svg(plot);
}

/// Bytes against quality: what is up and to the left is better (for nats: down and to the left).
std::string frontier_plot(std::span<const Cell> cells, int64_t length, const Families& families) {
  Plot plot = base_plot(cells[0], std::to_string(length) + " tokens, bytes and quality");
  plot.spread = false;
  plot.x_label = "bytes read / full attention's";
  plot.log_x = true;
  for (const Cell& c : cells) {
    if (c.length == length && c.n_counted > 0 && c.read_share() > 0) {
      add_point(&plot, families, c, c.read_share());
    }
  }
  return plot_svg(plot);
}

template <class Key>
std::vector<Key> distinct(std::span<const Cell> cells, Key Cell::*member) {
  std::vector<Key> out;
  for (const Cell& c : cells) {
    if (std::find(out.begin(), out.end(), c.*member) == out.end()) out.push_back(c.*member);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string task_html(std::span<const Cell> cells, const Families& families) {
  std::string out = "<h2>" + escape_html(cells[0].task) + "</h2>\n";
  for (const int64_t length : distinct(cells, &Cell::length)) {
    const auto begin = std::find_if(cells.begin(), cells.end(), [&](const Cell& c) { return c.length == length; });
    const auto end = std::find_if(begin, cells.end(), [&](const Cell& c) { return c.length != length; });
    const std::span<const Cell> part(begin, end);
    out += "<h3>" + std::to_string(length) + " tokens, " + std::to_string(part[0].n_trials) + " trials";
    if (!has_numbers(part[0].measure) && part[0].n_counted < part[0].n_trials) {
      out += ", of which full attention solves " + std::to_string(part[0].n_counted) + ": only these count";
    }
    out += "</h3>\n";
    if (has_numbers(part[0].measure)) {
      for (const Cell& c : part) out += numbers_html(c);
      continue;
    }
    out += table_html(part) + ratio_plot(part, length, families) + frontier_plot(part, length, families) + "\n";
  }
  if (has_numbers(cells[0].measure) || distinct(cells, &Cell::length).size() < 2) return out;
  out += "<h3>Against length</h3>\n";
  for (const double ratio : distinct(cells, &Cell::ratio)) {
    if (ratio > 1) out += length_plot(cells, ratio, families);
  }
  return out + "\n";
}

std::string gates_html(const std::vector<GateOutcome>& gates) {
  std::string out = "<details><summary>" + std::to_string(gates.size()) +
                    " gates</summary><table><tr><th>gate</th><th>length"
                    "</th><th>on</th><th>passed</th><th>detail</th></tr>\n";
  for (const GateOutcome& g : gates) {
    out += "<tr>" + cell(escape_html(g.gate)) + cell(std::to_string(g.length)) + cell(escape_html(g.subject)) +
           cell(g.passed ? "yes" : "no") + cell(escape_html(g.detail)) + "</tr>\n";
  }
  return out + "</table></details>\n";
}

}  // namespace

std::string report_html(const ReportHead& head, const std::vector<Cell>& cells, const std::vector<GateOutcome>& gates) {
  std::string out = "<!doctype html><html lang=en><meta charset=utf-8><title>vestige eval</title><style>";
  out +=
      std::string(kStyle) + "</style>\n<h1>vestige eval</h1>\n<p><code>" + escape_html(head.command) + "</code></p>\n";
  out += "<p>Model <code>" + escape_html(head.identity.model) + "</code>, seed " + std::to_string(head.identity.seed) +
         ", blocks of " + std::to_string(head.identity.block_rows) + " rows, " +
         (head.identity.aware ? "compressed with the question at hand, vestige "
                              : "compressed before the question, vestige ") +
         escape_html(head.identity.vestige_version) + ". Trials that full attention does not solve do not count.</p>\n";
  out += gates_html(gates);
  Families families;
  for (const Cell& c : cells) {
    const std::string family = arm_family(c.arm);
    if (std::find(families.begin(), families.end(), family) == families.end()) families.push_back(family);
  }
  for (size_t at = 0; at < cells.size();) {
    size_t end = at;
    while (end < cells.size() && cells[end].task == cells[at].task) ++end;
    out += task_html(std::span(cells).subspan(at, end - at), families);
    at = end;
  }
  return out + "</html>\n";
}

}  // namespace vestige::eval
