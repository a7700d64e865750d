"""Steps on a GPU beside transformers and KerasHub, in bfloat16, and which kernels they ran.

    python -m benchmarks.accelerators.gpu  # what decides first; what is left is named at the end
    python -m benchmarks.accelerators.gpu --rows posenc-jax kerashub-jax  # only JAX has CUDA
    python -m benchmarks.accelerators.gpu --table  # the results as a table, nothing measured
    python -m benchmarks.accelerators.gpu --anywhere --layers 1 --cases "embed minilm 2x64 0"

A case is a mode, a model, texts x tokens and the rate of attention dropout:

forward   features of an encoder
train     a step of a classifier with Adam
embed     vectors of short texts by MiniLM's sizes, the mean of their tokens
decode    texts x new tokens of a Llama with four key-value heads, greedily, with a cache

Where the time goes is measured apart: `seconds` until the result is on the device, `host_seconds`
of Python alone until everything is dispatched, and `copy_seconds` of the result to NumPy. On
PyTorch, `waits` is the number of times that a step waits for the device, before its result.

BERT is stretched to the length by the hierarchical table; others have a longer one. Weights stay
float32, the arithmetic is bfloat16 (`mixed_bfloat16`; autocast for transformers). Fused attention
kernels are read from the compiled program on JAX and from a profile on PyTorch; a row without
attention dropout that names none took the slow path. Each case is a process of its own, and its
result is printed as it comes. Results go to benchmarks/results/gpu.json, each with its device.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import numpy as np

from benchmarks.accelerators import gpu_models
from benchmarks.accelerators.gpu_models import BERT, MODERN, PROMPT
from benchmarks.shared.kept import markdown
from benchmarks.steps import rows

RESULTS = rows.RESULTS / "gpu.json"
ROWS = ["posenc-jax", "posenc-torch", "transformers", "kerashub-jax"]
FUSED = re.compile(
    r"fmha|xla\.gpu\.triton|flash|cudnn[\w$]*attention|efficient_attention|mem_eff", re.IGNORECASE
)
STEPS = ((3, 10), (1, 3))  # not timed and timed, of a step and of a text that is decoded
NO_GPU = "No GPU here for"
NO_TIME = "no time was left"
# In the order in which they are measured, should the time not suffice for all of them.
CASES = [
    f"forward {BERT} 8x2048 0",
    f"train {BERT} 8x2048 0.1",
    "embed minilm 256x128 0",
    "decode llama 8x32 0",
    f"train {BERT} 8x2048 0",
    f"train {BERT} 2x8192 0.1",
    f"train {BERT} 32x512 0.1",
    "decode llama 1x32 0",
    f"forward {MODERN} 2x8192 0",
    f"train {MODERN} 2x8192 0.1",
    f"forward {BERT} 2x8192 0",
    f"train {BERT} 2x8192 0",
    f"train {BERT} 22x512 0.1",
    f"train {BERT} 9x1024 0.1",
    f"train {BERT} 5x1536 0.1",
]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=CASES, metavar='"MODE MODEL SHAPE RATE"')
    parser.add_argument("--layers", type=int, help="fewer layers, for a try")
    parser.add_argument("--rows", nargs="+", default=ROWS, choices=ROWS)
    parser.add_argument("--minutes", type=float, default=9.5, help="what runs is ended then")
    parser.add_argument("--anywhere", action="store_true", help="also without a GPU")
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        for case in arguments.cases:
            print(json.dumps(measured(arguments, case)), flush=True)
        return
    if not arguments.table:
        measure(arguments)
    print(table(json.loads(arguments.results.read_text())["rows"]))


def measure(arguments):
    deadline, lines = time.monotonic() + 60 * arguments.minutes, []
    for name, case in runs(arguments.rows, arguments.cases):
        if time.monotonic() < deadline:
            lines.append(measured_apart(arguments, name, case, deadline))
        else:
            lines.append({"row": name, "case": case, "failed": NO_TIME})
        arguments.results.parent.mkdir(exist_ok=True)
        arguments.results.write_text(json.dumps({"rows": lines}, indent=1) + "\n")
    left = [f"{line['row']}: {line['case']}" for line in lines if line.get("failed") == NO_TIME]
    if left:
        print("No time was left for:", *left, sep="\n  ", flush=True)


def runs(names, cases):
    """(row, case), each to be a process: all rows of a case before the next one."""
    return [(name, case) for case in cases for name in names if serves(name, case)]


def serves(name, case):
    """KerasHub is compared on encoders of BERT's kind."""
    return rows.NAMES[name].library != "keras_hub" or not {"llama", MODERN} & set(case.split())


def measured_apart(arguments, name, case, deadline):
    """The line of a process, which is ended at the deadline, printed as it comes."""
    command = [sys.executable, "-m", __spec__.name, "--one", name, "--cases", case]
    command += ["--anywhere"] * arguments.anywhere
    command += ["--layers", str(arguments.layers)] if arguments.layers else []
    environment = rows.environment_of(rows.NAMES[name])
    environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    found = {}
    with tempfile.TemporaryFile("w+") as errors:
        run = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        timer = threading.Timer(max(0, deadline - time.monotonic()), run.kill)
        timer.start()
        for line in filter(lambda line: line.startswith("{"), run.stdout):
            found = json.loads(line)
            print(line, end="", flush=True)
        code = run.wait()
        timer.cancel()
        errors.seek(0)
        message = (errors.read().strip().splitlines() or ["no message"])[-1]
    if NO_GPU in message:  # the next ones have none either
        sys.exit(message)
    if code and not found:
        why = NO_TIME if time.monotonic() >= deadline else message[:200]
        found = {"row": name, "case": case, "failed": why}
    return found


def measured(arguments, case):
    mode, model, shape, rate = case.split()
    batch, length = (int(n) for n in shape.split("x"))
    row = rows.NAMES[arguments.one]
    device = jax_device() if row.backend == "jax" else torch_device()
    if device["kind"] == "cpu" and not arguments.anywhere:
        sys.exit(
            f"{NO_GPU} {row.backend}: install its CUDA build, leave {row.name} out of --rows, or "
            "give --anywhere for a try."
        )
    line = {"row": row.name, "case": case, "device": device["name"]}
    device["begin"]()
    try:
        config = gpu_models.config_of(model, row, length, float(rate), arguments.layers)
        make = {"keras_posenc": posenc, "keras_hub": hub, "transformers": transformers}
        step, kernels = make[row.library](mode, config, batch, length, device)
        warm_up, steps = STEPS[mode == "decode"]
        for _ in range(warm_up):
            step()
        times = [timed(step, device) for _ in range(steps)]
        names = ("seconds", "host_seconds", "copy_seconds")
        middle = [round(statistics.median(each), 5) for each in zip(*times, strict=True)]
        line |= dict(zip(names, middle, strict=True))
        line |= {"waits": device["waits"](step), "peak_mb": device["peak_mb"]()}
        return {**line, "fused_kernels": kernels()}
    except Exception as error:  # the other cases of this process are still of use
        return {**line, "failed": f"{type(error).__name__}: {error}"[:200]}


def timed(step, device):
    """Seconds until the result of a step is on the device, until Python has dispatched all of it,
    and of the copy to the host."""
    start = time.perf_counter()
    result = step()
    dispatched = time.perf_counter()
    device["wait"](result)
    ready = time.perf_counter()
    device["copy"](result)
    return ready - start, dispatched - start, time.perf_counter() - ready


def jax_device():
    import jax

    device = jax.devices()[0]
    return {
        "kind": device.platform,
        "name": device.device_kind,
        "begin": lambda: None,
        "wait": jax.block_until_ready,
        "copy": lambda result: jax.tree_util.tree_map(np.asarray, result),
        "waits": lambda step: None,
        "peak_mb": lambda: round((device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**20),
    }


def torch_device():
    import gc

    import torch

    kind = "cuda" if torch.cuda.is_available() else "cpu"

    def begin():
        gc.collect()
        if kind == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def copy(result):
        for x in result if isinstance(result, (list, tuple)) else [result]:
            x = x.detach().cpu() if isinstance(x, torch.Tensor) else x
            # NumPy has no bfloat16: the same bytes.
            np.asarray(x.view(torch.int16) if getattr(x, "dtype", 0) == torch.bfloat16 else x)

    def waits(step):
        if kind == "cpu":
            return None
        torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            step()
        torch.cuda.set_sync_debug_mode("default")
        return sum("synchroniz" in str(each.message) for each in found)

    return {
        "kind": kind,
        "name": torch.cuda.get_device_name() if kind == "cuda" else "cpu",
        "begin": begin,
        "wait": lambda result: torch.cuda.synchronize() if kind == "cuda" else None,
        "copy": copy,
        "waits": waits,
        "peak_mb": lambda: (
            round(torch.cuda.max_memory_allocated() / 2**20) if kind == "cuda" else 0
        ),
    }


def posenc(mode, config, batch, length, device):
    model = gpu_models.posenc(mode, config, length)
    tokens, labels = gpu_models.arrays(config, batch, PROMPT if mode == "decode" else length)
    if mode == "decode":
        return lambda: model.predict(tokens, verbose=0), lambda: []
    return keras_step(mode, model, gpu_models.inputs_of(model, tokens), labels)


def hub(mode, config, batch, length, device):
    model = gpu_models.hub(mode, config, length)
    tokens, labels = gpu_models.arrays(config, batch, length)
    return keras_step(mode, model, gpu_models.inputs_of(model, tokens), labels)


def keras_step(mode, model, inputs, labels):
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-4), loss)

    if keras.backend.backend() == "torch":
        import torch

        def step():
            if mode == "train":
                return model.train_step((inputs, labels))["loss"]
            with torch.no_grad():
                return model(inputs, training=False)

        if mode == "train":
            model.optimizer.build(model.trainable_variables)
        return step, lambda: profiled(step)

    import jax

    @jax.jit
    def run(weights, values, inputs):
        return model.stateless_call(weights, values, inputs, training=False)[0]

    there = {key: jax.numpy.asarray(value) for key, value in inputs.items()}
    groups = model.trainable_variables, model.non_trainable_variables

    def step():
        if mode == "train":
            return model.train_on_batch(inputs, labels)
        return run(*([v.value for v in group] for group in groups), there)

    return step, lambda: compiled(model, inputs, mode == "train")


def compiled(model, inputs, training):
    """Names of fused attention in the program that XLA makes of the model's pass, with gradients
    in training."""
    import jax

    inputs = {key: jax.numpy.asarray(value) for key, value in inputs.items()}
    weights = [v.value for v in model.trainable_variables]
    values = [v.value for v in model.non_trainable_variables]

    def run(weights):
        logits, _ = model.stateless_call(weights, values, inputs, training=training)
        return logits.astype("float32").sum()

    function = jax.grad(run) if training else run
    program = jax.jit(function).lower(weights).as_text()
    return sorted({t for t in re.findall(r"custom_call @([\w.$]+)", program) if FUSED.search(t)})


def profiled(step):
    """Names of the operators of fused attention that one step of PyTorch ran."""
    import torch

    kinds = [torch.profiler.ProfilerActivity.CPU]  # operators: the kernels' names take minutes
    with torch.profiler.profile(activities=kinds) as profile:
        step()
    return sorted({e.key[:100] for e in profile.key_averages() if FUSED.search(e.key)})


def transformers(mode, config, batch, length, device):
    import torch
    import transformers as library

    try:
        import flash_attn  # noqa: F401

        kernel = "flash_attention_2"
    except ImportError:
        kernel = "sdpa"
    kind = {"llama": "Llama", "modernbert": "ModernBert"}.get(config.get("model_type"), "Bert")
    head = "ForCausalLM" if mode == "decode" else "ForSequenceClassification"
    config = {key: value for key, value in config.items() if key != "model_type"}
    if kind == "ModernBert":
        config |= dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id"), 1)
        config["sep_token_id"] = 1
    settings = getattr(library, f"{kind}Config")(**config, num_labels=rows.CLASSES)
    model = getattr(library, kind + head)._from_config(settings, attn_implementation=kernel)
    model = model.to(device["kind"]).train(mode == "train")
    size = PROMPT if mode == "decode" else length
    tokens, labels = (
        torch.from_numpy(x.astype("int64")).to(device["kind"])
        for x in gpu_models.arrays(config, batch, size)
    )
    mask = torch.ones_like(tokens)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)

    def step():
        with torch.autocast(device["kind"], dtype=torch.bfloat16):
            if mode == "decode":
                settings = {"do_sample": False, "min_new_tokens": length, "pad_token_id": 0}
                return model.generate(
                    tokens, attention_mask=mask, max_new_tokens=length, **settings
                )
            if mode != "train":
                with torch.inference_mode():
                    found = model.base_model(tokens, attention_mask=mask).last_hidden_state
                    return found.mean(1) if mode == "embed" else found
            loss = model(tokens, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (lambda: []) if mode == "decode" else lambda: profiled(step)


def table(lines):
    """A row per case, a column per row of measurements: milliseconds, memory, and whether a fused
    kernel ran."""
    names = list(dict.fromkeys(line["row"] for line in lines))
    found = {(line["case"], line["row"]): line for line in lines}
    cases = dict.fromkeys(line["case"] for line in lines)
    heads = ["case (mode, model, texts x tokens, attention dropout)", *names]
    cells = [[case, *(cell(found.get((case, name))) for name in names)] for case in cases]
    return markdown([heads, *cells])


def cell(line):
    if line is None:
        return ""
    if "failed" in line:
        memory = re.search("memory|RESOURCE_EXHAUSTED", line["failed"], re.IGNORECASE)
        missing = "not measured" if line["failed"] == NO_TIME else "failed"
        return "out of memory" if memory else missing
    fused = ", fused" if line["fused_kernels"] else ""
    return f"{1000 * line['seconds']:,.1f} ms, {line['peak_mb']:,} MB{fused}"


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
