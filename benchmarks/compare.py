"""Is this working tree slower than a commit, or does it need more memory?

    python benchmarks/compare.py 16aa856
    python benchmarks/compare.py main~3 --backends torch --cases attention:t5 --repeats 5

Runs the same case in the code of the commit and in that of this tree by turns, in processes of
their own: attention alone with an encoding (`attention.py`, 2,048 tokens, attention dropout 0.1)
and a training step of MiniLM (`step.py`, one text of 2,048 tokens). Prints the medians, their
ratios and the peaks of memory, and writes them to benchmarks/results/compare-COMMIT.json and .md.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
BACKENDS = {"torch": "posenc-torch", "tensorflow": "posenc-tf", "jax": "posenc-jax"}
CASES = ["attention:plain", "attention:rotary", "attention:t5", "attention:cope", "step"]
SLOWER = 1.03


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--backends", nargs="+", choices=list(BACKENDS), default=list(BACKENDS))
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "results")
    arguments = parser.parse_args()
    commit = _git("rev-parse", "--short", arguments.commit)
    path = arguments.results / f"compare-{commit}.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        before = pathlib.Path(folder) / "before"
        _git("worktree", "add", "--detach", str(before), commit)
        try:
            for backend in arguments.backends:
                for case in arguments.cases:
                    trees = {"before": before, "now": HERE.parent}
                    lines = alternate(trees, backend, case, arguments.repeats)
                    report[f"{backend} {case}"] = lines
                    print(backend, case, _cells(lines), flush=True)
                    path.write_text(json.dumps(report, indent=1) + "\n")
                    path.with_suffix(".md").write_text(page(commit, report))
        finally:
            _git("worktree", "remove", "--force", str(before))


def alternate(trees, backend, case, repeats):
    """{tree: {"seconds": [...], "peak": [...]}}"""
    lines = {name: {"seconds": [], "peak": []} for name in trees}
    for turn in range(repeats):
        for name in sorted(trees, reverse=turn % 2):
            seconds, peak = measured(trees[name], backend, case)
            lines[name]["seconds"].append(seconds)
            lines[name]["peak"].append(peak)
    return lines


def measured(tree, backend, case):
    """Processor seconds of a step, and the memory at its peak."""
    kind, _, encoding = case.partition(":")
    if kind == "attention":
        command = ["attention.py", "--alone", encoding, "--length", "2048"]
    else:
        command = ["step.py", BACKENDS[backend], "train", "minilm", "1", "2048"]
    program = [sys.executable, tree / "benchmarks" / command[0], *command[1:]]
    variables = {"PYTHONPATH": str(tree), "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    variables["OMP_NUM_THREADS"] = "1"
    run = subprocess.run(program, capture_output=True, text=True, env={**os.environ, **variables})
    if run.returncode:
        sys.exit(f"{case} on {backend} failed in {tree}:\n{run.stderr[-2000:]}")
    line = json.loads(run.stdout.splitlines()[-1])
    if kind == "attention":
        return line["ms"] / 1000, line["maps at peak"]
    return line["cpu_seconds"], line["peak_mb"]


def page(commit, report):
    text = [
        f"# This tree beside {commit}",
        "",
        f"Made by `python benchmarks/compare.py {commit}`: by turns, medians of processor",
        "seconds of a step; memory at the peak, in maps of T x T numbers a head for attention",
        "alone, else MB.",
        f"Slower is a ratio above {SLOWER}.",
        "",
        "| case | before | now | ratio | peak before | peak now |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*text, *(f"| {case} | {_cells(lines)} |" for case, lines in report.items())])


def _cells(lines):
    before, now = (statistics.median(lines[name]["seconds"]) for name in ("before", "now"))
    peaks = " | ".join(f"{statistics.median(lines[name]['peak']):.3g}" for name in lines)
    return f"{before:.3f} | {now:.3f} | {now / before:.2f} | {peaks}"


def _git(*arguments):
    run = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=HERE)
    if run.returncode:
        sys.exit(run.stderr.strip())
    return run.stdout.strip()


if __name__ == "__main__":
    main()
