"""Exact search in stored vectors beside plain NumPy, FAISS and sentence-transformers.

    pip install faiss-cpu  # without it, FAISS is left out
    OMP_NUM_THREADS=1 KERAS_BACKEND=torch python -m benchmarks.jobs.nearest --turns 5

200,000 vectors of 384 numbers and 50 queries, the ten nearest of each; the vectors are in a .npy
file, which ours maps and the others have in memory. The sides take turns in one process of one
thread. Plain NumPy is a product of unit vectors and `argpartition`, so it has nothing to scale. The
first search of a file without a record also measures its lengths; it counts apart. Results go to
benchmarks/results/nearest.json and .md.
"""

import importlib.util
import json
import pathlib
import tempfile
import time

import numpy as np

from benchmarks.jobs import sides

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "nearest.json"
COUNT, WIDTH, QUERIES, TOP = 200_000, 384, 50, 10
BASE = "NumPy"
SIDES = [BASE, "keras_posenc", "FAISS", "sentence-transformers"]


def main():
    parser = sides.parser(__doc__, RESULTS, SIDES, turns=5)
    arguments = parser.parse_args()
    if not arguments.page:
        report = {f"{COUNT:,} vectors of {WIDTH}": measured(arguments.turns, COUNT)}
        arguments.results.write_text(json.dumps(report, indent=1) + "\n")
    report = sides.known(arguments.results)
    arguments.results.with_suffix(".md").write_text(page(report))


def measured(turns, count):
    """Side -> its numbers; ValueError if two sides find other vectors."""
    rng = np.random.default_rng(0)
    stored, queries = (rng.normal(size=(n, WIDTH)).astype("float32") for n in (count, QUERIES))
    stored, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (stored, queries))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "vectors.npy")
        np.save(path, stored)
        searches = searches_of(stored, path)
        first, found, best = {}, {side: [] for side in searches}, {}
        for turn in range(turns + 1):
            for side in searches:
                began = time.process_time()
                best[side] = searches[side](queries)
                seconds = time.process_time() - began
                if turn:
                    found[side].append({"seconds": seconds})
                else:
                    first[side] = round(seconds, 3)
            if any(not np.array_equal(best[side], best[BASE]) for side in searches):
                raise ValueError("Two sides find other vectors.")
    rows = sides.compared(found, BASE)
    return {side: {**row, "first": first[side]} for side, row in rows.items()}


def searches_of(stored, path):
    """Side -> function of queries that returns the numbers (Q, TOP) of the nearest vectors."""
    import torch
    from sentence_transformers import util

    from keras_posenc.retrieval import Vectors

    vectors = Vectors.load(path)

    def plain(queries):
        scores = queries @ stored.T
        best = np.argpartition(-scores, TOP, axis=1)[:, :TOP]
        order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1)
        return np.take_along_axis(best, order, 1)

    def peers(queries):
        hits = util.semantic_search(torch.tensor(queries), torch.tensor(stored), top_k=TOP)
        return np.array([[hit["corpus_id"] for hit in row] for row in hits])

    def ours(queries):
        return np.array([numbers for numbers, _ in vectors.search(queries, TOP)])

    searches = {BASE: plain, "keras_posenc": ours, "sentence-transformers": peers}
    if importlib.util.find_spec("faiss"):
        import faiss

        index = faiss.IndexFlatIP(stored.shape[1])
        index.add(stored)
        searches["FAISS"] = lambda queries: index.search(queries, TOP)[1]
    return searches


def page(report):
    text = [
        "# Search beside NumPy, FAISS and sentence-transformers",
        "",
        "Made by `python -m benchmarks.jobs.nearest`: "
        f"{QUERIES} queries, the {TOP} nearest of each,",
        "one thread. A cell has the processor time relative to NumPy in the same turn, the lowest",
        "and the highest turn in parentheses, the time, and that of the first search.",
        "",
        *sides.table(report, SIDES, cell, ()),
    ]
    return "\n".join(text) + "\n"


def cell(_, row):
    return f"{sides.ratio_cell(row)}, {row['seconds']:.2f} s, first {row['first']:.2f} s"


if __name__ == "__main__":
    main()
