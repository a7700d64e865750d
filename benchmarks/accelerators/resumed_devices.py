r"""A run of `finetune` that changes its number of devices: prints the largest difference of its
weights from those of a run on one device.

    KERAS_BACKEND=jax XLA_FLAGS=--xla_force_host_platform_device_count=4 \
        python -m benchmarks.accelerators.resumed_devices path/to/bert output 4,2

trains an epoch on four devices, one on two and one on one.
"""

import pathlib
import sys

import keras
import numpy as np

from keras_posenc.training import Classify, finetune, load_finetuned

BERT, OUTPUT = sys.argv[1], pathlib.Path(sys.argv[2])
DEVICES = [int(number) for number in sys.argv[3].split(",")]
TRAIN = [" ".join(f"w{(n + 3 * k) % 30}" for k in range(6)) for n in range(16)], list("ab") * 8


class StopsBefore(keras.callbacks.Callback):
    """Interrupts a run before an epoch."""

    epoch = None

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == StopsBefore.epoch:
            raise KeyboardInterrupt


def train(name, devices, stop=None):
    StopsBefore.epoch = stop
    try:
        # Batches of eight texts, whatever the devices.
        options = {
            "epochs": len(DEVICES) + 1,
            "max_length": 8,
            "token_budget": 64,
            "optimizer": "adamw:1e-3",
        }
        options |= {
            "dropout_rate": 0.0,
            "attention_dropout_rate": 0.0,
            "task": Classify(head_dropout=0.0),
        }
        options |= {"callbacks": [StopsBefore()], "verbose": 0, "devices": devices}
        finetune(BERT, TRAIN, OUTPUT / name, **options)
    except KeyboardInterrupt:
        return True
    return False


def weights(name):
    return [np.asarray(each) for each in load_finetuned(OUTPUT / name).model.get_weights()]


for number, devices in enumerate(DEVICES, 1):
    assert train("moved", devices, stop=number)
assert not train("moved", None) and not train("one", None)
pairs = zip(weights("moved"), weights("one"), strict=True)
print(float(max(abs(a - b).max() for a, b in pairs)))
