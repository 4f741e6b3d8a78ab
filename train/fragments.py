"""Facts in the corpus' own words: a run of corpus words with a value put into it, asked by some of its words.

The grammar's wordings are regular; these are not. They teach finding a statement by any words it shares with the question.
"""

import random

import vocabulary as vocab

NAMING = ["is", "was", "called", "named", "the word", "reads", "became"]  # may be followed by a value of any kind
CONNECTORS = NAMING + ["number", "code", "at", "with", "to", "for", "in", "by", "the", "of", "under", "from", "as", "until", "about", "", "", ""]
OPENERS = ["What", "Which", "What is", "What was", "Which number", "Which code", "Which word", "Who", "Where", "When", "How many", "How much",
           "What does", "What did", "Which is", "With what", "Under what", "To which", "What do I need for", "In which", "What name", "What number"]
MARKED_KINDS = ["n5", "n5", "n", "n", "n3", "n2", "phone", "upper", "hex", "money", "year", "date"]  # visible as values anywhere
WORDY_KINDS = ["words", "name", "person", "colour", "city", "animal"]


def clean_words(text: str) -> list[str]:
    """Alphabetic ASCII words of a decoded text, punctuation at their ends removed."""
    stripped = (w.strip(".,;:()[]\"'!?`*") for w in text.split())
    return [w for w in stripped if w.isascii() and w.replace("-", "").isalpha() and len(w) < 18]


def fragment_fact(rng: random.Random, found: list[str], words: list[str]) -> tuple[str, str, str] | None:
    """(statement, question, value) from corpus words `found`; None if there are too few."""
    n = rng.randint(5, 13)
    if len(found) < n:
        return None
    start = rng.randrange(0, len(found) - n + 1)
    run = found[start : start + n]
    connector = rng.choice(NAMING if rng.random() < 0.3 else CONNECTORS)
    kinds = WORDY_KINDS if connector in NAMING and rng.random() < 0.5 else MARKED_KINDS
    value = vocab.value(rng, rng.choice(kinds), words)
    if rng.random() < 0.4:  # a name or place makes the sentence more like a told fact
        run.insert(rng.randrange(0, n), vocab.person(rng) if rng.random() < 0.5 else rng.choice(vocab.CITIES))
    place = rng.randrange(0, len(run) + 1)
    middle = [connector, value] if connector else [value]
    sentence = " ".join(run[:place] + middle + run[place:])
    head = [w for w in run[:place] if rng.random() < 0.75]
    tail = [w for w in run[place:] if rng.random() < 0.75]
    if connector in ("number", "code", "the word") and rng.random() < 0.7:
        opener, asked = f"Which {connector.removeprefix('the ')}", head + tail
    else:
        opener, asked = rng.choice(OPENERS), head + tail if rng.random() < 0.7 else tail + head
    if len(asked) < 3:
        asked = run
    question = f"{opener} {' '.join(asked)}?"
    return sentence[:1].upper() + sentence[1:] + ("." if rng.random() < 0.9 else ""), question, value
