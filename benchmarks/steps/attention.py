"""What an encoding adds to attention, forward and backward.

    KERAS_BACKEND=torch python -m benchmarks.steps.attention              # all of them: minutes
    KERAS_BACKEND=torch python -m benchmarks.steps.attention --names cope alibi --dropout 0

Causal attention alone, without the projections: 12 heads of 64, one text. Time is processor
milliseconds of one thread, the least of some runs that take turns with plain attention of the same
dropout; memory is what the first step holds at its peak beyond what was there before, as a share of
the T x T map of all heads (on Linux). Encodings have their default arguments. Results go to
benchmarks/results/attention.json, a list a backend, and attention.md has a table of all of them.
"""

import argparse
import json
import pathlib
import subprocess
import sys

# Before Keras: it leaves one thread to the backends.
from benchmarks.steps import parts  # isort: skip
import keras
import numpy as np

from benchmarks.steps import step
from keras_posenc import PositionalAttention
from keras_posenc.analysis import gallery
from keras_posenc.encodings import ENCODINGS

HEADS, SIZE = 12, 64
RESULTS = pathlib.Path(__file__).parents[1] / "results" / "attention.json"
TARGET, COPE_TARGET, LONG = 1.15, 1.8, 2048
TERMS = {"restrict", "features", "heads", "bias"}
BY_DISTANCE = "One more number per logit, and a gradient that is summed along diagonals."
BY_TABLE = (
    "Queries, and in DeBERTa also keys, are multiplied with a row of a table per distance: as much "
    "work as the product of queries and keys."
)
# Why an encoding costs more, as far as it is known.
REASONS = {
    "t5": BY_DISTANCE,
    "kerple": BY_DISTANCE,
    "rotary_bias": BY_DISTANCE,
    "sandwich": BY_DISTANCE,
    "fire": "A network of 32 units is computed per logit.",
    "deberta": BY_TABLE,
    "transformer_xl": BY_TABLE,
    "content_bias": BY_TABLE,
    "path": "The transformations of all tokens between a query and a key are multiplied, in blocks "
    "of 64 tokens.",
    "pope": "Queries and keys have twice as many features: a cosine and a sine of each.",
    "cope": "Gates are summed along each row, and each logit is interpolated between two entries "
    "of a table. On TensorFlow, summing their gradients by index takes 6 ns per logit.",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", nargs="+", choices=list(ENCODINGS), default=list(ENCODINGS))
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--dropout", type=float, default=0.1, help="of the attention weights")
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        return print(json.dumps(measured(arguments.alone, arguments.length, arguments.dropout)))
    for name in ["plain", *arguments.names]:
        command = [sys.executable, "-m", __spec__.name, "--alone", name]
        options = ["--length", str(arguments.length), "--dropout", str(arguments.dropout)]
        run = subprocess.run(command + options, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"{name} failed:\n{run.stderr[-2000:]}")
        line = json.loads(run.stdout.splitlines()[-1])
        print(*(f"{key} {value}," for key, value in line.items()), flush=True)
        keep(arguments.results, line)


def keep(path, line):
    """Puts the line in place of that of the same encoding, length and dropout."""

    def key(line):
        return *_kind(line), line["encoding"]

    report = json.loads(path.read_text()) if path.exists() else {}
    backend = keras.backend.backend()
    known = {key(old): old for old in report.get(backend, [])} | {key(line): line}
    report[backend] = [known[key] for key in sorted(known)]
    path.write_text(json.dumps(report, indent=1) + "\n")
    path.with_suffix(".md").write_text(page(report))


def page(report):
    """The times in plain attention's, and the memory in maps, one table a length and dropout."""
    text = [
        "# What an encoding adds to attention",
        "",
        "Made by `python -m benchmarks.steps.attention`: "
        f"causal, {HEADS} heads of {SIZE}, forward and",
        "backward on one thread of a CPU. A cell has the time relative to plain attention on the "
        "same\nbackend, then the peak memory in attention matrices of T x T numbers per head.",
    ]
    lines = {(b, line["encoding"], _kind(line)): line for b in report for line in report[b]}
    for kind in sorted({kind for _, _, kind in lines}):
        backends = [b for b in report if (b, "plain", kind) in lines]  # those measured
        text += ["", f"## {kind[0]:,} tokens, dropout {kind[1]}", ""]
        text += ["| | " + " | ".join(backends) + " |", "|---" * (len(backends) + 1) + "|"]
        names = {name for _, name, other in lines if other == kind}
        for name in sorted(names, key=lambda name: (name != "plain", name)):
            found = [lines.get((backend, name, kind)) for backend in backends]
            text.append(f"| {name} | " + " | ".join(map(_cell, found)) + " |")
    return "\n".join([*text, *judged(lines)]) + "\n"


def judged(lines):
    """Which of the encodings with a target miss it, on which backend, and why."""
    known = [
        (name, line["ratio"], backend)
        for (backend, name, (length, dropout)), line in sorted(lines.items())
        if length >= LONG and dropout and bound_of(name)
    ]
    missed = {}
    for name, ratio, backend in known:
        if ratio > bound_of(name):
            missed.setdefault(name, []).append(f"{ratio:.2f}x on {backend}")
    text = [
        "",
        "## Targets, with dropout",
        "",
        f"At most {TARGET}x for encodings that act on the heads or add to the logits, and",
        f"{COPE_TARGET}x for CoPE, from {LONG:,} tokens on. Of {len(known)} figures these miss it:",
        "",
    ]
    for name, where in missed.items():
        text.append(f"- {name}: {', '.join(where)}. {REASONS.get(name, 'Not explained.')}")
    return text if known else []


def bound_of(name):
    """The largest ratio that an encoding is held to, or None."""
    if name == "cope":
        return COPE_TARGET
    if name == "plain" or not set(gallery.facts(name)["acts_on"]) <= TERMS:
        return None
    return TARGET


def _kind(line):
    return line["length"], line["dropout"]


def _cell(line):
    if line is None:
        return "–"
    time = f"{line['ratio']:.2f}x" if "ratio" in line else f"{line['ms']} ms"
    return f"{time}, {line['maps at peak']:.1f}"


def measured(name, length, dropout):
    parts.on_one_thread()
    rng = np.random.default_rng(0)
    x, g = (rng.normal(size=(1, length, HEADS * SIZE)).astype("float32") for _ in range(2))
    few = x[:, :64], g[:, :64]
    passes(name, dropout, *few)()  # a backend holds more once it has run at all
    before = step.status_mb("VmRSS")
    run = passes(name, dropout, x, g)
    run()
    peak = (step.peak_mb() - before) * 2**20 / (4 * HEADS * length**2)
    line = {"encoding": name, "length": length, "dropout": dropout, "maps at peak": round(peak, 3)}
    if name == "plain":
        return {**line, "ms": round(parts.least(run)[0])}
    plain = passes("plain", dropout, x, g)
    ours, others = (round(time) for time in parts.least(run, plain))
    return {**line, "ms": ours, "plain ms": others, "ratio": round(ours / others, 2)}


def passes(name, dropout, x, g):
    layer = Alone(name, dropout)
    layer.build(x.shape)
    return parts.passes(layer, x, g)


class Alone(keras.layers.Layer):
    """Causal self-attention without its projections."""

    def __init__(self, name, dropout):
        super().__init__()
        encodings = [] if name == "plain" else [name]
        self.attention = Heads(HEADS, SIZE, encodings=encodings, dropout=dropout)

    def build(self, shape):
        self.attention.build(shape, shape)
        self.built = True

    def call(self, x, training=False):
        return self.attention(x, x, use_causal_mask=True, training=training)


class Heads(PositionalAttention):
    """Attention of heads that are there already, side by side."""

    def build(self, query_shape, value_shape):
        self._build_encodings(query_shape, value_shape)

    def _project(self, query, key, value):
        shape = query.shape
        heads = [
            keras.ops.reshape(x, (*shape[:2], self.num_heads, SIZE)) for x in (query, key, value)
        ]
        return *heads, lambda output: keras.ops.reshape(output, shape)


if __name__ == "__main__":
    main()
