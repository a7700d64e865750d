"""Train short, test long: models on synthetic tasks and texts, each run resumed where it stopped.

    python -m benchmarks.extrapolation even_pairs --encodings none alibi --seeds 0,1 --steps 10000

Results, tables and figures are written to --output.
"""

import argparse
import dataclasses

from benchmarks.extrapolation.campaign import bench
from benchmarks.extrapolation.pictures import save_pictures
from benchmarks.extrapolation.settings import MODELS, Settings
from benchmarks.extrapolation.table import to_table
from keras_posenc.cli.options import numbers

NAMES = {"nargs": "+", "metavar": "NAME"}
KINDS = {int: int, float: float, int | None: int, str | None: str}


def ranges(text):
    """The integers in a list of numbers and ranges, such as 50,100 or 4-64:2."""
    try:
        lengths = []
        for part in text.split(","):
            ends, _, step = part.partition(":")
            first, dash, last = ends.partition("-")
            lengths += range(int(first), int(last if dash else first) + 1, int(step or 1))
        return lengths
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"give lengths such as 64, 50,100,200, 1-40 or, every second, 4-64:2, not {text!r}"
        ) from None


def parser():
    """The options of `bench` and the fields of `Settings`; what is not given is left out."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.extrapolation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument("tasks", nargs="+", help="such as even_pairs or counting:variables=3")
    made.add_argument("--models", **NAMES, help=", ".join(MODELS))
    made.add_argument("--encodings", **NAMES, help="such as none, alibi or rotary+log_n")
    made.add_argument("--positions", **NAMES, help="consecutive, or sampled, such as sorted")
    made.add_argument("--seeds", type=numbers, metavar="N,N", help="(default: 0,1,2)")
    made.add_argument("--budget", type=float, help="minutes for all runs, in place of --steps")
    made.add_argument("--output", help="directory (default: bench)")
    made.add_argument("--no-pictures", action="store_true")
    for field in dataclasses.fields(Settings):
        kind = ranges if field.name.endswith("_lengths") else KINDS[field.type]
        shown = (
            "" if field.default in (None, dataclasses.MISSING) else f"(default: {field.default})"
        )
        made.add_argument(f"--{field.name.replace('_', '-')}", type=kind, help=shown)
    return made


def main(arguments=None):
    asked = vars(parser().parse_args(arguments))
    pictures = not asked.pop("no_pictures", False)
    results = bench(asked.pop("tasks"), **asked)
    print(to_table(results))
    if pictures:
        print(*save_pictures(results, asked.get("output", "bench")))


if __name__ == "__main__":
    main()
