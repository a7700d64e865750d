"""What callbacks of Keras find in a resumed run: the state and the files of one without a pause."""

import collections
import csv
import json

import keras
import numpy as np
import pytest

from keras_posenc import backend
from keras_posenc.text import TextBatches
from keras_posenc.training.callbacks import REFUSED, OneEpoch, RunCallbacks

pytestmark = pytest.mark.once

LOSSES = [3.0, 2.0, 2.5, 2.4, 2.6]
MAKE = {
    "CSVLogger": lambda folder: keras.callbacks.CSVLogger(folder / "log.csv", append=True),
    "EarlyStopping": lambda _: keras.callbacks.EarlyStopping(
        "loss", patience=9, restore_best_weights=True
    ),
    "History": lambda _: keras.callbacks.History(),
    "LambdaCallback": lambda _: keras.callbacks.LambdaCallback(),
    "LearningRateScheduler": lambda _: keras.callbacks.LearningRateScheduler(
        lambda epoch, rate: rate / 2
    ),
    "ModelCheckpoint": lambda folder: keras.callbacks.ModelCheckpoint(
        folder / "best.weights.h5", "loss", save_best_only=True, save_weights_only=True
    ),
    "ReduceLROnPlateau": lambda _: keras.callbacks.ReduceLROnPlateau(
        "loss", patience=2, cooldown=1, min_delta=0.01
    ),
    "TerminateOnNaN": lambda _: keras.callbacks.TerminateOnNaN(),
}
# They draw a bar, hold others, or need a service or a package that the tests do not have.
WITHOUT_STATE = {"Callback", "CallbackList", "MonitorCallback", "ProgbarLogger", "RemoteMonitor"}
NOT_TRIED = {"OrbaxCheckpoint", "TensorBoard"}


class Part:
    """A run of some epochs whose model has the number of the epoch as its weight."""

    def __init__(self, make, folder, rate=1.0, state=None, arrays=()):
        self.model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
        self.model.compile(keras.optimizers.SGD(rate), "mse")
        self.callback = make(folder)
        self.callbacks = RunCallbacks([self.callback], self.model, len(LOSSES))
        self.callbacks.begin(state, arrays)

    def run(self, epochs):
        for epoch in epochs:
            self.model.set_weights([np.full((1, 1), epoch)])
            (inside,) = self.callbacks.in_fit(1)
            inside.on_epoch_begin(epoch)
            inside.on_train_batch_begin(0)
            inside.on_train_batch_end(0, {"loss": LOSSES[epoch]})
            self.callbacks.end_epoch(epoch, {"loss": LOSSES[epoch]})

    def left(self):
        """Attributes, learning rate and best weights."""
        state, arrays = self.callbacks.state()
        rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        return state[0]["values"], [array.tolist() for array in arrays], rate

    def dies(self):
        """Returns what is stored of its callbacks, as the next process reads it."""
        state, arrays = self.callbacks.state()
        if hasattr(self.callback, "csv_file"):
            self.callback.csv_file.close()
        return json.loads(json.dumps(state)), arrays


def test_every_callback_of_keras_is_known():
    names = {n for n in dir(keras.callbacks) if isinstance(getattr(keras.callbacks, n), type)}
    assert names <= MAKE.keys() | REFUSED.keys() | WITHOUT_STATE | NOT_TRIED


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("pause", [1, 3])
def test_a_resumed_callback_is_as_without_a_pause(tmp_path, name, pause):
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    whole = Part(MAKE[name], tmp_path / "whole")
    whole.run(range(len(LOSSES)))
    first = Part(MAKE[name], tmp_path / "parts")
    first.run(range(pause))
    second = Part(MAKE[name], tmp_path / "parts", first.left()[2], *first.dies())
    second.run(range(pause, len(LOSSES)))
    expected, found = whole.left(), second.left()
    if name == "CSVLogger":  # whether the file had a header is what it found
        assert expected[0].pop("append_header") and not found[0].pop("append_header")
    assert found == expected
    for part in (whole, second):
        part.callbacks.end({"loss": LOSSES[-1]})
    files = [sorted(each.name for each in (tmp_path / f).iterdir()) for f in ("whole", "parts")]
    assert files[0] == files[1]


class Remembering(keras.callbacks.Callback):
    """Keeps what it sees by the numbers of epochs."""

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()
        self.by_epoch, self.named = {}, {"items of a dict": 1, "lists": [{1.5: {None: "x"}}]}

    def on_epoch_end(self, epoch, logs=None):
        self.counts[epoch % 2] += 1
        self.by_epoch[np.int64(epoch)] = [np.float32(logs["loss"])]


def test_dicts_by_numbers_are_restored(tmp_path):
    part = Part(lambda _: Remembering(), tmp_path)
    part.run(range(2))
    part.callback.named["more"] = True
    again = Part(lambda _: Remembering(), tmp_path, 1.0, *part.dies())
    again.run([2])
    assert again.callback.by_epoch == {0: [3.0], 1: [2.0], 2: [2.5]}
    assert again.callback.counts == collections.Counter({0: 2, 1: 1})
    assert again.callback.named == part.callback.named


def test_a_log_has_one_header_and_each_epoch_once(tmp_path):
    """Also if the file is removed before the second pause: then the new one begins with it."""
    state, arrays = None, ()
    for pause, is_removed in enumerate([False, False, True, False]):
        if is_removed:
            (tmp_path / "log.csv").unlink()
        part = Part(MAKE["CSVLogger"], tmp_path, 1.0, state, arrays)
        part.run([pause])
        state, arrays = part.dies()
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["2", "3"]
    assert [float(row["loss"]) for row in rows] == LOSSES[2:4]


def test_a_state_of_an_earlier_version_is_restored_whole(tmp_path):
    """It does not hold what `on_train_begin` had set."""
    part = Part(MAKE["EarlyStopping"], tmp_path)
    part.run(range(4))
    state, arrays = part.dies()
    del state[0]["begun"]
    again = Part(MAKE["EarlyStopping"], tmp_path, 1.0, state, arrays)
    assert (again.callback.wait, again.callback.best, again.callback.best_epoch) == (2, 2.0, 1)


def test_each_epoch_has_random_numbers_of_its_own_whatever_was_drawn_before():
    if not backend.TRAITS.global_random_state:
        pytest.skip("No state of the process decides the dropout.")

    def drawn(seed, epochs):
        one_epoch, found = OneEpoch(TextBatches([[5, 6]]), seed, None), []
        for epoch in epochs:
            one_epoch.on_epoch_begin(epoch)
            found.append(float(keras.ops.convert_to_numpy(keras.random.uniform(()))))
        return found

    first, second, third = drawn(7, range(3))
    assert len({first, second, third}) == 3
    assert drawn(7, [2, 1]) == [third, second] and drawn(8, [2]) != [third]
