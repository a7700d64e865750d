"""Start-up: importing the library, building a model and loading its weights, against peers.

    python -m benchmarks.jobs.loading                   # all cases, in turns
    python -m benchmarks.jobs.loading --turns 1 --only jax --files neobert

Every measurement is a process of its own. The checkpoints are a BERT-base of random weights in
three formats, and families whose projections are packed in one tensor, of their published sizes,
made at the first run under build/ (time and memory do not depend on the numbers). A figure is the
median over the turns; memory is the peak of the process over that of its imports, as a share of
the weights. The results go to benchmarks/results/loading.json, in place of those of the same case.
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

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "loading.json"
BUILD = ROOT / "build"
CHECKPOINTS = BUILD / "bert-base"
BACKENDS = ("tensorflow", "jax", "torch")
FORMATS = {
    "safetensors": "model.safetensors",
    "torch": "pytorch_model.bin",
    "google": "bert_model.ckpt",
}
# Families with packed projections -> the config of their base model.
WIDTHS = {"hidden_size": 768, "num_attention_heads": 12, "pad_token_id": 0}
PACKED = {
    "modernbert": {"vocab_size": 50368, "num_hidden_layers": 22, "intermediate_size": 1152},
    "neobert": {"vocab_size": 30522, "num_hidden_layers": 28, "intermediate_size": 3072},
    "nomic_bert": {"vocab_size": 30528, "num_hidden_layers": 12, "intermediate_size": 3072},
}
TARGETS = {
    "build + load s": 1.0,
    "import s": 0.15,
    "peak over weights": 1.3,
    "packed: peak over weights": 1.1,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="of " + ", ".join(BACKENDS) + ", transformers")
    parser.add_argument("--files", nargs="+", help="of " + ", ".join([*FORMATS.values(), *PACKED]))
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        return print(json.dumps(MEASURES[arguments.measure[0]](arguments.measure[1])))
    files = [*FORMATS.values(), *PACKED]
    cases = [(backend, "keras_posenc", path) for backend in BACKENDS for path in files]
    cases.append(("transformers", "transformers", "model.safetensors"))
    cases = [case for case in cases if not arguments.only or case[0] in arguments.only]
    cases = [case for case in cases if not arguments.files or case[2] in arguments.files]
    make_checkpoints({path for *_, path in cases})
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
    earlier = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    measured_now = {(row["backend"], row["file"]) for row in rows}
    known = [r for r in earlier.get("rows", []) if (r["backend"], r["file"]) not in measured_now]
    report = {"cores": os.cpu_count(), "turns": arguments.turns, "targets": TARGETS}
    report["rows"] = known + rows
    arguments.results.write_text(json.dumps(report, indent=1) + "\n")


def make_checkpoints(paths):
    """Makes the checkpoints of these cases that are not there."""
    for name in PACKED.keys() & paths:
        if not (BUILD / name / "model.safetensors").exists():
            write = (
                "import json, sys, keras_posenc as k; "
                "k.save_checkpoint(k.build_transformer_model(json.loads(sys.argv[1])), sys.argv[2])"
            )
            config = json.dumps({"model_type": name, **WIDTHS, **PACKED[name]})
            command = [sys.executable, "-c", write, config, BUILD / name]
            subprocess.run(command, check=True, env={**os.environ, "KERAS_BACKEND": "torch"})
    if set(FORMATS.values()) & paths:
        make_bert()


def make_bert():
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
    command = [sys.executable, "-m", __spec__.name, "--measure", library, path]
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
    # To serialize anything Keras imports TensorFlow, on every backend, where it is installed.
    keras.layers.Layer().get_config()
    started = time.perf_counter()
    resident = peak()
    processor = time.process_time()
    if path in PACKED:
        model = keras_posenc.build_transformer_model(BUILD / path)
    else:
        model = keras_posenc.build_transformer_model(
            CHECKPOINTS / "config.json", CHECKPOINTS / path, with_pool=True
        )
    loaded = time.perf_counter()
    weights = 4 * model.count_params()
    return {
        "keras import s": base - began,
        "import s": imported - base,
        "build + load s": loaded - started,
        "build + load processor s": time.process_time() - processor,
        "peak over weights": (peak() - resident) / weights,
    }


def transformers(_):
    from transformers import BertModel

    resident, began, processor = peak(), time.perf_counter(), time.process_time()
    model = BertModel.from_pretrained(CHECKPOINTS)
    loaded = time.perf_counter() - began
    weights = 4 * sum(weight.numel() for weight in model.parameters())
    sum(float(weight.detach().sum()) for weight in model.parameters())  # the file is mapped
    return {
        "build + load s": loaded,
        "build + load processor s": time.process_time() - processor,
        "and read s": time.perf_counter() - began,
        "peak over weights": (peak() - resident) / weights,
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
