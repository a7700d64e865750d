"""Passkeys by length: what `keras-posenc bench passkey` finds with MiniLM, stretched in each way.

    KERAS_BACKEND=torch python benchmarks/passkey.py

The stretched checkpoint is that of benchmarks/readings.py. One pass over 8,192 tokens takes twelve
seconds of a core where all layers are global, so that is left to whoever asks for these --lengths.
Runs are in build/passkey, where an interrupted call goes on; the results are written to
benchmarks/results/passkey.json, and shown as a table.
"""

import argparse
import json
import pathlib

from data import MINILM
from reading_tasks import Readings

from keras_posenc.bench import bench_passkey, passkey_table
from keras_posenc.training.state import write_text

RESULTS = pathlib.Path(__file__).parent / "results" / "passkey.json"
WAYS = [
    "truncate",
    "chunks_max",
    "chunks_mean",
    "words",
    "tile",
    "interpolate",
    "hierarchical",
    "hierarchical:alpha=0.2,kept_rows=1",
]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--documents", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/passkey"))
    arguments = parser.parse_args()
    stretched = [Readings(pathlib.Path("build/readings")).long.checkpoint]
    results = bench_passkey(MINILM, WAYS, stretched, **vars(arguments))
    write_text(RESULTS, "[\n" + ",\n".join(map(json.dumps, results)) + "\n]\n")
    print(passkey_table(results))


if __name__ == "__main__":
    main()
