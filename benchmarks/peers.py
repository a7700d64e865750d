"""Time and memory of a step, this library and its peers side by side.

    python benchmarks/peers.py                  # minutes; the table, benchmarks/results/peers.json
    python benchmarks/peers.py --small          # one short shape, as CI can run it

Every measurement is a process of its own. The libraries take turns, so that a slow minute of the
machine meets all of them; a figure is the median over the turns. A measurement during which other
programs used more than a tenth of a core is taken again, up to twice, and marked if it stays so.
KerasHub gets a virtual environment of its own under build/peers, made at the first run.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ENVIRONMENTS = pathlib.Path("build/peers")
PINNED = {"keras_hub": ["keras-hub==0.32.0", "keras==3.15.1", "tensorflow-cpu==2.21.0"]}

# library, backend
LIBRARIES = [
    ("keras_posenc", "tensorflow"),
    ("keras_posenc", "jax"),
    ("keras_posenc", "torch"),
    ("keras_hub", "tensorflow"),
    ("transformers", "torch"),
]
SHAPES = [(64, 128), (16, 512), (8, 1024), (4, 2048)]  # 8,192 tokens a batch, as the runs train
QUIET = 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modes", nargs="+", default=["train"], choices=["train", "forward"])
    parser.add_argument("--dropout", type=float, default=0.1, help="hidden and attention")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4, help="steps timed in a turn")
    parser.add_argument("--only", nargs="+", help="library:backend, such as keras_hub:tensorflow")
    parser.add_argument("--lengths", type=int, nargs="+", help="of 128, 512, 1024, 2048")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--results", default=HERE / "results" / "peers.json", type=pathlib.Path)
    arguments = parser.parse_args()
    shapes = [s for s in SHAPES if not arguments.lengths or s[1] in arguments.lengths]
    turns, repeats = arguments.turns, arguments.repeats
    libraries = [
        pair for pair in LIBRARIES if not arguments.only or ":".join(pair) in arguments.only
    ]
    if arguments.small:
        shapes, turns, repeats = [(4, 128)], 1, 2
        libraries = [pair for pair in libraries if pair[0] != "keras_hub"]
    rows = []
    for mode in arguments.modes:
        for batch, length in shapes:
            runs = {pair: [] for pair in libraries}
            for _ in range(turns):
                for pair in libraries:
                    runs[pair].append(
                        measure(*pair, mode, batch, length, arguments.dropout, repeats)
                    )
            rows += [summary(*pair, mode, batch, length, runs[pair]) for pair in libraries]
            print_rows(rows[-len(libraries) :])
    arguments.results.parent.mkdir(exist_ok=True)
    report = {"cores": os.cpu_count(), "dropout": arguments.dropout, "rows": rows}
    arguments.results.write_text(json.dumps(report, indent=1) + "\n")


def measure(library, backend, mode, batch, length, dropout, repeats):
    """One process's measurement, taken again while something else is using the machine."""
    command = [python_of(library), HERE / "step.py", library, mode, batch, length, dropout, repeats]
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    for _ in range(3):
        run = subprocess.run(
            [str(part) for part in command], env=environment, capture_output=True, text=True
        )
        if run.returncode:
            sys.exit(f"{library} on {backend} failed:\n{run.stderr[-2000:]}")
        line = json.loads(run.stdout.splitlines()[-1])
        if line["others"] < QUIET:
            break
    return line


def python_of(library):
    if library not in PINNED:
        return sys.executable
    folder = ENVIRONMENTS / library
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PINNED[library]], check=True)
    return python


def summary(library, backend, mode, batch, length, runs):
    return {
        "library": library,
        "backend": backend,
        "mode": mode,
        "batch": batch,
        "length": length,
        "seconds": round(statistics.median(s for run in runs for s in run["seconds"]), 4),
        "peak_mb": max(run["peak_mb"] for run in runs),
        "others": max(run["others"] for run in runs),
    }


def print_rows(rows):
    """Each row with its time over this library's on the same backend."""
    ours = {row["backend"]: row["seconds"] for row in rows if row["library"] == "keras_posenc"}
    for row in rows:
        base = ours.get(row["backend"])
        ratio = f"{row['seconds'] / base:5.2f}x" if base else "     -"
        noisy = "" if row["others"] < QUIET else f"  (others used {row['others']} cores)"
        print(
            f"{row['mode']:8}{row['batch']:3} x {row['length']:5}  {row['library']:13}"
            f"{row['backend']:11}{row['seconds']:8.3f} s {ratio} {row['peak_mb']:6} MB{noisy}",
            flush=True,
        )


if __name__ == "__main__":
    main()
