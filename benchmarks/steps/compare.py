"""Is this working tree slower than a commit, or does it need more memory?

    python -m benchmarks.steps.compare 9a5089e
    python -m benchmarks.steps.compare main~3 --backends torch --cases attention:t5 --turns 21

Two processes hold the same case, one by the code of the commit and one by that of this tree, and
compute it by turns, one pass each, so that whatever else the machine does reaches both: attention
alone with an encoding (`attention.py`, 2,048 tokens, attention dropout 0.1), a training step of
MiniLM (`step.py`, one text of 2,048 tokens), a query of 8 tokens read by MiniLM, and decoding with
rotary positions and shared heads (six texts, 60 new tokens). Prints medians of processor seconds,
the median of the turns' ratios, and the peaks of memory, and writes them to
benchmarks/results/compare-COMMIT.json and .md.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
BACKENDS = {"torch": "posenc-torch", "tensorflow": "posenc-tf", "jax": "posenc-jax"}
ENCODINGS = ("plain", "rotary", "t5", "cope")
CASES = [*(f"attention:{name}" for name in ENCODINGS), "step", "query", "decode"]
SLOWER = 1.03
LENGTH, DROPOUT = 2048, 0.1


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--backends", nargs="+", choices=list(BACKENDS), default=list(BACKENDS))
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.commit)
    commit = _git("rev-parse", "--short", arguments.commit)
    path = arguments.results / f"compare-{commit}.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        before = pathlib.Path(folder) / "before"
        _git("worktree", "add", "--detach", str(before), commit)
        try:
            for backend in arguments.backends:
                for case in arguments.cases:
                    trees = {"before": before, "now": ROOT}
                    lines = alternate(trees, backend, case, arguments.turns)
                    report[f"{backend} {case}"] = lines
                    print(backend, case, _cells(lines), flush=True)
                    path.write_text(json.dumps(report, indent=1) + "\n")
                    path.with_suffix(".md").write_text(page(commit, report))
        finally:
            _git("worktree", "remove", "--force", str(before))


def alternate(trees, backend, case, turns):
    """{tree: {"seconds": one a turn, "peak": number}}"""
    lines = {
        name: {"seconds": [], "peak": peak(tree, backend, case)} for name, tree in trees.items()
    }
    workers = {name: started(tree, backend, case) for name, tree in trees.items()}
    for turn in range(turns):
        for name in sorted(workers, reverse=turn % 2):
            lines[name]["seconds"].append(ask(workers[name])[0])
    for worker in workers.values():
        worker.communicate()
    return lines


def peak(tree, backend, case):
    """The peak of memory in a process of its own, in which what is freed goes back at once."""
    worker = started(tree, backend, case, MALLOC_MMAP_THRESHOLD_="65536")
    _, found = ask(worker)
    worker.communicate()
    return found


def started(tree, backend, case, **variables):
    """A process that has computed the case twice by the code of a tree, and waits for a line."""
    # A commit whose benchmarks are no package is measured by those of this tree.
    path = os.pathsep.join([str(tree), str(ROOT)])
    variables |= {"PYTHONPATH": path, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    variables |= {"OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    return subprocess.Popen(
        [sys.executable, __file__, f"{BACKENDS[backend]} {case}", "--worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **variables},
        text=True,
    )


def ask(worker):
    """Has a worker compute a pass: its processor seconds and its peak of memory."""
    worker.stdin.write("run\n")
    worker.stdin.flush()
    while line := worker.stdout.readline():
        if line.startswith("compare: "):
            return [round(float(number), 5) for number in line.split()[1:]]
    sys.exit(f"A process ended before its time: {worker.args}")


def work(case):
    """Computes a case twice, then once for each line that comes in, and prints the processor
    seconds of that pass and its peak of memory."""
    row, case = case.split()
    kind, _, encoding = case.partition(":")
    others = {"step": lambda: step(row), "query": query, "decode": decode}
    run, peak = attention(encoding) if kind == "attention" else others[kind]()
    run()
    run()
    for _ in sys.stdin:
        forget_peak()
        start = time.process_time()
        run()
        print("compare:", time.process_time() - start, peak(), flush=True)


def forget_peak():
    """Has Linux count the peak of this process's memory from now on."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def attention(encoding):
    """A forward and backward pass, and its peak memory in matrices of T x T numbers per head."""
    import numpy as np

    from benchmarks.steps import attention, parts, step

    parts.on_one_thread()
    rng, size = np.random.default_rng(0), attention.HEADS * attention.SIZE
    x, g = (rng.normal(size=(1, LENGTH, size)).astype("float32") for _ in range(2))
    few = x[:, :64], g[:, :64]
    attention.passes(encoding, DROPOUT, *few)()  # a backend holds more once it has run at all
    before = step.status_mb("VmRSS")
    map_bytes = 4 * attention.HEADS * LENGTH**2
    peak = lambda: (step.peak_mb() - before) * 2**20 / map_bytes  # noqa: E731
    return attention.passes(encoding, DROPOUT, x, g), peak


def step(row):
    """A training step of MiniLM, and its peak of memory in MB."""
    from benchmarks.steps import libraries, rows, step

    row = rows.NAMES[row]
    task = libraries.Task(row, "train", "minilm", 1, LENGTH, DROPOUT)
    return libraries.LIBRARIES[row.library](task), step.peak_mb


def query():
    """A hundred passes over 8 tokens by MiniLM, and the peak of memory in MB."""
    import numpy as np

    from benchmarks.shared.data import MINILM
    from benchmarks.steps import step
    from keras_posenc import build_transformer_model

    model = build_transformer_model(MINILM)
    ids = np.arange(1000, 1008, dtype="int32")[None]
    texts = {"token_ids": ids, "segment_ids": 0 * ids}
    return lambda: [model.predict_on_batch(texts) for _ in range(100)], step.peak_mb


def decode():
    """The text of a small Qwen3 of random weights, and the peak of memory in MB."""
    import numpy as np

    from benchmarks.steps import step
    from keras_posenc import Generator, build_transformer_model

    sizes = {"vocab_size": 8000, "hidden_size": 256, "num_hidden_layers": 4, "head_dim": 64}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 768}
    config = {"model_type": "qwen3", "max_position_embeddings": 256, **sizes, **heads}
    generator = Generator(build_transformer_model(config, with_mlm="linear"), max_length=60)
    prompts = np.random.default_rng(0).integers(1, 8000, (6, 23))
    return lambda: generator.predict(prompts, verbose=0), step.peak_mb


def page(commit, report):
    text = [
        f"# This tree beside {commit}",
        "",
        f"Made by `python -m benchmarks.steps.compare {commit}`: "
        "medians of the processor seconds of",
        "a pass, measured alternately, and of their ratios. Peak memory is in attention matrices",
        "of T x T numbers per head for attention alone, otherwise in MB.",
        f"Slower is a ratio above {SLOWER}.",
        "",
        "| case | before | now | ratio | peak before | peak now |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*text, *(f"| {case} | {_cells(lines)} |" for case, lines in report.items())])


def _cells(lines):
    before, now = (lines[name]["seconds"] for name in ("before", "now"))
    ratio = statistics.median(b / a for a, b in zip(before, now, strict=True))
    cells = [f"{statistics.median(seconds):.3f}" for seconds in (before, now)]
    peaks = [f"{lines[name]['peak']:.3g}" for name in ("before", "now")]
    return " | ".join([*cells, f"{ratio:.2f}", *peaks])


def _git(*arguments):
    run = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT)
    if run.returncode:
        sys.exit(run.stderr.strip())
    return run.stdout.strip()


if __name__ == "__main__":
    main()
