#pragma once

// What an error of a key or of a value costs the model, as far as a document's own queries tell: the metrics in which
// the transform codes both sides, in one unit, so that bytes can be spread over sides, heads and layers by one price.
// Source: docs/policies/klt.md, "What an error costs".

#include <vector>

#include "vestige/layout.h"
#include "vestige/policy.h"

namespace vestige::klt {

/// Quadratic forms [d, d], row-major, symmetric: e^T M e is the expected squared change of the layer's output that an
/// error e of one row's key (as it was before its turn), or value, makes, relative to the energy of the stream.
struct Sensitivity {
  std::vector<double> key, value;
};

/// What counts how much.
struct Weighting {
  double key = 1;        ///< factor on the key's form, > 0
  int64_t n_near = 128;  ///< last rows that a query sees which do not count, a quarter of the document at most; >= 0
};

/// Rows of one key-value head as float32, [n, d] each; keys as they are cached, turned.
struct HeadRows {
  std::vector<float> key, value;
  int64_t n = 0, d = 0;
};

/// @param rows         all rows that the queries may see, from row 0 on
/// Without queries both forms are the identity.
Result<Sensitivity> measure_sensitivity(const RecallFit& fit, const HeadRows& rows, const KeyRotation& rotation,
                                        const Weighting& weighting, Stream& stream);

}  // namespace vestige::klt
