#!/usr/bin/env python3
"""Makes the tokenizer fixtures with the `tokenizers` and `tiktoken` libraries, for our tokenizer to be held against.

    make_fixtures.py [--tokenizer nano/tokenizer.json] [--only bpe|split|kimi]

    fuzz_bpe.bin     10,000 cases, encoded by --tokenizer (models/nano: Digits + ByteLevel with GPT-2's regex)
    split_tiny/      tokenizer.json as Llama 3's: Split by regex + ByteLevel without one, ignore_merges, merges as
                     "a b", a template that adds a first token, added tokens special and not, some prefixes of others
    fuzz_split.bin   2,000 cases for it
    kimi_tiny/       tiktoken.model + tokenizer_config.json as the Kimi repositories ship them
    fuzz_kimi.bin    2,000 cases for it, special tokens in the text allowed

Each .bin is packed as .tar.xz, which CMake unpacks. Layout, little-endian, nothing aligned, no header but the count:

    u32 n;  n times { u32 n_bytes; u8 text[n_bytes] (UTF-8); u32 n_ids; u16 ids[n_ids] }

Ids are those of the text alone (add_special_tokens=False). The cases are the same texts in all three, as far as each
goes: first PICKED, then long ones, then fuzzed ones, each a chain of fragments of the kinds in class Fuzz. Characters
are drawn only from those assigned in Python's Unicode version (14 or so); both libraries have a later one (16).

In kimi_tiny, as in Kimi's tokenization_kimi.py, the 258 ids after the ranks are special tokens: those without a name in
added_tokens_decoder read "<|reserved_token_{id}|>".
"""

import argparse
import base64
import io
import json
import lzma
import os
import random
import struct
import tarfile
import unicodedata
from pathlib import Path

os.environ["TIKTOKEN_CACHE_DIR"] = ""  # its cache goes by path and would serve an older vocabulary
import tiktoken
import tiktoken.load
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).resolve().parent
SEED = 20260118
N_RANKS = 600  # size of the small vocabularies, without added tokens

SPLIT_REGEX = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
               r"|\s+(?!\S)|\s+")
UPPER, LOWER = (rf"[\p{{{first}}}\p{{Lm}}\p{{Lo}}\p{{M}}&&[^\p{{Han}}]]" for first in (r"Lu}\p{Lt", "Ll"))
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI_REGEX = "|".join([
    r"[\p{Han}]+", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}",
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}", r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+",
    r"\s+(?!\S)", r"\s+"])

# name, special; ids follow the vocabulary's in this order
SPLIT_ADDED = [
    ("<|begin_of_text|>", True), ("<|end_of_text|>", True), ("<|eot_id|>", True), ("<think>", False),
    ("</think>", False), ("<tool", False), ("<tool_call>", False), ("\t\t", False), ("\t\t\t\t", False),
]
# offset from the number of ranks, name, special: as in Kimi's tokenizer_config.json
KIMI_ADDED = [
    (0, "[BOS]", True), (1, "[EOS]", True), (2, "<|im_end|>", True), (3, "<|im_user|>", True),
    (4, "<|im_assistant|>", True), (6, "<|start_header_id|>", True), (7, "<|end_header_id|>", True),
    (9, "[EOT]", True), (10, "<|im_system|>", True), (11, "<|tool_calls_section_begin|>", False),
    (12, "<|tool_calls_section_end|>", False), (13, "<|tool_call_begin|>", False),
    (14, "<|tool_call_argument_begin|>", False), (15, "<|tool_call_end|>", False), (17, "<|im_middle|>", True),
    (254, "[UNK]", True), (255, "[PAD]", True),
]
NANO_ADDED = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>", "<|pad|>"]
KIMI_RESERVED = 258
# In the small vocabularies as whole words, but no merges lead to them: a piece that is a token is that token.
UNREACHABLE = ["zyzzyva", " quixotry", "Hjckrrh", "𝔴𝔬𝔯𝔡"]

WORDS = """the of and to in is it that was for on are with as his they be at one have this from or had by hot word but
what some we can out other were all there when up use your how said an each she which do their time if will way about
many then them write would like so these her long make thing see him two has look more day could go come did number
sound no most people my over know water than call first who may down side been now find any new work part take get
place made live where after back little only round man year came show every good me give our under name very through
just form sentence great think say help low line differ turn cause much mean before move right boy old too same tell
does set three want air well also play small end put home read hand port large spell add even land here must big high
such follow act why ask men change don't can't it's I'm we've they'll he'd you're o'clock naïve café straße Ærøskøbing
London McDonald iPhone HTTPServer getElementById snake_case int float return void const auto std::vector def class
self null true false""".split()

PICKED = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r", "\r\n", "\r\n\r\n", "\t", "\t\t", "\t\t\t", "\t\t\t\t\t", " \n", "\n ",
    "  \n  ", " \t\n\r x", "a", " a", "  a", "   a", "a ", "a  ", "a   ", "a  b", "a   b", "a\n b", "a \n b",
    "a  \n\n  b", "\na", "\n a", "'s", "'S", " 's", "it's", "IT'S", "it'S", "don't", "DON'T", "we'll", "We'LL",
    "'ll'LL'lL", "I'M", "'Re", "'vE", "'d'D", "it\u2019s", "it'\u017f", "'\u017f", "IT'\u017f", "'t's", "''s", "'sx",
    "x's's", "a'b'c", "'", "''", "'\n", "1's", "s'1", "1", "12", "123", "1234", "12345678901", " 1", " 12", "1 2",
    "a1b22c333d4444", "3.14159", "1,234,567.89", "-1", "0x1F", "½", "²³", "Ⅻ", "①②③④", "٣٤٥٦", "१२३४", "一二三", "〇",
    "〇一", "1½٣", "𝟘𝟙𝟚", "x²", "a\u0301", "e\u0301\u0301", "\u0301", " \u0301", "\u0301a", "1\u0301", "中\u0301文",
    "नमस्ते", "สวัสดี", "a\u200db", "👩\u200d👩\u200d👧\u200d👦", "🇩🇪🇫🇷", "👍🏽", "❤\ufe0f", "☃", " ☃", "\u00a0", "\u00a0a",
    "a\u00a0b", "a \u00a0b", "a\u00a0 b", "\u2003\u2003a", "\u3000中", "中\u3000", "\u0085", "a\u0085b", " \u0085 ",
    "\u200b", "a\u200bb", "\u2028", "a\u2028\u2029b", "\u1680", "\u202f1", "\u180e", "\ufeff", "\ufeffa", "\x00",
    "a\x00b", "\x1c\x1d", "\x0b\x0c", " \x0b \x0c ", "\x7f", "\u0080", "\ufffd", "\ue000", "\U0010fffd", "中文English混合",
    "中文 English", "ABC中文", "漢字かな交じり文", "々〆〤", "⺀⼀", "한국어 띄어쓰기", "ᄒ\u1161ᆫ", "Привет, мир!", "ПРИВЕТмир", "Γειά σου",
    "ǅǅǆ", "ʰʱ", "ªº", "ABCdefGHI", "aBcDeF", "HelloWorld", "XMLHttpRequest", "İstanbul", "ẞß", "ﬁﬂ", "!", "!!", " !",
    "!\n", "!\r\n\r\n", " !!\n\nx", "...\n", "#!/bin/sh\n", "foo(bar);\n\treturn 1;\n", "a_b", "__init__", "<|eos|>",
    "<|eos|><|eos|>", " <|eos|> ", "a<|eos|>b", "<|eos|", "<<|eos|>>", "<|EOS|>", "<| eos |>", "x <|bos|>\n",
    "<|user|>hi<|assistant|>", "<tool", "<tool>", "<tool_call>", "<tool_call", "<think>\n</think>", " <think> ",
    "[BOS]a[EOS]", "[bos]", "[[EOT]]", "[PAD", "<|im_system|>system<|im_middle|>Hi<|im_end|>",
    "<|reserved_token_605|>", "<|reserved_token_599|>", "<|reserved_token_857|>", "<|reserved_token_858|>", "zyzzyva",
    " zyzzyva", "zyzzyvas", " quixotry", "quixotry", "Hjckrrh!", "𝔴𝔬𝔯𝔡", "Ġ", "Ċ", "Ā", "ÿþ", "#版本", "@中", "-一", "\n中",
    "'中", "'ſ中", "中's", "ab's中", "\u0301中", "e\u0301's",
]


class Fuzz:
    """Makes texts: each kind is a method that returns a short random fragment."""

    SCRIPTS = [
        (0x61, 0x7A), (0x41, 0x5A), (0xC0, 0x24F), (0x250, 0x2AF), (0x2B0, 0x2FF), (0x370, 0x3FF), (0x400, 0x4FF),
        (0x531, 0x587), (0x5D0, 0x5EA), (0x620, 0x64A), (0x710, 0x72F), (0x904, 0x939), (0x985, 0x9B9), (0xA05, 0xA39),
        (0xB05, 0xB39), (0xB85, 0xBB9), (0xC05, 0xC39), (0xD05, 0xD39), (0xE01, 0xE30), (0xE81, 0xEB0), (0xF40, 0xF69),
        (0x1000, 0x102A), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x1248), (0x13A0, 0x13EF), (0x1780, 0x17B3),
        (0x1820, 0x1877), (0x1E00, 0x1EFF), (0x1F00, 0x1FFC), (0x2C00, 0x2C5E), (0x3041, 0x3096), (0x30A1, 0x30FA),
        (0x3105, 0x312D), (0xA000, 0xA48C), (0xAC00, 0xD7A3), (0xFB00, 0xFB06), (0xFF21, 0xFF5A), (0x10000, 0x1000B),
        (0x10400, 0x1044F), (0x1D400, 0x1D454),
    ]
    HAN = [
        (0x4E00, 0x9FA5), (0x4E00, 0x5000), (0x3400, 0x4DB5), (0x20000, 0x2A6D6), (0xF900, 0xFA2D), (0x2E80, 0x2FD5),
        (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B),
    ]
    MARKS = [
        (0x300, 0x36F), (0x483, 0x489), (0x591, 0x5BD), (0x64B, 0x655), (0x93E, 0x94D), (0xE31, 0xE3A),
        (0x20D0, 0x20F0), (0x302A, 0x302F), (0x3099, 0x309A), (0xFE00, 0xFE0F),
    ]
    NUMBERS = [(0x30, 0x39)] * 4 + [
        (0x660, 0x669), (0x6F0, 0x6F9), (0x966, 0x96F), (0xE50, 0xE59), (0xFF10, 0xFF19), (0xB2, 0xB3), (0xBC, 0xBE),
        (0x2070, 0x2079), (0x2150, 0x2188), (0x2460, 0x249B), (0x2776, 0x2793), (0x3021, 0x3029), (0x3220, 0x3229),
        (0x9F4, 0x9F9), (0x1D7CE, 0x1D7FF), (0x1369, 0x137C),
    ]
    SYMBOLS = [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)] * 3 + [
        (0xA1, 0xBF), (0x2010, 0x2027), (0x2030, 0x205E), (0x20A0, 0x20B5), (0x2100, 0x214B), (0x2190, 0x23CF),
        (0x2500, 0x25FF), (0x3001, 0x3020), (0xFF01, 0xFF0F),
    ]
    EMOJI = [
        (0x1F300, 0x1F320), (0x1F400, 0x1F43E), (0x1F600, 0x1F640), (0x1F680, 0x1F6C5), (0x2600, 0x26BD),
        (0x2702, 0x27B0),
    ]
    SPACES = " " * 6 + "\t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
    INVISIBLE = ("\u200b\u200c\u200d\u2060\u00ad\u180e\ufeff\u061c\u200e\u202e\ufffd\ue000"
                 "\x00\x01\x07\x08\x1b\x1c\x1f\x7f\x80\x9f")
    ADDED = [*NANO_ADDED, *(n for n, _ in SPLIT_ADDED), *(n for _, n, _ in KIMI_ADDED),
             f"<|reserved_token_{N_RANKS + 5}|>"]

    def __init__(self, seed, words):
        self.rng = random.Random(seed)
        self.words = words
        self.kinds = [self.prose] * 5 + [self.letters, self.han] * 2 + [
            self.cased, self.contraction, self.digits, self.numbers, self.spaces, self.newlines, self.exotic_spaces,
            self.mixed_letters, self.marked, self.emoji, self.symbols, self.code, self.invisible, self.added,
            self.near_added, self.anything]

    def char(self, ranges):
        """One assigned character of a random range."""
        while True:
            c = chr(self.rng.randint(*self.rng.choice(ranges)))
            if unicodedata.category(c) != "Cn":
                return c

    def run(self, source, longest=6):
        """Up to `longest` characters of ranges or of a string."""
        n = self.rng.randint(1, longest)
        return "".join(self.rng.choice(source) if isinstance(source, str) else self.char(source) for _ in range(n))

    def prose(self):
        words = (self.rng.choice(self.words) + self.rng.choice(["", "", "", "", ",", ".", "!", "?", ";"])
                 for _ in range(self.rng.randint(1, 6)))
        return " ".join(words)

    def cased(self):
        word = self.rng.choice(self.words)
        return "".join(self.rng.choice([c.upper(), c.lower(), c]) for c in word)

    def contraction(self):
        end = self.rng.choice(["s", "t", "re", "ve", "m", "ll", "d", "S", "RE", "Ve", "lL", "ſ", "x", "", "rE", "D"])
        return self.rng.choice(["", " ", "I", "word", "中", "1", "É"]) + self.rng.choice("''''’ʼ") + end

    def digits(self):
        end = self.rng.choice(["", ".5", ",000", "%"])
        return self.rng.choice(["", "-", "$", " "]) + self.run("0123456789", 9) + end

    def numbers(self):
        return self.run(self.NUMBERS)

    def spaces(self):
        return self.rng.choice([" ", " ", "\t"]) * self.rng.randint(1, 9)

    def newlines(self):
        return self.run(self.rng.choice(["\n", "\r\n", "\n ", "\n\t", "\r"]), 5)

    def exotic_spaces(self):
        return self.run(self.SPACES, 5)

    def letters(self):
        return self.run([self.rng.choice(self.SCRIPTS)], 8)

    def mixed_letters(self):
        return self.run(self.SCRIPTS, 6)

    def marked(self):
        return "".join(self.rng.choice([self.char(self.SCRIPTS), "a", "e", " ", ""]) + self.run(self.MARKS, 2)
                       for _ in range(self.rng.randint(1, 3)))

    def emoji(self):
        joiner = self.rng.choice(["", "", "\u200d", "\ufe0f", "\U0001f3fd", "\ufe0f\u200d"])
        return joiner.join(self.run(self.EMOJI, 3))

    def han(self):
        return self.run(self.HAN, 6) + self.rng.choice(["", "", "，", "。", "は", "a", "\u0301"])

    def symbols(self):
        return self.rng.choice(["", " "]) + self.run(self.SYMBOLS, 4) + self.rng.choice(["", "", "\n", "\r\n"])

    def code(self):
        w = [self.rng.choice(self.words) for _ in range(3)]
        return self.rng.choice(["{0}({1}, {2});\n", "    if {0} == {1}:\n        {2}\n", "{0}->{1}[{2}]",
                                "//{0} {1}\r\n",
                                "https://{0}.{1}/{2}?q=1&r=%20", '{{"{0}": [{1}, "{2}"]}}', "{0}_{1}{2}+=1"]).format(*w)

    def invisible(self):
        return self.run(self.INVISIBLE, 3)

    def added(self):
        return self.rng.choice(["", " ", "\n"]) + self.rng.choice(self.ADDED) + self.rng.choice(["", "", " ", "x"])

    def near_added(self):
        """An added token with one character missing, doubled or in the other case."""
        name = self.rng.choice(self.ADDED)
        i = self.rng.randrange(len(name))
        return name[:i] + self.rng.choice(["", name[i] * 2, name[i].swapcase()]) + name[i + 1:]

    def anything(self):
        """Any assigned character of the first three planes, surrogates excluded."""
        out = ""
        while len(out) < 2:
            c = chr(self.rng.randrange(0x2A6D7))
            out += c if unicodedata.category(c) not in ("Cn", "Cs") else ""
        return out

    def long_texts(self):
        """A few texts of 2-4 kB that punish slow code."""
        def fill(size, make):
            out = ""
            while len(out) < size:
                out += make()
            return out

        return [fill(3000, lambda: self.rng.choice("abcdefghijklmnopqrstuvwxyz")), "the" * 1000, "a" * 3000, " " * 2500,
                "\n" * 2000, " \n" * 1200, fill(3000, lambda: self.rng.choice("0123456789")), "!" * 2500,
                fill(900, lambda: self.char(self.HAN)), fill(3500, lambda: self.prose() + " "), fill(3000, self.code),
                "a\u0301" * 1000, fill(1000, lambda: self.char(self.SCRIPTS)), "<|eos|>" * 300]

    def text(self):
        """One fuzzed case."""
        glue = self.rng.choice(["", "", " "])
        return glue.join(self.rng.choice(self.kinds)() for _ in range(self.rng.choice([1, 1, 2, 2, 3, 4])))

    def cases(self, n):
        fixed = PICKED + self.long_texts()
        return fixed + [self.text() for _ in range(n - len(fixed))]


def write_cases(name, cases, encode):
    out = [struct.pack("<I", len(cases))]
    for text in cases:
        raw, ids = text.encode(), encode(text)
        out.append(struct.pack(f"<I{len(raw)}sI{len(ids)}H", len(raw), raw, len(ids), *ids))
    data, packed = b"".join(out), HERE / Path(name).with_suffix(".tar.xz")
    with tarfile.open(packed, "w:xz", preset=9 | lzma.PRESET_EXTREME) as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    print(f"{packed.name}: {len(cases)} cases, {packed.stat().st_size} bytes")


def train(regex):
    """A byte-level BPE of N_RANKS tokens less UNREACHABLE, trained on other texts of the same generator."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=N_RANKS - len(UNREACHABLE), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    fuzz = Fuzz(SEED + 1, WORDS)
    tok.train_from_iterator([fuzz.text() for _ in range(4000)], trainer)
    return tok


def byte_level(text):
    """text in the alphabet of ByteLevel vocabularies."""
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return "".join(part for part, _ in pre.pre_tokenize_str(text))


def make_split(cases):
    """split_tiny/tokenizer.json and fuzz_split.bin."""
    tok = train(SPLIT_REGEX)
    tok.decoder = decoders.ByteLevel()
    for name, special in SPLIT_ADDED:
        token = AddedToken(name, special=special, normalized=not special)
        tok.add_special_tokens([token]) if special else tok.add_tokens([token])
    d = json.loads(tok.to_str())
    vocab = d["model"]["vocab"]
    shift = len(UNREACHABLE)  # they take the ids between the trained tokens and the added ones
    vocab |= {byte_level(w): len(vocab) + i for i, w in enumerate(UNREACHABLE)}
    for a in d["added_tokens"]:
        a["id"] += shift
    d["model"]["ignore_merges"] = True
    d["model"]["merges"] = [" ".join(m) for m in d["model"]["merges"]]
    bos, first = "<|begin_of_text|>", len(vocab)
    d["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                  {"SpecialToken": {"id": bos, "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {bos: {"id": bos, "ids": [first], "tokens": [bos]}}}]}
    path = HERE / "split_tiny" / "tokenizer.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(d, ensure_ascii=False, indent=1) + "\n")
    loaded = Tokenizer.from_file(str(path))
    assert loaded.encode("zyzzyva").tokens == ["<|begin_of_text|>", "zyzzyva"]
    write_cases("fuzz_split.bin", cases, lambda t: loaded.encode(t, add_special_tokens=False).ids)


def make_kimi(cases):
    """kimi_tiny/{tiktoken.model,tokenizer_config.json} and fuzz_kimi.bin."""
    model = json.loads(train(KIMI_REGEX).to_str())["model"]
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # the bytes that ByteLevel keeps
    rest = iter(range(0x100, 0x200))
    byte_of = {chr(b) if b in printable else chr(next(rest)): b for b in range(256)}
    tokens = [bytes(byte_of[c] for c in t) for t in sorted(model["vocab"], key=model["vocab"].get)]
    tokens += [w.encode() for w in UNREACHABLE]
    assert len(tokens) == len(set(tokens)) == N_RANKS
    folder = HERE / "kimi_tiny"
    folder.mkdir(exist_ok=True)
    (folder / "tiktoken.model").write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens)))
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    config = {
        "added_tokens_decoder": {str(N_RANKS + i): {"content": name, **flags, "special": special}
                                 for i, name, special in KIMI_ADDED},
        "additional_special_tokens": [n for _, n, special in KIMI_ADDED if special and n[0] == "<"] + ["[EOT]"],
        "bos_token": "[BOS]", "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>",
        "extra_special_tokens": {}, "model_max_length": 1000000000000000019884624838656, "pad_token": "[PAD]",
        "tokenizer_class": "TikTokenTokenizer", "unk_token": "[UNK]",
        "auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    names = {N_RANKS + i: name for i, name, _ in KIMI_ADDED}
    special = {names.get(i, f"<|reserved_token_{i}|>"): i for i in range(N_RANKS, N_RANKS + KIMI_RESERVED)}
    ranks = tiktoken.load.load_tiktoken_bpe(str(folder / "tiktoken.model"))
    enc = tiktoken.Encoding("kimi_tiny", pat_str=KIMI_REGEX, mergeable_ranks=ranks, special_tokens=special)
    assert all(enc.decode(enc.encode(t, allowed_special="all")) == t for t in cases)
    write_cases("fuzz_kimi.bin", cases, lambda t: enc.encode(t, allowed_special="all"))


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--tokenizer", default="/work/shared/models/nano/tokenizer.json")
    args.add_argument("--only", choices=["bpe", "split", "kimi"])
    args = args.parse_args()
    cases = Fuzz(SEED, WORDS + UNREACHABLE).cases(10000)
    if args.only in (None, "bpe"):
        tok = Tokenizer.from_file(args.tokenizer)
        write_cases("fuzz_bpe.bin", cases, lambda t: tok.encode(t, add_special_tokens=False).ids)
    if args.only in (None, "split"):
        make_split(cases[:2000])
    if args.only in (None, "kimi"):
        make_kimi(cases[:2000])


if __name__ == "__main__":
    main()
