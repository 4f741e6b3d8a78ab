"""Compares an exported folder, loaded by transformers, with our own model: logits of one text in float32.

    python check_export.py MODEL_FOLDER [device]      (transformers with `kimi_linear`; no fla and no GPU needed)

`llama` is compared as transformers loads it. transformers' kimi_linear never rotates the branch: for the RoPE twin its MLA layers are
replaced by deepseek_v2's, which do.
"""

import json
import sys

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import kda
import model as model_module
from export import load_exported, rope_theta

TEXT = ("The river had been rising since the morning, and nobody in the village slept that night.\n"
        "The secret passcode for Oslo is 48213.\nBy noon the bridge was closed. ") * 12


def rotated_attention(kimi, old, theta: float) -> torch.nn.Module:
    """transformers' deepseek_v2 attention with the weights of `old`, callable in its place; `kimi` is the kimi_linear config."""
    from transformers.models.deepseek_v2 import modeling_deepseek_v2 as deepseek
    from transformers import DeepseekV2Config

    same = ("hidden_size", "num_attention_heads", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
            "rms_norm_eps", "max_position_embeddings")
    config = DeepseekV2Config(**{name: getattr(kimi, name) for name in same}, rope_parameters={"rope_type": "default", "rope_theta": theta})
    config._attn_implementation = kimi._attn_implementation

    class Rotated(deepseek.DeepseekV2Attention):
        def __init__(self):
            super().__init__(config, old.layer_idx)
            self.rotary = deepseek.DeepseekV2RotaryEmbedding(config)

        def forward(self, hidden_states, attention_mask=None, position_ids=None, **kwargs):
            positions = torch.arange(hidden_states.shape[1], device=hidden_states.device)[None]
            angles = self.rotary(hidden_states, positions)
            return super().forward(hidden_states, attention_mask=attention_mask, position_embeddings=angles)

    new = Rotated()
    new.load_state_dict(old.state_dict())
    return new.to(old.o_proj.weight.device)


def complete_kimi(theirs_model, c, theta: float | None) -> None:
    """Gives transformers' kimi_linear what its class leaves out: the rotated branch (theta not None) and the tied output."""
    if theta is not None:
        print(f"RoPE, theta {theta:g}: MLA layers of transformers' deepseek_v2")
        for layer in (theirs_model.model.layers[i] for i in range(c.n_layers) if c.is_mla(i)):
            layer.self_attn = rotated_attention(theirs_model.config, layer.self_attn, theta).eval()
    theirs_model.lm_head.weight = theirs_model.model.embed_tokens.weight


@torch.no_grad()
def compare(folder: str, device: str, n_tokens: int = 512) -> float:
    """Prints and returns the largest |difference of logits| over the largest |logit|."""
    from transformers import AutoModelForCausalLM

    model_module.kda = kda.kda_plain
    ids = torch.tensor([Tokenizer.from_file(folder + "/tokenizer.json").encode(TEXT).ids[:n_tokens]], device=device)
    ours = load_exported(folder, torch.float32, device)
    logits = F.linear(ours.hidden(ids), ours.embed_tokens.weight)
    theirs_model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    with open(folder + "/config.json") as f:
        hub = json.load(f)
    if hub["model_type"] == "kimi_linear":
        complete_kimi(theirs_model, ours.c, rope_theta(hub))
    theirs = theirs_model(ids).logits
    error = ((logits - theirs).abs().max() / theirs.abs().max()).item()
    agree = (logits.argmax(-1) == theirs.argmax(-1)).float().mean().item()
    print(f"{ids.shape[1]} tokens: max relative error of logits {error:.2e}, same best token {agree:.4f}")
    return error


if __name__ == "__main__":
    sys.exit(0 if compare(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu") < 1e-3 else 1)
