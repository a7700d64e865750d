"""Passkeys by length: what `keras-posenc bench passkey` finds with MiniLM, stretched in each way.

    KERAS_BACKEND=torch python benchmarks/passkey.py

The stretched checkpoint is that of benchmarks/readings.py. One pass over 8,192 tokens takes twelve
seconds of a core where all layers are global, so not every way reads the longest documents. Runs
are in build/passkey, where an interrupted call goes on; all of them are written to
benchmarks/results/passkey.json, and shown as a table.
"""

import argparse
import json
import pathlib

from data import MINILM
from reading_tasks import Readings

from keras_posenc.bench import bench_passkey, passkey_table, read_results
from keras_posenc.training.state import write_text

RESULTS = pathlib.Path(__file__).parent / "results" / "passkey.json"
SHORT = ["truncate", "chunks_max", "chunks_mean", "words"]
GLOBAL = ["tile", "interpolate"]
HIERARCHICAL = ["hierarchical", "hierarchical:alpha=0.2,kept_rows=1"]
# Which ways read which lengths.
PLAN = [
    (SHORT + GLOBAL + HIERARCHICAL, (256, 512, 1024, 2048)),
    (SHORT + GLOBAL, (4096,)),
    (SHORT, (8192,)),
]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/passkey"))
    arguments = parser.parse_args()
    given = {name: getattr(arguments, name) for name in ("documents", "seeds", "output")}
    stretched = [Readings(pathlib.Path("build/readings")).long.checkpoint]
    for ways, lengths in PLAN:
        bench_passkey(MINILM, ways, stretched, lengths, **given)
    order = [*SHORT, *GLOBAL, *HIERARCHICAL, "stretched"]
    results = [
        json.loads(path.read_text("utf-8")) for path in (arguments.output / "runs").iterdir()
    ]
    results.sort(key=lambda row: (order.index(row["model"]), row["seed"]))
    write_text(RESULTS, "[\n" + ",\n".join(map(json.dumps, results)) + "\n]\n")
    print(passkey_table(read_results(RESULTS)))


if __name__ == "__main__":
    main()
