"""Training on many devices, which one processor plays; `tests/models/test_layouts.py` runs it.

    KERAS_BACKEND=jax XLA_FLAGS=--xla_force_host_platform_device_count=4 \\
        python many_devices.py jax FOLDER
    KERAS_BACKEND=tensorflow python many_devices.py tensorflow FOLDER

Prints a line of JSON: the losses of three steps on one device and on several.
"""

import contextlib
import json
import re
import sys

import keras
import numpy as np

from keras_posenc import build_transformer_model, layout_map, save_checkpoint
from keras_posenc.heads import classifier
from keras_posenc.training import FusedAdamW

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_act": "gelu",
    "max_position": 12,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
}
RNG = np.random.default_rng(0)
TOKENS = RNG.integers(1, 40, (8, 30)).astype("int32")
TOKENS[:3, 20:] = 0  # padding, of some rows only
INPUTS = {"token_ids": TOKENS, "segment_ids": np.zeros_like(TOKENS)}
KINDS = ("all-gather", "all-reduce")
LABELS = RNG.integers(0, 2, 8)


def trained(folder, scope):
    """A model loaded from `folder` and trained for three steps, and the losses of the steps.

    The encoder and the model go to `folder` too, each in a format; their weights are returned.
    """
    keras.utils.set_random_seed(0)
    with scope:
        encoder = build_transformer_model(folder, hierarchical_position=True)
        model = classifier(encoder, 2, dropout_rate=0.0)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(FusedAdamW(1e-3), loss)
        history = model.fit(INPUTS, LABELS, batch_size=8, epochs=3, shuffle=False, verbose=0)
        save_checkpoint(encoder, f"{folder}/written")
        model.save(f"{folder}/model.keras")
        return model, weights_of(encoder, model), history.history["loss"]


def weights_of(encoder, model):
    """Arrays by their paths. Equal ones predict the same; predictions would have to be traced."""
    return [
        {variable.path: keras.ops.convert_to_numpy(variable) for variable in each.weights}
        for each in (encoder, model)
    ]


def differences(folder, weights, scope):
    """How far the models in `folder`, read under another scope, are from the weights."""
    with scope:
        encoder = build_transformer_model(f"{folder}/written", hierarchical_position=True)
        model = keras.saving.load_model(f"{folder}/model.keras")
        again = weights_of(encoder, model)
    return [
        float(max(np.abs(other[path] - array).max() for path, array in one.items()))
        for one, other in zip(weights, again, strict=True)
    ]


def collectives(model, mesh):
    """How many transfers between devices the program of a forward pass has, by kind."""
    import jax

    axes = jax.sharding.NamedSharding(mesh.backend_mesh, jax.P("batch"))
    inputs = {key: jax.device_put(x, axes) for key, x in INPUTS.items()}
    weights = [
        [v.value for v in group]
        for group in (model.trainable_variables, model.non_trainable_variables)
    ]
    program = jax.jit(model.stateless_call).lower(*weights, inputs).compile().as_text()
    return {kind: len(re.findall(rf" {kind}(?:-start)?\(", program)) for kind in KINDS}


def on_jax(folder):
    """One device, copies of the model on four, and pieces of it on two times two."""
    kd = keras.distribution
    mesh = kd.DeviceMesh((2, 2), ["batch", "model"], kd.list_devices())
    pieces = kd.ModelParallel(layout_map=layout_map(mesh), batch_dim_name="batch")
    _, _, one = trained(folder, contextlib.nullcontext())
    copies = kd.DataParallel(devices=kd.list_devices())
    model, _, copied = trained(folder, copies.scope())
    with copies.scope():
        of_copies = collectives(model, copies.device_mesh)
    model, weights, cut = trained(folder, pieces.scope())
    with pieces.scope():
        of_pieces = collectives(model, mesh)
    shards = {
        variable.path: [list(variable.shape), list(shard)]
        for variable in [*model.weights, *model.optimizer.variables]
        if (shard := variable.value.sharding.shard_shape(tuple(variable.shape)))
        != tuple(variable.shape)
    }
    return {
        "losses": [one, copied, cut],
        "collectives": [of_copies, of_pieces],
        "shards": shards,
        "differences": differences(folder, weights, contextlib.nullcontext()),
    }


def on_tensorflow(folder):
    """One device, and copies of the model on two."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)  # what copies are compared with need not be compiled
    _, weights, one = trained(folder, contextlib.nullcontext())
    tf.config.run_functions_eagerly(False)
    copies = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    moved = differences(folder, weights, copies.scope())
    _, weights, copied = trained(folder, copies.scope())
    moved += differences(folder, weights, contextlib.nullcontext())
    return {"losses": [one, copied], "differences": moved}


def two_devices_for_tensorflow():
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


if __name__ == "__main__":
    backend, folder = sys.argv[1:]
    if backend == "tensorflow":
        two_devices_for_tensorflow()
    keras.utils.set_random_seed(1)
    save_checkpoint(build_transformer_model(**SIZES), folder)
    print(json.dumps({"jax": on_jax, "tensorflow": on_tensorflow}[backend](folder)))
