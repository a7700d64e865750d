"""The largest batches of BERT-base that train on one 16 GB TPU v5e, by the memory of the compiler.

    pip install ".[jax,aot]" keras-hub
    python -m benchmarks.accelerators.aot_steps  # all of it: an hour
    python -m benchmarks.accelerators.aot_steps --models keras keras_hub --layers 1 2  # estimates

A whole training step: twelve layers, a classifier, AdamW, dropout 0.1 (of attention weights, too),
mixed bfloat16. Nothing is run. A batch is compiled, and what it needs beyond the weights tells the
next batch to try. `--layers 1 2` compiles models of one and two layers, and takes each further
layer to need as much as these differ by. `jax_optimization_level=O0` is XLA's lowest, and counts up
to a tenth more than the default. Results are added to benchmarks/results/aot_steps.json: a program
that is there is not compiled again.
"""

import argparse
import functools
import importlib.metadata
import json
import math
import pathlib

# Before JAX and Keras: it sets their environment.
from benchmarks.accelerators import aot_devices  # isort: skip
import jax
import keras

from benchmarks.accelerators.aot_models import LAYERS, MODELS, draw_nothing
from benchmarks.accelerators.aot_traced import MB

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "aot_steps.json"
PACKAGES = ("jax", "libtpu", "keras", "keras-hub")
LENGTHS = [512, 1024, 1536, 2048, 4096, 8192, 32768]
# 16 GiB less what the runtime reserves, as the compiler's errors name it.
LIMIT_MB = 16128
SIZES = ("kept_mb", "mb")  # from step to step, and within one
# For a first guess: tokens that fit, and the length of one text whose attention matrices fit.
OURS, TOKENS, LENGTH = "keras_posenc", 57344, 7168


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--layers", nargs="+", type=int, default=[LAYERS], help="12, or 1 2")
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    arguments = parser.parse_args()
    jax.config.update("jax_optimization_level", "O0")
    keras.config.set_dtype_policy("mixed_bfloat16")
    draw_nothing()
    device = aot_devices.device("v5e:2x2")
    results = Results(arguments.results, device)
    for name in arguments.models:
        for length in arguments.lengths:
            case = {"model": name, "length": length}
            batch = largest(results, arguments.layers, case)
            results.add("largest", case | {"layers": arguments.layers}, {"batch": batch})


class Results:
    """A file of results, in which each is found again by its case."""

    def __init__(self, path, device):
        self.path, self.device = path, device
        self.found = {"programs": [], "largest": []}
        if path.exists():
            self.found = json.loads(path.read_text())
        versions = {name: importlib.metadata.version(name) for name in PACKAGES}
        self.found |= {"device": device.device_kind, "limit_mb": LIMIT_MB, "versions": versions}

    def add(self, kind, case, row):
        others = [other for other in self.found[kind] if not case.items() <= other.items()]
        self.found[kind] = [*others, case | row]
        print(json.dumps(case | row), flush=True)
        self.path.write_text(json.dumps(self.found, indent=1) + "\n")

    def program(self, case):
        """The megabytes of a program, which is compiled if need be."""
        for row in self.found["programs"]:
            if case.items() <= row.items() and "revision" not in row:  # of older code
                return row
        self.add("programs", case, memory_of(step_of(self.device, **case)))
        return self.program(case)


def largest(results, layers, case):
    """The largest batch that fits, or 0."""
    length, tried = case["length"], {}
    batch = max(1, int(1 / (length / TOKENS + (length / LENGTH) ** 2 * (case["model"] != OURS))))
    while batch not in tried:
        rows = [results.program(case | {"layers": n, "batch": batch}) for n in layers]
        if any(row["mb"] is None for row in rows):
            tried[batch], batch = math.inf, max(1, 3 * batch // 4)
            continue
        kept, tried[batch] = (extrapolated(layers, [row[key] for row in rows]) for key in SIZES)
        batch = max(1, int(batch * (LIMIT_MB - kept) / (tried[batch] - kept)))
    return max((batch for batch, mb in tried.items() if mb <= LIMIT_MB), default=0)


def extrapolated(layers, values):
    """The value of all layers, on the line through those of the first and the last."""
    if len(layers) == 1:
        return values[0]
    of_one = (values[-1] - values[0]) / (layers[-1] - layers[0])
    return values[0] + of_one * (LAYERS - layers[0])


@functools.lru_cache(maxsize=1)
def model_of(name, length, layers):
    model = MODELS[name](length, layers)
    optimizer = keras.optimizers.AdamW(1e-4)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def step_of(device, model, length, layers, batch):
    """A training step, lowered for a device."""
    model, optimizer = model_of(model, length, layers)
    place = jax.sharding.SingleDeviceSharding(device)

    def shapes(variables):
        return [jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=place) for v in variables]

    def ids(*shape):
        return jax.ShapeDtypeStruct(shape, "int32", sharding=place)

    state = [model.trainable_variables, model.non_trainable_variables, optimizer.variables]
    inputs = {x.name: ids(batch, length) for x in model.inputs}
    step = jax.jit(training_step(model, optimizer), donate_argnums=0)
    with jax.default_device(device):
        traced = step.trace([shapes(group) for group in state], inputs, ids(batch))
    return traced.lower(lowering_platforms=("tpu",))


def training_step(model, optimizer):
    """(state, inputs, targets) -> (loss, state), as Keras' trainer computes it on JAX."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss_of(trainable, fixed, inputs, targets):
        outputs, fixed = model.stateless_call(trainable, fixed, inputs, training=True)
        return loss(targets, outputs), fixed

    def step(state, inputs, targets):
        trainable, fixed, moments = state
        gradient = jax.value_and_grad(loss_of, has_aux=True)
        (value, fixed), gradients = gradient(trainable, fixed, inputs, targets)
        trainable, moments = optimizer.stateless_apply(moments, gradients, trainable)
        return value, [trainable, fixed, moments]

    return step


def memory_of(lowered):
    """The megabytes that a program needs, and those that it keeps from step to step."""
    try:
        memory = lowered.compile().memory_analysis()
    except jax.errors.JaxRuntimeError as error:
        return {"mb": None, "kept_mb": None, "error": str(error)[:200]}
    return sizes_of(memory)


def sizes_of(memory):
    kept = memory.argument_size_in_bytes + memory.generated_code_size_in_bytes
    kept += memory.output_size_in_bytes - memory.alias_size_in_bytes
    mb = kept + memory.temp_size_in_bytes
    return {"mb": round(mb / MB), "kept_mb": round(kept / MB)}


if __name__ == "__main__":
    main()
