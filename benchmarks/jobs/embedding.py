"""Processor time and memory of a corpus into vectors, beside sentence-transformers.

    python -m benchmarks.jobs.embedding --texts 40 200 --turns 3
    python -m benchmarks.jobs.embedding --texts 120 --max-length 384 --seed 1
    python -m benchmarks.jobs.embedding --texts 2000 --turns 1 --once
    python -m benchmarks.jobs.embedding --texts --queries 40 --turns 7
    python -m benchmarks.jobs.embedding --page           # the page again, nothing measured

MiniLM embeds nine tenths posts of 20 Newsgroups and a tenth excerpts of books, mixed. Queries have
3 to 12 words of them, and are embedded one after the other, each by a call. Each side has
a process of one thread, and they take turns. The first call, which compiles, counts apart, except
by --once. Ratios are medians of the turns: above 1 is slower than sentence-transformers. Results
go to benchmarks/results/embedding.json and .md.
"""

import pathlib
import time

from benchmarks.jobs import sides

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "embedding.json"
BASE = "sentence-transformers"
SIDES = [BASE, *sides.BACKENDS]
# No price of a length and no size of a batch was chosen by these.
HELD_OUT = "120 texts, 384 tokens", "2000 texts, 256 tokens", "10000 texts, 256 tokens"


def main():
    parser = sides.parser(__doc__, RESULTS, SIDES, turns=3)
    parser.add_argument("--texts", type=int, nargs="*", default=[40, 200])
    parser.add_argument("--queries", type=int, help="one at a time")
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--once", action="store_true", help="no first call that counts apart")
    parser.add_argument("--seed", type=int, default=0, help="draws the texts")
    sides.main(parser, lambda side: Embedder(side).measured, run, page)


def run(arguments):
    length, seed = arguments.max_length, arguments.seed
    cases = {
        f"{count} texts, {length} tokens": {"count": count, "length": length, "seed": seed}
        for count in arguments.texts
    }
    if arguments.queries:
        case = {"count": arguments.queries, "length": length, "seed": seed, "alone": True}
        cases[f"{arguments.queries} queries, one at a time"] = case
    sides.run_in_turns(__spec__.name, arguments, cases, BASE, first=not arguments.once)


class Embedder:
    """A side, whose model is opened once for each length."""

    def __init__(self, side):
        self.embed = peer if side == BASE else ours
        self.opened = {}

    def measured(self, count, length, seed, alone=False):
        from benchmarks.steps import step

        texts = queries(count, seed) if alone else corpus(count, seed)
        if length not in self.opened:
            self.opened[length] = self.embed(length)
        embed, padded = self.opened[length]
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        began = time.process_time()
        for part in [[text] for text in texts] if alone else [texts]:
            embed(part)
        seconds = time.process_time() - began
        share = None if alone else padded(texts)
        return {"seconds": seconds, "peak_mb": round(step.peak_mb()), "padded": share}


def peer(length):
    from sentence_transformers import SentenceTransformer

    from benchmarks.shared.data import MINILM

    model = SentenceTransformer(MINILM, device="cpu")
    model.max_seq_length = length
    return lambda texts: model.encode(texts, show_progress_bar=False), lambda texts: None


def ours(length):
    from benchmarks.shared.data import MINILM
    from keras_posenc import backend
    from keras_posenc.retrieval import open_embedder

    backend.cache_programs()  # as the commands do
    model = open_embedder(MINILM, max_length=length)

    def padded(texts):
        """Tokens that are computed for each real one."""
        return 1 / (1 - model.batches(texts, fixed_shapes=length).padding_share)

    return lambda texts: model.predict(texts, verbose=0), padded


def corpus(count, seed):
    import numpy as np

    from benchmarks.shared.data import CORPORA
    from keras_posenc.text import read_texts

    rng = np.random.default_rng(seed)
    chosen = []
    shares = {"20newsgroups-train": count - count // 10, "book-excerpts": count // 10}
    for name, share in shares.items():
        texts = read_texts(f"{CORPORA}/{name}.tab").texts
        chosen += [texts[i % len(texts)] for i in rng.permutation(max(share, len(texts)))[:share]]
    return [chosen[i] for i in rng.permutation(len(chosen))]


def queries(count, seed):
    import numpy as np

    rng = np.random.default_rng(seed)
    words = [text.split() for text in corpus(count, seed)]
    return [" ".join(each[: rng.integers(3, 13)]) for each in words]


def page(report):
    text = [
        "# Embedding beside sentence-transformers",
        "",
        "Made by `python -m benchmarks.jobs.embedding`: "
        "MiniLM in float32, one thread. A cell has the",
        "processor time relative to sentence-transformers in the same turn, the lowest and the",
        "highest turn in parentheses, and the peak memory. Below 1 is faster.",
        "",
        *sides.table(report, SIDES, cell, HELD_OUT),
    ]
    note = "Prices of lengths and sizes of batches were chosen by 40 and 200 such texts"
    held_out = any(name in HELD_OUT for name in report)
    text += ["", f"{note}, not by rows with `*`." if held_out else f"{note}: none is held out."]
    return "\n".join(text) + "\n"


def cell(_, row):
    memory = f"{row['peak_mb'] / 1000:.1f} GB"
    return f"{sides.ratio_cell(row)}, {row['seconds']:.1f} s, {memory}"


if __name__ == "__main__":
    main()
