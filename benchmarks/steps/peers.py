"""Time and memory of a step, this library and its peers side by side.

    python -m benchmarks.steps.peers          # all of it: hours
    python -m benchmarks.steps.peers --small  # what this environment has: under two minutes
    python -m benchmarks.steps.peers --modes train --shapes 1x2048 --rows posenc-tf kerashub-tf
    python -m benchmarks.steps.peers --page   # the page again, nothing measured

Every measurement is a process of its own. The rows take turns, so that a slow minute of the machine
meets all of them; a figure is the median over the turns. A measurement during which other programs
used more than a tenth of a core is taken again, up to twice; the quietest counts, and the page
marks it if it was not quiet. What wants more memory than is free, or more than `--patience`
seconds, is ended and reported so.

A run adds to benchmarks/results/peers.json turn by turn, and writes peers.md and peers.png beside
it. Peers get virtual environments of their own under build/peers, made when they are first needed.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import time

from benchmarks.steps import page, rows

RESULTS = rows.RESULTS / "peers.json"
QUIET = 0.1
SMALL_ROWS = ["posenc-jax", "posenc-tf", "posenc-torch", "transformers", "matmul-torch"]


def main():
    arguments = parsed()
    if not arguments.page:
        run(arguments)
    page.write(arguments.results)
    print(f"{arguments.results.with_suffix('.md')} and .png are written", flush=True)


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    modes = ["limit", "forward", "train"]
    parser.add_argument("--rows", nargs="+", choices=list(rows.NAMES), metavar="ROW")
    parser.add_argument("--skip", nargs="+", choices=list(rows.NAMES), metavar="ROW", default=[])
    parser.add_argument("--modes", nargs="+", default=modes, choices=modes)
    parser.add_argument("--models", nargs="+", default=["minilm"], choices=list(rows.MODELS))
    parser.add_argument("--shapes", type=shape_of, nargs="+", default=rows.SHAPES, metavar="4x512")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tries", type=int, default=3, help="how often a noisy one is measured")
    parser.add_argument("--memory", type=float, help="GB a process may take; default what is free")
    parser.add_argument("--patience", type=float, default=600, help="seconds a process may take")
    parser.add_argument("--small", action="store_true", help="one short shape, no peers installed")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.small:
        arguments.rows = arguments.rows or SMALL_ROWS
        arguments.shapes = [(2, 64)] if arguments.shapes is rows.SHAPES else arguments.shapes
        arguments.turns = arguments.tries = 1
        if arguments.results == RESULTS:
            arguments.results = rows.ROOT / "build" / "peers" / "small.json"
    return arguments


def shape_of(text):
    """`4x512`, a batch of 4 texts of 512 tokens, as (4, 512)."""
    batch, length = text.split("x")
    return int(batch), int(length)


def run(arguments):
    chosen = [
        row
        for row in rows.ROWS
        if row.name in (arguments.rows or rows.NAMES) and row.name not in arguments.skip
    ]
    pythons = {row.library: rows.python_of(row.library, arguments.small) for row in chosen}
    for model in arguments.models:
        for mode in arguments.modes:
            shapes = [(0, 0)] if mode == "limit" else arguments.shapes
            for batch, length in shapes:
                shape = (mode, model, batch, length)
                here = [row for row in chosen if mode in row.modes]
                for measured in in_turns(here, shape, pythons, arguments):
                    merge(arguments.results, measured)


def in_turns(chosen, shape, pythons, arguments):
    """After each turn, in which each is measured once: the summary of every row on one shape."""
    runs = {row.name: [] for row in chosen}
    for turn in range(arguments.turns):
        for row in chosen:
            if any("failed" in line for line in runs[row.name]):
                continue
            line = measure(row, shape, pythons[row.library], arguments)
            runs[row.name].append(line)
            print(turn + 1, row.name, *shape, sentence(line), flush=True)
        yield [summary(row, shape, runs[row.name]) for row in chosen]


def sentence(line):
    if "failed" in line:
        return line["failed"]
    if "gflops" in line:
        return f"{line['gflops']} GFLOP/s"
    seconds = statistics.median(line["seconds"])
    return f"{seconds:.3f} s {line['peak_mb']} MB, others used {line['others']} cores"


def measure(row, shape, python, arguments):
    """One process's measurement, the quietest of up to `tries`."""
    lines = []
    for _ in range(arguments.tries):
        lines.append(one_process(row, shape, python, arguments))
        if "failed" in lines[-1]:
            return lines[-1]
        if lines[-1]["others"] < QUIET:
            break
    return min(lines, key=lambda line: line["others"])


def one_process(row, shape, python, arguments):
    mode, model, batch, length = (str(part) for part in shape)
    command = [python, "-m", "benchmarks.steps.step", row.name, mode, model, batch, length]
    limit = (arguments.memory or available_gb() * 0.85) * 1e9
    process = subprocess.Popen(
        command,
        env=rows.environment_of(row),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    began, why = time.monotonic(), None
    while True:
        try:
            out, err = process.communicate(timeout=0.1)
            break
        except subprocess.TimeoutExpired:
            if resident(process.pid) > limit:
                why = f"needs more than {limit / 1e9:.0f} GB"
            elif time.monotonic() - began > arguments.patience:
                why = f"needs more than {arguments.patience:.0f} s"
            if why:
                process.kill()
    if why:
        return {"failed": why}
    if process.returncode:
        print(err[-3000:], flush=True)
        return {"failed": (err.strip().splitlines() or ["killed"])[-1][:200]}
    return json.loads(out.splitlines()[-1])


def available_gb():
    """Memory that a process could take; without Linux's account of it, a guess."""
    try:
        with open("/proc/meminfo") as file:
            line = next(line for line in file if line.startswith("MemAvailable"))
        return int(line.split()[1]) / 1e6
    except OSError:
        return 16.0


def resident(pid):
    """Bytes a process holds now; 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def summary(row, shape, runs):
    mode, model, batch, length = shape
    line = {"row": row.name, "mode": mode, "model": model, "batch": batch, "length": length}
    line["day"] = datetime.date.today().isoformat()
    failed = [run["failed"] for run in runs if "failed" in run]
    if failed:
        return {**line, "failed": failed[0]}
    if mode == "limit":
        return {**line, "gflops": max(run["gflops"] for run in runs)}
    medians = [statistics.median(run["seconds"]) for run in runs]
    return {
        **line,
        "seconds": round(statistics.median(s for run in runs for s in run["seconds"]), 4),
        "cpu_seconds": round(statistics.median(run["cpu_seconds"] for run in runs), 4),
        "spread": [round(min(medians), 4), round(max(medians), 4)],
        "turns": len(runs),
        "peak_mb": max(run["peak_mb"] for run in runs),
        "others": max(run["others"] for run in runs),
    }


KEY = ("mode", "model", "batch", "length", "row")


def merge(path, measured):
    """Puts the rows in place of those of the same key, with the limit of the machine as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    report = json.loads(path.read_text()) if path.exists() else {}
    by_key = {tuple(line[k] for k in KEY): line for line in report.get("rows", [])}
    by_key |= {tuple(line[k] for k in KEY): line for line in measured}
    # A run takes hours, and may have begun the day before.
    since = (datetime.date.today() - datetime.timedelta(days=1)).isoformat()
    rates = [x["gflops"] for x in by_key.values() if "gflops" in x and x.get("day", "") >= since]
    limit = max(rates, default=0)
    for line in measured:
        if "seconds" in line:
            line["limit"] = limit
    order = list(rows.NAMES)

    def place(line):
        return *(line[k] for k in ("mode", "model", "length", "batch")), order.index(line["row"])

    lines = sorted(by_key.values(), key=place)
    report = {"machine": machine(), "quiet": QUIET, "rows": lines}
    path.write_text(json.dumps(report, indent=1) + "\n")


def machine():
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line for line in file if line.startswith("model name")).split(":")[1]
    except (OSError, StopIteration):
        pass
    return {"cores": os.cpu_count(), "processor": name.strip(), "python": platform.python_version()}


if __name__ == "__main__":
    main()
