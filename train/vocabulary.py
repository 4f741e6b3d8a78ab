"""Keys and values of the synthetic facts: cities, people, objects, words, ids, codes.

Every draw takes a `random.Random`, so a seed fixes the whole data set.
"""

import random

PROTOCOL_CITIES = ["Reykjavik", "Montevideo", "Vientiane", "Gaborone", "Ljubljana"]
CITIES = PROTOCOL_CITIES + """Paris Lima Oslo Cairo Accra Quito Dakar Hanoi Riga Sofia Tunis Minsk Doha Baku Suva
Madrid Lisbon Vienna Prague Warsaw Dublin Zurich Geneva Munich Hamburg Berlin Cologne Naples Turin Milan Venice Athens Ankara
Istanbul Izmir Tbilisi Yerevan Tehran Kabul Lahore Karachi Delhi Mumbai Chennai Kolkata Dhaka Colombo Yangon Bangkok Phuket Manila
Jakarta Bandung Perth Sydney Darwin Hobart Auckland Wellington Tokyo Osaka Kyoto Sapporo Seoul Busan Beijing Shanghai Taipei Macau
Nairobi Kampala Kigali Lusaka Harare Maputo Durban Windhoek Luanda Kinshasa Lagos Abuja Lome Bamako Rabat Algiers Tripoli Khartoum
Boston Chicago Denver Dallas Houston Seattle Portland Phoenix Atlanta Miami Toronto Ottawa Montreal Quebec Calgary Vancouver Havana
Kingston Caracas Bogota Medellin Cusco Santiago Valparaiso Rosario Cordoba Recife Salvador Brasilia Asuncion Tampere Helsinki
Bergen Malmo Uppsala Aarhus Tallinn Tartu Vilnius Kaunas Gdansk Krakow Brno Graz Linz Zagreb Split Sarajevo Skopje Tirana""".split()
FIRST_NAMES = """Anna Ben Clara David Elena Felix Grace Henry Irene Jonas Karin Liam Maria Nora Oscar Paula Quentin Rosa Samuel
Tina Umberto Vera Walter Xenia Yusuf Zoe Aisha Bruno Chloe Dmitri Esther Farid Gita Hugo Ingrid Jamal Keiko Lars Mei Nadia Olga
Pedro Ravi Sofie Tomas Ursula Victor Wendy Yara Zoltan Alice Carlos Diana Edgar Fatima Gustav Hannah Ivan Julia Kofi""".split()
LAST_NAMES = """Marsh Webb Novak Silva Keller Okafor Tanaka Larsen Moreau Rossi Haddad Petrov Nguyen Osei Lindgren Castro Weber
Dubois Romero Kowalski Brandt Fischer Horvat Ibrahim Jansen Kimura Lopez Mbeki Nakamura Olsen Patel Quist Ramos Schmidt Thorne
Ulrich Vargas Winter Yilmaz Zhou Adler Bishop Carver Dawson Ellis Foster Garner Hale Irving Jarvis Knox Lowell""".split()
ADJECTIVES = """red blue green yellow white black old new small large north south east west upper lower inner outer first second
third main back front quiet broken wooden silver golden iron glass stone round narrow central spare""".split()
OBJECTS = """door gate vault safe locker cabinet drawer archive library office kitchen workshop garage cellar attic tower bridge
station harbour market museum theatre school clinic bakery garden greenhouse barn boat truck van bus bicycle printer server router
terminal laptop scanner camera radio elevator warehouse laboratory classroom chess-club choir orchestra committee shelf suitcase
ledger catalogue telescope furnace pump lighthouse chapel fountain depot hangar studio""".split()
COLOURS = """red blue green yellow white black purple orange brown grey pink turquoise violet crimson scarlet beige ivory teal
navy maroon olive silver gold indigo amber cyan magenta""".split()
JOBS = """baker nurse pilot lawyer teacher farmer carpenter plumber dentist engineer painter sailor gardener tailor butcher
librarian journalist chemist electrician translator architect violinist cook driver mechanic surveyor""".split()
FOODS = """pasta soup bread cheese rice salad noodles pancakes lentils mushrooms tomatoes apples cherries plums honey dumplings
olives walnuts chocolate porridge curry pizza omelette""".split()
ANIMALS = """otter falcon badger tiger rabbit heron salmon turtle panda wolf fox lynx beaver owl raven dolphin hedgehog camel
giraffe koala lizard penguin sparrow stork""".split()
MONTHS = """January February March April May June July August September October November December""".split()


def random_id(rng: random.Random, length: int, alphabet: str = "0123456789abcdef") -> str:
    """A string of `length` characters of `alphabet`."""
    return "".join(rng.choice(alphabet) for _ in range(length))


def person(rng: random.Random) -> str:
    """A first name, or first and last name."""
    first = rng.choice(FIRST_NAMES)
    return f"{first} {rng.choice(LAST_NAMES)}" if rng.random() < 0.7 else first


def thing(rng: random.Random) -> str:
    """A phrase such as 'the old tower', 'the bakery in Riga' or 'printer 12'."""
    r = rng.random()
    if r < 0.55:
        return f"the {rng.choice(ADJECTIVES)} {rng.choice(OBJECTS)}"
    if r < 0.70:
        return f"the {rng.choice(OBJECTS)} in {rng.choice(CITIES)}"
    if r < 0.85:
        return f"the {rng.choice(OBJECTS)}"
    return f"{rng.choice(OBJECTS)} {rng.randint(1, 99)}"


def word_key(rng: random.Random, words: list[str]) -> str:
    """One corpus word or two joined by a hyphen."""
    w = rng.choice(words)
    return f"{w}-{rng.choice(words)}" if rng.random() < 0.55 else w


def key(rng: random.Random, kind: str, words: list[str]) -> str:
    """A key of a kind: city, person, thing, word, id; 'any' draws the kind too."""
    if kind == "any":
        kind = rng.choices(["city", "person", "thing", "word", "id"], [25, 20, 22, 23, 10])[0]
    if kind == "city":
        return rng.choice(PROTOCOL_CITIES) if rng.random() < 0.15 else rng.choice(CITIES)
    if kind == "person":
        return person(rng)
    if kind == "thing":
        return thing(rng)
    if kind == "word":
        return word_key(rng, words)
    if rng.random() < 0.3:
        return random_id(rng, 2, "ABCDEFGHJKLMNPQRSTUVWXYZ") + "-" + str(rng.randint(10, 999))
    return random_id(rng, rng.choice([4, 6, 8]))


def _digits(rng: random.Random, low: int, high: int) -> str:
    return str(rng.randint(10 ** (low - 1), 10**high - 1))


def value(rng: random.Random, kind: str, words: list[str]) -> str:
    """A value of a kind; 'code' draws among numbers, words, hex strings and upper-case codes."""
    if kind == "code":
        kind = rng.choices(["n5", "n", "words", "hex", "upper"], [38, 25, 15, 11, 11])[0]
    table = {
        "n5": lambda: str(rng.randint(10000, 99999)),
        "n": lambda: _digits(rng, n := rng.choice([4, 5, 6, 7]), n),
        "n2": lambda: str(rng.randint(2, 99)),
        "n3": lambda: _digits(rng, n := rng.choice([2, 3, 4]), n),
        "year": lambda: str(rng.randint(1900, 2025)),
        "phone": lambda: rng.choice(["{}{}", "{}-{}", "{} {}"]).format(_digits(rng, 3, 3), _digits(rng, 4, 4)),
        "words": lambda: " ".join(rng.choice(words) for _ in range(rng.choice([1, 1, 2, 3]))),
        "word": lambda: rng.choice(words),
        "hex": lambda: random_id(rng, rng.choice([6, 8, 8, 10])),
        "upper": lambda: random_id(rng, rng.choice([4, 6, 8]), "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"),
        "colour": lambda: rng.choice(COLOURS),
        "job": lambda: rng.choice(JOBS),
        "food": lambda: rng.choice(FOODS),
        "animal": lambda: rng.choice(ANIMALS),
        "city": lambda: rng.choice(CITIES),
        "person": lambda: person(rng),
        "name": lambda: rng.choice(FIRST_NAMES) if rng.random() < 0.5 else rng.choice(words).capitalize(),
        "date": lambda: f"{rng.randint(1, 28)} {rng.choice(MONTHS)}",
        "money": lambda: rng.choice(["{}", "{}.50", "{}.99"]).format(rng.randint(3, 4999)),
    }
    return table[kind]()
