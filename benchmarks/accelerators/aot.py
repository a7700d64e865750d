"""Compiles attention for TPUs and GPUs that are not there, and records what its programs need.

    pip install ".[jax,aot]"
    python -m benchmarks.accelerators.aot  # a few encodings, in a few minutes
    python -m benchmarks.accelerators.aot --encodings all --modes forward "train with dropout"
    python -m benchmarks.accelerators.aot --chips t4 h100 --encodings none t5 --dtypes float16

One attention layer of BERT-base's sizes, forward and training (with attention dropout 0.1 and
without). XLA compiles for real hardware on a machine that has only CPUs: bytes are the compiler's,
nothing is run. "none" and "causal" are attention without an encoding, in no order and causal.
Encodings that are causal by nature are compiled with a causal mask.

A chip is a topology of TPUs, of which one is used, or a GPU, which needs JAX's plugin for CUDA
(aot_devices.py). TPU programs are compiled at `jax_optimization_level=O0`, in seconds, which counts
up to a tenth more temporaries than the default; what that level refuses is compiled at the default.
`gflop` counts the matrix products of the traced program, `selections` the numbers that it selects
per cell of the attention matrix, `largest_mb` its largest array, and `kernels` the fused kernels of
attention that were compiled. A program that takes longer than
`--limit` is given up; `--trace-only` compiles nothing. Results are added to
benchmarks/results/aot.json: a case that is there is not compiled again.
"""

import argparse
import importlib.metadata
import itertools
import json
import pathlib
import select
import subprocess
import sys

from benchmarks.accelerators import aot_devices

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "aot.json"
WORKER = "benchmarks.accelerators.aot_layer"
SOME = ["none", "rotary", "alibi", "t5", "deberta", "cope"]
MODES = ["forward", "train", "train with dropout"]
CASE = ("chip", "encoding", "length", "mode", "dtype", "padded")
PACKAGES = ("jax", "libtpu", "jax-cuda12-plugin", "keras")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chips", nargs="+", default=["v5e:2x2"], help='"v5e:2x2", "t4", "h100"')
    parser.add_argument("--lengths", nargs="+", type=int, default=[8192])
    parser.add_argument("--encodings", nargs="+", default=SOME, help='names, or "all"')
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--padded", action="store_true", help="with a mask of the keys")
    parser.add_argument("--trace-only", action="store_true", help="compile nothing")
    parser.add_argument("--limit", type=float, default=240, help="seconds for each program")
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    arguments = parser.parse_args()
    for chip in arguments.chips:
        with Worker(chip, arguments.limit, arguments.trace_only) as worker:
            record(arguments.results, worker, list(cases_of(arguments, worker)))


def cases_of(arguments, worker):
    encodings = arguments.encodings
    if unknown := set(encodings) - {"all", *worker.encodings}:
        sys.exit(f"--encodings must be all, {', '.join(worker.encodings)}. Received: {unknown}")
    encodings = worker.encodings if "all" in encodings else encodings
    padded = {"padded": True} if arguments.padded else {}
    sizes = arguments.lengths, arguments.dtypes, encodings, arguments.modes
    for length, dtype, encoding, mode in itertools.product(*sizes):
        case = {"chip": worker.chip, "encoding": encoding, "length": length}
        yield {**case, "mode": mode, "dtype": dtype, **padded}


def record(path, worker, cases):
    """Adds the rows of cases to a file of results."""
    found = json.loads(path.read_text()) if path.exists() else {"versions": {}, "rows": []}
    rows = {case_of(row): row for row in found["rows"]}
    for case in cases:
        known = rows.get(case_of(case), {})
        if "fits" in known or worker.trace_only and "largest_mb" in known:
            continue
        rows[case_of(case)] = case | worker.result(case)
        print(json.dumps(rows[case_of(case)]), flush=True)
        found = {"versions": found["versions"] | versions(), "rows": list(rows.values())}
        path.write_text(json.dumps(found, indent=1) + "\n")


def case_of(row):
    return tuple(row.get(key) for key in CASE)


def versions():
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # TPUs do not need CUDA, nor GPUs libtpu
    return found


class Worker:
    """A process that compiles for a chip, and is replaced if a program takes too long.

    Attributes:
        encodings: list of str. The names that it knows.
    """

    def __init__(self, chip, limit, trace_only):
        self.chip, self.limit, self.trace_only = chip, limit, trace_only

    def __enter__(self):
        self._start()
        return self

    def __exit__(self, *_):
        self._stop()

    def _start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", WORKER, self.chip],
            env=aot_devices.environment(self.chip),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.encodings = self._answer()

    def _stop(self):
        self.process.kill()
        self.process.communicate()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"The process that compiles for {self.chip} ended: its error is above.")
        return json.loads(line)

    def result(self, case):
        """What the program of a case needs, or why it was not compiled."""
        self.process.stdin.write(json.dumps(case | {"compile": not self.trace_only}) + "\n")
        self.process.stdin.flush()
        row = self._answer()
        if self.trace_only:
            return row
        if select.select([self.process.stdout], [], [], self.limit)[0]:
            return row | self._answer()
        self._stop()
        self._start()
        return row | {"fits": None, "error": f"not compiled in {self.limit:g} seconds"}


if __name__ == "__main__":
    main()
