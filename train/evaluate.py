"""Exact-answer rates and text loss of a model.

    python evaluate.py MODEL_FOLDER --corpus corpus-en-200mb.txt.xz [--quick]

An answer counts when the most likely token is right at every answer position including the closing newline; under teacher
forcing that is the same as an exact greedy answer. Filler text comes from documents that training never saw.
"""

import argparse
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

import corpus as corpus_module
import forms
import vocabulary as vocab
from own_words import OWN_WORDS

MAX_BATCH_TOKENS = 262144


class Evaluator:
    """Builds test prompts over validation text and scores them. Every cell has its own fixed seed."""

    def __init__(self, tokenizer, documents: list[str], words: list[str]):
        self.tokenizer, self.words = tokenizer, words
        self.tokens = corpus_module.encode_documents(tokenizer, documents)

    def encode(self, text: str) -> np.ndarray:
        """Token ids, int64."""
        return np.array(self.tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)

    def haystack(self, rng, length: int, statements: list[str], tail: str, answer: str) -> tuple[np.ndarray, int]:
        """(ids [length], answer tokens): statements at 10% to 80% of the text, then `tail`, then `answer`."""
        facts = [self.encode(f"\n{s}\n") for s in statements]
        question, reply = self.encode(tail), self.encode(answer)
        n = length - sum(map(len, facts)) - len(question) - len(reply)
        start = rng.randrange(0, len(self.tokens) - n)
        base = self.tokens[start : start + n].astype(np.int64)
        places = sorted(rng.randrange(int(0.1 * n), int(0.8 * n)) for _ in facts)
        out, previous = [], 0
        for place, fact in zip(places, facts):
            out += [base[previous:place], fact]
            previous = place
        return np.concatenate(out + [base[previous:], question, reply]), len(reply)

    def needle(self, rng, length: int, trial: int):
        """The paper's protocol: one passcode sentence, cities by trial."""
        city, code = vocab.PROTOCOL_CITIES[trial % 5], str(rng.randint(10000, 99999))
        statement = forms.PROTOCOL_STATEMENT.format(k=city, v=code)
        question = forms.wrap_question(forms.PROTOCOL_QUESTION.format(k=city))
        return self.haystack(rng, length, [statement], question, f" {code}\n")

    def needle_lures(self, rng, length: int, trial: int):
        """As `needle`, with the passcodes of four other cities in the text."""
        cities = rng.sample(vocab.CITIES, 5)
        codes = [str(rng.randint(10000, 99999)) for _ in cities]
        statements = [forms.PROTOCOL_STATEMENT.format(k=k, v=v) for k, v in zip(cities, codes)]
        question = forms.wrap_question(forms.PROTOCOL_QUESTION.format(k=cities[0]))
        order = rng.sample(statements, 5)
        return self.haystack(rng, length, order, question, f" {codes[0]}\n")

    def grammar(self, rng, length: int, held_out: bool):
        """Six facts sharing attributes and keys; one is asked. With `held_out`, all wordings are held-out forms."""
        drawn = forms.draw_facts(rng, 6, self.words, p_protocol=0.0)
        statements = [forms.state(f, rng, held_out) for f in drawn]
        asked = rng.choice(drawn)
        return self.haystack(rng, length, statements, forms.ask(asked, rng, held_out), f" {asked.value}\n")

    def held_forms(self, rng, length: int, trial: int):
        """Held-out statement and question forms."""
        return self.grammar(rng, length, True)

    def trained_forms(self, rng, length: int, trial: int):
        """Trained statement and question forms, new facts."""
        return self.grammar(rng, length, False)

    def own_words(self, rng, length: int, trial: int):
        """Hand-written statements and questions outside the grammar (own_words.py), with two others as distractors."""
        chosen = [OWN_WORDS[trial % len(OWN_WORDS)]] + rng.sample(OWN_WORDS, 2)
        statements = [c[0] for c in dict.fromkeys(chosen)]
        return self.haystack(rng, length, rng.sample(statements, len(statements)), forms.wrap_question(chosen[0][1]), f" {chosen[0][2]}\n")

    def records(self, rng, length: int, trial: int):
        """`key: value` lines of 8 hex digits fill the text; one from its first 90% is asked."""
        items, ids, n = [], [], 0
        while n < length - 40:
            k, v = vocab.random_id(rng, 8), vocab.random_id(rng, 8)
            ids.append(self.encode(f"{k}: {v}\n"))
            n += len(ids[-1])
            items.append((k, v))
        k, v = items[rng.randrange(int(0.05 * len(items)), int(0.9 * len(items)))]
        question, reply = self.encode(f"\nRecall {k}:"), self.encode(f" {v}\n")
        body = np.concatenate(ids)[-(length - len(question) - len(reply)) :]
        pad = length - len(body) - len(question) - len(reply)
        return np.concatenate([self.tokens[:pad].astype(np.int64), body, question, reply]), len(reply)

    @torch.no_grad()
    def rate(self, model, build, length: int, n: int, seed: int = 7) -> tuple[int, int]:
        """(exact answers, trials) of one cell."""
        rng, device, right = random.Random(f"{seed}/{build.__name__}/{length}"), next(model.parameters()).device, 0
        trials = [build(rng, length, t) for t in range(n)]
        size = max(1, MAX_BATCH_TOKENS // length)
        for i in range(0, n, size):
            part = trials[i : i + size]
            ids = torch.from_numpy(np.stack([t[0] for t in part])).to(device)
            hidden = model.hidden(ids)
            for row, (_, n_answer) in enumerate(part):
                logits = F.linear(hidden[row, -n_answer - 1 : -1].float(), model.embed_tokens.weight.float())
                right += int((logits.argmax(-1) == ids[row, -n_answer:]).all())
        return right, n

    @torch.no_grad()
    def text_loss(self, model, length: int = 4096, n: int = 96) -> float:
        """Mean nats per token over n windows of validation text, cut at equal distances."""
        device, total = next(model.parameters()).device, 0.0
        starts = np.linspace(0, len(self.tokens) - length - 1, n).astype(int)
        for start in starts:
            ids = torch.from_numpy(self.tokens[start : start + length + 1].astype(np.int64)).to(device)[None]
            hidden = model.hidden(ids[:, :-1])[0]
            logits = F.linear(hidden, model.embed_tokens.weight.to(hidden.dtype)).float()
            total += F.cross_entropy(logits, ids[0, 1:]).item()
        return total / n

    def probe(self, model, length: int = 2048, n: int = 64) -> str:
        """A quick look during training: rates at 2k on the protocol, trained forms, held-out forms and own words."""
        if not next(model.parameters()).is_cuda:
            length, n = 512, 2
        cells = [self.needle_lures, self.trained_forms, self.held_forms, self.own_words]
        return ", ".join("{} {}/{}".format(b.__name__, *self.rate(model, b, length, n)) for b in cells)


def print_line(line: str) -> None:
    """Prints at once, also into a pipe."""
    print(line, flush=True)


def show_cells(evaluator: Evaluator, model, cells, report) -> None:
    """Reports one line per (builder, lengths, trials) and length."""
    for build, lengths, n in cells:
        for length in lengths:
            t = time.time()
            right, _ = evaluator.rate(model, build, length, n)
            report(f"{build.__name__:14s} {length:6d} tokens: {right:3d}/{n} = {right / n:.1%}   ({time.time() - t:.1f} s)")


def table(evaluator: Evaluator, model, report=print_line, max_length: int = 32768) -> None:
    """Reports every cell of the model card, but those longer than `max_length`."""
    cells = [(evaluator.needle, (2048, 8192, 16384, 32768), 48), (evaluator.needle_lures, (2048, 8192, 32768), 48),
             (evaluator.held_forms, (2048, 8192, 32768), 200), (evaluator.trained_forms, (2048, 8192, 32768), 100),
             (evaluator.own_words, (512, 2048, 8192), len(OWN_WORDS) * 2), (evaluator.records, (4096, 16384), 48)]
    show_cells(evaluator, model, [(b, [n for n in lengths if n <= max_length], trials) for b, lengths, trials in cells], report)
    report(f"text: {evaluator.text_loss(model):.3f} nats per token (96 windows of 4096 tokens)")


def quick_table(evaluator: Evaluator, model, report=print_line) -> None:
    """Needles, lures and records up to 8k, for runs that end there: 10 s on the H200. On a CPU only a trace of it."""
    lengths, n = ((1024, 2048, 4096, 8192), 48) if next(model.parameters()).is_cuda else ((512,), 2)
    show_cells(evaluator, model, [(b, lengths, n) for b in (evaluator.needle, evaluator.needle_lures, evaluator.records)], report)
    if n > 2:
        report(f"text: {evaluator.text_loss(model):.3f} nats per token (96 windows of 4096 tokens)")


def main() -> None:
    import kda
    from export import load_exported

    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--corpus", required=True)
    p.add_argument("--quick", action="store_true", help="needles, lures, records and text up to 8k only")
    p.add_argument("--max-length", type=int, default=32768, help="leave longer cells of the whole table out")
    args = p.parse_args()
    kda.trim_autotuning()
    docs, held_docs = corpus_module.load_documents(args.corpus)
    tokenizer = corpus_module.load_tokenizer(args.folder + "/tokenizer.json", docs)
    evaluator = Evaluator(tokenizer, held_docs, corpus_module.word_list(docs))
    print(f"{len(evaluator.tokens)} validation tokens", flush=True)
    model = load_exported(args.folder, device="cuda" if torch.cuda.is_available() else "cpu")
    quick_table(evaluator, model) if args.quick else table(evaluator, model, max_length=args.max_length)


if __name__ == "__main__":
    main()
