#include "model/arch/registry.h"

#include "model/arch/kimi_linear.h"

namespace vestige {

std::span<const Arch> archs() {
  static constexpr Arch kArchs[] = {
      {"kimi_linear", "KimiLinearForCausalLM", load_kimi_linear},
  };
  return kArchs;
}

}  // namespace vestige
