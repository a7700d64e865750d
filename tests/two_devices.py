"""`devices=2`, then one device, in one process: prints what each found, as JSON.

The vectors of three texts, the losses that `fit` shows for rows of unequal weights, after a batch
and of the epoch, a step of each loss that compares the rows of a batch, and one of a weighted mean:
that on two devices once more, after the one.
Devices are made before all else, so this is a program; `tests/training/test_devices.py` runs it.
"""

import json
import sys

import keras
import numpy as np

from keras_posenc import embed
from keras_posenc.backend import SafeTrainer
from keras_posenc.losses import CoSENT, MaxSimRanking, MultipleNegativesRanking
from keras_posenc.metrics import InBatchAccuracy, MeanLoss
from keras_posenc.processes.devices import on_devices

MEAN = "mean_with_sample_weight"
TEXTS = ["w1 w2 w3", "w4 w5 w6", "w7 w8 w9"]
ROWS = np.arange(8, dtype="float32")[:, None]
WEIGHTS = np.array([2, 1, 1, 0, 0.5, 0, 0, 0], "float32")


@on_devices
def shown_losses(devices=None):
    """Of a model that returns its input, and stays as it is."""
    loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
    model.build((None, 1))
    model.compile(keras.optimizers.SGD(0.0), loss, weighted_metrics=[MeanLoss(loss)])
    rows = {"x": ROWS, "y": 0 * ROWS, "sample_weight": WEIGHTS, "batch_size": 4}
    first = []
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, logs: first.append(logs["loss"])
    )
    history = model.fit(**rows, shuffle=False, verbose=0, callbacks=[note]).history
    return [float(first[0]), float(history["loss"][0])]


PAIRS = np.random.default_rng(0).normal(size=(8, 2, 3)).astype("float32")
TOKENS = np.concatenate([PAIRS[:, :, None].repeat(2, axis=2), np.ones((8, 2, 2, 1))], axis=-1)
SCORES = np.linspace(-0.5, 1, 8).astype("float32")
IN_BATCH = {  # rows, their labels, a loss that compares them
    "ranking": (PAIRS, np.arange(8) // 2, MultipleNegativesRanking(reduction=MEAN)),
    "cosent": (PAIRS, SCORES, CoSENT(reduction=MEAN)),
    "late": (TOKENS.astype("float32"), np.arange(8) // 2, MaxSimRanking(reduction=MEAN)),
}


@on_devices
def in_batch(devices=None):
    """Losses, accuracy and weights of a step whose losses compare the rows of the batch."""
    inputs, outputs, metrics = {}, {}, {}
    for name, (rows, _, loss) in IN_BATCH.items():
        inputs[f"{name}_rows"] = x = keras.Input(rows.shape[1:], name=f"{name}_rows")
        options = {"kernel_initializer": "identity", "use_bias": False, "name": name}
        outputs[name] = keras.layers.Dense(rows.shape[-1], **options)(x)
        metrics[name] = [MeanLoss(loss), *([InBatchAccuracy()] if name == "ranking" else [])]
    model = keras.Model(inputs, outputs)
    losses = {name: loss for name, (_, _, loss) in IN_BATCH.items()}
    model.compile(keras.optimizers.SGD(0.1), losses, weighted_metrics=metrics)
    rows = {f"{name}_rows": each[0] for name, each in IN_BATCH.items()}
    labels = {name: each[1] for name, each in IN_BATCH.items()}
    history = model.fit(rows, labels, batch_size=8, shuffle=False, verbose=0).history
    found = {key: float(values[0]) for key, values in history.items()}
    kernels = {name: keras.ops.convert_to_numpy(model.get_layer(name).kernel) for name in outputs}
    return found | {name: kernel.ravel().tolist() for name, kernel in kernels.items()}


class Trained(SafeTrainer, keras.Model):
    """What the models of this library are."""


@on_devices
def weighted(devices=None):
    """Weights after a step with rows that weigh more on the first device."""
    inputs = keras.Input((1,))
    model = Trained(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
    model.compile(keras.optimizers.SGD(0.01), keras.losses.MeanSquaredError(reduction=MEAN))
    rows = {"x": ROWS, "y": ROWS**2, "sample_weight": WEIGHTS, "batch_size": 8}
    model.fit(**rows, shuffle=False, verbose=0)
    return [keras.ops.convert_to_numpy(each).ravel().tolist() for each in model.weights]


squares = ROWS[:, 0] ** 2
expected = [float(np.average(squares[:n], weights=WEIGHTS[:n])) for n in (4, 8)]
found = {"vectors": [], "losses": [], "in_batch": [], "weighted": [], "expected": expected}
for devices in (2, None):
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # What two devices are compared with need not be compiled.
        tf.config.run_functions_eagerly(devices is None)
    vectors = embed(sys.argv[1], TEXTS, max_length=8, devices=devices, verbose=0)
    found["vectors"].append(vectors.tolist())
    found["losses"].append(shown_losses(devices=devices))
    found["in_batch"].append(in_batch(devices=devices))
    found["weighted"].append(weighted(devices=devices))
if keras.backend.backend() == "tensorflow":
    tf.config.run_functions_eagerly(False)
found["weighted"].append(weighted(devices=2))
print(json.dumps(found))
