"""Results that tables of the site are made of, and the commands that made them."""

import contextlib
import importlib
import json
import os
import shlex

import tables

# Between the commands of one block.
AGAIN = "\nKERAS_BACKEND=torch python -m benchmarks."


def seeds_of(rows):
    """The option of a benchmark that asks for the seeds of these rows."""
    seeds = sorted({row["seed"] for row in rows if "seed" in row})
    return " ".join(["--seeds", *map(str, seeds)]) if seeds else ""


def commands_for(name, rows, asked=lambda row: ""):
    """The calls of a benchmark that made these rows, those of the same options in one."""
    seeds, calls = {}, {}
    for row in rows:
        seeds.setdefault((asked(row), row["way"]), []).append(row)
    for (options, way), runs in seeds.items():
        options = " ".join(filter(None, (options, seeds_of(runs))))
        calls.setdefault(options, []).append(shlex.quote(way))
    return AGAIN.join(
        " ".join(filter(None, (name, options, "--ways", *ways))) for options, ways in calls.items()
    )


def with_source(table, rows, command, name, backend=None):
    """A table with its seeds, versions, file of results and command."""
    seeds = sorted({row["seed"] for row in rows if "seed" in row})
    note = f"Seeds {', '.join(map(str, seeds))}; " if seeds else ""
    known = [row["versions"] for row in rows if "versions" in row]
    if known:
        note += ", ".join(sorted({f"Keras {v['keras']}" for v in known}))
        note += f" ({len(known)} of {len(rows)} rows)" * (len(known) < len(rows)) + "; "
    note += f"[{name}.json](../results/{name}.json)."
    variable = f"KERAS_BACKEND={backend} " if backend else ""
    return f"{table}\n\n{note}\n\n```\n{variable}python -m benchmarks.{command}\n```"


def results(name):
    """A file of results."""
    return json.loads((tables.RESULTS / f"{name}.json").read_text("utf-8"))


@contextlib.contextmanager
def _environment_kept():
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def benchmark(name):
    """The module SUBPACKAGE.NAME of the benchmarks, which sets variables of the environment."""
    with _environment_kept():
        return importlib.import_module(f"benchmarks.{name}")
