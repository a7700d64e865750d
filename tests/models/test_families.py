"""Each family from a directory that transformers wrote: the same numbers, there and back."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from published import SIZES, answer, publish, token_ids

from keras_posenc import build_transformer_model, save_checkpoint

# Of the largest value, in float32.
TOLERANCE = 1e-5

# Name -> transformers' class, its config beside `SIZES`, arguments of the factory. A masked LM has
# all weights of an encoder, and those of a head.
CASES = {
    "modernbert": (
        "ModernBertForMaskedLM",
        {"local_attention": 8, "max_position_embeddings": 32},
        {},
    ),
}
LENGTH, LONGER = 12, 40  # the latter beyond windows and trained lengths


class Case:
    """A published model, and ours."""

    def __init__(self, name, folder):
        class_name, config, self.arguments = CASES[name]
        self.folder = folder / "theirs"
        config = {key: v for key, v in {**SIZES, **config}.items() if v is not None}
        self.theirs = publish(self.folder, class_name, **config)
        self.arguments = {"with_mlm": "linear", **self.arguments}
        self.ours = build_transformer_model(self.folder, **self.arguments)
        self.pad = self.theirs.config.pad_token_id or 0

    def inputs(self, length, side="right"):
        ids, real = token_ids(length, self.pad, side=side)
        feeds = {"token_ids": ids}
        if len(self.ours.inputs) > 1:
            feeds["segment_ids"] = np.zeros_like(ids)
        return feeds, real

    def check(self, ours, theirs, length, side="right"):
        feeds, real = self.inputs(length, side)
        expected = answer(theirs, feeds["token_ids"], real)[real]
        found = ops.convert_to_numpy(ours(feeds, training=False))[real]
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * abs(expected).max())


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    return Case(request.param, tmp_path_factory.mktemp(request.param))


def test_the_numbers_are_those_of_transformers(case):
    case.check(case.ours, case.theirs, LENGTH)
    case.check(case.ours, case.theirs, LENGTH, side="left")


def test_texts_longer_than_the_window_and_the_training(case):
    if case.ours.transformer.config.position_table:
        pytest.skip("a table ends")
    case.check(case.ours, case.theirs, LONGER)


def test_a_saved_model_is_the_same(case, tmp_path):
    case.ours.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    feeds, _ = case.inputs(LENGTH)
    before, after = (ops.convert_to_numpy(m(feeds, training=False)) for m in (case.ours, again))
    np.testing.assert_array_equal(after, before)
    loaded = build_transformer_model(case.folder, tmp_path / "model.keras", **case.arguments)
    np.testing.assert_array_equal(ops.convert_to_numpy(loaded(feeds, training=False)), before)


def test_transformers_reads_what_is_written_back(case, tmp_path):
    save_checkpoint(case.ours, tmp_path)
    architecture = type(case.theirs)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [
        architecture.__name__
    ]
    again, info = architecture.from_pretrained(tmp_path, output_loading_info=True)
    assert {name: list(what) for name, what in info.items() if what} == {}
    case.check(case.ours, again, LENGTH)
    before = dict(case.theirs.state_dict())
    for name, value in again.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name].numpy(), err_msg=name)


def test_gradients_reach_every_weight(case):
    feeds, real = case.inputs(LENGTH)
    before = [ops.convert_to_numpy(w) for w in case.ours.trainable_variables]
    case.ours.compile(keras.optimizers.SGD(1.0), "mse", run_eagerly=True)
    size = case.ours.output_shape[-1]
    target = np.random.default_rng(2).normal(size=(*real.shape, size))
    case.ours.train_on_batch(feeds, target, sample_weight=real.astype("float32"))
    for weight, old in zip(case.ours.trainable_variables, before, strict=True):
        assert np.abs(ops.convert_to_numpy(weight) - old).max() > 0, weight.path
        weight.assign(old)
