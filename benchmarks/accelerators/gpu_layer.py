"""One attention layer on a GPU: which kernel each case runs, its error, its time and its memory.

    KERAS_BACKEND=torch python -m benchmarks.accelerators.gpu_layer
    KERAS_BACKEND=jax python -m benchmarks.accelerators.gpu_layer --dtypes bfloat16 --lengths 16384

A layer of BERT-base's sizes, forward and training. The error is the largest difference from the
explicit attention matrix in float32, over the largest output, on a text of 512 tokens. The kernels
are read from the compiled program on JAX and from a profile on torch. The whole matrix of 12 heads
is 3,072 MB in float32 at 8,192 tokens, so a peak far below it means that it was never formed.
Results go to benchmarks/results/gpu_layer.json, those of the other backend stay there.
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import re
import sys
import time

import keras
import numpy as np
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.backend.seeding import set_random_seed

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "gpu_layer.json"
HEADS, HEAD_SIZE = 12, 64
WIDTH = HEADS * HEAD_SIZE
FUSED = re.compile(
    r"fmha|flash|cudnn[\w$]*attention|cudnn.*sdpa|efficient_attention", re.IGNORECASE
)
# Name -> encodings, causal, share of the keys that are padding.
CASES = {
    "plain": ([], False, 0),
    "padded": ([], False, 0.2),
    "causal": ([], True, 0),
    "causal padded": ([], True, 0.2),
    "rotary padded": (["rotary"], False, 0.2),
    "alibi causal": (["alibi"], True, 0),
    "t5": (["t5"], False, 0),
    "t5 padded": (["t5"], False, 0.2),
    "window": ([{"name": "window", "window": 256}], False, 0),
    "cope causal": (["cope"], True, 0),
}
MB = 2**20


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", nargs="+", type=int, default=[8192])
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--modes", nargs="+", default=["forward", "train"])
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    arguments = parser.parse_args()
    backend = keras.backend.backend()
    device, version = device_of(backend)
    measure = {"jax": on_jax, "torch": on_torch}[backend]
    file = arguments.results
    lines = json.loads(file.read_text())["rows"] if file.exists() else []
    lines = [line for line in lines if line["backend"] != backend]
    for dtype, case in itertools.product(arguments.dtypes, arguments.cases):
        error = error_of(case, dtype)
        for length, mode in itertools.product(arguments.lengths, arguments.modes):
            line = {"backend": backend, "version": version, "device": device, "case": case}
            line |= {"dtype": dtype, "length": length, "mode": mode, "error": error}
            try:
                line |= measure(case, dtype, length, mode)
            except Exception as failed:  # too large, or no kernel: the next case may run
                line["failed"] = f"{type(failed).__name__}: {str(failed)[:200]}"
            lines.append(line)
            print(json.dumps(line), flush=True)
        file.write_text(json.dumps({"rows": lines}, indent=1) + "\n")


def device_of(backend):
    """The name of the GPU, and the version of the backend."""
    if backend == "jax":
        import jax

        device = jax.devices()[0]
        if device.platform == "gpu":
            return device.device_kind, jax.__version__
    elif backend == "torch":
        import torch

        if torch.cuda.is_available():
            return torch.cuda.get_device_name(), torch.__version__
    else:
        sys.exit(f"KERAS_BACKEND must be jax or torch for this benchmark. Received: {backend}")
    sys.exit(f"No GPU here for {backend}: install its CUDA build.")


def layer_of(case, dtype, length):
    set_random_seed(0)
    policy = dtype if dtype == "float32" else f"mixed_{dtype}"  # the same weights in all
    layer = PositionalAttention(HEADS, HEAD_SIZE, encodings=CASES[case][0], dtype=policy)
    layer.build((1, length, WIDTH), (1, length, WIDTH))
    for variable in layer.trainable_variables:
        drawn = keras.random.normal(variable.shape, stddev=0.3, seed=1)
        if "kernel" not in variable.path:
            variable.assign(ops.cast(drawn, variable.dtype))
    return layer


def arguments_of(case, length, dtype="float32"):
    _, causal, padding = CASES[case]
    x = np.random.default_rng(0).normal(size=(1, length, WIDTH)).astype("float32")
    keep = np.arange(length)[None] < length - int(padding * length)
    arguments = {"use_causal_mask": causal}
    if padding:
        arguments["value_mask"] = ops.convert_to_tensor(keep)
    return ops.cast(ops.convert_to_tensor(x), dtype), arguments


def error_of(case, dtype, length=512):
    x, arguments = arguments_of(case, length, dtype)
    found = layer_of(case, dtype, length)(x, x, **arguments)
    reference = layer_of(case, "float32", length)
    x = ops.cast(x, "float32")
    with exactly():
        wanted, _ = reference(x, x, return_attention_scores=True, **arguments)
    found, wanted = (ops.convert_to_numpy(ops.cast(y, "float32")) for y in (found, wanted))
    return float(f"{np.abs(found - wanted).max() / np.abs(wanted).max():.2g}")


def exactly():
    """Within it JAX does not round the factors of products, as it does for float32 on a GPU."""
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    return jax.default_matmul_precision("highest")


def on_jax(case, dtype, length, mode):
    import jax

    layer, (x, arguments) = layer_of(case, dtype, length), arguments_of(case, length, dtype)
    weights = [v.value for v in layer.trainable_variables]
    fixed = [v.value for v in layer.non_trainable_variables]

    def output(weights, x):
        training = mode == "train"
        y, _ = layer.stateless_call(weights, fixed, x, x, training=training, **arguments)
        return y.astype("float32").sum() if training else y

    function = jax.grad(output, argnums=(0, 1)) if mode == "train" else output
    program = jax.jit(function).lower(weights, x).compile()
    names = set(re.findall(r'custom_call_target="([^"]*)"', program.as_text()))
    seconds = timed(lambda: jax.block_until_ready(program(weights, x)))
    return {
        "temporary_mb": round(program.memory_analysis().temp_size_in_bytes / MB),
        "seconds": seconds,
        "kernels": sorted(name for name in names if FUSED.search(name)),
    }


def on_torch(case, dtype, length, mode):
    import torch

    layer, (x, arguments) = layer_of(case, dtype, length), arguments_of(case, length, dtype)

    def step():
        if mode == "forward":
            with torch.no_grad():
                return layer(x, x, **arguments)
        y = layer(x.detach().requires_grad_(), x, training=True, **arguments)
        y.float().sum().backward()

    step()
    with torch.profiler.profile() as profile:
        step()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    seconds = timed(lambda: (step(), torch.cuda.synchronize()))
    names = {event.key[:80] for event in profile.key_averages() if FUSED.search(event.key)}
    return {
        "temporary_mb": round((torch.cuda.max_memory_allocated() - before) / MB),
        "seconds": seconds,
        "kernels": sorted(names),
    }


def timed(step, count=5):
    step()
    start = time.perf_counter()
    for _ in range(count):
        step()
    return round((time.perf_counter() - start) / count, 5)


if __name__ == "__main__":
    main()
