"""How the time and the memory of attention grow with the length.

    KERAS_BACKEND=torch python -m benchmarks.steps.growth  # and jax: minutes each
    KERAS_BACKEND=torch python -m benchmarks.steps.growth --table  # the results as a table

One text, causal attention without the projections, 6 heads of 64, forward and backward, without
dropout. Each length of each encoding has a process of its own: the processor seconds of the
quickest of some runs after the first, and the peak memory beyond what was held before. The exponent
says by how much both grow from 2,048 tokens to the longest: 1 if twice the length costs twice as
much, 2 if it costs four times. Results go to benchmarks/results/growth.json, a row per backend,
encodings and length, and are not computed again.
"""

import json
import math
import pathlib
import subprocess
import sys

# Before Keras: it leaves one thread to the backends.
from benchmarks.steps import parts  # isort: skip
import keras
import numpy as np

from benchmarks.shared.kept import Study, keys, markdown, options, write_lines
from benchmarks.steps import step
from benchmarks.steps.attention import SIZE, Heads

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "growth.json"
HEADS = 6
LENGTHS, FROM = (512, 1024, 2048, 4096, 8192), 2048
WINDOW = {"name": "window", "window": 257}
WAYS = {
    "plain": [],
    "window of 257": [WINDOW],
    "rotary": ["rotary"],
    "rotary, window of 257": ["rotary", WINDOW],
    "alibi": ["alibi"],
    "t5": ["t5"],
    "cope": ["cope"],
    "path": ["path"],
}


def main():
    parser = options(__doc__, RESULTS, None, seeds=[0])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--alone", action="store_true", help="one case, in this process")
    arguments = parser.parse_args()
    if arguments.alone:
        return print(json.dumps(measured(arguments.ways[0], arguments.lengths[0])))
    study = Study(arguments.results, write_lines)
    if not arguments.table:
        backend = [keras.backend.backend()]
        cases = keys(backend=backend, way=arguments.ways, length=arguments.lengths)
        study.run(cases, in_a_process, ["seconds", "mb"])
    print(table(study.rows))


def in_a_process(backend, way, length):
    one = ["--alone", "--ways", way, "--lengths", str(length)]
    command = [sys.executable, "-m", __spec__.name, *one]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{way} at {length} tokens failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def measured(way, length):
    parts.on_one_thread()
    parts.RUNS = max(1, min(9, 8192 // length))
    rng = np.random.default_rng(0)
    x, g = (rng.normal(size=(1, length, HEADS * SIZE)).astype("float32") for _ in range(2))
    passes(way, x[:, :64], g[:, :64])()  # a backend holds more once it has run at all
    before = step.status_mb("VmRSS")
    (milliseconds,) = parts.least(passes(way, x, g))
    return {"seconds": round(milliseconds / 1e3, 4), "mb": round(step.peak_mb() - before)}


def passes(way, x, g):
    layer = Attention(WAYS[way])
    layer.build(x.shape)
    return parts.passes(layer, x, g)


class Attention(keras.layers.Layer):
    """Causal self-attention without its projections."""

    def __init__(self, encodings):
        super().__init__()
        self.attention = Heads(HEADS, SIZE, encodings=encodings)

    def build(self, shape):
        self.attention.build(shape, shape)
        self.built = True

    def call(self, x, training=False):
        return self.attention(x, x, use_causal_mask=True, training=training)


def table(rows):
    """A line per backend and encodings: seconds and MB by length, and the exponents of both."""
    lengths = sorted({row["length"] for row in rows})
    heads = [f"{length:,}" for length in lengths]
    lines = [["backend", "encodings", *heads, "exponent of time", "exponent of memory"]]
    by_case = {(row["backend"], row["way"], row["length"]): row for row in rows}
    for backend in sorted({row["backend"] for row in rows}):
        for way in WAYS:
            found = [by_case.get((backend, way, length)) for length in lengths]
            if any(found):
                # A line breaks between time and memory, not before a unit.
                cells = (f"{row['seconds']:.3g}\u00a0s, {row['mb']:,}\u00a0MB" if row else "–"
                         for row in found)  # fmt: skip
                both = (exponent(found, name) for name in ("seconds", "mb"))
                lines.append([backend, way, *cells, *both])
    return markdown(lines)


def exponent(found, name):
    """Of the growth from `FROM` to the longest: the logarithm of the ratio by that of lengths."""
    some = [row for row in found if row and row["length"] >= FROM and row[name] > 0]
    if len(some) < 2:
        return "–"
    first, last = some[0], some[-1]
    grown = math.log(last[name] / first[name]) / math.log(last["length"] / first["length"])
    return f"{grown:.1f}"


if __name__ == "__main__":
    main()
