"""What the parts of a MiniLM layer cost, forward and backward, on one thread.

    KERAS_BACKEND=tensorflow python -m benchmarks.steps.parts

Milliseconds of processor time for 4 x 512 tokens, the least of nine runs, since other programs only
add to it. A step has 6 of the dense pairs and GELUs, 18 projections of heads, 13 norms and
dropouts, and one AdamW.
"""

import os

# Before the backends are imported.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import inspect
import time

import keras
import numpy as np

from benchmarks.steps import rows
from keras_posenc.layers.activations import gelu
from keras_posenc.layers.dropout import Dropout
from keras_posenc.training import FusedAdamW

BATCH, LENGTH = 4, 512
SIZES = rows.MODELS["minilm"]
WIDTH, INNER, HEADS = SIZES["width"], SIZES["inner"], SIZES["heads"]
RUNS = 9


def main():
    on_one_thread()
    narrow, wide = (BATCH, LENGTH, WIDTH), (BATCH, LENGTH, INNER)
    heads = keras.layers.EinsumDense(
        "abc,cde->abde", (LENGTH, HEADS, WIDTH // HEADS), bias_axes="de"
    )
    layers = {
        "dense, to the inner size": (keras.layers.Dense(INNER), narrow),
        "dense, from the inner size": (keras.layers.Dense(WIDTH), wide),
        "projection of heads": (heads, narrow),
        "layer norm": (keras.layers.LayerNormalization(epsilon=1e-12), narrow),
        "GELU": (keras.layers.Activation(gelu), wide),
        "GELU of Keras": (keras.layers.Activation("gelu"), wide),
        "dropout": (Dropout(0.1), narrow),
        "dropout of Keras": (keras.layers.Dropout(0.1), narrow),
    }
    rng = np.random.default_rng(0)
    for name, (layer, shape) in layers.items():
        x = rng.normal(size=shape).astype("float32")
        layer.build(shape)
        g = rng.normal(size=layer.compute_output_shape(shape)).astype("float32")
        print(f"{name:30}{least(passes(layer, x, g))[0]:8.1f} ms", flush=True)
    for name, optimizer in (("AdamW", FusedAdamW), ("AdamW of Keras", keras.optimizers.AdamW)):
        step = adamw(rng, optimizer(1e-4, weight_decay=0.01))
        print(f"{name:30}{least(step)[0]:8.1f} ms", flush=True)


def on_one_thread():
    """To be called before TensorFlow computes anything; the other backends were told above."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def least(*runs):
    """Milliseconds of processor time of each; they take turns."""
    times = [[] for _ in runs]
    for run in runs:
        run()
    for _ in range(RUNS):
        for run, kept in zip(runs, times, strict=True):
            start = time.process_time()
            run()
            kept.append(time.process_time() - start)
    return [min(kept) * 1e3 for kept in times]


def passes(layer, x, g):
    """A function that runs the layer on x, in training, and backward from the gradient g."""
    make = {"tensorflow": tensorflow, "jax": jax, "torch": torch}[keras.backend.backend()]
    return make(layer, x, g)


def tensorflow(layer, x, g):
    import tensorflow as tf

    x, g = tf.constant(x), tf.constant(g)

    @tf.function
    def run():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, **options(layer))
        return y, tape.gradient(y, [x, *(v.value for v in layer.trainable_variables)], g)

    return run


def jax(layer, x, g):
    import jax

    values = [v.value for v in layer.non_trainable_variables]
    training = options(layer)

    @jax.jit
    def run(weights, values, x, g):
        y, back, state = jax.vjp(
            lambda w, x: layer.stateless_call(w, values, x, **training), weights, x, has_aux=True
        )
        return y, back(g), state

    weights = [v.value for v in layer.trainable_variables]
    x, g = jax.device_put(x), jax.device_put(g)
    return lambda: jax.block_until_ready(run(weights, values, x, g))


def torch(layer, x, g):
    import torch

    x, g = torch.from_numpy(x).requires_grad_(), torch.from_numpy(g)
    weights = [v.value for v in layer.trainable_variables]

    def run():
        y = layer(x, **options(layer))
        return torch.autograd.grad(y, [x, *weights], g)

    return run


def options(layer):
    return {"training": True} if "training" in inspect.signature(layer.call).parameters else {}


def adamw(rng, optimizer):
    """A step over variables of MiniLM's number and sizes."""
    shapes = [(rows.VOCABULARY, WIDTH)]
    shapes += SIZES["layers"] * [(WIDTH, INNER), (INNER, WIDTH), *4 * [(WIDTH, WIDTH)]]
    variables = [keras.Variable(np.zeros(shape, "float32")) for shape in shapes]
    gradients = [keras.ops.convert_to_tensor(rng.normal(size=s).astype("float32")) for s in shapes]
    optimizer.build(variables)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(lambda: optimizer.apply(gradients))
    if keras.backend.backend() == "torch":
        return lambda: optimizer.apply(gradients)
    import jax

    run = jax.jit(optimizer.stateless_apply)
    arguments = [v.value for v in optimizer.variables], gradients, [v.value for v in variables]
    return lambda: jax.block_until_ready(run(*arguments))


if __name__ == "__main__":
    main()
