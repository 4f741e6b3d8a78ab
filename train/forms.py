"""The grammar of facts: which statement forms and question forms exist, which are held out, and how one fact is worded.

A *form* is a wording with slots (wordings.py). A *type* is what a fact is about: an attribute noun of the generic family
("locker number"), a noun made of random corpus words ("harvest number"), or a family with verbs of its own ("unlock").
A tenth of the statement forms and a tenth of the question forms of every family never occur in training.
`python forms.py` prints the held-out forms.
"""

import random
from dataclasses import dataclass, field

import vocabulary as vocab
import wordings

HELD_OUT_SEED = 20261129
PROTOCOL_STATEMENT = "The secret passcode for {k} is {v}."
PROTOCOL_QUESTION = "what is the secret passcode for {k}?"
SAFE_NOUNS = ["magic number", "order number", "invoice number", "ticket number", "customer number", "case number", "code word"]
DROPPABLE = ("secret ", "special ", "favourite ", "home ")


@dataclass(frozen=True)
class FormSet:
    """Training and held-out wordings of one family."""

    statements: tuple[str, ...]
    questions: tuple[str, ...]
    held_statements: tuple[str, ...]
    held_questions: tuple[str, ...]


@dataclass
class FactType:
    """What a fact is about: its family, attribute noun (generic only), value kind and key kind."""

    family: str
    noun: str
    value_kind: str
    key_kind: str
    protocol: bool = False


@dataclass
class Fact:
    """One key with one value; `others` are the nouns of the sequence's other facts about the same key."""

    type: FactType
    key: str
    value: str
    others: list[str] = field(default_factory=list)


def _unescape(form: str) -> str:
    return form.replace("\\n", "\n").replace("\\t", "\t").replace("¦", "|")


def split_forms(forms: list[str], label: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Splits one family's forms into (training, held out): a tenth, at least one, drawn with a fixed seed."""
    forms = [_unescape(f.strip()) for f in forms if f.strip()]
    free = [f for f in forms if not f.startswith("!")]
    held = set(random.Random(f"{HELD_OUT_SEED}/{label}").sample(free, max(1, round(len(forms) / 10))))
    return tuple(f.lstrip("!") for f in forms if f not in held), tuple(f for f in forms if f in held)


def _form_set(name: str, statements: list[str], questions: list[str]) -> FormSet:
    s_train, s_held = split_forms(statements, name + "/statements")
    q_train, q_held = split_forms(questions, name + "/questions")
    return FormSet(s_train, q_train, s_held, q_held)


def _cells(text: str) -> list[str]:
    return [c for line in text.split("\n") for c in line.split("|") if c.strip()]


FORMS: dict[str, FormSet] = {"generic": _form_set("generic", _cells(wordings.STATEMENTS), _cells(wordings.QUESTIONS))}
for _name, _value, _key, _statements, _questions in wordings.FAMILIES:
    FORMS[_name] = _form_set(_name, _cells(_statements), _cells(_questions))
FAMILY_KINDS = {name: (value, key) for name, value, key, _, _ in wordings.FAMILIES}
NOUNS = [(noun.strip(), value, key) for value, key, text in wordings.ATTRIBUTES for noun in _cells(text)]
PROTOCOL_TYPE = FactType("generic", "secret passcode", "n5", "city", protocol=True)


def draw_type(rng: random.Random, words: list[str]) -> FactType:
    """A listed noun (58%), a noun of corpus words (18%) or a family with its own verbs (24%)."""
    r = rng.random()
    if r < 0.58:
        noun, value_kind, key_kind = rng.choice(NOUNS)
        return FactType("generic", noun, value_kind, key_kind)
    if r < 0.76:
        pattern = rng.choice(["{}", "{} code", "{} number", "{} key", "{} {}", "secret {}", "{} name"])
        noun = pattern.format(rng.choice(words), rng.choice(words))
        return FactType("generic", noun, rng.choice(["code", "code", "n5", "words"]), "any")
    name = rng.choice(list(FAMILY_KINDS))
    value_kind, key_kind = FAMILY_KINDS[name]
    return FactType(name, "", value_kind, key_kind)


def draw_key(rng: random.Random, key_kind: str, words: list[str]) -> str:
    """A key; 'place' is a thing phrase, 'unique' a kind whose keys never meet by chance."""
    if key_kind == "place":
        return vocab.thing(rng)
    if key_kind == "unique":
        return vocab.key(rng, rng.choice(["word", "word", "id", "id", "city"]), words)
    return vocab.key(rng, key_kind, words)


def _capital(text: str, rng: random.Random, chance: float) -> str:
    return text[:1].upper() + text[1:] if rng.random() < chance else text


def fill(form: str, fact: Fact, noun: str, rng: random.Random) -> str:
    """The form with its slots filled. A form that opens with a noun or a 'the ...' key mostly gets a capital."""
    out = form.format(a=noun, k=fact.key, v=fact.value, p=vocab.person(rng))
    opens = form.startswith("{a}") or (form.startswith("{k}") and fact.key.startswith("the "))
    return _capital(out, rng, 0.75) if opens else out


def state(fact: Fact, rng: random.Random, held_out: bool = False) -> str:
    """Words a fact as a statement, with an occasional lead-in and trailer."""
    if fact.type.protocol and not held_out and rng.random() < 0.75:
        return PROTOCOL_STATEMENT.format(k=fact.key, v=fact.value)
    forms = FORMS[fact.type.family]
    form = rng.choice(forms.held_statements if held_out else forms.statements)
    text = fill(form, fact, fact.type.noun, rng)
    if form.endswith(".") and form[0] not in "\"-*" and "\n" not in form:
        if rng.random() < 0.22:
            lead = rng.choice(wordings.LEADS)
            keep = not form.startswith(("{k}", "{v}", "{a}", "{p}")) and rng.random() < 0.6
            text = lead + (text[:1].lower() + text[1:] if keep else text)
        if rng.random() < 0.15:
            text += rng.choice(wordings.TRAILERS).format(p=vocab.person(rng))
    return text


def _asked_noun(fact: Fact, rng: random.Random) -> str:
    noun = fact.type.noun
    for prefix in DROPPABLE:
        short = noun[len(prefix):]
        if noun.startswith(prefix) and rng.random() < 0.15 and not any(short in other for other in fact.others):
            return short
    return noun


def ask(fact: Fact, rng: random.Random, held_out: bool = False) -> str:
    """Words the question, wrapped as the prompt that ends just before ' {value}\\n'."""
    if fact.type.protocol and not held_out and rng.random() < 0.6:
        return f"\nQuestion: {PROTOCOL_QUESTION.format(k=fact.key)}\nAnswer:"
    forms = FORMS[fact.type.family]
    form = rng.choice(forms.held_questions if held_out else forms.questions)
    completion, form = form.startswith("~"), form.lstrip("~")
    text = fill(form, fact, _asked_noun(fact, rng), rng)
    if completion:
        return "\n" + text
    if rng.random() < 0.3 and not form.startswith(("{k}", "I ")):
        text = text[:1].lower() + text[1:]
    if rng.random() < 0.12:
        text = text.rstrip("?.")
    return wrap_question(text, 0.0 if held_out else rng.random())


def wrap_question(text: str, r: float = 0.0) -> str:
    """The wrapping of `vestige ask` for r < 0.86, else a looser one."""
    if r < 0.86:
        return f"\nQuestion: {text}\nAnswer:"
    return f"\nQ: {text}\nA:" if r < 0.94 else f"\n{text}\n"


def _nouns_clash(a: str, b: str) -> bool:
    return bool(a) and bool(b) and (a in b or b in a)


def draw_facts(rng: random.Random, n_facts: int, words: list[str], p_protocol: float = 0.35) -> list[Fact]:
    """Facts of one sequence: few types and shared keys, so that both key and attribute must be read to answer."""
    if n_facts == 0:
        return []
    n_types = 1 if n_facts < 3 else rng.randint(1, max(1, min(5, n_facts // 2)))
    types = [draw_type(rng, words) for _ in range(n_types)]
    if rng.random() < p_protocol:
        types[0] = PROTOCOL_TYPE
    facts: list[Fact] = []
    nouns_of_key: dict[str, list[str]] = {}
    for _ in range(n_facts * 8):
        if len(facts) == n_facts:
            break
        fact_type = rng.choice(types)
        shared = [k for k in nouns_of_key if rng.random() < 0.5] if rng.random() < 0.4 else []
        own_verbs = fact_type.family != "generic"
        if shared and fact_type.key_kind == "any":
            key = rng.choice(shared)
        else:
            key = draw_key(rng, "any" if fact_type.protocol and rng.random() < 0.3 else fact_type.key_kind, words)
        taken = nouns_of_key.setdefault(key, [])
        noun = fact_type.noun or "\0" + fact_type.family
        verbs_meet = any(t[0] == "\0" for t in taken) and (own_verbs or noun not in SAFE_NOUNS)
        if verbs_meet or (own_verbs and taken) or any(_nouns_clash(noun, t) for t in taken):
            continue
        taken.append(noun)
        facts.append(Fact(fact_type, key, vocab.value(rng, fact_type.value_kind, words)))
    for fact in facts:
        fact.others = [n for n in nouns_of_key[fact.key] if n != fact.type.noun]
    return facts


if __name__ == "__main__":
    n_s = sum(len(f.statements) + len(f.held_statements) for f in FORMS.values())
    n_q = sum(len(f.questions) + len(f.held_questions) for f in FORMS.values())
    print(f"# {n_s} statement forms, {n_q} question forms, {len(NOUNS)} listed attribute nouns. Held out (seed {HELD_OUT_SEED}):")
    for family, forms in FORMS.items():
        print(f"## {family}: {len(forms.held_statements)} statements, {len(forms.held_questions)} questions")
        for text in forms.held_statements + forms.held_questions:
            print(repr(text)[1:-1])
