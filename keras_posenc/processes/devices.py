"""`devices=`: a distribution over devices of this machine, or a process for each of them."""

import contextlib
import functools
import os
import pickle
import subprocess
import sys

import keras
import numpy as np

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.aliases import check_arguments
from keras_posenc.processes.together import counted_from

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


# Answers have the standard output for themselves: what is printed goes to the errors.
PROGRAM = """
import os, pickle, sys
requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
sys.path[:] = pickle.load(requests)
from keras_posenc.processes.devices import serve
serve(requests, answers)
"""
VISIBLE = "CUDA_VISIBLE_DEVICES"


@contextlib.contextmanager
def computing(factory, arguments, devices, check):
    """Yields a function from texts to what is computed of each, on one device, or a `DevicePool`.

    `factory` is a function of a module, which takes the arguments, which can be pickled, and
    returns a function of (texts, verbose). That returns an array or a list with an entry per text.
    `check` refuses texts, whose numbers a share would not know.
    """
    count = processes_of(devices)
    if count == 1:
        yield factory(**arguments)
        return
    with DevicePool(count, factory, arguments, check) as pool:
        yield pool


class DevicePool:
    """A function of texts whose work several processes share.

    Each process has the Keras settings of this one, and ends with it.
    """

    def __init__(self, count, factory, arguments, check):
        self._count, self._processes, self._check = count, [], check
        policy = keras.config.dtype_policy().name
        self._settings = keras.config.floatx(), policy, factory, arguments

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self._processes:
            process.kill()
            process.communicate()

    def __call__(self, texts, verbose):
        self._check(texts)  # errors of a share would have other numbers
        # Every n-th text: neighbours in a file often have similar lengths.
        shares = [texts[first :: self._count] for first in range(self._count)]
        shares = [share for share in shares if len(share)]
        while len(self._processes) < len(shares):
            self._start_process()
        used = self._processes[: len(shares)]
        for number, share in enumerate(shares):
            self._send(number, (share, 0 if number else verbose))
        answers = [self._answer(number) for number in range(len(used))]
        for number, (_, error) in enumerate(answers):
            if error is not None:
                with counted_from(number, self._count):
                    raise error
        found = [result for result, _ in answers]
        if isinstance(found[0], np.ndarray):
            merged = np.empty((len(texts), *found[0].shape[1:]), found[0].dtype)
        else:
            merged = [None] * len(texts)
        for first, part in enumerate(found):
            merged[first :: len(found)] = part
        return merged

    def _start_process(self):
        number = len(self._processes)
        cores = max(1, (os.cpu_count() or 1) // self._count)
        environment = {"OMP_NUM_THREADS": str(cores), **os.environ}
        environment |= {"KERAS_BACKEND": keras.backend.backend(), VISIBLE: _visible(number)}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches this process, which then ends the others
        )
        self._processes.append(process)
        for part in (sys.path, self._settings):
            self._send(number, part)

    def _send(self, number, value):
        try:
            pickle.dump(value, self._processes[number].stdin)
            self._processes[number].stdin.flush()
        except BrokenPipeError:
            self._ended(number)

    def _answer(self, number):
        try:
            return pickle.load(self._processes[number].stdout)
        except EOFError:
            self._ended(number)

    def _ended(self, number):
        raise RuntimeError(
            f"The process of device {number} ended with status {self._processes[number].wait()}: "
            "see what it printed, or use fewer devices."
        ) from None


def serve(requests, answers):
    """Answers what a `DevicePool` asks for, until that closes its end."""
    floatx, policy, factory, arguments = pickle.load(requests)
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)
    compute = None
    with contextlib.suppress(EOFError):
        while True:
            request = pickle.load(requests)
            try:
                compute = compute or factory(**arguments)
                answer = pickle.dumps((compute(*request), None))
            except Exception as error:
                answer = pickle.dumps((None, _plain(error)))
            answers.write(answer)
            answers.flush()


def _plain(error):
    """An error that can be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _visible(number):
    """The GPU that a process sees, of those that this one sees."""
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return str(number)
    names = [name for name in visible.split(",") if name]
    return names[number] if number < len(names) else ""
