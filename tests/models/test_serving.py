"""A model that serves outlives what is refused or interrupted, and answers several threads."""

import concurrent.futures
import os
import signal

import keras
import numpy as np
import pytest
from selection import on_all
from tiny_models import SIZES

from keras_posenc import Generator, build_transformer_model
from keras_posenc.heads import classifier

IDS = np.random.default_rng(0).integers(3, 30, (4, 6)).astype("int32")
INPUTS = {"token_ids": IDS, "segment_ids": 0 * IDS}
LABELS = np.array([0, 1, 0, 1])


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    model = classifier(build_transformer_model(model="bert", **SIZES), 2, dropout_rate=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), loss)
    return model


class Interrupted(keras.utils.PyDataset):
    """Batches of which one is cut short, as by Ctrl-C."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def __len__(self):
        return 3

    def __getitem__(self, index):
        if index == self.after:
            raise KeyboardInterrupt
        return INPUTS, LABELS


class Stop(keras.callbacks.Callback):
    """Ctrl-C at a place of a run."""

    def __init__(self, place):
        super().__init__()
        setattr(self, place, self.stop)

    def stop(self, *args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize("after", on_all([1], [0, 1]))
def test_interrupted_data_leaves_the_weights(model, method, after):
    wanted = model.predict(INPUTS, verbose=0)
    with pytest.raises((KeyboardInterrupt, Exception), match="^$|Interrupt"):
        options = {"shuffle": False} if method == "fit" else {}
        getattr(model, method)(Interrupted(after), verbose=0, **options)
    np.testing.assert_allclose(model.predict(INPUTS, verbose=0), wanted, rtol=1e-6)
    assert all(np.isfinite(array).all() for array in model.get_weights())
    model.fit(INPUTS, LABELS, verbose=0)


@pytest.mark.parametrize(
    "method, place",
    [
        ("fit", "on_train_batch_begin"),
        ("fit", "on_train_batch_end"),
        ("evaluate", "on_test_batch_end"),
        ("predict", "on_predict_batch_end"),
    ],
)
def test_control_c_leaves_the_weights(model, method, place):
    wanted = model.predict(INPUTS, verbose=0)
    labels = () if method == "predict" else (LABELS,)
    with pytest.raises(KeyboardInterrupt):
        getattr(model, method)(INPUTS, *labels, batch_size=2, verbose=0, callbacks=[Stop(place)])
    np.testing.assert_allclose(model.predict(INPUTS, verbose=0), wanted, rtol=1e-6)


@pytest.mark.parametrize("method", ["predict", "predict_on_batch"])
def test_refused_inputs_leave_the_weights(model, method):
    wanted = model.predict(INPUTS, verbose=0)
    with pytest.raises(ValueError, match="position_ids"):
        getattr(model, method)({**INPUTS, "position_ids": IDS})
    with pytest.raises(Exception, match="positions run from 0 to 15"):
        longer = np.tile(IDS, 4)
        getattr(model, method)({"token_ids": longer, "segment_ids": 0 * longer})
    np.testing.assert_allclose(model.predict(INPUTS, verbose=0), wanted, rtol=1e-6)


@pytest.mark.parametrize("method", ["predict", "predict_on_batch"])
def test_eight_threads(model, method):
    rows = [{name: ids[n % 4 :][:1] for name, ids in INPUTS.items()} for n in range(16)]
    wanted = model.predict(INPUTS, verbose=0)
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        options = {"verbose": 0} if method == "predict" else {}
        answers = list(threads.map(lambda row: getattr(model, method)(row, **options), rows))
    for number, answer in enumerate(answers):
        np.testing.assert_allclose(answer[0], wanted[number % 4], atol=1e-5)
    np.testing.assert_allclose(model.predict(INPUTS, verbose=0), wanted, rtol=1e-6)


def test_a_generator_answers_eight_threads_and_outlives_a_refusal():
    keras.utils.set_random_seed(0)
    model = build_transformer_model(model="gpt2", with_mlm="linear", initializer_range=0.4, **SIZES)
    generator = Generator(model, end_id=2, max_length=4)
    prompts = [[4, 5], [6, 7, 8], [9, 10, 11, 12], [13]]
    wanted = generator.predict(prompts, verbose=0)
    with pytest.raises(KeyboardInterrupt):
        generator.predict(prompts, verbose=0, callbacks=[Stop("on_predict_batch_end")])
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        each = [[prompt] for prompt in prompts * 4]
        answers = list(threads.map(lambda p: generator.predict(p, verbose=0)[0], each))
    np.testing.assert_array_equal(answers, np.tile(wanted, (4, 1)))
