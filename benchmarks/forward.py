"""Processor time of a short forward pass, beside transformers.

    python benchmarks/forward.py --turns 7
    python benchmarks/forward.py --shapes 3x50 --seed 1
    python benchmarks/forward.py --page             # the page again, nothing measured

MiniLM with its weights in float32 reads texts of random ids, without padding. Each side has a
process of one thread, and they take turns; a turn of few tokens is the mean of several passes.
Ratios are medians of the turns: above 1 is slower than transformers. Results go to
benchmarks/results/forward.json and .md.
"""

import argparse
import json
import pathlib
import time

import sides

RESULTS = pathlib.Path(__file__).parent / "results" / "forward.json"
BASE = "transformers"
SIDES = [BASE, *sides.BACKENDS]
SHAPES = ["1x8", "1x384", "8x128"]
# Nothing was chosen by these.
HELD_OUT = ("3x50",)
TOKENS = 2000  # of the passes of a turn together, at least


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="texts x tokens")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0, help="draws the ids")
    parser.add_argument("--sides", nargs="+", default=SIDES, choices=SIDES)
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        sides.answer(Reader(arguments.side).measured)
    elif not arguments.page:
        run(arguments)
    if not arguments.side:
        report = json.loads(arguments.results.read_text())
        arguments.results.with_suffix(".md").write_text(page(report))


def run(arguments):
    results = arguments.results
    report = json.loads(results.read_text()) if results.exists() else {}
    processes = {side: sides.started(__file__, side) for side in arguments.sides}
    for shape in arguments.shapes:
        case, found = {"shape": shape, "seed": arguments.seed}, {}
        for turn in range(arguments.turns + 1):
            for side, process in processes.items():
                line = sides.ask(process, case)
                if turn:  # the first compiles
                    found.setdefault(side, []).append(line)
        report.setdefault(shape, {}).update(sides.compared(found, BASE))
        results.write_text(json.dumps(report, indent=1) + "\n")
    for process in processes.values():
        process.communicate()


class Reader:
    """A side, whose model is opened once."""

    def __init__(self, side):
        self.read = peer() if side == BASE else ours()

    def measured(self, shape, seed):
        import numpy as np
        import step

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
    from data import MINILM

    model = transformers.AutoModel.from_pretrained(MINILM).eval()

    def read(ids):
        ids = torch.tensor(ids)
        with torch.no_grad():
            return model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state.numpy()

    return read


def ours():
    from data import MINILM

    from keras_posenc import build_transformer_model

    model = build_transformer_model(MINILM)
    return lambda ids: model.predict_on_batch({"token_ids": ids, "segment_ids": 0 * ids})


def page(report):
    text = [
        "# A short forward pass beside transformers",
        "",
        "Made by `python benchmarks/forward.py`: MiniLM in float32, one thread. A cell has the",
        "processor time relative to transformers in the same turn, the lowest and the highest turn",
        "in parentheses, and the time of a pass. Below 1 is faster. Shapes are texts x tokens.",
        "",
        f"| | {' | '.join(SIDES)} |",
        "|---" * (len(SIDES) + 1) + "|",
    ]
    for shape, rows in report.items():
        cells = [
            f"{sides.ratio_cell(rows[side])}, {1000 * rows[side]['seconds']:.0f} ms"
            for side in SIDES
        ]
        mark = " *" * (shape in HELD_OUT)
        text.append(f"| {shape.replace('x', ' x ')}{mark} | {' | '.join(cells)} |")
    if any(shape in HELD_OUT for shape in report):
        text += ["", "`*` nothing was chosen by this shape."]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    main()
