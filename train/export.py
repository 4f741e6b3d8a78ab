"""Writes a trained model in the hub layout of `kimi_linear`: config.json, model.safetensors (bfloat16), tokenizer files.

    python export.py nano-out/checkpoint.pt OUT_FOLDER [tokenizer.json]
"""

import json
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

from corpus import SPECIAL_TOKENS
from model import ModelConfig, Nano

MAX_CONTEXT = 65536


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


def hub_config(c: ModelConfig) -> dict:
    """config.json as a dictionary; layers are counted from one."""
    layers = range(1, c.n_layers + 1)
    return {
        "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "vocab_size": c.vocab, "hidden_size": c.d_model,
        "intermediate_size": c.d_mlp, "num_hidden_layers": c.n_layers, "num_attention_heads": c.mla_heads,
        "num_key_value_heads": c.mla_heads, "head_dim": c.kda_dim, "kv_lora_rank": c.kv_rank, "q_lora_rank": None,
        "qk_nope_head_dim": c.d_nope, "qk_rope_head_dim": c.d_rope, "v_head_dim": c.d_value, "mla_use_nope": c.rope_theta is None,
        **rope_fields(c),
        "hidden_act": "silu", "rms_norm_eps": c.eps, "tie_word_embeddings": True, "first_k_dense_replace": c.n_layers,
        "num_experts": 0, "moe_layer_freq": 1,
        "linear_attn_config": {
            "kda_layers": [i for i in layers if not c.is_mla(i - 1)], "full_attn_layers": [i for i in layers if c.is_mla(i - 1)],
            "num_heads": c.kda_heads, "head_dim": c.kda_dim, "short_conv_kernel_size": c.conv,
        },
        "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 4, "model_max_length": MAX_CONTEXT, "torch_dtype": "bfloat16",
    }


def tokenizer_config() -> dict:
    """tokenizer_config.json: nothing is added around a text."""
    bos, eos, _, _, pad = SPECIAL_TOKENS
    return {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": eos, "pad_token": pad,
            "add_bos_token": False, "add_eos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": MAX_CONTEXT}


def export(state: dict, c: ModelConfig, folder: str, tokenizer_path: str) -> int:
    """Writes the folder. `state` maps parameter names to tensors of any float type. Returns the bytes of model.safetensors."""
    os.makedirs(folder, exist_ok=True)
    tensors = {"model." + k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in state.items()}
    path = os.path.join(folder, "model.safetensors")
    save_file(tensors, path, metadata={"format": "pt"})
    for name, data in (("config.json", hub_config(c)), ("tokenizer_config.json", tokenizer_config())):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(data, f, indent=2)
            f.write("\n")
    target = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(target) or not os.path.samefile(tokenizer_path, target):
        shutil.copyfile(tokenizer_path, target)
    return os.path.getsize(path)


def load_exported(folder: str, dtype: torch.dtype = torch.bfloat16, device: str = "cuda") -> Nano:
    """Our own model with the weights of an exported folder."""
    state = load_file(os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json")) as f:
        hub = json.load(f)
    lin = hub["linear_attn_config"]
    c = ModelConfig(vocab=hub["vocab_size"], d_model=hub["hidden_size"], n_layers=hub["num_hidden_layers"], d_mlp=hub["intermediate_size"],
                    kda_heads=lin["num_heads"], kda_dim=lin["head_dim"], mla_heads=hub["num_attention_heads"],
                    rope_theta=rope_theta(hub))
    model = Nano(c, dtype)
    model.load_state_dict({k.removeprefix("model."): v.float() for k, v in state.items()})
    return model.to(device).eval()


if __name__ == "__main__":
    saved = torch.load(sys.argv[1], map_location="cpu")
    tokenizer = sys.argv[3] if len(sys.argv) > 3 else os.path.join(os.path.dirname(sys.argv[1]), "tokenizer.json")
    print(export(saved["model"], ModelConfig(**saved["config"]), sys.argv[2], tokenizer), "bytes of weights")
