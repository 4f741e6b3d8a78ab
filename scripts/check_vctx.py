#!/usr/bin/env python3
"""Opens a .vctx with the safetensors package, as a stranger would, and checks what docs/formats.md says about it.

usage: check_vctx.py FILE.vctx      Needs the PyPI package safetensors (scripts/setup.sh --python puts it into .venv).
"""

import json
import struct
import sys

from safetensors import deserialize


def numbers(tensor: dict, code: str) -> tuple:
    """The values of an integer tensor."""
    data = bytes(tensor["data"])
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def check_layer(tensors: dict, layer: dict, n_tokens: int, policy: dict) -> str:
    """Checks one attention layer's parts; returns a line about it."""
    prefix = f"layers.{layer['layer']}." + (f"heads.{layer['head']}." if "head" in layer else "")
    n_closed, n_tail, n_kept = numbers(tensors[prefix + "counts"], "q")
    assert n_closed + n_tail == n_tokens, "rows are one for each token"
    assert n_closed % policy["block_rows"] == 0 and n_tail < policy["block_rows"], "closed rows come in blocks"
    if n_closed:
        assert tensors[prefix + "content"]["shape"] == [n_closed, layer["d_content"]]
        kept = numbers(tensors[prefix + "kept_ids"], "i")
        assert len(kept) == n_kept and list(kept) == sorted(set(kept)) and kept[-1] < n_closed, "kept ids ascend"
    if n_tail:
        assert tensors[prefix + "tail_content"]["shape"] == [n_tail, layer["d_content"]]
    return f"{prefix[:-1]}: {n_kept} kept + {n_closed - n_kept} archived + {n_tail} tail rows"


def main(path: str) -> None:
    with open(path, "rb") as file:
        data = file.read()
    (n_header,) = struct.unpack("<Q", data[:8])
    metadata = json.loads(data[8 : 8 + n_header])["__metadata__"]
    tensors = dict(deserialize(data))
    assert metadata["format"] == "vestige.vctx" and metadata["format_version"] == "2"
    policy, n_tokens = json.loads(metadata["policy"]), int(metadata["n_tokens"])
    assert tensors["tokens"]["shape"] == [n_tokens] and tensors["tokens"]["dtype"] == "I32"
    assert tensors["last_hidden"]["dtype"] == "F32"
    lines = [check_layer(tensors, layer, n_tokens, policy) for layer in json.loads(metadata["layers"])]
    n_checked = len(tensors) - 1
    assert tensors["checksums"]["shape"] == [16 * (n_checked + 2)], "a digest for each tensor, the header and the table"
    assert data.endswith(bytes(tensors["checksums"]["data"])), "the table ends the file"
    print(f"{path}: {n_tokens} tokens, {len(tensors)} tensors, policy {policy['name']}", *lines, sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1])
