#include "model/arch/registry.h"

#include "model/arch/deepseek_v2.h"
#include "model/arch/kimi_linear.h"
#include "model/arch/llama.h"

namespace vestige {

std::span<const Arch> archs() {
  static constexpr Arch kArchs[] = {
      {"deepseek_v2", "DeepseekV2ForCausalLM", load_deepseek_v2},
      {"kimi_linear", "KimiLinearForCausalLM", load_kimi_linear},
      {"llama", "LlamaForCausalLM", load_llama<LlamaKind::kLlama>},
      {"mistral", "MistralForCausalLM", load_llama<LlamaKind::kMistral>},
      {"qwen2", "Qwen2ForCausalLM", load_llama<LlamaKind::kQwen2>},
      {"qwen3", "Qwen3ForCausalLM", load_llama<LlamaKind::kQwen3>},
  };
  return kArchs;
}

}  // namespace vestige
