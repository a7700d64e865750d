"""Documents found by one of their passages: by the depth of the passage and the document's length.

    make evidence-data
    KERAS_BACKEND=torch python -m benchmarks.retrieval.by_position
    KERAS_BACKEND=torch python -m benchmarks.retrieval.by_position --table  # the results as tables

Natural documents of 1,200 to 6,000 words are ranked for a query that is tied to a span of 40 words
at a depth of 5, 25, 50, 75 or 95% of its document (long_documents.py). The query leaves
out the third of the span's distinct words that the fewest documents have, so that no rare word
gives the document away. A document's score is its vector's cosine with the query, or the highest of
its chunks of 256 tokens.

By default, nothing is trained. `--ways` also takes one that is, by `contextualize` on book
excerpts, without labels. Results go to benchmarks/results/by_position.json, a row per model, corpus
and way with the rank of each query's document, and are not computed again; vectors are kept per
document in build/by_position, so that an interrupted run continues.
"""

import functools
import json
import pathlib

import numpy as np

from benchmarks.retrieval.long_documents import CORPORA as COLLECTIONS
from benchmarks.retrieval.long_documents import DEPTHS, LENGTHS
from benchmarks.retrieval.untrained import Landmarks, calibrated
from benchmarks.shared.data import CORPORA, MINILM, mpnet
from benchmarks.shared.intervals import half_width
from benchmarks.shared.kept import Study, keys, markdown, options, write_lines
from benchmarks.shared.reading import by_words
from keras_posenc import TextModel, Tokenizer, embedder
from keras_posenc.retrieval import chunk_spans, embed_spans, open_embedder
from keras_posenc.training import contextualize

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "by_position.json"
PER_LENGTH, CHUNK, WINDOW, LENGTH = 10, 256, 512, 8192
LANDMARK = 128  # tokens between landmarks
MODELS = {"MiniLM": lambda: MINILM, "MPNet": mpnet}
TRAINED = 128  # the length of the texts that both models were last trained on
LOG_N = [{"name": "log_n", "train_length": TRAINED, "clipped": True}]
TABLE = {"extension": "hierarchical:0.2,kept_rows=1"}
STEPS = 60  # of `contextualize`
WORDS, WORDS_CHUNKS = "BM25", "BM25, best chunk"
FIRST, CHUNKS = "first 512 tokens", "chunks embedded alone, best one"
LANDMARKS = "stretched, untrained, log-n, landmarks"
# Encoder of a way of reading -> its arguments and maximum length.
UNTRAINED = {
    "512-token windows": ({}, WINDOW),
    "512-token windows, log-n": ({"encodings": LOG_N}, WINDOW),
    "stretched, untrained": (TABLE, LENGTH),
    "stretched, untrained, log-n": ({**TABLE, "encodings": LOG_N}, LENGTH),
    "stretched, untrained, log-n, calibrated": (
        {**TABLE, "encodings": lambda layers: calibrated(LOG_N, layers)},
        LENGTH,
    ),
}
CONTEXTUAL = "trained by `contextualize`"
WHOLE, LATE = "one vector", "late chunks, best one"
CONTEXT = [f"{reader}: {kind}" for reader in (*UNTRAINED, CONTEXTUAL) for kind in (WHOLE, LATE)]
WAYS = [WORDS, WORDS_CHUNKS, FIRST, CHUNKS, *CONTEXT, LANDMARKS]
DRAWN = [
    f"512-token windows: {LATE}",
    *(f"stretched, untrained, log-n: {k}" for k in (WHOLE, LATE)),
]
DEFAULT_WAYS = [*WAYS[:4], f"512-token windows: {WHOLE}", *DRAWN]


def main():
    parser = options(__doc__, RESULTS, "build/by_position", seeds=(0,))
    parser.add_argument("--models", nargs="+", default=["MiniLM"], choices=MODELS)
    parser.add_argument("--corpora", nargs="+", default=list(COLLECTIONS), choices=COLLECTIONS)
    parser.add_argument("--ways", nargs="+", default=DEFAULT_WAYS, choices=WAYS)
    parser.add_argument("--per-length", type=int, default=PER_LENGTH)
    arguments = parser.parse_args()
    study = Study(arguments.results, write_lines)
    if not arguments.table:

        def measured(seed, model, corpus, way, per_length):
            collection = COLLECTIONS[corpus](per_length, seed)
            directory = MODELS[model]()
            tokenizer = Tokenizer(directory)
            if way in (WORDS, WORDS_CHUNKS):
                found = word_scores(collection, tokenizer, way)
            else:
                folder = arguments.folder / f"{model}-{seed}" / corpus
                found = scores(collection, Reading(directory, tokenizer, way, folder, seed))
            places = ranks(collection, found)
            words = [int(collection.sizes()[query.document]) for query in collection.queries]
            return {
                "documents": len(collection.texts),
                "document": [query.document for query in collection.queries],
                "depth": [query.depth for query in collection.queries],
                "words": words,
                "ranks": places,
                "top1": round(float(np.mean(np.array(places) <= 1)), 4),
            }

        every = keys(
            seed=arguments.seeds,
            model=arguments.models,
            corpus=arguments.corpora,
            way=arguments.ways,
            per_length=[arguments.per_length],
        )
        study.run(every, measured, ["top1"])
    print(table(study.rows))


class Reading:
    """Vectors of documents and queries by one way, kept on disk per text.

    Args:
        directory: of the original embedder.
        tokenizer: `Tokenizer`.
        way: one of `WAYS`.
        folder: where vectors and trained models are kept.
        seed: of the training.
    """

    def __init__(self, directory, tokenizer, way, folder, seed):
        self.directory, self.tokenizer, self.folder = directory, tokenizer, folder
        self.seed = seed
        self.reader, _, self.kind = way.partition(": ")

    @functools.cached_property
    def model(self):
        if self.reader == CONTEXTUAL:
            return trained(self.directory, self.folder.parent, self.seed)
        if self.reader == LANDMARKS:
            arguments = {**TABLE, "encodings": LOG_N}
            return Landmarks(self.directory, self.tokenizer, LANDMARK, LENGTH, **arguments)
        arguments, length = UNTRAINED.get(self.reader, ({}, WINDOW))
        if callable(arguments.get("encodings")):
            layers = json.loads(pathlib.Path(self.directory, "config.json").read_text("utf-8"))
            encodings = arguments["encodings"](layers["num_hidden_layers"])
            arguments = {**arguments, "encodings": encodings}
        return TextModel(embedder(self.directory, **arguments), self.tokenizer, length)

    def queries(self, texts):
        return self._kept(f"{len(texts)}-queries", lambda: self.model.predict(texts, verbose=0))

    def document(self, name, text):
        """Vectors (N, D) of a document: its own, or those of its chunks."""
        if self.kind:
            vectors = self._kept(name, lambda: self._in_context(text))
            return vectors[-1:] if self.kind == WHOLE else vectors[:-1]
        if self.reader in (FIRST, LANDMARKS):
            return self._kept(name, lambda: self.model.predict([text], verbose=0))
        return self._kept(name, lambda: self.model.predict(pieces(text, self.tokenizer), verbose=0))

    def _in_context(self, text):
        spans = chunk_spans(text, self.tokenizer, tokens=CHUNK)
        return embed_spans(self.model, [text], [[*spans, (0, len(text))]], verbose=0).vectors

    def _kept(self, name, compute):
        reader = self.reader.translate({ord("`"): None, ord(" "): "-"})
        path = self.folder / reader / f"{name}.npy"
        if not path.exists():
            vectors = compute()
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, vectors)
        return np.load(path)


def trained(directory, folder, seed):
    """The embedder that `contextualize` makes of an original one."""
    texts, output = f"{CORPORA}/book-excerpts.tab", folder / f"contextual-{seed}"
    contextualize(
        directory, texts, output, max_length=LENGTH, log_n=TRAINED, steps=STEPS, seed=seed
    )
    return open_embedder(output, max_length=LENGTH)


def pieces(text, tokenizer):
    return [text[start:end] for start, end in chunk_spans(text, tokenizer, tokens=CHUNK)]


def word_scores(collection, tokenizer, way):
    """Scores (Q, N) by BM25 of whole documents, or of the best chunk of each."""
    chunked = way == WORDS_CHUNKS
    parts = [pieces(text, tokenizer) if chunked else [text] for text in collection.texts]
    asked = tokenizer.contents([query.text for query in collection.queries])
    found = by_words(
        [list(ids) for ids in asked],
        [list(ids) for ids in tokenizer.contents(sum(parts, []))],
    )
    ends = np.cumsum([len(each) for each in parts])[:-1]
    return np.stack([each.max(1) for each in np.split(found, ends, axis=1)], axis=1)


def scores(collection, reading):
    """Scores (Q, N) of the documents by one way of reading."""
    queries = reading.queries([query.text for query in collection.queries])
    found = zip(collection.names, collection.texts, strict=True)
    return np.stack([(queries @ reading.document(*each).T).max(1) for each in found], axis=1)


def ranks(collection, found):
    """The rank, from 1, of each query's document; ties count in full."""
    right = [row[query.document] for row, query in zip(found, collection.queries, strict=True)]
    return (found >= np.array(right)[:, None] - 1e-9).sum(1).tolist()


def by(rows, name, edges=None):
    """Way -> column -> the top-1 of each document in %, over the queries of the column.

    Args:
        rows: of one model and corpus.
        name: "depth" or "words".
        edges: bounds of the columns of "words".
    """
    found = {}
    for row in rows:
        values = np.array(row[name])
        columns = np.digitize(values, edges[1:-1]) if edges else values
        right, document = np.array(row["ranks"]) == 1, np.array(row["document"])
        for column in np.unique(columns).tolist():
            here = columns == column
            means = [100 * right[here & (document == each)].mean()
                     for each in np.unique(document[here])]  # fmt: skip
            found.setdefault(row["way"], {})[column] = np.array(means)
    return found


def table(rows):
    """A table per seed, model, corpus and number of documents."""
    names = ("seed", "model", "corpus", "per_length")
    kinds = dict.fromkeys(tuple(row[name] for name in names) for row in rows)
    tables = ([row for row in rows if tuple(row[name] for name in names) == kind] for kind in kinds)
    return "\n\n".join(markdown(lines(some)) for some in tables)


def lines(rows):
    """Top-1 in % with 95% intervals over documents, by depth and by length."""
    rows = sorted(rows, key=lambda row: WAYS.index(row["way"]))
    depths, words = by(rows, "depth"), by(rows, "words", LENGTHS)
    first = rows[0]
    heads = [f"{first['model']}, {first['corpus']}, {first['documents']} documents"]
    heads += [f"depth {100 * depth:.0f}%" for depth in DEPTHS]
    heads += [f"{a:,} to {b:,} words" for a, b in zip(LENGTHS[:-1], LENGTHS[1:], strict=True)]
    found = [[*heads, "all"]]
    for row in rows:
        means = [depths[row["way"]].get(depth) for depth in DEPTHS]
        means += [words[row["way"]].get(column) for column in range(len(LENGTHS) - 1)]
        means.append(np.concatenate(list(words[row["way"]].values())))
        found.append([row["way"], *map(_cell, means)])
    return found


def _cell(values):
    if values is None:
        return ""
    half = f" ± {half_width(values):.0f}" if len(values) > 1 else ""
    return f"{values.mean():.0f}{half}"


if __name__ == "__main__":
    main()
