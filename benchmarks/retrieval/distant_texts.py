"""Libraries of documents for distant_context.py: people and what is stated of them, and
natural texts that are searched by their titles."""

import dataclasses
import re

import numpy as np

from benchmarks.shared.data import CORPORA
from keras_posenc import read_texts
from keras_posenc.retrieval import chunk_spans

NAMES = {
    "She": "Ada Bea Clara Doris Edith Fiona Grace Hilda Irene Judith Karen Laura Martha Nora Olga "
    "Paula Rita Susan Tina Ursula Vera Wendy Yvonne Zoe Agnes Betty Carmen Diana Emma Flora Gloria "
    "Helen Ingrid Joan Kate Linda Monica Nancy Pamela Rachel Sarah Tanya",
    "He": "Adam Bruno Carl David Edgar Felix George Hugo Ivan Jacob Kevin Leo Martin Noah Oscar "
    "Peter Quentin Ralph Simon Tom Ulrich Victor Walter Albert Boris Conrad Daniel Eric Frank "
    "Gustav Harry Igor Jack Keith Louis Max Norman Otto Philip Robert Steven Theo",
}
JOBS = (
    "baker chemist dentist farmer gardener lawyer nurse painter pilot plumber tailor teacher "
    "butcher carpenter doctor singer"
).split()
INTRODUCTIONS = [
    "{name} is a {job}.",
    "{name} works as a {job}.",
    "There was a {job} named {name}.",
    "{name}, a {job}, had come from far away.",
    "This is the story of a {job} called {name}.",
    "{name} had always wanted to be a {job}, and became one.",
]
# The question, the sentence and what completes it.
RELATIONS = [
    ("Where does {} live now?", "{} now lives {}.",
     ["by the harbour", "near the station", "on a farm", "in the old mill", "next to the church"]),
    ("What did {} buy?", "{} then bought {}.",
     ["a bicycle", "a violin", "two horses", "a red coat", "a fishing boat"]),
    ("What is {} afraid of?", "{} is afraid of {}.",
     ["thunder", "spiders", "the dark", "deep water", "large dogs"]),
    ("What does {} like to eat?", "{} likes to eat {}.",
     ["cherries", "fried fish", "rye bread", "plum cake", "onion soup"]),
]  # fmt: skip
APART = 40  # tokens between two sentences about a person
CHUNK = 96  # tokens of a passage of natural text


@dataclasses.dataclass
class Library:
    """Documents, the passages in them that are ranked, and the queries.

    Attributes:
        texts: list of str.
        spans: list per text of (start, end) in characters.
        openings: list of str, the first sentence of each text.
        titles: list of str.
        queries: list of str.
        right: list of int arrays, the passages that answer each query, counted over all texts.
        ranked: list of int arrays, the passages that are ranked for each query.
        about: dict of lists with a value per query.
    """

    texts: list
    spans: list
    openings: list
    titles: list
    queries: list
    right: list
    ranked: list
    about: dict

    @classmethod
    def empty(cls, *about):
        return cls([], [], [], [], [], [], [], {name: [] for name in about})

    def rank_by_relation(self):
        """Ranks for each query the passages of all texts that state the same relation."""
        passages = [
            text[start:end]
            for text, spans in zip(self.texts, self.spans, strict=True)
            for start, end in spans
        ]
        kinds = np.array([" ".join(passage.split()[:3]) for passage in passages])
        self.ranked = [np.flatnonzero(kinds == kinds[row]) for (row,) in self.right]


def people(tokenizer, seed, place, distance, documents=16):
    """Texts in each of which a person is introduced by name and referred to later by a pronoun.

    All are introduced as many tokens before the sentences about them, so that no text is ahead of
    another by its distance. Someone of the other sex is introduced in each text, too. For each
    query the sentences of all texts are ranked that state the same relation.

    Args:
        place: "opening" or "inside", where the person is introduced: in the first sentence, or
            some hundred tokens behind that of the other person.
        distance: tokens from the introduction to the first of the sentences.
    """
    rng = np.random.default_rng([seed, distance, place == "inside"])
    sexes = list(NAMES)[:: 1 if seed % 2 else -1]
    names = {sex: rng.permutation(every.split()) for sex, every in NAMES.items()}
    library, filler = Library.empty("document", "distance"), tales_of_filler(tokenizer)
    for number in range(documents):
        start = int(rng.uniform(60, 300)) if place == "inside" else 0
        # The other person has the first sentence where this one has not.
        other = 0 if start else int(rng.uniform(0.2, 0.8) * distance)
        events = [
            (at, _introduction(rng, names[sex][number]), names[sex][number], None)
            for sex, at in zip(sexes, (start, other), strict=True)
        ]
        name = names[sexes[0]][number]
        for step, relation in enumerate(rng.permutation(len(RELATIONS))):
            question, sentence, objects = RELATIONS[relation]
            sentence = sentence.format(sexes[0], rng.choice(objects))
            at = start + distance + step * APART
            events.append((at, sentence, name, question.format(name)))
        size = start + distance + (len(RELATIONS) + 1) * APART
        sentences = filler_of(filler, number + seed * documents, size)
        add(library, tokenizer, *sentences, sorted(events, key=lambda event: event[0]))
    library.rank_by_relation()
    return library


def one_person(tokenizer, seed, distance, documents=30):
    """The easier test: texts that differ in nothing but the name in their first sentence.

    Each text ends with the same sentence about its only person. For each name the last sentences of
    all texts are ranked, so a sentence that is read alone is found by chance.

    Args:
        distance: tokens between the first sentence and the last one.
    """
    names = np.random.default_rng([seed, distance, 2]).permutation(NAMES["She"].split())
    library, question, sentence = Library.empty("document", "distance"), *RELATIONS[0][:2]
    last = sentence.format("She", RELATIONS[0][2][0])
    sentences, _ = filler_of(tales_of_filler(tokenizer), seed * documents, distance + 1000)
    filler = " ".join(sentences)
    ((_, offsets),) = tokenizer.contents([filler], offsets=True)
    filler = filler[: offsets[distance - 1][1]]
    for number, name in enumerate(names[:documents]):
        opening = f"{name} is a chemist."
        text = f"{opening} {filler} {last}"
        library.texts.append(text)
        library.spans.append([(len(text) - len(last), len(text))])
        library.openings.append(opening)
        library.titles.append("")
        library.queries.append(question.format(name))
        library.right.append(np.array([number]))
        library.about["document"].append(number)
        library.about["distance"].append(distance)
    library.ranked = [np.arange(len(library.texts))] * len(library.texts)
    return library


def _introduction(rng, name):
    return rng.choice(INTRODUCTIONS).format(name=name, job=rng.choice(JOBS))


def add(library, tokenizer, sentences, counts, events):
    """Adds a document with the sentences of `events`: (tokens before it, sentence, the name of the
    person, query). Introductions have no query."""
    before = np.concatenate([[0], np.cumsum(counts)])
    pieces, at = [], 0
    for place, *event in events:
        until = max(at, int(np.searchsorted(before, place)))
        pieces += [(filler, None, None) for filler in sentences[at:until]]
        pieces.append(event)
        at = until
    pieces += [(filler, None, None) for filler in sentences[at:]]
    tokens = [len(ids) for ids in tokenizer.contents([piece for piece, *_ in pieces])]
    first, text, total, spans, introduced = sum(map(len, library.spans)), "", 0, [], {}
    for (piece, name, question), count in zip(pieces, tokens, strict=True):
        text = f"{text} {piece}".lstrip()
        if question is not None:
            library.queries.append(question)
            library.right.append(np.array([first + len(spans)]))
            library.about["document"].append(len(library.texts))
            library.about["distance"].append(total - introduced[name])
            spans.append((len(text) - len(piece), len(text)))
        elif name is not None:
            introduced[name] = total
        total += count
    library.texts.append(text)
    library.spans.append(spans)
    library.openings.append(pieces[0][0])
    library.titles.append("")


def tales_of_filler(tokenizer):
    """The sentences of each tale, and how many tokens each has."""
    tales = []
    for text in read_texts(f"{CORPORA}/grimm-tales.tab", text="Content", label=False).texts:
        sentences = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
        tales.append((sentences, [len(ids) for ids in tokenizer.contents(sentences)]))
    return tales


def sentences(tokenizer, most=400):
    """Single sentences of tales."""
    found = [s for some, _ in tales_of_filler(tokenizer)[:40] for s in some if 30 < len(s) < 200]
    return found[:most]


def filler_of(tales, number, tokens):
    """Sentences of one tale and, where it ends, of the following ones, with their counts."""
    sentences, counts = [], []
    while True:
        for sentence, count in zip(*tales[number % len(tales)], strict=True):
            if sum(counts) + count > tokens:
                return sentences, counts
            sentences.append(sentence)
            counts.append(count)
        number += 1


def tales(tokenizer, length=1536, most=30):
    """Grimm's and Andersen's tales of 900 tokens and more, by title."""
    named = []
    for name in ("andersen", "grimm-tales"):
        named += [(row["Title"], row["Content"]) for row in _table(name)]
    return _by_title(tokenizer, named, length, 900, most)


def episodes(tokenizer, length=4096, most=24):
    """Transcripts of episodes of Friends with `length` tokens and more, by title."""
    found = {}
    for row in _table("friends-transcripts"):
        line = f"{row['Author']}: {row['Quote'].strip()}\n"
        found.setdefault(row["Title"], []).append(line)
    order = np.random.default_rng(0).permutation(len(found))
    named = [(title, "".join(lines)) for title, lines in found.items()]
    return _by_title(tokenizer, [named[i] for i in order], length, length, most)


def _by_title(tokenizer, named, length, least, most=None):
    """A library of passages; the titles are taken out of the texts, which are cut at `length`."""
    library, first = Library.empty("document"), 0
    for title, text in named:
        if len(library.texts) == most:
            break
        text = re.sub(re.escape(title), "", text, flags=re.IGNORECASE).strip()
        ((_, offsets),) = tokenizer.contents([text], offsets=True)
        if len(offsets) < least:
            continue
        text = text[: offsets[min(len(offsets), length - 2) - 1][1]]
        spans = chunk_spans(text, tokenizer, CHUNK)
        library.about["document"].append(len(library.texts))
        library.texts.append(text)
        library.spans.append(spans)
        library.openings.append(re.split(r"(?<=[.!?])\s+", text)[0])
        library.titles.append(title)
        library.queries.append(title)
        library.right.append(np.arange(first, first + len(spans)))
        first += len(spans)
    library.ranked = [np.arange(first)] * len(library.queries)
    return library


def _table(name):
    """The rows of a corpus of Orange, as dicts."""
    with open(f"{CORPORA}/{name}.tab", encoding="utf-8") as file:
        heads, _, _, *rows = (line.rstrip("\n").split("\t") for line in file)
    return [dict(zip(heads, row, strict=True)) for row in rows if len(row) == len(heads)]
