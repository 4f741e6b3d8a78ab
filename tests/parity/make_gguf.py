#!/usr/bin/env python3
"""Turns small hub folders beside this file into GGUF files, as converters do, for the tests.

    make_gguf.py        writes {llama,qwen2,qwen3}_tiny/model.gguf from their config.json and model.safetensors

Needs gguf, numpy and torch. The weights are the same numbers as in the folders, in F32 (llama, whose q and k rows are
reordered so that the pairs of the rotation are neighbours, and whose llama3 scaling becomes rope_freqs.weight) and in
BF16 or F32 as stored (qwen). What transformers computes for the folders, expected.safetensors, then holds for the files.
"""

import json
import math
import struct
from pathlib import Path

import gguf
import numpy as np
import torch

HERE = Path(__file__).resolve().parent
LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
MODEL_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def read_safetensors(path):
    """name -> torch tensor of a safetensors file."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    kinds = {"F32": torch.float32, "BF16": torch.bfloat16}
    out = {}
    for name, entry in json.loads(data[8 : 8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + n + x for x in entry["data_offsets"])
        out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=kinds[entry["dtype"]]).reshape(entry["shape"])
    return out


def gguf_name(name):
    """The GGUF name of a hub tensor."""
    stem, kind = name.rsplit(".", 1)
    if stem in MODEL_NAMES:
        return f"{MODEL_NAMES[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[part]}.{kind}"


def neighbours(rows, n_heads):
    """Rows of a head from halves (0, d/2, ...) to pairs: row 2j is row j, row 2j + 1 is row j + d / 2."""
    halves = rows.reshape(n_heads, 2, rows.shape[0] // n_heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape).contiguous()


def llama3_factors(c):
    """By how much each pair's frequency is divided."""
    s, d, out = c["rope_scaling"], c["head_dim"], []
    for i in range(0, d, 2):
        turns = s["original_max_position_embeddings"] * c["rope_theta"] ** (-i / d) / (2 * math.pi)
        fast = (turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
        fast = min(max(fast, 0.0), 1.0)
        out.append(1 / ((1 - fast) / s["factor"] + fast))
    return np.array(out, dtype=np.float32)


def byte_names():
    """The printable characters that ByteLevel vocabularies write bytes as."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = iter(range(0x100, 0x200))
    return [chr(b if b in kept else next(other)) for b in range(256)]


def convert(folder):
    """Writes folder/model.gguf."""
    c = json.loads((folder / "config.json").read_text())
    arch = c["model_type"]
    w = gguf.GGUFWriter(folder / "model.gguf", arch)
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_vocab_size(c["vocab_size"])
    if "head_dim" in c:
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
        w.add_rope_dimension_count(c["head_dim"])
    scaling = c.get("rope_scaling") or c.get("rope_parameters") or {}
    w.add_rope_freq_base(scaling.get("rope_theta", c.get("rope_theta", 1e4)))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(scaling["factor"])
    elif kind == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(c))
    elif kind != "default":
        raise SystemExit(f"{folder.name}: positions of type {kind}")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2" if arch.startswith("qwen") else "gpt-2")
    w.add_token_list(byte_names()[: c["vocab_size"]])
    w.add_token_types([1] * min(256, c["vocab_size"]))
    for name, t in sorted(read_safetensors(folder / "model.safetensors").items()):
        if arch == "llama" and (".q_proj." in name or ".k_proj." in name):
            t = neighbours(t, c["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"])
        if t.dtype == torch.bfloat16 and arch != "llama":
            raw = t.contiguous().view(torch.uint8).numpy().reshape(*t.shape[:-1], -1)
            w.add_tensor(gguf_name(name), raw, raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            w.add_tensor(gguf_name(name), t.float().numpy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    print(f"{folder.name}/model.gguf: {(folder / 'model.gguf').stat().st_size} bytes")


if __name__ == "__main__":
    for kind in ("llama", "qwen2", "qwen3"):
        convert(HERE / f"{kind}_tiny")
