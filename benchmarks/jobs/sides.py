"""Sides that do the same work in alternating processes of one thread, and their ratios."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
BACKENDS = ("torch", "tensorflow", "jax")
ANSWER = "answer: "


def parser(text, results, sides, turns, choices=None):
    """The arguments that all these benchmarks have.

    Args:
        text: str, the docstring of the module.
        results: path of the .json file of results, which has its page beside it.
        sides: list of str, those that are measured by default.
        turns: int, of each side by default.
        choices: list of str, all sides that there are; by default `sides`.
    """
    found = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--turns", type=int, default=turns)
    found.add_argument("--sides", nargs="+", default=sides, choices=choices or sides)
    found.add_argument("--page", action="store_true", help="only write the page again")
    found.add_argument("--results", default=results, type=pathlib.Path)
    found.add_argument("--side", help=argparse.SUPPRESS)
    return found


def main(parser, measure_of, run, page):
    """Measures as the arguments say, and writes the page of the results.

    Args:
        parser: what `parser` made, with the arguments of this benchmark.
        measure_of: function of a side, which returns what `answer` takes.
        run: function of the arguments, which measures and writes the results.
        page: function of the results, which returns the page.
    """
    arguments = parser.parse_args()
    if arguments.side:
        answer(measure_of(arguments.side))
        return
    if not arguments.page:
        run(arguments)
    arguments.results.with_suffix(".md").write_text(page(known(arguments.results)))


def known(results):
    """The results that a file has."""
    return json.loads(results.read_text()) if results.exists() else {}


def run_in_turns(module, arguments, cases, base, first=True):
    """Measures cases by a process per side, in turns, and writes the results of each.

    Args:
        module: name of the benchmark's module.
        arguments: what `parser` read.
        cases: dict, name -> what `ask` sends.
        base: the side that the others are divided by.
        first: bool. Whether the first call, which may compile, counts apart.
    """
    report = known(arguments.results)
    processes = {side: started(module, side) for side in arguments.sides}
    for name, case in cases.items():
        begun = {side: ask(p, case) for side, p in processes.items()} if first else {}
        found = {side: [] for side in processes}
        for _ in range(arguments.turns):
            for side, process in processes.items():
                found[side].append(ask(process, case))
        rows = compared(found, base)
        for side, line in begun.items():
            rows[side]["first"] = round(line["seconds"], 2)
        report.setdefault(name, {}).update(rows)
        arguments.results.write_text(json.dumps(report, indent=1) + "\n")
    for process in processes.values():
        process.communicate()


def started(module, side):
    """A process that runs a module with `--side NAME`, and waits for what `ask` writes.

    A backend may be followed by a comma and what is special about this side.
    """
    backend = side.split(",")[0]
    backend = backend if backend in BACKENDS else "torch"
    return subprocess.Popen(
        [sys.executable, "-m", module, "--side", side],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ONE_THREAD, "KERAS_BACKEND": backend},
        text=True,
    )


def ask(process, case):
    """Sends a case, a dict, to a process; returns the numbers of its answer."""
    process.stdin.write(json.dumps(case) + "\n")
    process.stdin.flush()
    while line := process.stdout.readline():
        if line.startswith(ANSWER):
            print(*process.args[-1:], *case.values(), line.strip(), flush=True)
            return json.loads(line.removeprefix(ANSWER))
    sys.exit(f"A process ended before its time: {process.args}")


def answer(measure):
    """Has a process measure each case that `ask` sends it.

    Args:
        measure: function with the items of a case as keywords, returns a dict of numbers.
    """
    for line in sys.stdin:
        print(ANSWER + json.dumps(measure(**json.loads(line))), flush=True)


class CompiledPrograms:
    """Counts the programs that JAX compiles from now on, and those that it finds on disk."""

    EVENTS = {"cache_misses": "compiled", "cache_hits": "found"}

    def __init__(self):
        self.events = dict.fromkeys(self.EVENTS.values(), 0)
        if os.environ["KERAS_BACKEND"] == "jax":
            import jax

            jax.monitoring.register_event_listener(self._note)

    def _note(self, event, **_):
        folder, _, name = event.rpartition("/")
        if folder == "/jax/compilation_cache" and name in self.EVENTS:
            self.events[self.EVENTS[name]] += 1

    def counts(self):
        """dict of two numbers; empty on another backend."""
        return self.events if os.environ["KERAS_BACKEND"] == "jax" else {}


def compared(found, base):
    """What the turns of all sides have measured.

    Args:
        found: `{side: [numbers of each turn]}`, as many of all sides.
        base: the side that the others are divided by.

    Returns:
        dict, side -> medians of its numbers; `ratio`, the median of its seconds divided by those
        of the base in the same turn; and `spread`, the lowest and the highest of these.
    """
    rows = {}
    for side, turns in found.items():
        rows[side] = {"turns": len(turns)}
        for key, value in turns[0].items():
            if value is not None:
                rows[side][key] = round(statistics.median(turn[key] for turn in turns), 3)
        if base in found:
            pairs = zip(turns, found[base], strict=True)
            ratios = sorted(turn["seconds"] / other["seconds"] for turn, other in pairs)
            rows[side]["ratio"] = round(statistics.median(ratios), 2)
            rows[side]["spread"] = [round(ratios[0], 2), round(ratios[-1], 2)]
    return rows


def ratio_cell(row):
    """`0.95 (0.93 to 0.97)`, without the spread after one turn."""
    low, high = row["spread"]
    spread = f" ({low:.2f} to {high:.2f})" if row["turns"] > 1 else ""
    return f"{row['ratio']:.2f}{spread}"


def table(report, sides, cell, held_out):
    """The lines of a table: a row per case, a column per side that was measured.

    Args:
        report: dict, name of a case -> side -> its numbers.
        sides: list of str, in the order of the columns.
        cell: function of the name of a case and the numbers of a side.
        held_out: names of cases that nothing was chosen by, which are marked.
    """
    sides = [side for side in sides if any(side in rows for rows in report.values())]
    lines = [f"| | {' | '.join(sides)} |", "|---" * (len(sides) + 1) + "|"]
    for name, rows in report.items():
        cells = [cell(name, rows[side]) if side in rows else "–" for side in sides]
        shown = re.sub(r"(?<=\d)x(?=\d)", " x ", name) + " *" * (name in held_out)
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return lines
