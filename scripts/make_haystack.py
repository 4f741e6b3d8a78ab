#!/usr/bin/env python3
"""Writes a haystack of free text with three passcodes hidden in it, and the questions with their answers.

usage: make_haystack.py OUT.txt [--bytes N] [--seed N]     OUT.txt.json gets [{"question", "answer", "depth"}, ...]

The text is pseudo-prose from a small grammar, so that the repository needs no book: no two sentences are built from the
same words, and none of them holds a number. The same seed gives the same bytes.
"""

import argparse
import json
import random

CITIES = ["Lima", "Oslo", "Nairobi", "Quito", "Hanoi", "Accra", "Tallinn", "Montevideo", "Reykjavik", "Gaborone"]
DEPTHS = [0.10, 0.45, 0.80]

NAMES = """Anna Thomas Maria Peter Ruth Samuel Clara Walter Helen Arthur Martha Edward Louise Henry Sophie Daniel Julia Frederick
Margaret George Alice Robert Emma Charles Laura Simon""".split()
ROLES = """teacher baker captain doctor farmer gardener judge librarian merchant miller painter pilot porter sailor smith tailor
traveller weaver printer carpenter clerk nurse shepherd stranger neighbour""".split()
THINGS = """lamp ladder window letter basket blanket bottle bridge candle carpet clock coat drawer engine fence garden hammer kettle
mirror needle orchard picture plate ribbon river roof rope shelf stone table tower umbrella wagon wheel map boat chair bell barrel
notebook violin lantern oven pillow saddle""".split()
KINDS = """old small heavy quiet narrow broken painted wooden distant pale warm crooked empty famous gentle hidden iron lonely muddy
polished rough silver simple strange tall useful velvet wet yellow careful plain bitter curious""".split()
PLACES = """in the market|behind the church|near the harbour|along the road|under the bridge|beside the stove|across the valley|at the
edge of the wood|on the upper floor|outside the station|between the houses|by the river|above the shop|in the courtyard|at the mill|
below the hill|near the old school|in the kitchen""".replace("\n", " ").replace("| ", "|").split("|")
TIMES = """before breakfast|after the rain|late in the evening|on the following day|during the winter|at first light|that same week|
toward the end of summer|when the bells rang|for most of the afternoon|once the guests had left|as the wind rose|many years later|
without any warning|at the usual hour""".replace("\n", "").split("|")
DEEDS = """carried repaired painted forgot described borrowed measured counted cleaned noticed lifted bought sold admired drew found lost
hid moved opened closed kept polished remembered returned wrapped""".split()
THOUGHTS = """it would not last|the work was nearly done|nobody had asked|the weather would turn|the price was fair|someone should write it
down|the road was longer than before|there was still time|the answer lay elsewhere|such things are seldom simple|the others
would understand|patience was the better part|it had always been so""".replace("\n", " ").split("|")

FORMS = """{N} {d} the {k} {t} {p}, and the {r} {d2} a {k2} {t2} {w}.|{W}, the {r} {d} the {t} and {d2} every {k} {t2} {p}.|
The {k} {t} stood {p}, where {N} had once {d} the {k2} {t2}.|{N} thought that {h}, so the {r} {d} the {t} {w}.|
"I {d} the {t} {p}," said {N}, "because {h}."|It was the {r} who {d} the {k} {t} {w}, though {N} believed that {h}.|
There was a {k} {t} {p} and a {k2} {t2} beside it.|Nobody {d} the {t} {w}; the {r} and {N} only {d2} the {t2}.|
When {N} {d} the {k} {t}, the {r} {p} agreed that {h}.|A {k} {t} is not a {k2} {t2}, as the {r} liked to say {w}.|
{N} and {M} {d} the {t} {p} and talked about the {k} {t2}.|{P}, the {k} {t} belonged to the {r}, and {h}.|
Some say that {h}; {N} {d} the {t} all the same.|The {r} asked {N} for the {t}, but {M} had {d} it {p} {w}.""".replace("\n", "").split("|")


def sentence(rng: random.Random) -> str:
    """One sentence of the grammar."""
    n, m = rng.sample(NAMES, 2)
    d, d2 = rng.sample(DEEDS, 2)
    t, t2 = rng.sample(THINGS, 2)
    k, k2 = rng.sample(KINDS, 2)
    place, time = rng.choice(PLACES), rng.choice(TIMES)
    slots = {"N": n, "M": m, "d": d, "d2": d2, "t": t, "t2": t2, "k": k, "k2": k2, "r": rng.choice(ROLES), "p": place, "w": time,
             "W": time[0].upper() + time[1:], "P": place[0].upper() + place[1:], "h": rng.choice(THOUGHTS)}
    return rng.choice(FORMS).format(**slots)


def paragraphs(rng: random.Random, n_bytes: int) -> list[str]:
    """Paragraphs of three to eight sentences, about n_bytes in all."""
    out, size = [], 0
    while size < n_bytes:
        text = " ".join(sentence(rng) for _ in range(rng.randint(3, 8)))
        out.append(text)
        size += len(text) + 1
    return out


def make(n_bytes: int, seed: int) -> tuple[str, list[dict]]:
    """The document and its questions."""
    parts = paragraphs(random.Random(seed), n_bytes)
    rng = random.Random(f"needles {seed}")  # of its own, so that the passcodes do not depend on the size
    cities = rng.sample(CITIES, len(DEPTHS))
    codes = [str(rng.randint(10000, 99999)) for _ in DEPTHS]
    needles = [f"The secret passcode for {city} is {code}." for city, code in zip(cities, codes)]
    for depth, needle in reversed(list(zip(DEPTHS, needles))):
        parts.insert(round(depth * len(parts)), needle)
    asked = [{"question": f"what is the secret passcode for {city}?", "answer": code, "depth": depth}
             for city, code, depth in zip(cities, codes, DEPTHS)]
    return "\n".join(parts) + "\n", asked


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("out")
    args.add_argument("--bytes", type=int, default=101_300, help="size of the text (default: about 32k tokens of the nano model)")
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--plain", action="store_true", help="only the text, without passcodes")
    given = args.parse_args()
    if given.plain:
        text, asked = "\n".join(paragraphs(random.Random(given.seed), given.bytes)) + "\n", []
    else:
        text, asked = make(given.bytes, given.seed)
    with open(given.out, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    with open(given.out + ".json", "w", encoding="utf-8") as file:
        json.dump(asked, file, indent=1)


if __name__ == "__main__":
    main()
