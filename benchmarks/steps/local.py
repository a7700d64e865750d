"""What a layer with a window costs beside one that sees everything.

    KERAS_BACKEND=torch python -m benchmarks.steps.local        # once on each backend: minutes

One attention layer of MiniLM's sizes with its projections, no dropout, bidirectional, a window of
65 (64 tokens to each side); processor seconds on one thread, the least of some runs by turns.
Padded texts have a tenth of their tokens masked. Results go to benchmarks/results/local.json, and
local.md has a table of all backends.
"""

import argparse
import json
import pathlib

# Before Keras: it leaves one thread to the backends.
from benchmarks.steps import parts  # isort: skip
import keras
import numpy as np

from benchmarks.steps import rows
from keras_posenc import PositionalAttention

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "local.json"
WINDOW, AIM = 65, 0.25
LENGTHS, LONGEST_GLOBAL = (2048, 8192, 32768), 8192
SIZES = rows.MODELS["minilm"]
WIDTH, HEADS = SIZES["width"], SIZES["heads"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    arguments = parser.parse_args()
    parts.on_one_thread()
    parts.RUNS = arguments.runs
    report = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    lines = report.setdefault(keras.backend.backend(), [])
    for length in arguments.lengths:
        for padded in (False, True):
            for mode in ("forward", "train"):
                line = measured(length, padded, mode)
                print(*(f"{key} {value}," for key, value in line.items()), flush=True)
                kind = ("length", "padded", "mode")
                lines[:] = [x for x in lines if any(x[k] != line[k] for k in kind)] + [line]
                arguments.results.write_text(json.dumps(report, indent=1) + "\n")
                arguments.results.with_suffix(".md").write_text(page(report))


def measured(length, padded, mode):
    rng = np.random.default_rng(0)
    x, g = (rng.normal(size=(1, length, WIDTH)).astype("float32") for _ in range(2))
    kinds = {"window": [{"name": "window", "window": WINDOW}]}
    if length <= LONGEST_GLOBAL:
        kinds["all"] = []
    runs = []
    for encodings in kinds.values():
        layer = Attention(encodings, length - length // 10 if padded else None, mode == "train")
        layer.build(x.shape)
        runs.append(parts.passes(layer, x, g) if mode == "train" else forward(layer, x))
    seconds = [ms / 1000 for ms in parts.least(*runs)]
    line = {"length": length, "padded": padded, "mode": mode}
    line |= {name: round(s, 3) for name, s in zip(kinds, seconds, strict=True)}
    if len(seconds) > 1:
        line["ratio"] = round(seconds[0] / seconds[1], 3)
    return line


def forward(layer, x):
    model = keras.Sequential([keras.Input(x.shape[1:]), layer])
    return lambda: model.predict_on_batch(x)


class Attention(keras.layers.Layer):
    """Self-attention over the first `real` tokens."""

    def __init__(self, encodings, real, training):
        super().__init__()
        self.attention = PositionalAttention(HEADS, WIDTH // HEADS, encodings=encodings)
        self.real, self.train = real, training

    def build(self, shape):
        self.attention.build(shape, shape)
        self.built = True

    def call(self, x):
        mask = None
        if self.real is not None:
            mask = keras.ops.arange(x.shape[1])[None] < self.real
        return self.attention(x, x, value_mask=mask, training=self.train)

    def compute_output_shape(self, shape):
        return shape


def page(report):
    text = [
        "# What a window costs",
        "",
        "Made by `python -m benchmarks.steps.local` on each backend: "
        f"one layer, a window of {WINDOW},",
        f"processor seconds. Aim: at most {AIM} of a layer that sees everything at 8,192 tokens.",
        "",
        "| backend | tokens | padded | | window | sees all | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for backend, lines in sorted(report.items()):
        for line in sorted(lines, key=lambda x: (x["length"], x["padded"], x["mode"])):
            text.append(
                f"| {backend} | {line['length']:,} | {'yes' if line['padded'] else 'no'} | "
                f"{line['mode']} | {line['window']} | {line.get('all', '–')} | "
                f"{line.get('ratio', '–')} |"
            )
    every = [(b, x) for b in report for x in report[b] if x["length"] == 8192]
    missed = [f"{b} {x['ratio']}" for b, x in every if x["ratio"] > AIM]
    verdict = f"missed: {', '.join(missed)}" if missed else "met everywhere"
    return "\n".join([*text, "", f"The aim at 8,192 tokens is {verdict}."]) + "\n"


if __name__ == "__main__":
    main()
