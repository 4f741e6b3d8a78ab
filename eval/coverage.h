#pragma once

// The rows that a step attends by their code, against the exact ones: key errors of attended tokens, and what bounds on
// the output error promise. The test that a reviewer of AnchorKV asked for (docs/policies/anchor.md).

#include "eval/reading.h"
#include "eval/task.h"

namespace vestige::eval {

/// Of an arm's cache. @return Unsupported for policies that leave rows out, or whose codes are not read back as rows
Result<Numbers> measure_coverage(Context& arm, const Reading& reading, Stream& stream);

/// The two verdicts that such numbers hold, in words.
struct CoverageVerdicts {
  const char* reviewer;     ///< "violated", "settled" or "open"
  const char* certificate;  ///< "violated", "vacuous" or "settled"
};
CoverageVerdicts coverage_verdicts(const Numbers& numbers);

}  // namespace vestige::eval
