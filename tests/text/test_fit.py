"""TextBatches in fit, evaluate and predict, on every backend."""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc.models.model import TransformerModel
from keras_posenc.text import TextBatches

COUNT = 60


def documents():
    rng = np.random.default_rng(0)
    return [[i + 1, *rng.integers(100, 200, rng.integers(1, 90))] for i in range(COUNT)]


class Unevenness(keras.metrics.Metric):
    """0 if each label from 0 to COUNT - 1 was seen exactly once in the epoch."""

    def __init__(self, name="unevenness"):
        super().__init__(name=name)
        self.counts = self.add_variable((COUNT,), "zeros", name="counts")

    def update_state(self, y_true, y_pred, sample_weight=None):
        seen = ops.one_hot(ops.cast(ops.reshape(y_true, (-1,)), "int32"), COUNT)
        self.counts.assign_add(ops.sum(ops.cast(seen, self.counts.dtype), axis=0))

    def result(self):
        return ops.sum(ops.square(self.counts - 1.0))


def toy_model(kind=keras.Model):
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    segment_ids = keras.Input((None,), dtype="int32", name="segment_ids")
    x = keras.layers.Embedding(200, 4)(token_ids) + keras.layers.Embedding(2, 4)(segment_ids)
    outputs = keras.layers.Dense(COUNT)(keras.layers.GlobalAveragePooling1D()(x))
    model = kind({"token_ids": token_ids, "segment_ids": segment_ids}, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=[Unevenness()])
    return model


def make(kind=TextBatches, **options):
    options = {"max_length": 64, "token_budget": 256, "max_shapes": 2, "shape_price": 0, **options}
    return kind(documents(), list(range(COUNT)), **options)


class Watched(TextBatches):
    """Notes which batches `fit` reads, by the first token of their first document."""

    def __getitem__(self, index):
        batch = super().__getitem__(index)
        self.read.append(first(batch))
        return batch


def first(batch):
    return int(batch[0]["token_ids"][0, 0])


@pytest.mark.parametrize("workers", [0, 2])
def test_fit_sees_every_document_once_an_epoch(workers):
    train, test = make(workers=workers), make(shuffle=False, workers=workers)
    assert len({width for _, width in train.shapes}) > 1
    epochs = []
    record = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: epochs.append(train.epoch))
    model = toy_model()
    history = model.fit(train, epochs=3, validation_data=test, callbacks=[record], verbose=0)
    assert history.history["unevenness"] == [0.0] * 3
    assert history.history["val_unevenness"] == [0.0] * 3
    assert epochs == [0, 1, 2]
    again = model.fit(train, epochs=1, callbacks=[record], verbose=0)
    assert again.history["unevenness"] == [0.0]
    assert epochs == [0, 1, 2, 3]


def test_predict_gives_the_rows_back_in_the_order_of_the_texts():
    model, batches = toy_model(), make(shuffle=False)
    assert batches.classes is None
    predicted = batches.restore_order(model.predict(batches, verbose=0))
    assert predicted.shape == (COUNT, COUNT)
    for inputs, _ in batches:
        rows = model.predict_on_batch(inputs)
        np.testing.assert_allclose(predicted[inputs["token_ids"][:, 0] - 1], rows, atol=1e-6)


def test_a_resumed_fit_equals_an_uninterrupted_one():
    whole = toy_model(TransformerModel)
    start = whole.get_weights()
    whole.fit(make(), epochs=3, verbose=0)
    resumed = toy_model(TransformerModel)
    resumed.set_weights(start)
    resumed.fit(make(), epochs=1, verbose=0)
    batches = make()  # a new process would make it anew
    batches.set_epoch(1)
    resumed.fit(batches, initial_epoch=1, epochs=3, verbose=0)
    for a, b in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    # Not so if the second epoch had the order of the first.
    other = toy_model(TransformerModel)
    other.set_weights(start)
    for _ in range(3):
        other.fit(make(), epochs=1, verbose=0)
    pairs = zip(whole.get_weights(), other.get_weights(), strict=True)
    assert max(np.abs(a - b).max() for a, b in pairs) > 1e-5


@pytest.mark.parametrize("kind", [keras.Model, TransformerModel])
def test_the_order_is_that_of_the_epoch(kind):
    """Models of ours read an epoch in its order whatever `fit` is told; Keras' own, if told."""
    batches, model = make(Watched), toy_model(kind)
    forget = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: batches.read.clear())
    batches.read = []
    for epoch in range(2):
        expected = make()
        expected.set_epoch(epoch)
        model.fit(batches, shuffle=kind is TransformerModel, callbacks=[forget], verbose=0)
        read = batches.read[: len(batches)]  # TensorFlow reads on
        assert read == [first(batch) for batch in expected]


def test_a_restored_fit_goes_on_with_the_epoch_that_it_had_come_to(tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    def run(*callbacks):
        model, batches = toy_model(TransformerModel), make()
        model.set_weights(start)
        with contextlib.suppress(KeyboardInterrupt):
            model.fit(batches, epochs=4, callbacks=list(callbacks), verbose=0)
        return model.get_weights()

    start = toy_model().get_weights()
    backup = lambda: keras.callbacks.BackupAndRestore(tmp_path / "backup")  # noqa: E731
    whole, _, restored = run(), run(backup(), Stop()), run(backup())
    for a, b in zip(whole, restored, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_pieces_of_an_epoch_make_the_whole():
    batches, model = make(Watched), toy_model()
    forget = keras.callbacks.LambdaCallback(on_train_begin=lambda *_: batches.read.clear())
    batches.read = []
    model.fit(batches, epochs=3, steps_per_epoch=len(batches) // 3, callbacks=[forget], verbose=0)
    assert len(batches.read) >= len(batches) // 3 * 3 > 3
    assert len(set(batches.read)) == len(batches.read)
