"""`devices=`: the short form of a distribution over devices of this machine."""

import functools

import keras

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.aliases import check_arguments

ALL = "all"


def count_of(devices):
    """The number of devices that `devices` asks for: 1, the usual one, for None."""
    if devices is None:
        return 1
    if isinstance(devices, str):
        checks.choice("devices", devices, (ALL,))
        return backend.device_count()
    return checks.whole("devices", devices, remedy='or give "all"')


def processes_of(devices):
    """How many processes `devices` asks for: one per device where a model computes on one only."""
    return count_of(devices) if backend.TRAITS.one_device else 1


def check_pool(name, devices):
    """Refuses several processes for what they do not compute."""
    if (count := processes_of(devices)) > 1:
        raise ValueError(
            f"{name}(devices={count}) on PyTorch is for one vector per text: leave devices out, "
            'and start a process per device, each with a `shard`, such as "1/2".'
        )


def on_devices(function=None, *, by_processes=False):
    """Decorates a function whose keyword `devices` is the number of devices that it runs on; one
    that is `by_processes` starts a process per device by itself, where one process has one device.
    """
    if function is None:
        return functools.partial(on_devices, by_processes=by_processes)

    @functools.wraps(function)
    def call(*args, **kwargs):
        check_arguments(function, kwargs)
        count = count_of(kwargs.get("devices"))
        if count > 1:
            _check(function.__name__, count, by_processes)
        if count == 1 or backend.TRAITS.one_device:
            return function(*args, **kwargs)
        with backend.over_devices(count):
            return function(*args, **kwargs)

    return call


def _check(name, count, by_processes):
    """Refuses devices that a call would not use, before anything is written."""
    what = f"{name}(devices={count})"
    if backend.launched_processes() > 1:
        raise ValueError(
            f"{what} is for one process, and {backend.launched_processes()} were launched: leave "
            "devices out, and set a keras.distribution in each process."
        )
    if keras.distribution.distribution() is not None or backend.row_multiple() > 1:
        raise ValueError(
            f"{what}: a distribution over devices is set already, and is used: leave devices out."
        )
    if backend.TRAITS.one_device and not by_processes:
        raise ValueError(
            f"{what} is not supported: {backend.TRAITS.one_device}. Set KERAS_BACKEND=jax, or "
            "leave devices out. Predictions and vectors are computed on several devices: predict "
            "and embed take devices."
        )
