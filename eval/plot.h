#pragma once

// Lines with intervals as inline SVG.

#include <string>
#include <vector>

#include "eval/statistics.h"

namespace vestige::eval {

struct PlotPoint {
  double x = 0, y = 0, low = 0, high = 0;
};
struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;
  size_t style = 0;  ///< which colour and dash; the same number looks the same in every plot
};
struct Plot {
  std::string title, x_label, y_label;
  bool log_x = false;
  bool spread = true;         ///< lines a little apart, where x has few values
  Interval y_range = {0, 0};  ///< equal ends = what the points need
  std::vector<PlotLine> lines;
};

/// An <svg> element; "" if there is no point.
std::string plot_svg(const Plot& plot);

/// With & < > " as entities.
std::string escape_html(const std::string& text);

}  // namespace vestige::eval
