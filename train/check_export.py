"""Compares an exported folder, loaded by transformers, with our own model: logits of one text in float32.

    python check_export.py MODEL_FOLDER [device]      (transformers with `kimi_linear`; no fla and no GPU needed)
"""

import sys

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import kda
import model as model_module
from export import load_exported

TEXT = ("The river had been rising since the morning, and nobody in the village slept that night.\n"
        "The secret passcode for Oslo is 48213.\nBy noon the bridge was closed. ") * 12


@torch.no_grad()
def compare(folder: str, device: str, n_tokens: int = 512) -> float:
    """Prints and returns the largest |difference of logits| over the largest |logit|."""
    from transformers import AutoModelForCausalLM

    model_module.kda = kda.kda_plain
    ids = torch.tensor([Tokenizer.from_file(folder + "/tokenizer.json").encode(TEXT).ids[:n_tokens]], device=device)
    ours = load_exported(folder, torch.float32, device)
    logits = F.linear(ours.hidden(ids), ours.embed_tokens.weight)
    theirs_model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    theirs_model.lm_head.weight = theirs_model.model.embed_tokens.weight  # transformers' class does not tie them itself
    theirs = theirs_model(ids).logits
    error = ((logits - theirs).abs().max() / theirs.abs().max()).item()
    agree = (logits.argmax(-1) == theirs.argmax(-1)).float().mean().item()
    print(f"{ids.shape[1]} tokens: max relative error of logits {error:.2e}, same best token {agree:.4f}")
    return error


if __name__ == "__main__":
    sys.exit(0 if compare(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu") < 1e-3 else 1)
