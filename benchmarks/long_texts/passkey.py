"""Passkeys by length: what passkeys.py finds with MiniLM, stretched in each way.

    KERAS_BACKEND=torch python -m benchmarks.long_texts.passkey
    KERAS_BACKEND=torch python -m benchmarks.long_texts.passkey --needles    # facts in real text

"stretched" is the checkpoint of readings.py, most layers of which are local. Needles lie
in Grimm's tales. Runs are in build/passkey, where an interrupted call goes on; the results are
added to those in benchmarks/results/passkey.json or needle.json, and all of them shown as a table.
Another number of --documents has another chance, and needs --results and an --output of its own.
"""

import argparse
import pathlib

from benchmarks.long_texts.passkey_table import passkey_table
from benchmarks.long_texts.passkeys import bench_passkey
from benchmarks.long_texts.reading_tasks import Readings
from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.kept import read_rows, write_lines

RESULTS = pathlib.Path(__file__).parents[1] / "results"
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


def of_readings():
    return Readings(pathlib.Path("build/readings")).long.checkpoint


CHECKPOINTS = {"stretched": of_readings}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ways = [*WAYS, *CHECKPOINTS]
    parser.add_argument("--ways", nargs="+", default=ways, help=f"such as {', '.join(ways)}")
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--documents", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--needles", action="store_true", help="in tales")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/passkey"))
    parser.add_argument("--results", type=pathlib.Path)
    asked = vars(parser.parse_args())
    task = "needle" if asked.pop("needles") else "passkey"
    path = asked.pop("results") or RESULTS / f"{task}.json"
    asked["corpus"] = f"{CORPORA}/grimm-tales.tab" if task == "needle" else None
    asked["output"] /= task
    stretched = [CHECKPOINTS[way]() for way in asked["ways"] if way in CHECKPOINTS]
    asked["ways"] = [way for way in asked["ways"] if way not in CHECKPOINTS]
    results = bench_passkey(MINILM, stretched=stretched, **asked)
    rows = merged([*read_rows(path), *results])
    write_lines(path, rows)
    print(passkey_table(rows))


def merged(rows):
    """The rows of one way and seed as one row, of the lengths of all; the later counts."""
    kept = {}
    for row in rows:
        run = kept.setdefault((row["model"], row["seed"]), row)
        if run["settings"] != row["settings"]:
            raise ValueError(f"Not one table: {run['settings']} and {row['settings']}.")
        for name in ("scores", "seconds"):
            run[name] = {**run[name], **row[name]}
        run["accuracy"]["test"] |= row["accuracy"]["test"]
    return list(kept.values())


if __name__ == "__main__":
    main()
