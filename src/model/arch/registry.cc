#include "model/arch/registry.h"

#include "model/arch/deepseek_v2.h"
#include "model/arch/kimi_linear.h"

namespace vestige {

std::span<const Arch> archs() {
  static constexpr Arch kArchs[] = {
      {"deepseek_v2", "DeepseekV2ForCausalLM", load_deepseek_v2},
      {"kimi_linear", "KimiLinearForCausalLM", load_kimi_linear},
  };
  return kArchs;
}

}  // namespace vestige
