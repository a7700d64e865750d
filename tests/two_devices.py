"""`devices=2`, then one device, then two again, in one process: prints what each found, as JSON.

The vectors of three texts, and the losses that `fit` shows for rows of unequal weights: after a
batch, and of the epoch. Devices are
made before all else, so this is a program; `tests/training/test_devices.py` runs it.
"""

import json
import sys

import keras
import numpy as np

from keras_posenc import embed
from keras_posenc.metrics import MeanLoss
from keras_posenc.training.devices import on_devices

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


squares = ROWS[:, 0] ** 2
expected = [float(np.average(squares[:n], weights=WEIGHTS[:n])) for n in (4, 8)]
found = {"vectors": [], "losses": [], "expected": expected}
for devices in (2, None, 2):
    vectors = embed(sys.argv[1], TEXTS, max_length=8, devices=devices, verbose=0)
    found["vectors"].append(vectors.tolist())
    found["losses"].append(shown_losses(devices=devices))
print(json.dumps(found))
