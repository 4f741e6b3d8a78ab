"""Writes a trained model in the hub layout of `kimi_linear` or `llama`: config.json, model.safetensors (bfloat16), tokenizer files.

    python export.py nano-out/checkpoint.pt OUT_FOLDER [tokenizer.json]
"""

import json
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

from corpus import SPECIAL_TOKENS
from llama import Llama, LlamaConfig
from model import LanguageModel, ModelConfig, Nano

MAX_CONTEXT = {"kimi": 65536, "llama": 8192}  # rows a cache may be planned for, not a promise of quality
SHARED_FIELDS = {"hidden_act": "silu", "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 4,
                 "torch_dtype": "bfloat16"}


def arch_of(c) -> str:
    """The name of the architecture (`--arch`) of a configuration."""
    return "llama" if isinstance(c, LlamaConfig) else "kimi"


def rope_fields(c: ModelConfig) -> dict:
    """The rotation's part of config.json: empty without it. Interleaved pairs are (0, 1), (2, 3), ... of the branch."""
    return {} if c.rope_theta is None else {"rope_theta": c.rope_theta, "rope_interleave": True}


def rope_theta(hub: dict) -> float | None:
    """The inverse of `rope_fields`."""
    if hub["mla_use_nope"]:
        return None
    if hub["rope_interleave"] is not True:
        raise ValueError("rope_interleave: only true (pairs of neighbours) is supported")
    return float(hub["rope_theta"])


def llama_config(c: LlamaConfig) -> dict:
    """config.json of `llama` as a dictionary. head_dim is stated: the heads together are wider than the model."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": c.vocab, "hidden_size": c.d_model,
        "intermediate_size": c.d_mlp, "num_hidden_layers": c.n_layers, "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads, "head_dim": c.d_head, "rope_theta": c.rope_theta, "rope_scaling": None,
        "max_position_embeddings": MAX_CONTEXT["llama"], "rms_norm_eps": c.eps, "attention_bias": False, "mlp_bias": False,
        **SHARED_FIELDS,
    }


def kimi_config(c: ModelConfig) -> dict:
    """config.json of `kimi_linear` as a dictionary; layers are counted from one."""
    layers = range(1, c.n_layers + 1)
    return {
        "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "vocab_size": c.vocab, "hidden_size": c.d_model,
        "intermediate_size": c.d_mlp, "num_hidden_layers": c.n_layers, "num_attention_heads": c.mla_heads,
        "num_key_value_heads": c.mla_heads, "head_dim": c.kda_dim, "kv_lora_rank": c.kv_rank, "q_lora_rank": None,
        "qk_nope_head_dim": c.d_nope, "qk_rope_head_dim": c.d_rope, "v_head_dim": c.d_value, "mla_use_nope": c.rope_theta is None,
        **rope_fields(c),
        "rms_norm_eps": c.eps, "first_k_dense_replace": c.n_layers,
        "num_experts": 0, "moe_layer_freq": 1,
        "linear_attn_config": {
            "kda_layers": [i for i in layers if not c.is_mla(i - 1)], "full_attn_layers": [i for i in layers if c.is_mla(i - 1)],
            "num_heads": c.kda_heads, "head_dim": c.kda_dim, "short_conv_kernel_size": c.conv,
        },
        "model_max_length": MAX_CONTEXT["kimi"], **SHARED_FIELDS,
    }


def tokenizer_config(max_context: int) -> dict:
    """tokenizer_config.json: nothing is added around a text."""
    bos, eos, _, _, pad = SPECIAL_TOKENS
    return {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": eos, "pad_token": pad,
            "add_bos_token": False, "add_eos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": max_context}


def export(state: dict, c: ModelConfig | LlamaConfig, folder: str, tokenizer_path: str) -> int:
    """Writes the folder. `state` maps parameter names to tensors of any float type. Returns the bytes of model.safetensors."""
    os.makedirs(folder, exist_ok=True)
    tensors = {"model." + k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in state.items()}
    path = os.path.join(folder, "model.safetensors")
    save_file(tensors, path, metadata={"format": "pt"})
    config = llama_config(c) if arch_of(c) == "llama" else kimi_config(c)
    for name, data in (("config.json", config), ("tokenizer_config.json", tokenizer_config(MAX_CONTEXT[arch_of(c)]))):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(data, f, indent=2)
            f.write("\n")
    target = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(target) or not os.path.samefile(tokenizer_path, target):
        shutil.copyfile(tokenizer_path, target)
    return os.path.getsize(path)


def from_hub(hub: dict) -> ModelConfig | LlamaConfig:
    """The configuration of a config.json written by `export`."""
    if hub["model_type"] == "llama":
        return LlamaConfig(vocab=hub["vocab_size"], d_model=hub["hidden_size"], n_layers=hub["num_hidden_layers"], d_mlp=hub["intermediate_size"],
                           heads=hub["num_attention_heads"], kv_heads=hub["num_key_value_heads"], d_head=hub["head_dim"],
                           eps=hub["rms_norm_eps"], rope_theta=hub["rope_theta"])
    lin = hub["linear_attn_config"]
    return ModelConfig(vocab=hub["vocab_size"], d_model=hub["hidden_size"], n_layers=hub["num_hidden_layers"], d_mlp=hub["intermediate_size"],
                       kda_heads=lin["num_heads"], kda_dim=lin["head_dim"], mla_heads=hub["num_attention_heads"],
                       rope_theta=rope_theta(hub))


def load_exported(folder: str, dtype: torch.dtype = torch.bfloat16, device: str = "cuda") -> LanguageModel:
    """Our own model with the weights of an exported folder."""
    state = load_file(os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json")) as f:
        c = from_hub(json.load(f))
    model = Llama(c, dtype) if arch_of(c) == "llama" else Nano(c, dtype)
    model.load_state_dict({k.removeprefix("model."): v.float() for k, v in state.items()})
    return model.to(device).eval()


if __name__ == "__main__":
    saved = torch.load(sys.argv[1], map_location="cpu")
    tokenizer = sys.argv[3] if len(sys.argv) > 3 else os.path.join(os.path.dirname(sys.argv[1]), "tokenizer.json")
    config_class = LlamaConfig if saved.get("arch") == "llama" else ModelConfig
    print(export(saved["model"], config_class(**saved["config"]), sys.argv[2], tokenizer), "bytes of weights")
