"""Several processes of JAX that train and predict together."""

import contextlib
import pickle

import jax
import keras
import numpy as np


def processes():
    if keras.distribution.distribution() is None:
        return 0, 1
    return jax.process_index(), jax.process_count()


def launched_processes():
    return jax.process_count()


def gather(value):
    if processes()[1] == 1:
        return [value]
    from jax.experimental import multihost_utils  # slow to import, for several processes alone

    data = np.frombuffer(pickle.dumps(value), "uint8")
    sizes = multihost_utils.process_allgather(np.array(len(data)))
    padded = np.zeros(sizes.max(), "uint8")
    padded[: len(data)] = data
    rows = multihost_utils.process_allgather(padded)
    return [pickle.loads(row[:size]) for row, size in zip(rows, sizes, strict=True)]


def device_count():
    return jax.local_device_count()


def over_devices(count):
    names = keras.distribution.list_devices()
    if count > len(names):
        remedy = ""
        if names[0].startswith("cpu"):
            flag = f"XLA_FLAGS=--xla_force_host_platform_device_count={count}"
            remedy = f"; to divide the processor, start Python with {flag}"
        raise ValueError(
            f"`devices` must be at most {len(names)}, the number of devices of JAX. Received: "
            f"{count}{remedy}"
        )
    return keras.distribution.DataParallel(devices=names[:count]).scope()


class LocalPredictions:
    """Keras cannot read predictions that lie on devices of other processes. Here each process
    predicts what it is given on a device of its own, by the copy of the weights that is there."""

    _is_local = False

    @contextlib.contextmanager
    def _locally(self):
        distribution = keras.distribution.distribution()
        if processes()[1] == 1:
            yield
            return
        keras.distribution.set_distribution(None)
        self._is_local = True
        try:
            yield
        finally:
            self._is_local = False
            self._jax_state = None  # else the next step would take over the local copies
            keras.distribution.set_distribution(distribution)

    def _get_jax_state(self, **kinds):
        state = super()._get_jax_state(**kinds)
        if self._is_local:
            return jax.tree.map(lambda array: array.addressable_data(0), state)
        return state

    def jax_state_sync(self):
        if not self._is_local:  # predictions change no weights
            super().jax_state_sync()
