"""A model folder for command-line tests: one of tests/parity with a tokenizer of 256 bytes put beside it."""

import json
import shutil
from pathlib import Path

PARITY = Path(__file__).resolve().parent.parent / "parity"
WINDOW = 4096  # model_max_length in its config.json; one byte is one token


def byte_alphabet() -> list[str]:
    """GPT-2's printable stand-in for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b if b in plain else next(others)) for b in range(256)]


def make_model(folder: Path, salt: str = "", fixture: str = "moe_tiny") -> Path:
    """`salt` goes into config.json, and so into the model's identity; the fixture has a vocabulary of 256 or more."""
    source = PARITY / fixture
    folder.mkdir()
    shutil.copy(source / "model.safetensors", folder)
    (folder / "config.json").write_text((source / "config.json").read_text() + salt)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {c: i for i, c in enumerate(byte_alphabet())}, "merges": []}}))
    return folder
