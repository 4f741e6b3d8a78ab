#include "eval/report.h"

namespace vestige::eval {

std::string report_html(const ReportHead&, const std::vector<Cell>&, const std::vector<GateOutcome>&) { return ""; }

}  // namespace vestige::eval
