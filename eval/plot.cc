#include "eval/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vestige::eval {

namespace {

constexpr double kWidth = 500, kHeight = 300, kLeft = 68, kTop = 28, kRight = 12, kBottom = 44, kLegendLine = 15;
constexpr double kShift = 2;
constexpr size_t kLegendColumns = 2;
constexpr const char* kColours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
                                    "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22"};

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[320];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

const char* colour_of(const PlotLine& line) { return kColours[line.style % std::size(kColours)]; }

/// Values to pixels.
class Axes {
 public:
  explicit Axes(const Plot& plot) : log_(plot.log_x), y_(plot.y_range) {
    x_ = {INFINITY, -INFINITY};
    Interval seen = {INFINITY, -INFINITY};
    for (const PlotLine& line : plot.lines) {
      for (const PlotPoint& p : line.points) {
        x_ = {std::min(x_.low, along(p.x)), std::max(x_.high, along(p.x))};
        seen = {std::min({seen.low, p.low, 0.0}), std::max(seen.high, p.high)};
        if (std::find(ticks_.begin(), ticks_.end(), p.x) == ticks_.end()) ticks_.push_back(p.x);
      }
    }
    if (y_.low == y_.high) y_ = {seen.low, seen.high > seen.low ? seen.high : seen.low + 1};
    if (x_.low == x_.high) x_ = {x_.low - 1, x_.high + 1};
    std::sort(ticks_.begin(), ticks_.end());
  }
  double x(double value) const {
    const double inner = kWidth - kLeft - kRight - 60;
    return kLeft + 30 + (along(value) - x_.low) / (x_.high - x_.low) * inner;
  }
  double y(double value) const {
    const double share = (std::clamp(value, y_.low, y_.high) - y_.low) / (y_.high - y_.low);
    return kTop + (1 - share) * (kHeight - kTop - kBottom);
  }
  const Interval& y_range() const { return y_; }
  /// The points' own places, as many as there is room for.
  std::vector<double> ticks() const {
    std::vector<double> out;
    for (const double tick : ticks_) {
      if (out.empty() || x(tick) - x(out.back()) > 42) out.push_back(tick);
    }
    return out;
  }

 private:
  double along(double value) const { return log_ ? std::log2(std::max(value, 1e-12)) : value; }
  bool log_;
  Interval x_, y_;
  std::vector<double> ticks_;
};

std::string frame(const Plot& plot, const Axes& axes) {
  std::string out;
  for (int i = 0; i <= 4; ++i) {
    const double value = axes.y_range().low + (axes.y_range().high - axes.y_range().low) * i / 4, y = axes.y(value);
    out += format("<line x1='%g' y1='%.1f' x2='%g' y2='%.1f' stroke='#e5e5e5'/>", kLeft, y, kWidth - kRight, y);
    out += format("<text x='%g' y='%.1f' text-anchor='end'>%.3g</text>", kLeft - 6, y + 4, value);
  }
  for (const double tick : axes.ticks()) {
    out += format("<text x='%.1f' y='%g' text-anchor='middle'>%.*g</text>", axes.x(tick), kHeight - kBottom + 16,
                  tick < 1000 ? 3 : 9, tick);
  }
  out += format("<text x='%g' y='16' font-weight='bold'>", kLeft) + escape_html(plot.title) + "</text>";
  out += format("<text x='%g' y='%g' text-anchor='end'>", kWidth - kRight, kHeight - kBottom + 34) +
         escape_html(plot.x_label) + "</text>";
  out +=
      format("<text transform='translate(12 %g) rotate(-90)' text-anchor='middle'>", (kHeight - kBottom + kTop) / 2) +
      escape_html(plot.y_label) + "</text>";
  return out;
}

/// @param shift in pixels, so that equal points of several lines stay apart
std::string line_svg(PlotLine line, const Axes& axes, double shift) {
  const char* const colour = colour_of(line);
  std::stable_sort(line.points.begin(), line.points.end(),
                   [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; });
  std::string path, marks;
  for (const PlotPoint& p : line.points) {
    const double x = axes.x(p.x) + shift, y = axes.y(p.y);
    path += format("%s%.1f %.1f", path.empty() ? "M" : "L", x, y);
    marks += format("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' stroke-opacity='.5'/>", x, axes.y(p.low),
                    x, axes.y(p.high), colour);
    marks += format("<circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'><title>", x, y, colour) + escape_html(line.name) +
             format(": %.4g at %.4g [%.4g, %.4g]</title></circle>", p.y, p.x, p.low, p.high);
  }
  return "<path d='" + path +
         format("' fill='none' stroke='%s' stroke-width='1.5'%s/>", colour,
                line.style < std::size(kColours) ? "" : " stroke-dasharray='5 3'") +
         marks;
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const char* entity = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : nullptr;
    if (entity != nullptr) {
      out += entity;
    } else {
      out += c;
    }
  }
  return out;
}

std::string plot_svg(const Plot& plot) {
  if (plot.lines.empty()) return "";
  const Axes axes(plot);
  const double height = kHeight + kLegendLine * std::ceil(static_cast<double>(plot.lines.size()) / kLegendColumns);
  std::string out = format("<svg width='%g' height='%g' viewBox='0 0 %g %g' font-family='sans-serif' font-size='11'>",
                           kWidth, height, kWidth, height);
  out += frame(plot, axes);
  for (size_t i = 0; i < plot.lines.size(); ++i) {
    const PlotLine& line = plot.lines[i];
    const double middle = static_cast<double>(plot.lines.size() - 1) / 2;
    out += line_svg(line, axes, plot.spread ? kShift * (static_cast<double>(i) - middle) : 0);
    const double x = kLeft + (kWidth - kLeft) / kLegendColumns * static_cast<double>(i % kLegendColumns);
    const double y = kHeight + kLegendLine * static_cast<double>(i / kLegendColumns);
    out += format("<rect x='%g' y='%.1f' width='10' height='%d' fill='%s'/><text x='%g' y='%.1f'>", x, y - 4,
                  line.style < std::size(kColours) ? 10 : 4, colour_of(line), x + 15, y + 5) +
           escape_html(line.name) + "</text>";
  }
  return out + "</svg>";
}

}  // namespace vestige::eval
