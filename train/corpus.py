"""Text side of the data: documents, the tokenizer, token arrays, the word list.

The corpus is one xz file of UTF-8 text whose documents are separated by NUL characters.
"""

import lzma
import os
import random

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB_SIZE = 6144
SPECIAL_TOKENS = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>", "<|pad|>"]
EOS_ID = 1
N_VALIDATION_DOCS = 160


def load_documents(path: str, seed: int = 0) -> tuple[list[str], list[str]]:
    """Reads the xz corpus. Returns (training documents, validation documents), shuffled with `seed`; under 200 characters dropped."""
    with lzma.open(path) as f:
        text = f.read().decode("utf-8", "ignore")
    docs = [d for d in text.split("\0") if len(d) > 200]
    random.Random(seed).shuffle(docs)
    return docs[N_VALIDATION_DOCS:], docs[:N_VALIDATION_DOCS]


def train_tokenizer(docs: list[str], path: str) -> Tokenizer:
    """Byte-level BPE with single digits, trained on the first 20,000 characters of 6,000 documents; saved to `path`."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE, special_tokens=SPECIAL_TOKENS,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator((d[:20000] for d in docs[:6000]), trainer)
    tokenizer.save(path, pretty=False)
    return tokenizer


def load_tokenizer(path: str, docs: list[str]) -> Tokenizer:
    """The tokenizer at `path`, or one trained on `docs` and saved there."""
    return Tokenizer.from_file(path) if os.path.exists(path) else train_tokenizer(docs, path)


def _pieces(doc: str, size: int = 50_000) -> list[str]:
    return [doc[i : i + size] for i in range(0, len(doc), size)]


def encode_documents(tokenizer: Tokenizer, docs: list[str]) -> np.ndarray:
    """All documents as one uint16 [n_tokens] array, an end-of-text token after each document."""
    out = []
    for doc in docs:
        for encoding in tokenizer.encode_batch(_pieces(doc), add_special_tokens=False):
            out.append(np.array(encoding.ids, dtype=np.uint16))
        out.append(np.array([EOS_ID], dtype=np.uint16))
    return np.concatenate(out)


def word_list(docs: list[str]) -> list[str]:
    """Lower-case ASCII words of 4 to 10 letters from 2,500 documents, sorted: material for keys and values."""
    found = set()
    for doc in docs[:2500]:
        found.update(w.lower() for w in doc[:20000].split() if w.isascii() and w.isalpha() and 4 <= len(w) <= 10)
    return sorted(found)


if __name__ == "__main__":
    import sys

    train_docs, _ = load_documents(sys.argv[1])
    train_tokenizer(train_docs, sys.argv[2])
