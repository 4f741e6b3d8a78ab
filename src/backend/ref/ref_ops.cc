#include "backend/ref/ref_ops.h"

namespace vestige::ref {

const OpTable& op_table() {
  static const OpTable kTable = {
#define VESTIGE_OP_ENTRY(name, Params) .name = &ref::name,
      VESTIGE_OPS(VESTIGE_OP_ENTRY)
#undef VESTIGE_OP_ENTRY
  };
  return kTable;
}

}  // namespace vestige::ref
