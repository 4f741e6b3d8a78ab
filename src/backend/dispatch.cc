#include "backend/backend.h"
#include "base/guarded.h"

namespace vestige::ops {

#define VESTIGE_DISPATCH_OP(op, Params)                                               \
  Status op(const Params& params, Stream& stream) {                                   \
    return guarded([&]() -> Status {                                                  \
      VESTIGE_TRY(op##_check(params));                                                \
      if (stream.backend().ops->op == nullptr) {                                      \
        return unsupported("op %s is not in backend %s", #op, stream.backend().name); \
      }                                                                               \
      return stream.backend().ops->op(params, stream);                                \
    });                                                                               \
  }
VESTIGE_OPS(VESTIGE_DISPATCH_OP)
#undef VESTIGE_DISPATCH_OP

}  // namespace vestige::ops
