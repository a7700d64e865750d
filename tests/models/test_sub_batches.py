"""Batches of which one part at a time is in memory (GradCache)."""

import logging

import keras
import numpy as np
import pytest
from selection import on_all

from keras_posenc import backend
from keras_posenc.heads import similarity
from keras_posenc.layers import MaskedPooling
from keras_posenc.losses import MultipleNegativesRanking
from keras_posenc.models import build_transformer_model
from keras_posenc.models.sentence_embedding import embedder, with_dimension

RNG = np.random.default_rng(0)
IDS = [RNG.integers(5, 40, (4, 2, 7)).astype("int32") for _ in range(2)]
IDS[0][1, :, 5:] = 0  # padding


# What is only compared with need not be traced on TensorFlow.
TRAINED = {"jit_compile": "auto"}
COMPARED = {"run_eagerly": True} if keras.backend.backend() == "tensorflow" else TRAINED


def trained(config, sub_batches, dropout=0.0, options=TRAINED):
    """The losses and the weights after two steps, and the seeds of the dropout."""
    keras.utils.set_random_seed(1)
    encoder = build_transformer_model(
        {**config, "num_hidden_layers": 1},
        dropout_rate=dropout,
        attention_dropout_rate=dropout,
    )
    embedder = keras.Model(encoder.inputs, MaskedPooling(dtype="float32")(encoder.output))
    model = similarity(embedder, sub_batches=sub_batches)
    model.compile(keras.optimizers.SGD(0.1), MultipleNegativesRanking(), **options)
    batches = (({"token_ids": ids, "segment_ids": 0 * ids}, np.arange(4)) for ids in IDS)
    losses = model.fit(batches, steps_per_epoch=1, epochs=2, shuffle=False, verbose=0).history
    weights = {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}
    seeds = [
        int(keras.ops.convert_to_numpy(x)[1])
        for x in model.non_trainable_variables
        if "seed" in x.path
    ]
    return losses["loss"], weights, seeds


@pytest.mark.parametrize("sub_batches", on_all([3], [3, 8]))  # 3 parts of 8 texts and a copy
def test_they_train_as_whole_batches(tiny_config, sub_batches, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("tensorflow"), "propagate", True)
    expected, weights, _ = trained(tiny_config, 1, options=COMPARED)
    losses, found, _ = trained(tiny_config, sub_batches)
    assert "dtype of the watched tensor" not in caplog.text
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for path, weight in weights.items():
        np.testing.assert_allclose(found[path], weight, atol=2e-5, err_msg=path)


def test_the_second_computation_drops_what_the_first_one_drops(tiny_config, monkeypatch):
    losses, weights, seeds = trained(tiny_config, 2, dropout=0.5)
    monkeypatch.setattr(backend, "recomputed", lambda function: function)
    expected, once, once_seeds = trained(tiny_config, 2, dropout=0.5, options=COMPARED)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert seeds == once_seeds and min(seeds) >= 4  # the parts of two batches
    for path, weight in once.items():
        np.testing.assert_allclose(weights[path], weight, atol=2e-5, err_msg=path)


@pytest.mark.parametrize("sub_batches", on_all([2], [1, 2]))
@pytest.mark.parametrize("dimension", [None, 4])
def test_a_text_of_padding_alone_has_a_finite_gradient(tiny_config, sub_batches, dimension):
    model = embedder(build_transformer_model({**tiny_config, "num_hidden_layers": 1}))
    model = model if dimension is None else with_dimension(model, dimension)
    model = similarity(model, sub_batches=sub_batches)
    model.compile(keras.optimizers.SGD(0.1), MultipleNegativesRanking())
    ids = IDS[0].copy()
    ids[2, 1] = 0
    model.train_on_batch({"token_ids": ids, "segment_ids": 0 * ids}, np.arange(4))
    assert all(np.isfinite(keras.ops.convert_to_numpy(w)).all() for w in model.trainable_weights)
