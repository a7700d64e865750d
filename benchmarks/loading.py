"""Start-up: importing the library, building BERT-base and loading its weights, against peers.

    python benchmarks/loading.py                   # all cases, in turns
    python benchmarks/loading.py --turns 1 --only jax

Every measurement is a process of its own. The checkpoint is a BERT-base of random weights in three
formats, made at the first run under build/ (time and memory do not depend on the numbers). A
figure is the median over the turns; memory is the peak of the process over that of its imports, as
a share of the weights. The results go to benchmarks/results/loading.json.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
CHECKPOINTS = HERE.parent / "build" / "bert-base"
BACKENDS = ("tensorflow", "jax", "torch")
FORMATS = {
    "safetensors": "model.safetensors",
    "torch": "pytorch_model.bin",
    "google": "bert_model.ckpt",
}
WEIGHTS = 4 * 109_482_240  # bytes of BERT-base with its pooler, as transformers loads it
TARGETS = {"build + load s": 1.0, "import s": 0.15, "peak over weights": 1.3}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="of " + ", ".join(BACKENDS) + ", transformers")
    parser.add_argument("--results", default=HERE / "results" / "loading.json", type=pathlib.Path)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        return print(json.dumps(MEASURES[arguments.measure[0]](arguments.measure[1])))
    make_checkpoints()
    cases = [(backend, "keras_posenc", path) for backend in BACKENDS for path in FORMATS.values()]
    cases.append(("transformers", "transformers", "model.safetensors"))
    cases = [case for case in cases if not arguments.only or case[0] in arguments.only]
    runs = {case: [] for case in cases}
    for _ in range(arguments.turns):
        for case in cases:
            runs[case].append(measured(*case))
    rows = [
        {"backend": backend, "file": path}
        | {
            key: round(statistics.median(run[key] for run in runs[case]), 3)
            for key in runs[case][0]
        }
        for case in cases
        for backend, _, path in [case]
    ]
    print_rows(rows)
    arguments.results.parent.mkdir(exist_ok=True)
    report = {"cores": os.cpu_count(), "turns": arguments.turns, "targets": TARGETS, "rows": rows}
    arguments.results.write_text(json.dumps(report, indent=1) + "\n")


def make_checkpoints():
    """A BERT-base of random weights, in each format by the library whose format it is."""
    if all((CHECKPOINTS / name).exists() for name in ("model.safetensors", "pytorch_model.bin")):
        if (CHECKPOINTS / "bert_model.ckpt.index").exists():
            return
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    write = (
        "import sys, torch, transformers; "
        "m = transformers.BertModel(transformers.BertConfig()); m.save_pretrained(sys.argv[1]); "
        "torch.save(m.state_dict(), sys.argv[1] + '/pytorch_model.bin')"
    )
    subprocess.run([sys.executable, "-c", write, CHECKPOINTS], check=True)
    write = (
        "import sys, keras_posenc as k; "
        "k.save_checkpoint(k.build_transformer_model(sys.argv[1], with_pool=True), sys.argv[1], "
        "format='google')"
    )
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-c", write, CHECKPOINTS], check=True, env=environment)


def measured(backend, library, path):
    command = [sys.executable, __file__, "--measure", library, path]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if backend in BACKENDS:
        environment["KERAS_BACKEND"] = backend
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{library} on {backend} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def keras_posenc(path):
    began = time.perf_counter()
    import keras

    keras.ops.zeros(3)  # a backend may start only now
    base = time.perf_counter()
    import keras_posenc

    imported = time.perf_counter()
    resident = peak()
    processor = time.process_time()
    keras_posenc.build_transformer_model(
        CHECKPOINTS / "config.json", CHECKPOINTS / path, with_pool=True
    )
    return {
        "keras import s": base - began,
        "import s": imported - base,
        "build + load s": time.perf_counter() - imported,
        "build + load processor s": time.process_time() - processor,
        "peak over weights": (peak() - resident) / WEIGHTS,
    }


def transformers(_):
    from transformers import BertModel

    resident, began, processor = peak(), time.perf_counter(), time.process_time()
    model = BertModel.from_pretrained(CHECKPOINTS)
    loaded = time.perf_counter() - began
    sum(float(weight.detach().sum()) for weight in model.parameters())  # the file is mapped
    return {
        "build + load s": loaded,
        "build + load processor s": time.process_time() - processor,
        "and read s": time.perf_counter() - began,
        "peak over weights": (peak() - resident) / WEIGHTS,
    }


MEASURES = {"keras_posenc": keras_posenc, "transformers": transformers}


def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def print_rows(rows):
    for row in rows:
        figures = ", ".join(f"{key} {row[key]:.2f}" for key in list(row)[2:])
        print(f"{row['backend']:12} {row['file']:18} {figures}")


if __name__ == "__main__":
    main()
