"""Batches of no text, and texts of no token: results of the right shape, and zeros for a text."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import (
    ChainMarginals,
    ConditionalRandomField,
    MaximumEntropyMarkovModel,
    ViterbiDecoder,
)
from keras_posenc.layers import MaskedPooling
from keras_posenc.losses import ConditionalRandomFieldLoss, MaximumEntropyMarkovLoss
from keras_posenc.metrics import ViterbiAccuracy
from keras_posenc.models.pooling import POOLINGS
from keras_posenc.retrieval.sparse.pooling import SPARSE_POOLINGS, SparsePooling

SHAPES = [(0, 3), (2, 0), (0, 0)]


def result(x):
    return np.asarray(ops.convert_to_numpy(x))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_vectors_of_texts(shape, dtype):
    layers = [MaskedPooling(pooling, dtype=dtype) for pooling in POOLINGS]
    layers += [SparsePooling(pooling) for pooling in SPARSE_POOLINGS]
    for layer in layers:
        for mask in (None, np.zeros(shape, bool)):
            vectors = layer(np.zeros((*shape, 4), "float32"), mask=mask)
            assert layer.compute_dtype == keras.backend.standardize_dtype(vectors.dtype)
            np.testing.assert_array_equal(
                result(ops.cast(vectors, "float32")), np.zeros((shape[0], 4))
            )


def test_a_text_of_padding_has_no_maximum():
    x, mask = np.full((2, 3, 4), -2.0, "float32"), np.array([[True, False, False], [False] * 3])
    vectors = result(MaskedPooling("max")(x, mask=mask))
    np.testing.assert_array_equal(vectors, [[-2.0] * 4, [0.0] * 4])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chain", [ConditionalRandomField, MaximumEntropyMarkovModel])
def test_chains(shape, chain):
    for mask in (None, np.zeros(shape, bool)):
        potentials = chain()(np.zeros((*shape, 4), "float32"), mask=mask)
        assert potentials.shape == (*shape, 4, 4)
        assert result(ViterbiDecoder()(potentials)).dtype == "int32"
        assert ViterbiDecoder()(potentials).shape == shape
        assert ChainMarginals()(potentials).shape == (*shape, 4)
        tags = np.zeros(shape, "int32")
        metric = ViterbiAccuracy()
        metric.update_state(tags, potentials)
        assert float(metric.result()) == 0.0


@pytest.mark.parametrize("shape", SHAPES)
def test_losses_of_chains(shape):
    tags, potentials = np.zeros(shape, "int32"), np.zeros((*shape, 4, 4), "float32")
    losses = ConditionalRandomFieldLoss(reduction=None)(tags, potentials)
    np.testing.assert_array_equal(result(losses), np.zeros(shape[0]))
    for loss in (ConditionalRandomFieldLoss, MaximumEntropyMarkovLoss):
        for weights in (None, np.ones(shape, "float32")):
            total = loss(reduction="sum")(tags, potentials, sample_weight=weights)
            assert np.sum(result(total)) == 0.0


def test_a_token_counts_alike_in_texts_of_any_length():
    """The metric is the fraction of right tokens in all batches, whatever the length of each."""
    metric, potentials = ViterbiAccuracy(), np.zeros((1, 8, 2, 2), "float32")
    potentials[..., 1] = 1.0
    metric.update_state(np.ones((1, 8), "int32"), potentials)
    metric.update_state(np.zeros((1, 2), "int32"), potentials[:, :2])
    assert float(metric.result()) == pytest.approx(0.8)
