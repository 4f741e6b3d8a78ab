"""Training sequences: plain text, facts in a haystack, look-alike records, verbatim repeat.

A sequence is (ids, weights), both of length L + 1; weights[i] is the loss weight of predicting ids[i].
"""

import random

import numpy as np

import forms
import fragments
import vocabulary as vocab

W_TEXT, W_STATEMENT, W_QUESTION, W_ANSWER, W_RECORD = 1.0, 0.25, 0.25, 4.0, 0.1
SHARES = (0.28, 0.54, 0.09)  # plain text, facts, records; the rest is repeat
SHORT_SHARES = (0.15, 0.50, 0.15)  # below 2k of context: more to copy
ANSWER_MIN = 3.0  # weights from here on mark answer tokens (used by the log)


class TaskMixer:
    """Draws training sequences from one worker's share of the corpus.

    tokenizer: the BPE tokenizer.  tokens: uint16 [n_tokens] filler text.  words: corpus words for keys and values.
    """

    def __init__(self, tokenizer, tokens: np.ndarray, words: list[str]):
        self.tokenizer, self.tokens, self.words = tokenizer, tokens, words

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        """One int64 id array per text."""
        batch = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [np.array(e.ids, dtype=np.int64) for e in batch]

    def filler(self, rng: random.Random, n_tokens: int) -> np.ndarray:
        """A run of `n_tokens` corpus tokens from a random place."""
        start = rng.randrange(0, len(self.tokens) - n_tokens)
        return self.tokens[start : start + n_tokens].astype(np.int64)

    def sample(self, rng: random.Random, length: int) -> tuple[np.ndarray, np.ndarray]:
        """One sequence of `length` + 1 tokens: a task drawn by its share."""
        text, facts, records = SHARES if length >= 2048 else SHORT_SHARES
        p = rng.random()
        if p < text:
            return self.filler(rng, length + 1), np.ones(length + 1, np.float32)
        if p < text + facts:
            return self.facts(rng, length)
        if p < text + facts + records:
            return self.records(rng, length)
        return self.repeat(rng, length)

    def facts(self, rng: random.Random, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Statements scattered over filler text; questions with answers at the end or, for a quarter, in between."""
        if rng.random() < 0.15:
            n_asked, n_facts = 1, rng.randint(1, 3)
        else:
            n_asked = min(max(6, length // 1000), 28)
            n_facts = n_asked + rng.randint(0, n_asked)
        p_fragments = rng.choice([0.0, 0.0, 0.0, 0.3, 1.0]) if n_facts > 3 else 0.25
        facts = self._worded_facts(rng, n_facts, p_fragments)
        asked = set(rng.sample(range(len(facts)), min(n_asked, len(facts))))
        return self._lay_out(rng, length, facts, asked)

    def _worded_facts(self, rng, n_facts: int, p_fragments: float) -> list[tuple[str, str, str]]:
        """(statement, prompt of the question, value) of each fact; a share of them in the corpus' own words."""
        out = []
        n_fragments = sum(rng.random() < p_fragments for _ in range(n_facts))
        if n_fragments:
            found = fragments.clean_words(self.tokenizer.decode(self.filler(rng, 40 * n_fragments + 200).tolist()))
            for _ in range(n_fragments):
                fact = fragments.fragment_fact(rng, found, self.words)
                if fact:
                    out.append((fact[0], forms.wrap_question(fact[1]), fact[2]))
        drawn = forms.draw_facts(rng, n_facts - n_fragments, self.words)
        return out + [(forms.state(f, rng), forms.ask(f, rng), f.value) for f in drawn]

    def _lay_out(self, rng, length, facts, asked) -> tuple[np.ndarray, np.ndarray]:
        """Puts statements at random places; asked ones get their question later."""
        texts, kinds = [], []
        for i, (statement, prompt, value) in enumerate(facts):
            texts.append(self._placed(rng, statement))
            kinds.append("statement")
            if i in asked:
                texts += [prompt, f" {value}\n"]
                kinds += ["question", "answer"]
        ids = self.encode(texts)
        n_filler = length + 1 - sum(len(a) for a in ids)
        if n_filler < 64:
            return self.filler(rng, length + 1), np.ones(length + 1, np.float32)
        base = self.filler(rng, n_filler)
        scattered = rng.random() < 0.25
        events = []  # (place in the filler, tie breaker, ids, weights)
        place = 0
        for kind, a in zip(kinds, ids):
            if kind == "statement":
                place = rng.randrange(0, n_filler)
                events.append((place, 0.0, a, np.full(len(a), W_STATEMENT)))
            elif kind == "question":
                where = rng.randrange(place, n_filler) if scattered else n_filler
                question = a
            else:
                both = np.concatenate([question, a])
                w = np.concatenate([np.full(len(question), W_QUESTION), np.full(len(a), W_ANSWER)])
                events.append((where, 1.0 + rng.random(), both, w))
        return _interleave(base, events)

    def _placed(self, rng: random.Random, statement: str) -> str:
        r = rng.random()
        if r < 0.80 or "\n" in statement:
            return f"\n{statement}\n"
        return f" {statement}" if r < 0.92 else f"\n\n{statement}\n\n"

    def records(self, rng: random.Random, length: int) -> tuple[np.ndarray, np.ndarray]:
        """A list of look-alike `key: value` lines, then look-ups."""
        hexes = rng.random() < 0.5
        items, tail = {}, min(length // 3, 400)
        n_wanted = (length - tail) // (14 if hexes else 9)
        while len(items) < n_wanted:
            k = vocab.random_id(rng, 8) if hexes else forms.draw_key(rng, "unique", self.words)
            items[k] = vocab.random_id(rng, 8) if hexes else vocab.value(rng, "code", self.words)
        out, n, kept = [], 0, []
        for item, a in zip(items.items(), self.encode([f"{k}: {v}\n" for k, v in items.items()])):
            if n + len(a) > length + 1 - tail:
                break
            out.append(a)
            kept.append(item)
            n += len(a)
        weights = [np.full(n, W_RECORD)]
        while n < length + 1:
            k, v = rng.choice(kept)
            prompt = f"\nRecall {k}:" if rng.random() < 0.5 else forms.wrap_question(f"What is {k}?")
            a, b = self.encode([prompt, f" {v}\n"])
            out += [a, b]
            weights += [np.full(len(a), W_QUESTION), np.full(len(b), W_ANSWER)]
            n += len(a) + len(b)
        return np.concatenate(out)[: length + 1], np.concatenate(weights)[: length + 1].astype(np.float32)

    def repeat(self, rng: random.Random, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Text whose end repeats an earlier passage of 48 to 400 tokens word for word."""
        n_passage = rng.randint(48, min(400, length // 4))
        lead = self.encode(["\nRepeat the passage: "])[0]
        n_head = length + 1 - n_passage - len(lead)
        base = self.filler(rng, n_head)
        start = rng.randrange(0, n_head - n_passage)
        ids = np.concatenate([base, lead, base[start : start + n_passage]])
        weights = np.ones(length + 1, np.float32)
        weights[n_head : n_head + len(lead) + 8] = 0.1
        weights[n_head + len(lead) + 8 :] = 2.0
        return ids, weights


def _interleave(base: np.ndarray, events: list) -> tuple[np.ndarray, np.ndarray]:
    """Inserts the events into the filler at their places, in order of (place, tie breaker)."""
    out, weights, previous = [], [], 0
    for place, _, ids, w in sorted(events, key=lambda e: e[:2]):
        out += [base[previous:place], ids]
        weights += [np.full(place - previous, W_TEXT), w]
        previous = place
    out.append(base[previous:])
    weights.append(np.full(len(base) - previous, W_TEXT))
    return np.concatenate(out), np.concatenate(weights).astype(np.float32)


def produce(queue, mixer: TaskMixer, seed: int, length_of_now, tokens_per_batch: int) -> None:
    """Endless producer: puts (length, uint16 ids [B, L + 1], float16 weights [B, L + 1]) into the queue."""
    rng = random.Random(seed)
    while True:
        length = length_of_now()
        pairs = [mixer.sample(rng, length) for _ in range(max(1, tokens_per_batch // length))]
        ids = np.stack([p[0] for p in pairs]).astype(np.uint16)
        queue.put((length, ids, np.stack([p[1] for p in pairs]).astype(np.float16)))
