"""Attention over devices that share texts; `tests/attention/test_sequence.py` runs it.

    KERAS_BACKEND=jax XLA_FLAGS=--xla_force_host_platform_device_count=8 python many_rows.py

Prints a line of JSON: for each case the difference of the output and the gradients from those of
one device, and the collectives of the program; and the losses of a model on one device and on four.
Each device has two blocks of 64 rows.
"""

import contextlib
import dataclasses
import json
import math
import re

import jax
import keras
import numpy as np

from keras_posenc import PositionalAttention, backend

# Encodings, causal, length, devices along the axes of the mesh, heads of the keys if not all.
CASES = {
    "bias": (["t5"], True, 512, {"sequence": 4}),
    "shared heads": (["t5"], True, 512, {"sequence": 4}, 1),
    # It reaches beyond the device before.
    "window": ([{"name": "window", "window": 140}], True, 1024, {"sequence": 8}),
    # Of all texts: the gradient of its table is a sum over the batch.
    "bias of texts": (["t5"], False, 256, {"batch": 2}),
    "bias of texts and heads": (["t5"], False, 256, {"batch": 2, "model": 2}),
    "bias of texts and rows": (["t5"], True, 512, {"batch": 2, "sequence": 2}),
    "content bias of texts": (["deberta"], False, 256, {"batch": 2}),
    "bias of texts in a window": (
        ["kerple", {"name": "window", "window": 40}],
        True,
        512,
        {"batch": 2},
    ),
    "plain texts": (["rotary"], False, 256, {"batch": 2}),
}
KINDS = "all-gather|all-reduce|reduce-scatter|collective-permute|all-to-all"
COLLECTIVE = re.compile(rf"= (\S.*?) ({KINDS})(?:-start)?\(")


def put(x, mesh, *axes):
    spec = jax.sharding.PartitionSpec(*axes)
    return jax.device_put(x, jax.sharding.NamedSharding(mesh.backend_mesh, spec))


def measured(encodings, causal, length, devices, key_heads=None):
    keras.utils.set_random_seed(0)
    heads = {"num_key_value_heads": key_heads}
    layer = PositionalAttention(2, 4, encodings=list(encodings), dropout=0.1, **heads)
    layer.build((2, length, 8), (2, length, 8))
    weights = [v.value for v in layer.trainable_variables]
    fixed = [v.value for v in layer.non_trainable_variables]
    rng = np.random.default_rng(0)
    x, upstream = rng.normal(size=(2, 2, length, 8)).astype("float32")
    keep = np.arange(length)[None] < np.array([[length], [length - 5]])

    def loss(weights, x):
        y, _ = layer.stateless_call(
            weights, fixed, x, x, value_mask=keep, use_causal_mask=causal, training=True
        )
        return (y * upstream * keep[..., None]).sum(), y

    def found(x):
        gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
        program = gradients.lower(weights, x).compile()
        (_, y), of_all = program(weights, x)
        return [np.asarray(each) for each in jax.tree.leaves((y, of_all))], program.as_text()

    alone, _ = found(x)
    axes, sizes = list(devices), list(devices.values())
    mesh = keras.distribution.DeviceMesh(sizes, axes, jax.devices()[: math.prod(sizes)])
    layouts = keras.distribution.LayoutMap(mesh)
    scope = keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch").scope()
    with scope:
        weights = [put(w, mesh) for w in weights]
        split = [axis if axis in devices else None for axis in ("batch", "sequence")]
        together, text = found(put(x, mesh, *split))
    pairs = zip(alone, together, strict=True)
    apart = [np.abs(a - b).max() / max(1, np.abs(a).max()) for a, b in pairs]
    looped = "\n".join(line for line in text.splitlines() if "/while/" in line)
    return {
        "error": float(max(apart)),
        "collectives": traffic(text),
        "in loops": traffic(looped),
        "loops": len(re.findall(r" while\(", text)),
    }


def traffic(program):
    """Kind -> [number of collectives, most numbers that one of them gives a device]."""
    found = {}
    for shapes, kind in COLLECTIVE.findall(program):
        sizes = [math.prod(map(int, x.split(","))) for x in re.findall(r"\[([\d,]+)\]", shapes)]
        count, most = found.get(kind, (0, 0))
        found[kind] = count + 1, max(most, *sizes, 1)
    return found


def trained(mesh=None):
    """The losses of two steps of a model, over the devices of a mesh or on one."""
    keras.utils.set_random_seed(0)
    scope = contextlib.nullcontext()
    if mesh is not None:
        layouts = keras.distribution.LayoutMap(mesh)
        split = keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch")
        scope = split.scope()
    with scope:
        tokens = keras.Input((64,), dtype="int32")
        x = keras.layers.Embedding(20, 8, mask_zero=True)(tokens)
        x = x + PositionalAttention(2, 4, encodings=["rotary"])(x, x)
        model = keras.Model(tokens, keras.layers.Dense(20)(x))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01), loss)
        ids = np.random.default_rng(0).integers(1, 20, (4, 64)).astype("int32")
        ids[0, 50:] = 0
        history = model.fit(ids, ids, batch_size=4, epochs=2, verbose=0, shuffle=False)
    return history.history["loss"]


def main():
    backend.TRAITS = dataclasses.replace(backend.TRAITS, map_bytes=0, block_bytes=0)
    results = {case: measured(*arguments) for case, arguments in CASES.items()}
    backend.batch_shards = lambda x: 1
    results["bias of texts, split by XLA"] = measured(*CASES["bias of texts"])
    mesh = keras.distribution.DeviceMesh((2, 2), ["batch", "sequence"], jax.devices()[:4])
    print(json.dumps({"cases": results, "losses": [trained(), trained(mesh)]}))


if __name__ == "__main__":
    main()
