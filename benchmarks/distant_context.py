"""Distant context without labels: does a chunk's vector know who its document is about?

    KERAS_BACKEND=torch python benchmarks/distant_context.py
    KERAS_BACKEND=torch python benchmarks/distant_context.py --table      # the results as a table

Each document is a piece of one of Grimm's tales into which a person is introduced by name, as its
first sentence ("opening") or after 10 to 150 tokens ("inside"). A sentence about that person
follows so many tokens later, with a pronoun in place of the name. The query asks by name, and the
sentences of all documents are ranked. A sentence that is embedded alone has the relation that the
query asks for and the pronoun, but not the person. Nothing is trained.

Each way of reading gets the same documents, sentences and queries. Results go to
benchmarks/results/distant_context.json, a row per way, place, distance and seed, and are
not computed again.
"""

import dataclasses
import itertools
import pathlib
import re
import time

import numpy as np
from data import CORPORA, MINILM
from kept import options, read_rows, stamp, write_rows

from keras_posenc import TextModel, Tokenizer, embedder, read_texts
from keras_posenc.retrieval import embed_spans

RESULTS = pathlib.Path(__file__).parent / "results" / "distant_context.json"
DISTANCES, PLACES = (60, 300, 700, 1600), ("opening", "inside")
KEYS = ("way", "place", "distance", "seed")
WINDOW, LENGTH, LAYERS = 512, 2048, 6
LOCAL = [{"name": "window", "window": 129, "global_tokens": 1}]  # 128 tokens to each side
TABLE = {"stretch": "hierarchical", "hierarchical_position": 0.2, "kept_rows": 1}
# Way of reading -> the arguments of the encoder, or None to read in windows of 512 tokens.
WAYS = {
    "sentence alone": None,
    "sentence after the document's first sentence": None,
    "late chunking in windows of 512 tokens": None,
    "late chunking, hierarchical positions, row 0 for [CLS]": TABLE,
    "the same, every third layer global": TABLE
    | {"encodings": [[] if layer % 3 == 0 else LOCAL for layer in range(LAYERS)]},
    "late chunking, tiled positions, row 0 for [CLS]": {"stretch": "tile", "kept_rows": 1},
    "late chunking, interpolated positions": {"stretch": "interpolate", "max_position": LENGTH},
    "late chunking, hierarchical positions of Su (2020)": {"hierarchical_position": True},
}
NAMES = {
    "She": "Ada Bea Clara Doris Edith Fiona Grace Hilda Irene Judith Laura Martha Nora Olga Paula",
    "He": "Adam Bruno Carl David Edgar Felix George Hugo Ivan Jacob Leo Martin Noah Oscar Peter",
}
JOBS = "baker chemist dentist farmer gardener lawyer nurse painter pilot plumber tailor teacher"
INTRODUCTIONS = ["{} is a {}.", "{} works as a {}.", "There was a {1} named {0}."]
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


def main():
    parser = options(__doc__, RESULTS, "build/distant_context")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--distances", type=int, nargs="+", default=list(DISTANCES))
    parser.add_argument("--places", nargs="+", default=list(PLACES), choices=PLACES)
    arguments = parser.parse_args()
    rows = read_rows(arguments.results)
    known = {tuple(row[name] for name in KEYS) for row in rows}
    wanted = itertools.product(
        arguments.ways, arguments.places, arguments.distances, arguments.seeds
    )
    wanted = [key for key in wanted if key not in known and not arguments.table]
    tokenizer = Tokenizer(MINILM)
    for way, keys in itertools.groupby(wanted, lambda key: key[0]):
        length = WINDOW if WAYS[way] is None else LENGTH
        model = TextModel(embedder(MINILM, **(WAYS[way] or {})), tokenizer, length)
        for key in keys:
            started = time.process_time()
            texts = documents(tokenizer, *key[1:])
            found = scores(*vectors(model, way, texts))
            row = dict(zip(KEYS, key, strict=True)) | {"documents": len(texts)}
            rows.append(row | found | stamp(started))
            print(*key, found, flush=True)
            write_rows(arguments.results, rows)
    print(table(rows))


@dataclasses.dataclass
class Document:
    """A text, and where its sentence about the person stands.

    Attributes:
        text, query: str.
        span: (start, end) of the sentence, in characters.
        opening: str, the first sentence of the document.
    """

    text: str
    query: str
    span: tuple
    opening: str


def documents(tokenizer, place, distance, seed):
    """Makes one document per person, all with so many tokens between the name and the sentence."""
    rng = np.random.default_rng(seed)
    people = [(name, pronoun) for pronoun, names in NAMES.items() for name in names.split()]
    tales = _tales(tokenizer, distance + 400)
    made = []
    for number, (name, pronoun) in enumerate(people[i] for i in rng.permutation(len(people))):
        sentences, counts = tales[(number + seed * len(people)) % len(tales)]
        introduction = rng.choice(INTRODUCTIONS).format(name, rng.choice(JOBS.split()))
        question, sentence, objects = RELATIONS[rng.integers(len(RELATIONS))]
        sentence = sentence.format(pronoun, rng.choice(objects))
        first = 1 + int(np.searchsorted(np.cumsum(counts), rng.integers(10, 150)))
        first = 0 if place == "opening" else first
        reached = np.cumsum(counts[first:])
        second = first + int(np.searchsorted(reached, distance)) + 1 if distance else first
        last = second + int(np.searchsorted(np.cumsum(counts[second:]), 60)) + 1
        before = [*sentences[:first], introduction, *sentences[first:second]]
        start = len(" ".join(before)) + 1
        text = " ".join([*before, sentence, *sentences[second:last]])
        span = (start, start + len(sentence))
        made.append(Document(text, question.format(name), span, before[0]))
    return made


def _tales(tokenizer, tokens):
    """The tales with enough tokens: their sentences, and how many tokens each has."""
    tales = []
    for text in read_texts(f"{CORPORA}/grimm-tales.tab", text="Content", label=False).texts:
        sentences = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
        counts = [len(ids) for ids in tokenizer.contents(sentences)]
        if sum(counts) >= tokens:
            tales.append((sentences, counts))
    return tales


def vectors(model, way, texts):
    """The vectors of the sentences (N, D) by one way of reading, and of the queries (N, D)."""
    queries = model.predict([document.query for document in texts], verbose=0)
    sentences = [document.text[slice(*document.span)] for document in texts]
    if way == "sentence alone":
        return model.predict(sentences, verbose=0), queries
    if way == "sentence after the document's first sentence":
        both = [f"{d.opening} {s}" for d, s in zip(texts, sentences, strict=True)]
        return model.predict(both, verbose=0), queries
    spans = [[document.span] for document in texts]
    return embed_spans(model, [d.text for d in texts], spans, verbose=0).vectors, queries


def scores(sentences, queries):
    """Top-1 accuracy and mean reciprocal rank of the right sentence; ties count half."""
    similar = queries @ sentences.T
    right = np.diag(similar)[:, None]
    ranks = 1 + (similar > right).sum(1) + ((similar == right).sum(1) - 1) / 2
    return {
        "top1": round(float((ranks < 1.5).mean()), 4),
        "mrr": round(float((1 / ranks).mean()), 4),
    }


def table(rows):
    """A row per way, a column per place and distance: top-1 in %, mean reciprocal rank."""
    columns = sorted({(row["place"], row["distance"]) for row in rows}, reverse=True)
    columns.sort(key=lambda column: (column[0] != "opening", column[1]))
    lines = [["way", *(f"{place}, {distance}" for place, distance in columns)]]
    for way in WAYS:
        cells = {column: [] for column in columns}
        for row in rows:
            if row["way"] == way:
                cells[row["place"], row["distance"]].append((100 * row["top1"], row["mrr"]))
        means = [np.mean(cell, axis=0) if cell else None for cell in cells.values()]
        lines.append([way, *("–" if m is None else f"{m[0]:.0f} / {m[1]:.2f}" for m in means)])
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
