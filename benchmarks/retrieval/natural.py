"""Passages of real documents, found by what stands far before them: natural_texts.py.

    make evidence-data
    KERAS_BACKEND=torch python -m benchmarks.retrieval.natural
    KERAS_BACKEND=torch python -m benchmarks.retrieval.natural --table  # the results as tables

Every way ranks the same passages. BM25 is that of bm25s. MiniLM reads a passage alone, behind the
title or the first sentence of its document, or in its document: in windows of 512 tokens, with more
positions and log-n, without training, or trained by `contextualize` on book excerpts, without
labels. A sum is of two vectors of length 1 of a passage, so it is one vector: behind its title or
in a window, and in its document. Licences and speeches are those of by_position.py, ranked by the
best of their passages. Results go to benchmarks/results/natural.json, a row per collection, way and
seed of the training; vectors are kept in build/natural, so that an interrupted run continues.
"""

import functools
import pathlib
import re

import numpy as np

from benchmarks.retrieval import natural_texts
from benchmarks.retrieval.natural_sections import SECTIONS
from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.intervals import half_width
from benchmarks.shared.kept import Study, keys, markdown, options, write_lines
from keras_posenc import TextModel, Tokenizer, embedder
from keras_posenc.retrieval import embed_spans, open_embedder
from keras_posenc.training import contextualize

COLLECTIONS = {**natural_texts.COLLECTIONS, **SECTIONS}
WITHOUT_TITLES = {*natural_texts.DOCUMENTS, "The Bible"}
RESULTS = pathlib.Path(__file__).parents[1] / "results" / "natural.json"
WINDOW, LENGTH = 512, 4096
TRAINED = 128  # the length of the texts that MiniLM was last trained on
LOG_N = [{"name": "log_n", "train_length": TRAINED, "clipped": True}]
ALONE, TITLE, FIRST = "passage alone", "title + passage", "first sentence + passage"
HEADING = "heading + passage"
WINDOWS, UNTRAINED = "windows of 512 tokens", "more positions, log-n, untrained"
CONTEXTUAL = "trained by `contextualize`"
READERS, IN_DOCUMENT, IN_WINDOWS = (WINDOWS, UNTRAINED, CONTEXTUAL), "in the document", "in windows"
WORDS = {"BM25": ALONE, "BM25 on title + passage": TITLE}
TITLE_CONTEXTUAL = f"{TITLE}, summed with {CONTEXTUAL}"
BOTH = {reader: f"{reader}, summed with its windows" for reader in READERS[1:]}
# Way -> its model, and the readings of a passage that it adds up.
SUMS = {
    ALONE: (WINDOWS, [ALONE]),
    FIRST: (WINDOWS, [FIRST]),
    TITLE: (WINDOWS, [TITLE]),
    **{reader: (reader, [IN_DOCUMENT]) for reader in READERS},
    f"{ALONE}, summed with {CONTEXTUAL}": (CONTEXTUAL, [ALONE, IN_DOCUMENT]),
    **{way: (reader, [IN_WINDOWS, IN_DOCUMENT]) for reader, way in BOTH.items()},
    **{f"{TITLE}, summed with {each}": (each, [TITLE, IN_DOCUMENT]) for each in READERS},
    HEADING: (WINDOWS, [HEADING]),
}
WAYS = [*WORDS, *SUMS]
OF_TRAINING = {way for way, (reader, _) in SUMS.items() if reader == CONTEXTUAL}
IN_OVERVIEW = {"BM25", ALONE, *READERS, BOTH[CONTEXTUAL], TITLE, TITLE_CONTEXTUAL, HEADING}
OF_TITLES = {way for way in WAYS if any(each in way for each in (TITLE, FIRST, HEADING))}


def main():
    parser = options(__doc__, RESULTS, "build/natural", seeds=(0,))
    parser.add_argument("--collections", nargs="+", default=list(COLLECTIONS), choices=COLLECTIONS)
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--documents", type=int, default=60)
    parser.add_argument("--steps", type=int, default=120, help="of `contextualize`")
    arguments = parser.parse_args()
    study = Study(arguments.results, write_lines)
    if not arguments.table:
        tokenizer = Tokenizer(MINILM)
        opened = functools.cache(functools.partial(_model, arguments.folder))

        def measured(collection, documents, way, seed, steps):
            texts = made(collection, documents)
            name = f"contextual-{seed}-{steps}"
            folder = arguments.folder / f"{collection.replace(chr(39), '')}-{documents}"
            reading = Reading(texts, functools.partial(opened, name, seed, steps), folder, name)
            scores = texts.ranked_by(reading.scores(way))
            found = [row[ranked] for row, ranked in zip(scores, texts.ranked, strict=True)]
            places = [int(np.flatnonzero(ranked == right)[0])
                      for ranked, right in zip(texts.ranked, texts.right, strict=True)]  # fmt: skip
            # A tie counts with the probability of being right.
            right = [float((row[place] >= row.max() - 1e-6) / (row >= row.max() - 1e-6).sum())
                     for row, place in zip(found, places, strict=True)]  # fmt: skip
            better = [int((row > row[place] + 1e-6).sum())
                      for row, place in zip(found, places, strict=True)]  # fmt: skip
            return {
                "document": texts.documents,
                "right": [round(each, 3) for each in right],
                "better": better,
                "ranked": [len(each) for each in texts.ranked],
                "top1": round(float(np.mean(right)), 4),
            }

        @functools.cache
        def made(collection, documents):
            return COLLECTIONS[collection](tokenizer, documents)

        for way in arguments.ways:
            trained = way in OF_TRAINING
            every = keys(
                collection=[
                    name
                    for name in arguments.collections
                    if name not in WITHOUT_TITLES or way not in OF_TITLES
                ],
                documents=[arguments.documents],
                way=[way],
                seed=arguments.seeds if trained else [0],
                steps=[arguments.steps] if trained else [0],
            )
            study.run(every, measured, ["top1"])
    print(table(study.rows))


def _model(folder, name, seed, steps, reader, length):
    """The embedder of a way of reading, which reads so many tokens at a time."""
    if reader == WINDOWS:
        return TextModel(embedder(MINILM), Tokenizer(MINILM), length)
    if reader == UNTRAINED:
        encoder = embedder(MINILM, extension="hierarchical:0.2,kept_rows=1", encodings=LOG_N)
        return TextModel(encoder, Tokenizer(MINILM), length)
    contextualize(MINILM, f"{CORPORA}/book-excerpts.tab", folder / name, steps=steps, seed=seed)
    return open_embedder(folder / name, max_length=length)


class Reading:
    """Scores of the passages of a collection, by any way.

    Args:
        texts: `Collection`.
        opened: function from a reader and a length in tokens to its model.
        folder: where vectors are kept.
        name: str, of the trained model.
    """

    def __init__(self, texts, opened, folder, name):
        self.texts, self.opened, self.folder, self.name = texts, opened, folder, name

    def scores(self, way):
        """Scores (Q, N) of all passages."""
        if way in WORDS:
            import bm25s  # only to measure, not for the tables

            bm25 = bm25s.BM25()
            bm25.index([_words(text) for text in self._prepended(WORDS[way])], show_progress=False)
            return np.array([bm25.get_scores(_words(query)) for query in self.texts.queries])
        reader, parts = SUMS[way]
        vectors = _unit(sum(self._vectors(reader, part) for part in parts))
        return self._vectors(reader, "queries") @ vectors.T

    def _vectors(self, reader, part):
        """Vectors of length 1 of passages in their documents, of prepended ones, or of queries."""
        name = self.name if reader == CONTEXTUAL else reader.split(",")[0].replace(" ", "-")
        path = self.folder / name / f"{part.replace(' ', '-')}.npy"
        if not path.exists():
            near = reader == WINDOWS or part == IN_WINDOWS
            model = self.opened(reader, WINDOW if near else LENGTH)
            if part in (IN_DOCUMENT, IN_WINDOWS):
                vectors = self._in_documents(model)
            else:
                texts = self.texts.queries if part == "queries" else self._prepended(part)
                vectors = model.predict(texts, verbose=0)
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, _unit(vectors))
        return np.load(path)

    def _in_documents(self, model):
        order, spans = [], [[] for _ in self.texts.texts]
        for number, (document, start, end, _) in enumerate(self.texts.passages):
            spans[document].append((start, end))
            order.append((document, len(spans[document]) - 1, number))
        found = embed_spans(model, self.texts.texts, spans, verbose=0).vectors
        vectors = np.zeros_like(found)
        vectors[[number for _, _, number in sorted(order)]] = found
        return vectors

    def _prepended(self, what):
        texts = self.texts
        before = {
            ALONE: lambda document, heading: "",
            TITLE: lambda document, heading: texts.titles[document] + "\n",
            FIRST: lambda document, heading: texts.texts[document].split("\n")[0] + "\n",
            HEADING: lambda document, heading: heading + "\n",
        }[what]
        return [
            before(document, heading) + texts.texts[document][start:end]
            for document, start, end, heading in texts.passages
        ]


def _unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _words(text):
    return re.findall(r"[^\W_]+", text.lower())


def table(rows):
    """A table per collection: top-1, mean reciprocal rank and gains by document, in %."""
    found = []
    for name in dict.fromkeys(row["collection"] for row in rows):
        some = [row for row in rows if row["collection"] == name]
        found.append(markdown(lines(name, some)))
    return "\n\n".join(found)


def overview(rows):
    """Top-1 in % of the most important ways, a column per collection."""
    columns = {name: [row for row in rows if row["collection"] == name]
               for name in dict.fromkeys(row["collection"] for row in rows)}  # fmt: skip
    ways = [_by_way(column) for column in columns.values()]
    shown = [way for way, some in ways[0].items() if some[0]["way"] in IN_OVERVIEW]
    return markdown([
        ["top-1", *(name.replace("World ", "") for name in columns)],
        *([way, *(_cell(by_document(some[way])) if way in some else "" for some in ways)]
          for way in shown),
        ["chance", *map(_chance, columns.values())],
    ])  # fmt: skip


def _chance(rows):
    return f"{100 * np.mean([1 / ranked for ranked in rows[0]['ranked']]):.0f}"


def _by_way(rows):
    ways = {}
    for row in sorted(rows, key=lambda row: WAYS.index(row["way"])):
        title = row["way"] + (f", {row['steps']} steps" if row["steps"] else "")
        ways.setdefault(title, []).append(row)
    return ways


def lines(name, rows):
    ways = _by_way(rows)
    first = rows[0]
    count = f"{len(first['right'])} queries about {len(set(first['document']))} documents"
    heads = [f"{name}: {count}, chance {_chance(rows)}%", "top-1", "mean reciprocal rank"]
    base = {each: by_document(ways[each]) for each in (WINDOWS, TITLE) if each in ways}
    found = [[*heads, *(f"top-1, gain over {each}" for each in base)]]
    for title, some in ways.items():
        top, rank = by_document(some), by_document(some, _reciprocal)
        gains = ["" if title == each else _cell(top - values, "+") for each, values in base.items()]
        found.append([title, _cell(top), _cell(rank), *gains])
    return found


def _reciprocal(row):
    return 100 / (1 + np.array(row["better"]))


def by_document(rows, values=lambda row: 100 * np.array(row["right"])):
    """(documents,) means of values over the queries of a document and the seeds."""
    found = np.mean([values(row) for row in rows], axis=0)
    documents = np.array(rows[0]["document"])
    return np.array([found[documents == each].mean() for each in np.unique(documents)])


def _cell(values, sign=""):
    return f"{values.mean():{sign}.0f} ± {half_width(values):.0f}"


if __name__ == "__main__":
    main()
