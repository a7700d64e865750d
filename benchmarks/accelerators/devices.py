"""The one-call functions on several devices and in several processes, beside one device.

    python -m benchmarks.accelerators.devices

Processors play the devices: JAX and TensorFlow divide one, and processes talk over localhost as
they would between hosts. PyTorch has one device a process. A tiny BERT without dropout is trained
on 13 texts, which no number of devices divides. Each number is the largest difference of a loss, a
score or a vector from that on one device. The results go to benchmarks/results/devices.json, and a
table to devices.md; a run adds to what is there.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "devices.json"
FUNCTIONS = ("finetune", "pretrain", "stretch", "evaluate", "predict", "embed")
# Column of the table -> function, and which of its numbers. `fit` shows a mean over batches that
# Keras weighs by their rows, those included that fill the last batch for several devices.
COLUMNS = {
    "finetune": ("finetune", slice(0, 1)),
    "loss that fit shows": ("finetune", slice(1, None)),
    **{name: (name, slice(None)) for name in FUNCTIONS[1:]},
}
# Backend -> numbers of devices in one process, and in two.
DEVICES = {
    "jax": ((1, 2, 4), (2, 4)),
    "tensorflow": ((1, 2, 4), (2,)),
    "torch": ((1,), (2,)),
}
MOST_SECONDS = 1800
WORDS = [f"w{number}" for number in range(35)]
CONFIG = {
    "model_type": "bert", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 32, "hidden_act": "gelu",
    "max_position_embeddings": 16, "type_vocab_size": 2, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0, "initializer_range": 0.2,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", choices=DEVICES, default=list(DEVICES))
    parser.add_argument("--processes", nargs="+", type=int, choices=(1, 2), default=(1, 2))
    parser.add_argument("--devices", nargs="+", type=int, choices=(1, 2, 4), default=(1, 2, 4))
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=FUNCTIONS)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        kind, number, folder = arguments.worker
        work(kind, int(number), pathlib.Path(folder), arguments.functions)
        return
    for backend in arguments.backends:
        with tempfile.TemporaryDirectory() as folder:
            for processes in arguments.processes:
                for number in sorted(set(arguments.devices) & set(DEVICES[backend][processes - 1])):
                    found = launched(backend, processes, number, folder, arguments.functions)
                    add(arguments.results, backend, processes, number, found)


def launched(backend, processes, number, folder, functions):
    """Runs the functions on so many devices of so many processes; {function: what was found}."""
    kind = backend if processes == 1 else f"{backend}-processes"
    command = ["-m", __spec__.name, "--functions", *functions]
    command += ["--worker", kind, str(number), folder]
    environment = {**os.environ, "KERAS_BACKEND": backend, "OMP_NUM_THREADS": "1"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3"}
    if backend == "jax":
        flags = f"--xla_force_host_platform_device_count={number // processes}"
        environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    if backend == "torch" and processes > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        command = [*launcher, f"--nproc-per-node={processes}", *command]
        started = [subprocess.Popen([sys.executable, *command], env=environment)]
    else:
        ports = free_ports(processes)
        started = [
            subprocess.Popen([sys.executable, *command], env=environment | more)
            for more in (rank_settings(backend, rank, ports) for rank in range(processes))
        ]
    try:
        for process in started:
            process.wait(MOST_SECONDS)
    except subprocess.TimeoutExpired:
        for process in started:
            process.kill()
    ranks = [pathlib.Path(folder) / f"{kind}-{rank}.json" for rank in range(processes)]
    found = [json.loads(path.read_text()) if path.exists() else {} for path in ranks]
    for path in ranks:
        path.unlink(missing_ok=True)
    return {name: agreed([one.get(name) for one in found]) for name in functions}


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def rank_settings(backend, rank, ports):
    """The environment of one of several processes, as the guide of many devices sets it."""
    if len(ports) == 1:
        return {}
    addresses = [f"127.0.0.1:{port}" for port in ports]
    if backend == "tensorflow":
        task = {"type": "worker", "index": rank}
        return {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})}
    return {
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(addresses),
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(len(ports)),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(rank),
    }


def agreed(found):
    """What all processes found, or that they do not agree."""
    if None in found:
        return {"failed": "a process hung, or died"}
    return found[0] if all(each == found[0] for each in found) else {"failed": "they differ"}


def add(path, backend, processes, number, found):
    """Adds results to the file, and writes its table."""
    version = importlib.metadata.version("keras")
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    combination = {"backend": backend, "devices": number, "processes": processes}
    new = [
        {"function": name, **combination, "keras": version, **result}
        for name, result in found.items()
    ]
    keys = {place(row) for row in new}
    rows = sorted([row for row in rows if place(row) not in keys] + new, key=place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    path.with_suffix(".md").write_text(table(rows))


def place(row):
    return row["function"], row["backend"], row["processes"], row["devices"]


def table(rows):
    """The results as Markdown: a row for each combination of devices and processes."""
    by_place = {place(row): row for row in rows}
    lines = ["| backend | processes | devices | " + " | ".join(COLUMNS) + " |"]
    lines.append("|---|---|---|" + "---|" * len(COLUMNS))
    for backend, processes, devices in sorted({place(row)[1:] for row in rows}):
        if (processes, devices) != (1, 1):
            cells = [
                cell(
                    by_place.get((name, backend, processes, devices)),
                    by_place.get((name, backend, 1, 1)),
                    chosen,
                )
                for name, chosen in COLUMNS.values()
            ]
            lines.append(f"| {backend} | {processes} | {devices} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(row, one, chosen=slice(None)):
    """The largest difference from one device, or the word for what happened."""
    kinds = [kind for kind in ("refused", "failed") if kind in (row or {})]
    if kinds:
        return kinds[0]
    if row is None or one is None or "values" not in one:
        return "not run"
    pairs = zip(row["values"][chosen], one["values"][chosen], strict=True)
    largest = max(abs(a - b) for a, b in pairs)
    return f"{largest:.0e}" if largest else "0"


def work(kind, number, folder, functions):
    """One process: runs the functions, and writes what they found."""
    rank, scope = prepared(kind, number)
    calls = one_call_functions(tiny_bert(folder), folder, f"{kind}-{number}")
    found = {}
    for name in functions:
        # With processes of TensorFlow, predictions are outside of the strategy.
        outside = kind == "tensorflow-processes" and name in ("evaluate", "predict", "embed")
        with contextlib.nullcontext() if outside else scope():
            found[name] = attempt(calls[name], folder / f"{kind}-{number}" / name)
        (folder / f"{kind}-{rank}.json").write_text(json.dumps(found))


def prepared(kind, number):
    """The rank of this process, and a function that makes the scope of so many devices."""
    import keras

    if kind == "jax":
        return 0, keras.distribution.DataParallel().scope
    if kind == "jax-processes":
        keras.distribution.initialize()
        parallel = keras.distribution.DataParallel(auto_shard_dataset=False)
        return int(os.environ["KERAS_DISTRIBUTION_PROCESS_ID"]), parallel.scope
    if kind == "torch-processes":
        import torch

        torch.distributed.init_process_group("gloo")
        return int(os.environ["RANK"]), contextlib.nullcontext
    if kind == "torch" or (kind, number) == ("tensorflow", 1):
        return 0, contextlib.nullcontext
    import tensorflow as tf

    if kind == "tensorflow-processes":
        rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
        return rank, tf.distribute.MultiWorkerMirroredStrategy().scope
    cpu = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * number
    tf.config.set_logical_device_configuration(cpu, parts)
    return 0, tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(number)]).scope


def tiny_bert(folder):
    """A directory with a random checkpoint, made by the first process that needs it."""
    from keras_posenc import build_transformer_model, save_checkpoint
    from keras_posenc.backend.seeding import set_random_seed

    directory = folder / "bert"
    if not (directory / "vocab.txt").exists():
        set_random_seed(0)
        save_checkpoint(build_transformer_model(dict(CONFIG)), directory)
        (directory / "config.json").write_text(json.dumps(CONFIG))
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
        (directory / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return directory


def one_call_functions(checkpoint, folder, name):
    """{function: call without arguments that returns numbers}; predictions are of the model that
    one device trained."""
    import numpy as np

    from keras_posenc import embed, finetune, predict, pretrain, stretch
    from keras_posenc.training import evaluate

    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 10)) for _ in range(13)]
    long = [" ".join(rng.choice(WORDS, 300))]
    data, output = (texts, ["abc"[n % 3] for n in range(13)]), folder / name
    rates = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    one = folder / f"{name.split('-')[0]}-1" / "finetune"

    def finetuned():
        common = {"max_length": 12, "epochs": 1, "token_budget": 96, "head_dropout": 0.0}
        metrics = finetune(
            checkpoint, data, output / "finetune", validation=data, verbose=0, **common, **rates
        )
        return [metrics["validation"]["loss"], *losses(output / "finetune")]

    def pretrained():
        settings = {"length": 12, "steps": 3, "token_budget": 48, "verbose": False}
        found = pretrain(checkpoint, texts, output / "pretrain", **settings, **rates)
        return [*found["losses"], found["before"]["loss"], found["after"]["loss"]]

    def stretched():
        settings = {"length": 24, "steps": 2, "verbose": False}
        return stretch(checkpoint, long, output / "stretch", **settings).report["losses"]

    return {
        "finetune": finetuned,
        "pretrain": pretrained,
        "stretch": stretched,
        "evaluate": lambda: [evaluate(one, data, verbose=0)["test"]["loss"]],
        "predict": lambda: [each.probability for each in predict(one, texts[:7], verbose=0)],
        "embed": lambda: embed(checkpoint, texts[:3], max_length=12, verbose=0).ravel().tolist(),
    }


def losses(output):
    """The losses of the steps of a fine-tuning."""
    lines = (output / "steps.csv").read_text().splitlines()[1:]
    return [float(line.split(",")[1]) for line in lines]


def attempt(call, written):
    """The numbers of a call, or how it was refused or failed."""
    try:
        return {"values": [float(number) for number in call()]}
    except ValueError as error:
        if "is not supported" in str(error) and not written.exists():
            return {"refused": str(error)}
        return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}


if __name__ == "__main__":
    main()
