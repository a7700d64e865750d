"""Processor time of a short forward pass, beside transformers.

    python -m benchmarks.jobs.forward --turns 7
    python -m benchmarks.jobs.forward --shapes 3x50 --seed 1
    python -m benchmarks.jobs.forward --page             # the page again, nothing measured

MiniLM with its weights in float32 reads texts of random ids, without padding. Each side has a
process of one thread, and they take turns; a turn of few tokens is the mean of several passes.
Ratios are medians of the turns: above 1 is slower than transformers. Results go to
benchmarks/results/forward.json and .md.
"""

import pathlib
import time

from benchmarks.jobs import sides

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "forward.json"
BASE = "transformers"
SIDES = [BASE, *sides.BACKENDS]
SHAPES = ["1x8", "1x384", "8x128"]
# Nothing was chosen by these.
HELD_OUT = ("3x50",)
TOKENS = 2000  # of the passes of a turn together, at least


def main():
    parser = sides.parser(__doc__, RESULTS, SIDES, turns=7)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="texts x tokens")
    parser.add_argument("--seed", type=int, default=0, help="draws the ids")
    sides.main(parser, lambda side: Reader(side).measured, run, page)


def run(arguments):
    cases = {shape: {"shape": shape, "seed": arguments.seed} for shape in arguments.shapes}
    sides.run_in_turns(__spec__.name, arguments, cases, BASE)


class Reader:
    """A side, whose model is opened once."""

    def __init__(self, side):
        self.read = peer() if side == BASE else ours()

    def measured(self, shape, seed):
        import numpy as np

        from benchmarks.steps import step

        rows, length = map(int, shape.split("x"))
        ids = np.random.default_rng(seed).integers(1000, 20_000, (rows, length), "int32")
        passes = -(-TOKENS // ids.size)
        self.read(ids)
        began = time.process_time()
        for _ in range(passes):
            self.read(ids)
        seconds = (time.process_time() - began) / passes
        return {"seconds": seconds, "peak_mb": round(step.peak_mb())}


def peer():
    import torch
    import transformers

    from benchmarks.shared.data import MINILM

    model = transformers.AutoModel.from_pretrained(MINILM).eval()

    def read(ids):
        ids = torch.tensor(ids)
        with torch.no_grad():
            return model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state.numpy()

    return read


def ours():
    from benchmarks.shared.data import MINILM
    from keras_posenc import build_transformer_model

    model = build_transformer_model(MINILM)
    return lambda ids: model.predict_on_batch({"token_ids": ids, "segment_ids": 0 * ids})


def page(report):
    text = [
        "# A short forward pass beside transformers",
        "",
        "Made by `python -m benchmarks.jobs.forward`: "
        "MiniLM in float32, one thread. A cell has the",
        "processor time relative to transformers in the same turn, the lowest and the highest turn",
        "in parentheses, and the time of a pass. Below 1 is faster. Shapes are texts x tokens.",
        "",
        *sides.table(report, SIDES, cell, HELD_OUT),
    ]
    if any(shape in HELD_OUT for shape in report):
        text += ["", "`*` nothing was chosen by this shape."]
    return "\n".join(text) + "\n"


def cell(_, row):
    return f"{sides.ratio_cell(row)}, {1000 * row['seconds']:.0f} ms"


if __name__ == "__main__":
    main()
