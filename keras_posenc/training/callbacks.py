"""Keras' callbacks around a run of several calls of `fit`, whose state a resumed run takes up."""

import inspect
import os

import keras
import numpy as np

from keras_posenc import backend
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.files.untrusted import quote

# What these do, a run does by itself, or undoes.
REFUSED = {
    "BackupAndRestore": "a run resumes by itself, with the state of the other callbacks: leave it "
    "out",
    "SwapEMAWeights": "with use_ema=True the averages are evaluated and saved; leave it out",
}
# They set a learning rate that a schedule computes.
SETS_RATE = (keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler)
# The one key of what stands for a dict whose keys are no strings, such as the numbers of epochs.
ITEMS = "items of a dict"


class RunCallbacks:
    """The callbacks of a user in a run that calls `fit` once an epoch.

    `on_train_begin` and `on_train_end` are called once, around all stages, and `on_epoch_end` after
    the validation, with its results.
    """

    def __init__(self, callbacks, model, epochs):
        self.callbacks, self.model, self.epochs = callbacks, model, epochs
        self._list = keras.callbacks.CallbackList(callbacks, model=model, epochs=epochs, verbose=0)

    def begin(self, state=None, arrays=()):
        """Calls `on_train_begin`, then sets the attributes that `state` returned.

        An attribute that `on_train_begin` now sets to something else than in the call before
        describes what it found, such as a file that exists by now. It stays.
        """
        self._list.on_train_begin()
        self._begun = [_values(callback) for callback in self.callbacks]
        rows = zip(self.callbacks, self._begun, state or (), strict=bool(state))
        for callback, begun, attributes in rows:
            before = attributes.get("begun", begun)
            for name, value in attributes.get("values", {}).items():
                if repr(begun.get(name)) == repr(before.get(name)):  # nan is nan
                    _set(callback, name, _restored(value))
            for name, places in attributes.get("arrays", {}).items():
                found = [arrays[place] for place in places["places"]]
                setattr(callback, name, found if places["list"] else found[0])

    def in_fit(self, steps):
        """Returns the callbacks for one call of `fit`: an epoch with this many steps."""
        self._list.set_params({"epochs": self.epochs, "steps": steps, "verbose": 0})
        return [_Batches(self._list)] if self.callbacks else []

    def end_epoch(self, epoch, logs):
        """Calls `on_epoch_end`; returns whether a callback stops the training."""
        self.model.stop_training = False
        self._list.on_epoch_end(epoch, dict(logs))
        return bool(self.model.stop_training)

    def end(self, logs):
        """Calls `on_train_end`, where the best weights come back."""
        self._list.on_train_end(logs)

    def state(self):
        """Returns what a resumed run needs: a dict a callback that JSON can hold, and the arrays
        to which these refer by their number."""
        state, arrays = [], []
        for callback, begun in zip(self.callbacks, self._begun, strict=True):
            places = {}
            for name, value in _attributes(callback):
                group = value if isinstance(value, list) else [value]
                if group and all(isinstance(each, np.ndarray) for each in group):
                    numbers = list(range(len(arrays), len(arrays) + len(group)))
                    places[name] = {"places": numbers, "list": isinstance(value, list)}
                    arrays += group
            state.append({"values": _values(callback), "begun": begun, "arrays": places})
        return state, arrays


class _Batches(keras.callbacks.Callback):
    """Passes on to other callbacks what happens within an epoch."""

    def __init__(self, callbacks):
        super().__init__()
        self._callbacks = callbacks

    def on_epoch_begin(self, epoch, logs=None):
        self._callbacks.on_epoch_begin(epoch, logs)

    def on_train_batch_begin(self, batch, logs=None):
        self._callbacks.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch, logs=None):
        self._callbacks.on_train_batch_end(batch, logs)


def check_kind(callbacks):
    """Raises TypeError unless this is a list of callbacks."""
    kind, is_list = keras.callbacks.Callback, isinstance(callbacks, (list, tuple))
    if not is_list or not all(isinstance(each, kind) for each in callbacks):
        raise TypeError(
            "`callbacks` must be a list of keras.callbacks.Callback objects. Received: "
            f"{quote(callbacks)}"
        )


def check_callbacks(callbacks, logs, directions, has_schedule):
    """Refuses callbacks that would fail, or do nothing, only after hours.

    `logs` are the names that `on_epoch_end` gets, `directions` those whose better direction Keras
    knows.
    """
    for callback in callbacks:
        name = type(callback).__name__
        if name in REFUSED:
            raise ValueError(f"`callbacks` must not hold {name}: {REFUSED[name]}.")
        if has_schedule and isinstance(callback, SETS_RATE):
            raise ValueError(
                f"`callbacks` has {name}, which cannot set a learning rate that follows a "
                "schedule: give an optimizer with a constant one, such as "
                "optimizer=keras.optimizers.AdamW(1e-4)."
            )
        folder = getattr(callback, "directory", None)
        if name == "OrbaxCheckpoint" and folder is not None and not os.path.isabs(folder):
            raise ValueError(
                f"`callbacks` has OrbaxCheckpoint(directory={str(folder)!r}), which does not end "
                f"with a relative path: give {os.path.abspath(folder)!r}."
            )
        monitor = getattr(callback, "monitor", None)
        watches = monitor is not None and getattr(callback, "save_best_only", True)
        if watches and monitor not in logs:
            remedy = " Give validation." if monitor.startswith("val_") else ""
            raise ValueError(
                f"`callbacks` has {name}(monitor={monitor!r}), which is not among what an epoch "
                f"measures here: {', '.join(logs)}.{remedy}"
            )
        is_known = watches and monitor.removeprefix("val_") in directions
        if watches and not is_known and getattr(callback, "mode", None) == "auto":
            raise ValueError(
                f"`callbacks` has {name}(monitor={monitor!r}), and Keras does not know whether "
                'more of it is better: give it mode="max" or mode="min".'
            )


def callback_record(callback):
    """Describes a callback for the settings of a run: its class, and the arguments of its
    constructor that are plain values and attributes under the same name.
    """
    record = {"class": type(callback).__name__}
    for name in _arguments(callback):
        value = getattr(callback, name, None)
        if callable(value):
            record[name] = getattr(value, "__qualname__", type(value).__name__)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            record[name] = abs(value)  # a callback of Keras turns min_delta around while it runs
        elif _is_plain(value):
            record[name] = _plain(value)
        else:
            record[name] = str(value) if hasattr(value, "__fspath__") else type(value).__name__
    return record


def _arguments(callback):
    return list(inspect.signature(type(callback).__init__).parameters)[1:]


def _attributes(callback):
    """Names and values that may be state: not what the constructor was given."""
    without = {*_arguments(callback), "model", *vars(keras.callbacks.Callback())}
    return [item for item in vars(callback).items() if item[0] not in without]


def _values(callback):
    """The attributes that JSON can hold."""
    return {name: _plain(value) for name, value in _attributes(callback) if _is_plain(value)}


def _is_plain(value):
    """Whether JSON gives the value back as it is."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_key, value)) and all(map(_is_plain, value.values()))
    return _is_key(value)


def _is_key(value):
    return value is None or isinstance(value, (str, bool, int, float, np.number, np.bool_))


def _plain(value):
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        if all(type(key) is str for key in value) and ITEMS not in value:
            return {key: _plain(each) for key, each in value.items()}
        return {ITEMS: [[_plain(key), _plain(each)] for key, each in value.items()]}
    return value.item() if isinstance(value, np.generic) else value


def _restored(value):
    """What `_plain` was given."""
    if isinstance(value, list):
        return [_restored(each) for each in value]
    if isinstance(value, dict):
        items = value[ITEMS] if value.keys() == {ITEMS} else value.items()
        return {key: _restored(each) for key, each in items}
    return value


def _set(callback, name, value):
    """Sets an attribute; a `Counter` or a `defaultdict` stays one."""
    current = getattr(callback, name, None)
    if isinstance(current, dict) and isinstance(value, dict) and type(current) is not dict:
        current.clear()
        current.update(value)
    else:
        setattr(callback, name, value)


class OneEpoch(keras.callbacks.Callback):
    """Starts an epoch in a state that follows from its number, records losses, then stops `fit`.

    The state is set here and not before `fit`, which in a new process first reads a batch and
    traces the model, and so would change both the batches and the random numbers.
    """

    def __init__(self, batches, seed, progress):
        super().__init__()
        self.batches, self.seed, self.progress, self.steps = batches, seed, progress, []
        self.stopped, self._weights = False, []

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        self.batches.set_epoch(epoch)
        # Where there is no such state, a new seed would only have graphs prepared once more.
        if backend.TRAITS.global_random_state:
            set_random_seed(self.seed + 1 + epoch)

    def on_train_batch_begin(self, batch, logs=None):
        self.progress.begin()

    def on_train_batch_end(self, batch, logs=None):
        place = self.epoch + (batch + 1) / len(self.batches)
        self.steps.append({"epoch": place, "loss": float(logs["loss"])})
        self.progress.step(float(logs["loss"]))

    def on_epoch_end(self, epoch, logs=None):
        self.stopped = self.model.stop_training
        self.model.stop_training = True
        # At its end `fit` puts the averages in the place of the weights.
        optimizer = self.model.optimizer
        if getattr(optimizer, "inner_optimizer", optimizer).use_ema:
            self._weights = [variable.numpy() for variable in self.model.trainable_variables]

    def take_back_averages(self):
        """Sets the weights that were trained, in the place of their averages."""
        for variable, value in zip(self.model.trainable_variables, self._weights, strict=False):
            variable.assign(value)
