#!/usr/bin/env python3
"""Fails when a source file passes 600 lines, a function 80, or the tracked tree 40 MiB (docs in CONTRIBUTING.md)."""

import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE, MAX_FUNCTION, MAX_TREE_MIB = 600, 80, 40
SOURCES = {".cc", ".h", ".cu", ".cuh", ".py"}
GENERATED = {"src/model/tokenizer/unicode_tables.cc"}
# A function at file scope or in a class: the line that opens it, and the indentation at which it closes.
OPENS = re.compile(r"^( {0,2})(?! |namespace|class|struct|enum|union|extern|using|typedef|#|const|static const|constexpr|inline constexpr)[\w:<>,*&~\[\]].* \{$")


def long_functions(path: Path, lines: list[str]) -> list[tuple[int, int]]:
    """(first line, length) of functions over the cap: by indentation in Python, by column-0 braces in C++."""
    found = []
    if path.suffix == ".py":
        starts = [(i, len(l) - len(l.lstrip())) for i, l in enumerate(lines) if l.lstrip().startswith("def ")]
        for i, indent in starts:
            end = next((j for j in range(i + 1, len(lines)) if lines[j].strip() and len(lines[j]) - len(lines[j].lstrip()) <= indent
                        and not lines[j].lstrip().startswith(")")), len(lines))
            if end - i > MAX_FUNCTION:
                found.append((i + 1, end - i))
        return found
    for i, line in enumerate(lines):
        opened = OPENS.match(line)
        if not opened:
            continue
        end = next((j for j in range(i + 1, len(lines)) if lines[j].startswith(opened[1] + "}")), i)
        if end - i + 1 > MAX_FUNCTION:
            found.append((i + 1, end - i + 1))
    return found


def main() -> int:
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / n for n in names.stdout.split("\n") if n and (ROOT / n).is_file()]
    wrong, lengths = [], []
    for path in files:
        name = str(path.relative_to(ROOT))
        if path.suffix not in SOURCES or name in GENERATED:
            continue
        lines = path.read_text().splitlines()
        lengths.append(len(lines))
        if len(lines) > MAX_FILE:
            wrong.append(f"{name}: {len(lines)} lines, at most {MAX_FILE}")
        wrong += [f"{name}:{at}: a function of {n} lines, at most {MAX_FUNCTION}" for at, n in long_functions(path, lines)]
    mib = sum(p.stat().st_size for p in files) / 2**20
    if mib > MAX_TREE_MIB:
        wrong.append(f"the tree has {mib:.1f} MiB, at most {MAX_TREE_MIB}")
    print("\n".join(wrong + [f"check_size: {len(wrong)} over; {len(lengths)} files, median {statistics.median(lengths):.0f} lines, {mib:.1f} MiB"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
