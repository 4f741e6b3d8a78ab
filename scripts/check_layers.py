#!/usr/bin/env python3
"""Fails when a folder includes something that is not to its left.

base <- backend <- cache <- model <- engine <- server <- eval <- tools, bindings; include/vestige <- everything.
Also: include/vestige includes only std and itself; CUDA headers only under backend/cuda; nlohmann, fmt and CLI11 never in a header.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORDER = ["base", "backend", "cache", "model", "engine", "server", "eval"]
TOP = {"tools", "bindings", "bench", "tests", "examples"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
HEAVY = ("nlohmann/", "fmt/", "CLI/", "Eigen/", "cblas", "oneapi/", "openssl/")
HEADERS = {".h", ".cuh"}


def layer_of(path: Path) -> str:
    """The layer a file belongs to: a name in ORDER, 'public', or one of TOP."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "src":
        return parts[1]
    return "public" if parts[0] == "include" else parts[0]


def problem(path: Path, layer: str, include: str) -> str | None:
    """Why this include is wrong, or None."""
    head = include.split("/")[0]
    if layer == "public":
        if "/" in include and head != "vestige":
            return "a public header includes only std and vestige/"
        return None
    if include.startswith(("cuda", "cublas", "cub/")) and "backend/cuda" not in str(path):
        return "CUDA headers live under src/backend/cuda only"
    if path.suffix in HEADERS and include.startswith(HEAVY):
        allowed = layer == "tools" or path.name.startswith(("json", "blas"))
        return None if allowed else "third-party headers stay out of our headers"
    if layer in ORDER and head in ORDER and ORDER.index(head) > ORDER.index(layer):
        return f"{layer} must not include {head}"
    if layer in ORDER and head in TOP:
        return f"{layer} must not include {head}"
    folder = path.parent.relative_to(ROOT).parts
    for group in (("src", "cache", "policies"), ("src", "backend")):
        depth = len(group)
        inside = folder[:depth] == group and len(folder) > depth
        prefix = "/".join(group[1:]) + "/"
        if inside and include.startswith(prefix):
            sibling = include[len(prefix):].split("/")
            if len(sibling) > 1 and sibling[0] not in (folder[depth], "ops"):
                return f"{folder[depth]} must not include its sibling {sibling[0]}"
    return None


def main() -> int:
    wrong = 0
    for top in ("include", "src", "eval", "tools"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = INCLUDE.match(line)
                reason = problem(path, layer_of(path), found.group(1)) if found else None
                if reason:
                    wrong += 1
                    print(f"{path.relative_to(ROOT)}:{number}: {found.group(1)}: {reason}")
    print(f"check_layers: {wrong} wrong includes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
