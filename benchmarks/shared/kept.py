"""Shared by the benchmarks that keep a row of results for each run: options, the loop, tables."""

import argparse
import importlib.metadata
import itertools
import json
import pathlib
import platform
import statistics
import time

import keras

from keras_posenc.files.writing import write_text


def options(doc, results, folder, seeds=(0, 1, 2)):
    """A parser with --seeds, --results, --folder and --table."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(seeds))
    parser.add_argument("--results", default=results, type=pathlib.Path)
    parser.add_argument("--folder", default=folder, type=pathlib.Path)
    parser.add_argument("--table", action="store_true", help="only print what the results say")
    return parser


def read_rows(path):
    """The rows of results so far."""
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def write_rows(path, rows):
    write_text(path, json.dumps(rows, indent=1) + "\n")


def write_lines(path, rows):
    """The same, a line a row, for rows of many numbers."""
    write_text(path, "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


class Study:
    """The rows of a file of results: one per key, measured once, stamped and saved at once.

    Args:
        path: the file, which may not be there yet.
        write: `write_rows` or `write_lines`.
    """

    def __init__(self, path, write=write_rows):
        self.path, self.write, self.rows = path, write, read_rows(path)

    def run(self, keys, measure, shown=(), settings=None):
        """Measures what is missing; an interrupted call goes on where it was.

        Args:
            keys: dicts, each of which tells a row from the others.
            measure: function with the items of a key as keywords, returns the rest of its row.
            shown: names of what is printed of a new row; None prints nothing.
            settings: dict that a row has under "settings", or None. A row that was made with others
                is an error.

        Returns:
            list of the rows of the keys.
        """
        rows = []
        for key in keys:
            row = next((row for row in self.rows if key.items() <= row.items()), None)
            if row is None:
                started = time.process_time()
                found = measure(**key)
                row = {**key, **({"settings": settings} if settings else {})}
                row |= {**stamp(started), **found}
                self.rows.append(row)
                if shown is not None:
                    print(*key.values(), *(found[name] for name in shown), flush=True)
                self.write(self.path, self.rows)
            elif settings is not None:
                self._compare(row["settings"], settings)
            rows.append(row)
        return rows

    def _compare(self, before, settings):
        for name, value in settings.items():
            if value != before.get(name):
                raise ValueError(
                    f"{self.path} was made with {name}={before.get(name)}, not {value}: give "
                    "another output, or delete it."
                )


def keys(**values):
    """A dict for each combination of the values, the first name varying slowest."""
    return [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]


def markdown(rows):
    """A table of rows of cells, the first of which are its heads."""
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]])


def aligned(rows):
    """The same table for a terminal: its columns aligned, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *map(str.rjust, cells, widths[1:])])
        for first, *cells in rows
    )


def versions():
    """What a result was made with."""
    return {
        "keras": keras.__version__,
        "backend": keras.backend.backend(),
        "python": platform.python_version(),
        "scikit-learn": importlib.metadata.version("scikit-learn"),
    }


def stamp(started):
    """Versions, and the seconds of a core since `started`, a reading of `time.process_time`."""
    return {"core_seconds": round(time.process_time() - started, 1), "versions": versions()}


def spread(values, places=1):
    """Mean, and lowest to highest of the seeds."""
    low, high = min(values), max(values)
    return f"{statistics.fmean(values):.{places}f} ({low:.{places}f} to {high:.{places}f})"
