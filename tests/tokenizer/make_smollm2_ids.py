"""Writes smollm2_ids.json: strings and their ids by the `tokenizers` library, with the vocabulary and merges of a GGUF file.

    pip install tokenizers gguf; python make_smollm2_ids.py $(../../scripts/get_smollm2.sh)

The rule is that of the model's own tokenizer.json, which GGUF calls `smollm`: digits one by one, then ByteLevel with its split. (The tokenizer
that transformers makes of a GGUF file leaves the digits out, so it cuts white space before a number otherwise.)
"""

import json
import pathlib
import random
import sys

import gguf
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

PIECES = ["the", " The", "ing", "1234567", " 3.14", "\n", "\n\n  ", "\t", "don't", " WE'LL", "é", "ß", " naïve", "日本語", "🙂", "🇸🇮", "...", "--", "(x)", "_a_b",
          "<|im_start|>", "<|im_end|>", " ", "   ", "x" * 9, "\u00a0", "\u2028", "ﬁ", "Ωmega", "0", "007", "$5", "a1b2", "http://a.b/c?d=e"]


def main() -> None:
    fields = gguf.GGUFReader(sys.argv[1]).fields
    tokens, kinds, merges = (fields["tokenizer.ggml." + k].contents() for k in ("tokens", "token_type", "merges"))
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, kinds) if kind == 3])
    rng = random.Random(5)
    texts = PIECES + ["".join(rng.choice(PIECES) for _ in range(rng.randrange(2, 9))) for _ in range(300)]
    cases = [{"text": t, "ids": tokenizer.encode(t, add_special_tokens=False).ids} for t in texts]
    out = pathlib.Path(__file__).parent / "smollm2_ids.json"
    out.write_text(json.dumps(cases, ensure_ascii=True, separators=(",", ":")).replace("},{", "},\n{") + "\n")


if __name__ == "__main__":
    main()
