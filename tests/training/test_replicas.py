"""Batches for several devices: filled up by rows that change nothing."""

import json
import os
import pathlib

import keras
import numpy as np
import pytest
from forks import run_fork

from keras_posenc import TextBatches, Tokenizer, backend
from keras_posenc.losses import MultipleNegativesRanking
from keras_posenc.metrics import InBatchAccuracy
from keras_posenc.text import MaskedLanguageModelBatches
from keras_posenc.text.buckets import batch_sizes

TEXTS = [[7] * (1 + n % 9) for n in range(37)]


@pytest.fixture
def four(monkeypatch):
    monkeypatch.setattr(backend, "row_multiple", lambda: 4)


@pytest.mark.once
@pytest.mark.parametrize("count", [1, 3, 4, 37])
def test_every_batch_is_a_multiple_and_every_text_is_in_one(four, count):
    batches = TextBatches(TEXTS[:count], list(range(count)), token_budget=64, shuffle=False)
    outputs, seen = [], []
    for number in range(len(batches)):
        inputs, targets, weights = batches[number]
        assert len(targets) % 4 == 0 and len(targets) == len(weights) == len(inputs["token_ids"])
        seen += targets[weights > 0].tolist()
        outputs += targets.tolist()
        assert set(weights.tolist()) <= {0.0, 1.0}
    assert sorted(seen) == list(range(count))
    assert batches.restore_order(outputs).tolist() == list(range(count))
    assert {shape[0] % 4 for shape in batches.shapes} == {0}
    with pytest.raises(ValueError, match=f"{len(outputs) + 1} rows of predictions for {count} te"):
        batches.restore_order([*outputs, 0])


@pytest.mark.once
def test_sizes_are_multiples_even_where_the_budget_has_no_room():
    assert batch_sizes([10, 1], [8, 16], 4, multiple=4) == [4, 4]
    assert all(size % 4 == 0 for size in batch_sizes([37, 5], [8, 16], 256, multiple=4))


@pytest.mark.once
def test_masks_are_those_of_one_device(monkeypatch):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
    tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(vocabulary)})

    def read():
        texts = ["a b c a b c", "c b a c b a", "b a c b c a"]
        return MaskedLanguageModelBatches(texts, tokenizer, 8, token_budget=32, masked=0.4)[0]

    inputs, targets, weights = read()
    monkeypatch.setattr(backend, "row_multiple", lambda: 4)
    more, filled, counts = read()
    assert len(filled) == 4 and not counts[3].any()
    np.testing.assert_array_equal(more["token_ids"][:3], inputs["token_ids"])
    np.testing.assert_array_equal(filled[:3], targets)
    np.testing.assert_array_equal(counts[:3], weights)


def test_what_fills_a_batch_is_no_negative(four):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3, 2, 5)).astype("float32")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d"]
    tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(vocabulary)})
    groups = [("a", "b"), ("b", "c"), ("c", "d")]
    batches = TextBatches(groups, [0, 1, 2], tokenizer, apart=True, shuffle=False)
    _, targets, weights = batches[0]
    assert targets[3] == -1 and weights.tolist() == [1, 1, 1, 0]
    loss = MultipleNegativesRanking(reduction="mean_with_sample_weight")
    filled = np.concatenate([vectors, vectors[-1:]])
    expected = loss(targets[:3], vectors)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(loss(targets, filled, weights)),
        keras.ops.convert_to_numpy(expected),
        rtol=1e-5,
    )


def test_what_fills_a_batch_is_in_no_accuracy():
    vectors = np.eye(4, dtype="float32")[:, None].repeat(2, axis=1)
    vectors[3, 1] = vectors[0, 1]  # whose first text is nearest to none of the second ones
    metric = InBatchAccuracy()
    metric.update_state(np.array([0, 1, 2, -1]), vectors, np.array([1, 1, 1, 0], "float32"))
    assert float(metric.result()) == 1.0
    metric.update_state(np.array([0, 1, 2, 3]), vectors, np.ones(4, "float32"))
    assert float(metric.result()) == pytest.approx(5.75 / 7)  # 2 and 4 are level


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="Keras trains on one device there")
def test_any_number_of_texts_on_several_devices(pretrained, tmp_path):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    program = pathlib.Path(__file__).parents[1] / "replicas.py"
    environment = {**os.environ, "XLA_FLAGS": flags}
    done = run_fork("file", program, [pretrained, tmp_path], env=environment)
    assert done.returncode == 0, done.stderr
    one, several = json.loads(done.stdout.splitlines()[-1])
    for name, numbers in one.items():
        np.testing.assert_allclose(several[name], numbers, rtol=1e-3, atol=1e-4, err_msg=name)
