"""Whole models of this library and of KerasHub, compiled on JAX for an H100 that is not there.

    pip install ".[jax,aot]" keras-hub
    pip install --no-deps jax-cuda12-plugin==V jax-cuda12-pjrt==V   # V is JAX's version
    python -m benchmarks.accelerators.aot_gpu           # half an hour
    python -m benchmarks.accelerators.aot_gpu --cases "forward bert-base 8x2048 0"

The cases are those of `gpu.py`, in mixed bfloat16; a training step is that of Keras' trainer with
Adam. Models of one and two layers are compiled, and a model of all layers needs as much per further
layer as these differ by. Of decoding, a turn of the loop is counted, which makes a token per text.

Kernels and bytes are counted in the compiled program (aot_kernels.py), products in the traced one,
and memory is the compiler's. JAX asks a device for its cuDNN, and is answered as an H100 with cuDNN
9.10 would; the memory that cuDNN takes for itself is then not known. XLA tries no kernels without a
device, so matrix products are cuBLAS'. Nothing is run. Results are added to
benchmarks/results/aot_gpu.json: a program that is there is not compiled again.
"""

import argparse
import json
import os
import pathlib
import re

# Before JAX and Keras: it sets their environment.
from benchmarks.accelerators import aot_devices  # isort: skip
import jax
import keras

from benchmarks.accelerators import gpu_models
from benchmarks.accelerators.aot import versions
from benchmarks.accelerators.aot_kernels import Program
from benchmarks.accelerators.aot_models import draw_nothing
from benchmarks.accelerators.aot_steps import sizes_of, training_step
from benchmarks.accelerators.aot_traced import MB, product_flops
from benchmarks.steps import rows

RESULTS = rows.RESULTS / "aot_gpu.json"
CHIP = "h100"
BERT = gpu_models.BERT
CASES = [
    f"train {BERT} 8x2048 0.1",
    f"train {BERT} 2x8192 0.1",
    f"train {BERT} 8x2048 0",
    f"forward {BERT} 8x2048 0",
    "embed minilm 256x128 0",
    "decode llama 8x32 0",
]
ROWS = ["posenc-jax", "kerashub-jax"]
LAYERS = [1, 2]
# Kernels of attention: cuDNN's, and those with dropout, the only ones that are Triton's here.
FUSED = re.compile(r'custom_call_target="(__cudnn\$fmha|__gpu\$xla\.gpu\.triton")')


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=CASES, metavar='"MODE MODEL SHAPE RATE"')
    parser.add_argument("--rows", nargs="+", default=ROWS, choices=ROWS)
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path, help="a folder for their text")
    arguments = parser.parse_args()
    os.environ.update(aot_devices.environment(CHIP))  # XLA reads it when it first compiles
    aot_devices.answer_for_cudnn(CHIP)
    draw_nothing()
    device = aot_devices.device(CHIP)
    found = {"programs": []}
    if arguments.results.exists():
        found = json.loads(arguments.results.read_text())
    for case in arguments.cases:
        for row in arguments.rows:
            for layers in LAYERS:
                key = {"row": row, "case": case, "layers": layers}
                if any(key.items() <= other.items() for other in found["programs"]):
                    continue
                counts = counted(device, key, arguments.programs)
                found["programs"].append(key | counts)
                found |= {"device": device.device_kind, "versions": versions()}
                print(json.dumps(key | counts), flush=True)
                arguments.results.write_text(json.dumps(found, indent=1) + "\n")


def counted(device, key, folder):
    """What the program of a case needs."""
    traced = trace(device, key["row"], key["case"], key["layers"])
    compiled = traced.lower(lowering_platforms=("cuda",)).compile()
    text, memory = compiled.as_text(), compiled.memory_analysis()
    if folder:
        name = "-".join(map(str, key.values())).replace(" ", "-")
        (folder / f"{name}.txt").write_text(text)
    program = Program(text)
    decodes = key["case"].startswith("decode")
    cost = program.turn() if decodes else program.cost()
    flops = None if decodes else round(product_flops(traced.jaxpr.jaxpr) / 1e12, 3)
    return {
        "kernels": cost.kernels,
        "gb": round(cost.bytes / 1e9, 3),
        "tflop": flops,
        "temporary_mb": round(memory.temp_size_in_bytes / MB),
        "kept_mb": sizes_of(memory)["kept_mb"],
        "fused": len(FUSED.findall(text)),
    }


def trace(device, row, case, layers):
    mode, model, shape, rate = case.split()
    batch, length = map(int, shape.split("x"))
    row = rows.NAMES[row]
    config = gpu_models.config_of(model, row, length, float(rate), layers)
    model = (gpu_models.posenc if row.ours else gpu_models.hub)(mode, config, length)
    optimizer = keras.optimizers.Adam(1e-4)
    optimizer.build(model.trainable_variables)
    groups = model.trainable_variables, model.non_trainable_variables, optimizer.variables
    place = jax.sharding.SingleDeviceSharding(device)

    def shapes(tree):
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), tree)

    *weights, moments = ([shapes(v.value) for v in group] for group in groups)
    size = gpu_models.PROMPT if mode == "decode" else length
    if mode == "decode" and not row.ours:  # its prompt has room for the text
        size += length
    tokens, labels = gpu_models.arrays(config, batch, size)
    generates = mode == "decode" and row.ours
    inputs = {"token_ids": tokens} if generates else gpu_models.inputs_of(model, tokens)
    inputs = shapes(inputs)
    with jax.default_device(device):  # which is how the library learns the platform
        if mode == "train":
            step = jax.jit(training_step(model, optimizer), donate_argnums=0)
            return step.trace([*weights, moments], inputs, shapes(labels))
        return jax.jit(forward_pass(model)).trace(*weights, inputs)


def forward_pass(model):
    """(weights, values, inputs) -> outputs; of KerasHub's language models, the text."""
    if not hasattr(model, "generate_step"):
        return lambda *state: model.stateless_call(*state)[0]  # as in inference

    def generate(weights, values, inputs):
        variables = [*model.trainable_variables, *model.non_trainable_variables]
        with keras.StatelessScope(list(zip(variables, [*weights, *values], strict=True))):
            return model.generate_step(inputs)

    return generate


if __name__ == "__main__":
    main()
