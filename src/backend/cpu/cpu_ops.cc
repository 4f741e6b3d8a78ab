#include "backend/cpu/cpu_ops.h"

namespace vestige::cpu {

const OpTable& op_table() {
  static const OpTable kTable = {
#define VESTIGE_OP_ENTRY(name, Params) .name = &cpu::name,
      VESTIGE_OPS(VESTIGE_OP_ENTRY)
#undef VESTIGE_OP_ENTRY
  };
  return kTable;
}

}  // namespace vestige::cpu
