"""A step on a GPU: JAX and torch beside transformers, bfloat16, and which kernels it really ran.

    python benchmarks/gpu.py                     # BERT- and ModernBERT-base, 512 to 16,384 tokens
    python benchmarks/gpu.py --rows posenc-jax               # where only JAX has its CUDA build
    python benchmarks/gpu.py --anywhere --layers 1 --shapes 2x64 --turns 1  # a try without a GPU

Every measurement is a process of its own; JAX and torch need their CUDA builds. BERT is stretched
to the length by the hierarchical table, transformers' has a longer one. Weights stay float32, the
arithmetic is bfloat16 (`mixed_bfloat16`; autocast for transformers). A batch has 16,384 tokens. The
fused attention kernels are read from the compiled program on JAX and from a profile on torch; a row
without attention dropout that names none took the slow path. Results go to
benchmarks/results/gpu.json, each with the device that it ran on.
"""

import argparse
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import libraries
import numpy as np
import rows

RESULTS = rows.HERE / "results" / "gpu.json"
SHAPES = ["32x512", "16x1024", "8x2048", "4x4096", "2x8192", "1x16384"]
ROWS = ["posenc-jax", "posenc-torch", "transformers"]
FUSED = re.compile(r"fmha|flash|cudnn[\w$]*attention|efficient_attention|mem_eff", re.IGNORECASE)
STEPS = 10
NO_GPU = "No GPU here for"
MODELS = ("bert-base", "modernbert-base", "minilm")
MODES = ("forward", "train")
MODERNBERT = {
    "model_type": "modernbert",
    "vocab_size": 50368,
    "hidden_size": 768,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "intermediate_size": 1152,
    "max_position_embeddings": 16384,
    "pad_token_id": 0,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=MODELS[:2], choices=MODELS)
    parser.add_argument("--layers", type=int, help="fewer layers, for a try")
    parser.add_argument("--shapes", nargs="+", default=SHAPES)
    parser.add_argument("--rows", nargs="+", default=ROWS, choices=ROWS)
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--attention-dropout", nargs="+", type=float, default=[0.0, 0.1])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--anywhere", action="store_true", help="also without a GPU")
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(arguments)))
        return
    lines = []
    rates = {"forward": [0.0], "train": arguments.attention_dropout}
    cases = itertools.product(arguments.models, arguments.shapes, arguments.modes)
    for model, shape, mode in cases:
        for rate in rates[mode]:
            lines += in_turns(arguments, model, shape, mode, rate)
            arguments.results.parent.mkdir(exist_ok=True)
            arguments.results.write_text(json.dumps({"rows": lines}, indent=1) + "\n")


def in_turns(arguments, model, shape, mode, rate):
    runs = {name: [] for name in arguments.rows}
    for _ in range(arguments.turns):
        for name in arguments.rows:
            command = [sys.executable, __file__, "--one", name, model, mode, shape, str(rate)]
            command += ["--anywhere"] * arguments.anywhere
            command += ["--layers", str(arguments.layers)] if arguments.layers else []
            environment = rows.environment_of(rows.NAMES[name])
            environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
            run = subprocess.run(command, env=environment, capture_output=True, text=True)
            if NO_GPU in run.stderr:  # the next ones have none either
                sys.exit(run.stderr.strip().splitlines()[-1])
            if run.returncode:
                runs[name].append({"failed": run.stderr.strip().splitlines()[-1][:200]})
            else:
                runs[name].append(json.loads(run.stdout.splitlines()[-1]))
    lines = []
    for name, measurements in runs.items():
        line = {"row": name, "model": model, "mode": mode, "shape": shape}
        line["attention_dropout"] = rate
        line |= measurements[-1]
        if all("seconds" in one for one in measurements):
            line["seconds"] = statistics.median(one["seconds"] for one in measurements)
        lines.append(line)
        print(json.dumps(line), flush=True)
    return lines


def measured(arguments):
    name, model, mode, shape, rate = arguments.one
    batch, length = (int(n) for n in shape.split("x"))
    row = rows.NAMES[name]
    task = libraries.Task(row, mode, model, batch, length, 0.1)
    if model == "modernbert-base":
        config = {**MODERNBERT, "attention_dropout": float(rate)}
    else:
        config = task.config(512 if row.ours else max(512, length))
        config["attention_probs_dropout_prob"] = float(rate)
    config["num_hidden_layers"] = arguments.layers or config["num_hidden_layers"]
    device = jax_device() if row.backend == "jax" else torch_device()
    if device["kind"] == "cpu" and not arguments.anywhere:
        sys.exit(
            f"{NO_GPU} {row.backend}: install its CUDA build, leave {name} out of --rows, or give "
            "--anywhere for a try."
        )
    make = posenc if row.ours else transformers
    step, kernels = make(task, config, device)
    for _ in range(3):
        step()
    seconds = []
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        device["wait"]()
        seconds.append(time.perf_counter() - start)
    line = {"seconds": round(statistics.median(seconds), 5), "peak_mb": device["peak_mb"]()}
    return {**line, "device": device["name"], "fused_kernels": kernels()}


def jax_device():
    import jax

    device = jax.devices()[0]
    return {
        "kind": device.platform,
        "name": device.device_kind,
        "wait": lambda: None,  # a step returns numbers, so it has ended
        "peak_mb": lambda: round((device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**20),
    }


def torch_device():
    import torch

    if not torch.cuda.is_available():
        return {"kind": "cpu", "name": "cpu", "wait": lambda: None, "peak_mb": lambda: 0}
    return {
        "kind": "cuda",
        "name": torch.cuda.get_device_name(),
        "wait": torch.cuda.synchronize,
        "peak_mb": lambda: round(torch.cuda.max_memory_allocated() / 2**20),
    }


def posenc(task, config, device):
    import keras

    from keras_posenc import build_transformer_model
    from keras_posenc.heads import classifier

    keras.config.set_dtype_policy("mixed_bfloat16")
    stretched = None if "model_type" in config else True
    encoder = build_transformer_model(config, hierarchical_position=stretched)
    tokens, labels = task.arrays()
    inputs = {"token_ids": tokens, "segment_ids": np.zeros_like(tokens)}
    inputs = {each.name: inputs[each.name] for each in encoder.inputs}
    model = classifier(encoder, rows.CLASSES, pooling="cls")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-4), loss)

    def step():
        if task.mode == "forward":
            return model.predict_on_batch(inputs)
        return float(model.train_on_batch(inputs, labels))

    if task.row.backend == "torch":
        return step, lambda: profiled(step)
    return step, lambda: compiled(model, inputs, task.mode == "train")


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
    program = jax.jit(function).lower(weights).compile().as_text()
    targets = set(re.findall(r'custom_call_target="([^"]*)"', program))
    return sorted(target for target in targets if FUSED.search(target))


def profiled(step):
    """Names of the fused attention kernels, or operators, that one step of torch ran."""
    import torch

    with torch.profiler.profile() as profile:
        step()
    return sorted({e.key[:100] for e in profile.key_averages() if FUSED.search(e.key)})


def transformers(task, config, device):
    import torch
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        ModernBertConfig,
        ModernBertForSequenceClassification,
    )

    kinds = (BertForSequenceClassification, BertConfig)
    if config.get("model_type") == "modernbert":
        kinds = (ModernBertForSequenceClassification, ModernBertConfig)
        ids = dict.fromkeys(("bos", "eos", "cls", "sep"), 1)
        config = {**config, **{f"{role}_token_id": number for role, number in ids.items()}}
    try:
        import flash_attn  # noqa: F401

        kernel = "flash_attention_2"
    except ImportError:
        kernel = "sdpa"
    build, settings = kinds
    model = build._from_config(
        settings(**config, num_labels=rows.CLASSES), attn_implementation=kernel
    ).to(device["kind"])
    tokens, labels = (torch.from_numpy(x.astype("int64")).to(device["kind"]) for x in task.arrays())
    mask = torch.ones_like(tokens)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    model.train(task.mode == "train")

    def step():
        with torch.autocast(device["kind"], dtype=torch.bfloat16):
            if task.mode == "forward":
                with torch.inference_mode():
                    return model(tokens, attention_mask=mask).logits.cpu()
            loss = model(tokens, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step, lambda: profiled(step)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
