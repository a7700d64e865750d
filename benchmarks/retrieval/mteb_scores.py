"""Scores by MTEB, of sentence-transformers and of this library, on the same offline task.

    make evidence-data
    python -m pip install mteb
    KERAS_BACKEND=torch python -m benchmarks.retrieval.mteb_scores
    KERAS_BACKEND=torch python -m benchmarks.retrieval.mteb_scores --table  # the results as a table

The task is that of mteb_passages.py, which any other model can be judged by. Both
libraries read all-MiniLM-L6-v2: the first two rows must be equal within 1e-5, and the next two.
Results go to benchmarks/results/mteb.json and are not computed again.
"""

import importlib.metadata
import pathlib

from benchmarks.shared.data import MINILM
from benchmarks.shared.kept import Study, keys, markdown, options, write_lines

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "mteb.json"
THEIRS, OURS = "sentence-transformers", "keras_posenc"
STRETCHED = {"max_length": 2048, "extension": "hierarchical:0.2,kept_rows=1"}
# Way of reading -> for sentence-transformers the maximum length, for us arguments of the adapter.
WAYS = {
    f"{THEIRS}, first 256 tokens": 256,
    f"{OURS}, first 256 tokens": {"max_length": 256},
    f"{THEIRS}, first 512 tokens": 512,
    f"{OURS}, first 512 tokens": {"max_length": 512},
    f"{OURS}, mean of chunks of 256": {"reading": "chunks:256"},
    f"{OURS}, mean of late chunks in windows of 512": {"reading": "late:256", "max_length": 512},
    f"{OURS}, stretched to 2,048 tokens, untrained": STRETCHED,
    f"{OURS}, mean of late chunks in windows of 2,048": {"reading": "late:256", **STRETCHED},
}
DEPTHS = ("05", "25", "50", "75", "95")
SHOWN = {"ndcg_at_10": "nDCG@10", **{f"top1_depth_{d}": f"first, depth {int(d)}%" for d in DEPTHS}}


def main():
    parser = options(__doc__, RESULTS, "build/mteb", seeds=(0,))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    arguments = parser.parse_args()
    study = Study(arguments.results, write_lines)
    if not arguments.table:
        study.run(keys(way=arguments.ways), scores, ["ndcg_at_10"])
    print(markdown(lines(study.rows)))


def scores(way):
    """All numbers that MTEB gives for a way of reading, and MTEB's version."""
    import mteb

    from benchmarks.retrieval.mteb_passages import Passages

    result = mteb.evaluate(model_of(WAYS[way]), Passages(), cache=None, show_progress_bar=False)
    (found,) = result.task_results[0].scores["test"]
    numbers = {
        name: float(value)
        for name, value in found.items()
        if name.startswith(("ndcg_at", "map_at", "mrr_at", "top1_depth"))
    }
    return {**numbers, "mteb": importlib.metadata.version("mteb")}


def model_of(reading):
    """What `mteb.evaluate` takes: the original model, or our adapter."""
    if isinstance(reading, dict):
        from keras_posenc.adapters import MTEBEncoder

        return MTEBEncoder(MINILM, **reading)
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(MINILM, device="cpu")
    model.max_seq_length = reading
    return model


def lines(rows):
    """nDCG@10, and the fraction of queries whose document is first, by depth, in %."""
    found = {row["way"]: row for row in rows}
    shown = [[f"{100 * found[way][name]:.1f}" for name in SHOWN] for way in WAYS if way in found]
    return [
        ["read by", *SHOWN.values()],
        *([way, *cells] for way, cells in zip(filter(found.get, WAYS), shown, strict=True)),
    ]


if __name__ == "__main__":
    main()
