#!/usr/bin/env python3
"""Writes the documents that training put aside, as `vestige eval --corpus` wants them: UTF-8, a NUL between documents.

usage: make_eval_corpus.py [CORPUS.txt.xz] [OUT.txt]     default: .data/corpus-en-200mb.txt.xz .data/eval-corpus.txt

The split is that of train/corpus.py (same filter, same shuffle with seed 0, the first 160 documents), so the nano model has
seen none of them.
"""

import argparse
import lzma
import random
from pathlib import Path

SEED, N_DOCUMENTS, MIN_CHARACTERS = 0, 160, 200


def held_out(text: str) -> list[str]:
    """The validation documents of train/corpus.py's load_documents."""
    documents = [d for d in text.split("\0") if len(d) > MIN_CHARACTERS]
    random.Random(SEED).shuffle(documents)
    return documents[:N_DOCUMENTS]


def main() -> None:
    data = Path(__file__).resolve().parent.parent / ".data"
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("corpus", nargs="?", type=Path, default=data / "corpus-en-200mb.txt.xz")
    args.add_argument("out", nargs="?", type=Path, default=data / "eval-corpus.txt")
    given = args.parse_args()
    with lzma.open(given.corpus) as file:
        documents = held_out(file.read().decode("utf-8", "ignore"))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_bytes("\0".join(documents).encode())
    print(f"{given.out}: {len(documents)} documents, {given.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
