#!/usr/bin/env python3
"""Holds `vestige generate` on a GGUF file of architecture llama against transformers on the same numbers.

    check_gguf.py VESTIGE FILE.gguf [PROMPT]

The file's matrices are decoded by the gguf package into a float32 LlamaForCausalLM (q and k rows put back in halves), its
tokenizer is read by transformers. Compares the ids of the prompt and the greedy text. Needs gguf, torch, transformers.
"""

import json
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

from make_gguf import LAYER_NAMES, MODEL_NAMES

N_NEW = 32


def load(path):
    """The file as transformers' model in float32."""
    reader = gguf.GGUFReader(path)
    value = lambda key: reader.fields["llama." + key].contents()
    n_heads, n_kv = value("attention.head_count"), value("attention.head_count_kv")
    config = transformers.LlamaConfig(
        vocab_size=value("vocab_size"), hidden_size=value("embedding_length"), num_hidden_layers=value("block_count"),
        intermediate_size=value("feed_forward_length"), num_attention_heads=n_heads, num_key_value_heads=n_kv,
        rms_norm_eps=value("attention.layer_norm_rms_epsilon"), max_position_embeddings=value("context_length"),
        rope_parameters={"rope_type": "default", "rope_theta": value("rope.freq_base")},
        tie_word_embeddings=not any(t.name == "output.weight" for t in reader.tensors))
    hub = {gguf_name: name for name, gguf_name in (LAYER_NAMES | MODEL_NAMES).items()}
    weights = {}
    for t in reader.tensors:
        numbers = torch.from_numpy(np.array(gguf.dequantize(t.data, t.tensor_type), dtype=np.float32))
        parts = t.name.split(".")
        if parts[-2] in ("attn_q", "attn_k"):
            h = n_heads if parts[-2] == "attn_q" else n_kv
            numbers = numbers.reshape(h, -1, 2, *numbers.shape[1:]).swapaxes(1, 2).reshape(numbers.shape)
        prefix = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
        weights[prefix + hub[parts[-2]] + "." + parts[-1]] = numbers
    model = transformers.LlamaForCausalLM(config).float().eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model


def main():
    vestige, path = sys.argv[1], Path(sys.argv[2])
    prompt = sys.argv[3] if len(sys.argv) > 3 else "The capital of France is"
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = load(path)
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        want = model.generate(ids, max_new_tokens=N_NEW, do_sample=False, eos_token_id=2, pad_token_id=2)
    text = tokenizer.decode(want[0, ids.shape[1]:], skip_special_tokens=True)
    run = [vestige, "generate", "-m", str(path), "-p", prompt, "-n", str(N_NEW), "-q", "--json"]
    got = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    print("transformers:", repr(text))
    print("vestige:     ", repr(got["text"]))
    return got["text"] != text


if __name__ == "__main__":
    sys.exit(main())
