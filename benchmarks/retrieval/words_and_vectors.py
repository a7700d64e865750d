"""How much words should count beside vectors, and how the scores of both are scaled.

    make evidence-data
    KERAS_BACKEND=torch python -m benchmarks.retrieval.words_and_vectors

The documents are those of natural_texts.py. Each query is ranked among all passages of its
collection. "far" queries name a document and a part whose passage does not name the document;
"quoted" queries are eight words of a passage in another order, four of them left out. Vectors are
those of MiniLM without training: of a passage alone, behind its title, or in its document, read in
windows of 512 tokens. The reciprocal rank of the right passage is averaged over queries. Results
go to benchmarks/results/words_and_vectors.json.
"""

import argparse
import json
import pathlib

import numpy as np

from benchmarks.retrieval.natural_texts import COLLECTIONS, DOCUMENTS
from benchmarks.shared.data import MINILM
from benchmarks.shared.kept import markdown
from keras_posenc.retrieval import embed_spans, open_embedder
from keras_posenc.retrieval.words.index import WordIndex

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "words_and_vectors.json"
WEIGHTS = [round(0.1 * n, 1) for n in range(11)]
WINDOW = 512
SCALED = {
    "minmax": "from 0 to 1, over the passages",
    "theoretical": "from the lowest possible score",
    "deviations": "by their standard deviation",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=60)
    natural = [name for name in COLLECTIONS if name not in DOCUMENTS]
    parser.add_argument("--collections", nargs="+", default=natural, choices=natural)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    model, rows = open_embedder(MINILM, max_length=WINDOW), []
    for name in arguments.collections:
        texts = COLLECTIONS[name](model.tokenizer, arguments.documents)
        rows += [
            {"collection": name, "documents": len(texts.texts), **row}
            for row in _rows(model, texts)
        ]
        arguments.results.write_text(json.dumps(rows, indent=0))
        print(name, len(texts.passages), flush=True)
    print(table(rows))


def _rows(model, texts):
    """A row per kind of query, of vectors and of words."""
    chunks = [texts.chunk(n) for n in range(len(texts.passages))]
    titles = [texts.titles[document] for document, *_ in texts.passages]
    titled = [f"{title}\n{chunk}" for title, chunk in zip(titles, chunks, strict=True)]
    spans = [[] for _ in texts.texts]
    for document, start, end, _ in texts.passages:
        spans[document].append((start, end))
    vectors = {
        "alone": model.encode_documents(chunks, 0),
        "title": model.encode_documents(titled, 0),
        "windows": embed_spans(model, texts.texts, spans, 0).vectors,
    }
    indexes = {"alone": WordIndex.of(chunks), "title": WordIndex.of(titled)}
    rng = np.random.default_rng(0)
    quoted, right = [], rng.permutation(len(chunks))[: len(texts.queries)].tolist()
    for number in right:
        words = chunks[number].split()
        first = rng.integers(max(1, len(words) - 12))
        quoted.append(" ".join(rng.permutation(words[first : first + 12])[:8]))
    for kind, queries, wanted in (("far", texts.queries, texts.right), ("quoted", quoted, right)):
        asked = model.encode_queries(queries, 0)
        for words, index in indexes.items():
            by_words = np.array([index.scores(query) for query in queries])
            for reading, values in vectors.items():
                scores = fused(asked @ values.T, by_words)
                found = {name: round(reciprocal_rank(each, wanted), 4) for name, each in scores}
                yield {
                    "queries": kind,
                    "count": len(queries),
                    "words": words,
                    "vectors": reading,
                } | found


def fused(vectors, words):
    """Yields (name, scores) of each way of joining the scores (Q, N) of both."""
    ways = {
        # Over the passages, from the least.
        "minmax": (_from(vectors, vectors.min(1)), _from(words, words.min(1))),
        # From the least that there can be.
        "theoretical": (_from(vectors, -1), _from(words, 0)),
        "deviations": (_deviations(vectors), _deviations(words)),
    }
    for name, (by_vectors, by_words) in ways.items():
        for weight in WEIGHTS:
            yield f"{name}:{weight}", weight * by_words + (1 - weight) * by_vectors
    ranks = [np.argsort(np.argsort(-each, 1, "stable"), 1) + 1 for each in (vectors, words)]
    for k in (10, 60):
        yield f"rrf:{k}", 1 / (k + ranks[0]) + (words > 0) / (k + ranks[1])


def _from(scores, least):
    least = np.reshape(least, (-1, 1))
    return (scores - least) / np.maximum(scores.max(1, keepdims=True) - least, 1e-9)


def _deviations(scores):
    return (scores - scores.mean(1, keepdims=True)) / np.maximum(scores.std(1, keepdims=True), 1e-9)


def reciprocal_rank(scores, wanted):
    """The mean of 1 / rank of the wanted passages, where ties count by their middle."""
    own = np.take_along_axis(scores, np.reshape(wanted, (-1, 1)), 1)
    better, equal = (scores > own + 1e-6).sum(1), (np.abs(scores - own) <= 1e-6).sum(1)
    return float(np.mean(1 / (better + (equal + 1) / 2)))


def table(rows):
    """Mean reciprocal ranks in %, by the scaling of the scores and the weight of the words."""
    found = [
        ["scores are scaled", "queries", *(f"{w:g} words" for w in WEIGHTS[::2]), "RRF, k = 60"]
    ]
    for kind in ("far", "quoted"):
        some = [row for row in rows if row["queries"] == kind]
        for name, label in SCALED.items():
            cells = [_mean(some, f"{name}:{weight}") for weight in WEIGHTS[::2]]
            found.append([label, kind, *cells, _mean(some, "rrf:60")])
    return markdown(found)


def _mean(rows, name):
    return f"{100 * np.mean([row[name] for row in rows]):.0f}"


if __name__ == "__main__":
    main()
