"""Traces and compiles one attention layer per line of its input; `aot.py` runs it.

    echo '{"encoding": "t5", "length": 8192, "mode": "forward", "dtype": "float32"}' | \\
        python -m benchmarks.accelerators.aot_layer v5e:2x2
"""

import json
import sys

# Before JAX and Keras: it sets their environment.
from benchmarks.accelerators import aot_devices  # isort: skip
import jax

from benchmarks.accelerators.aot_traced import MB, largest_array, product_flops, selections
from keras_posenc import PositionalAttention
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.encodings import ENCODINGS

HEADS, HEAD_SIZE = 12, 64
WIDTH = HEADS * HEAD_SIZE
PLAIN = ["none", "causal"]
# Those that a name alone does not make.
ARGUMENTS = {"window": {"window": 256}}
IN_VMEM = "CompileTimeScopedVmemOom"
DROPOUT = {"forward": 0.0, "train": 0.0, "train with dropout": 0.1}
KERNELS = 'custom_call_target="tpu_custom_call"', 'custom_call_target="__cudnn$fmha'


def main(chip):
    set_random_seed(0)
    device = aot_devices.device(chip)
    default = jax.config.jax_optimization_level
    lowest = default if chip in aot_devices.GPUS else "O0"
    say([*PLAIN, *ENCODINGS])
    for line in sys.stdin:
        case = {key: value for key, value in json.loads(line).items() if key != "chip"}
        compiles = case.pop("compile", True)
        traced, causal = trace(device, **case)
        jaxpr = traced.jaxpr.jaxpr
        row = {"causal": causal, "gflop": round(product_flops(jaxpr) / 1e9, 1)}
        row["selections"] = round(selections(jaxpr) / (HEADS * case["length"] ** 2), 1)
        say(row | {"largest_mb": round(largest_array(jaxpr) / MB)})
        if not compiles:
            continue
        row = compiled(traced, aot_devices.platform(chip), lowest)
        if IN_VMEM in row.get(
            "error", ""
        ):  # one fusion of too much, which other levels do not make
            row = compiled(traced, aot_devices.platform(chip), default) | {"level": "default"}
        say(row)


def say(answer):
    print(json.dumps(answer), flush=True)


def trace(device, encoding, length, mode, dtype, padded=False):
    """A traced program of a layer, and whether its attention is causal."""
    layer = PositionalAttention(
        HEADS,
        HEAD_SIZE,
        encodings=[] if encoding in PLAIN else [{"name": encoding, **ARGUMENTS.get(encoding, {})}],
        dropout=DROPOUT[mode],
        dtype=dtype,
    )
    layer.build((1, length, WIDTH), (1, length, WIDTH))
    place = jax.sharding.SingleDeviceSharding(device)

    def shapes(variables):
        return [jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=place) for v in variables]

    weights, fixed = shapes(layer.trainable_variables), shapes(layer.non_trainable_variables)
    x = jax.ShapeDtypeStruct((1, length, WIDTH), dtype, sharding=place)
    keep = jax.ShapeDtypeStruct((1, length), "bool", sharding=place) if padded else None
    causal, training = encoding == "causal" or bool(layer.hooks.causal_only), mode != "forward"

    def output(weights, x, fixed, keep):
        masks = {"value_mask": keep, "use_causal_mask": causal}
        y, _ = layer.stateless_call(weights, fixed, x, x, training=training, **masks)
        return y.astype("float32").sum() if training else y

    function = jax.grad(output, argnums=(0, 1)) if training else output
    with jax.default_device(device):  # which is how the library learns the platform
        return jax.jit(function).trace(weights, x, fixed, keep), causal


def compiled(traced, platform, level):
    """The megabytes of a program, or the error of the compiler where it does not fit."""
    jax.config.update("jax_optimization_level", level)
    try:
        program = traced.lower(lowering_platforms=(platform,)).compile()
    except jax.errors.JaxRuntimeError as error:
        return {"fits": False, "error": str(error)[:200]}
    memory, text = program.memory_analysis(), program.as_text()
    return {
        "fits": True,
        "temporary_mb": round(memory.temp_size_in_bytes / MB),
        "argument_mb": round(memory.argument_size_in_bytes / MB),
        "output_mb": round(memory.output_size_in_bytes / MB),
        "kernels": sum(map(text.count, KERNELS)),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
