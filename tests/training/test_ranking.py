"""Ranking losses against their formulas in NumPy and against sentence-transformers."""

import re

import keras
import numpy as np
import pytest

from keras_posenc import build_transformer_model
from keras_posenc.heads import classifier, ranking
from keras_posenc.losses import ListwiseKL, MarginMSE, MaxSimRanking
from keras_posenc.losses import ranking as losses

RNG = np.random.default_rng(0)
SCORES, TEACHER = RNG.normal(size=(2, 5, 4)).astype("float32")
VECTORS = RNG.normal(size=(5, 5, 3)).astype("float32")
PRODUCTS = np.einsum("bd,bsd->bs", VECTORS[:, 0], VECTORS[:, 1:])


# Queries and three documents of five tokens each, and which of these are scored.
TOKENS = RNG.normal(size=(4, 4, 5, 3)).astype("float32")
SCORED = (RNG.random((4, 4, 5)) < 0.7).astype("float32")
SCORED[..., 0] = 1
MULTI = np.concatenate([TOKENS, SCORED[..., None]], axis=-1)


def late(query, document):
    """The score of late interaction, token by token."""
    (q, q_mask), (d, d_mask) = query, document
    return sum((d[d_mask > 0] @ vector).max() for vector in q[q_mask > 0])


def log_softmax(x):
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("pred, scores", [(SCORES, SCORES), (VECTORS, PRODUCTS)])
def test_margin_mse(pred, scores):
    margins = TEACHER[:, :1] - TEACHER[:, 1:]
    expected = np.square(scores[:, :1] - scores[:, 1:] - margins).mean(axis=1)
    loss = MarginMSE(reduction=None)
    for targets in (TEACHER, margins, TEACHER + 7):
        found = keras.ops.convert_to_numpy(loss(targets, pred))
        np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("pred, scores", [(SCORES, SCORES), (VECTORS, PRODUCTS)])
@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_listwise_kl(pred, scores, temperature):
    wanted, given = log_softmax(TEACHER / temperature), log_softmax(scores / temperature)
    expected = temperature**2 * (np.exp(wanted) * (wanted - given)).sum(axis=1)
    loss = ListwiseKL(temperature, reduction=None)
    found = keras.ops.convert_to_numpy(loss(TEACHER, pred))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_late_interaction_with_the_documents_of_the_batch():
    parts = [[(TOKENS[row, side], SCORED[row, side]) for side in range(4)] for row in range(4)]
    ids, expected = [0, 1, 1, 3], []
    for row in range(4):
        positive = late(parts[row][0], parts[row][1])
        scores = [
            late(parts[row][0], parts[other][side])
            for other in range(4)
            for side in (1, 2, 3)
            # Documents of other rows of the same number are no negatives.
            if ids[other] != ids[row] or other == row
        ]
        expected.append(-(positive - np.log(np.exp(scores).sum())))
    found = MaxSimRanking(reduction=None)(np.array(ids), MULTI)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(found), expected, rtol=1e-4, atol=1e-5)


def test_margins_of_late_interaction():
    scores = np.array(
        [[late(*((TOKENS[row, s], SCORED[row, s]) for s in (0, side))) for side in (1, 2, 3)]
         for row in range(4)]
    )  # fmt: skip
    teacher = RNG.normal(size=(4, 3)).astype("float32")
    margins = scores[:, :1] - scores[:, 1:] - teacher[:, :1] + teacher[:, 1:]
    found = MarginMSE(reduction=None)(teacher, MULTI)
    expected = np.square(margins).mean(axis=1)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(found), expected, rtol=1e-4)


def with_gradient(loss, labels, values):
    """The loss of values that a layer holds, and its gradient."""
    values = keras.Variable(values, dtype="float32")
    name = keras.backend.backend()
    if name == "torch":
        found = loss(labels, values)
        found.backward()
        gradient = values.value.grad
    elif name == "jax":
        import jax

        # As a program: outside of one, there is no loop.
        step = jax.jit(jax.value_and_grad(lambda values: loss(labels, values)))
        found, gradient = step(values.value)
    else:
        import tensorflow as tf

        @tf.function
        def step(values):
            with tf.GradientTape() as tape:
                tape.watch(values)
                found = loss(labels, values)
            return found, tape.gradient(found, values)

        found, gradient = step(values.value)
    return float(keras.ops.convert_to_numpy(found)), keras.ops.convert_to_numpy(gradient)


@pytest.mark.parametrize("make", [MaxSimRanking, MarginMSE])
@pytest.mark.parametrize("block_bytes", [1, 4 * 60 * 3, 4 * 60 * 9])
def test_blocks_of_products_change_no_number(make, block_bytes, monkeypatch):
    """A row of products has 60 numbers: one text at a time, three of four, two tokens of all."""
    values = MULTI.copy()
    values[:, 0, 3:, -1] = 0  # a block of queries without any token
    labels = np.array([0, 1, 1, 3]) if make is MaxSimRanking else TEACHER[:4, :3]
    loss, gradient = with_gradient(make(), labels, values)
    monkeypatch.setattr(losses, "BLOCK_BYTES", block_bytes)
    again, of_blocks = with_gradient(make(), labels, values)
    assert again == pytest.approx(loss, rel=1e-6)
    assert np.abs(gradient[:, 0, :3, :-1]).max() > 0.01
    np.testing.assert_allclose(of_blocks, gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="only JAX lists the arrays")
def test_no_program_holds_the_products_of_all_tokens():
    """They have 64 MB for 16 pairs of 256 tokens; a block has 8 MB."""
    import jax

    vectors = jax.ShapeDtypeStruct((16, 2, 256, 9), "float32")
    labels = jax.ShapeDtypeStruct((16,), "int32")
    step = jax.grad(lambda vectors, labels: MaxSimRanking()(labels, vectors))
    text = jax.jit(step).lower(vectors, labels).compile().as_text()
    shapes = [np.prod([int(n) for n in x.split(",")]) for x in re.findall(r"f32\[([\d,]+)\]", text)]
    assert 4 * max(shapes) == losses.BLOCK_BYTES


@pytest.mark.once
def test_equal_to_the_losses_of_torch():
    import torch

    p, q = (torch.log_softmax(torch.tensor(x) / 2, -1) for x in (TEACHER, SCORES))
    kl = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)(q, p) * 4
    np.testing.assert_allclose(float(ListwiseKL(2.0)(TEACHER, SCORES)), float(kl), rtol=1e-5)
    # ListNet is the same up to the entropy of the targets.
    listnet = torch.nn.CrossEntropyLoss()(torch.tensor(SCORES), torch.tensor(TEACHER).softmax(1))
    entropy = -(np.exp(log_softmax(TEACHER)) * log_softmax(TEACHER)).sum(axis=1).mean()
    np.testing.assert_allclose(
        float(ListwiseKL()(TEACHER, SCORES)), float(listnet) - entropy, rtol=1e-5
    )


@pytest.mark.once
def test_losses_are_saved_with_their_arguments():
    again = keras.losses.deserialize(keras.losses.serialize(ListwiseKL(3.0)))
    assert again.temperature == 3.0
    assert isinstance(keras.losses.deserialize(keras.losses.serialize(MarginMSE())), MarginMSE)


@pytest.mark.once
def test_refusals(tiny_config):
    with pytest.raises(ValueError, match="`y_true` must have 4 or 3 numbers for each query"):
        MarginMSE()(TEACHER[:, :2], SCORES)
    with pytest.raises(ValueError, match="`y_true` must have 4 numbers for each query"):
        ListwiseKL()(TEACHER[:, 1:], SCORES)
    with pytest.raises(ValueError, match="`scale` must be a positive number. Received: 0"):
        MaxSimRanking(0)
    with pytest.raises(ValueError, match="`temperature` must be a positive number. Received: 0"):
        ListwiseKL(0)
    encoder = build_transformer_model(tiny_config)
    with pytest.raises(ValueError, match="from a pair of texts to one logit .B, 1."):
        ranking(classifier(encoder, 2))
    one = build_transformer_model(
        tiny_config, head="sequence_classification", label_names=["score"]
    )
    with pytest.raises(
        ValueError, match="`num_documents` must be an integer of at least 2. Received: 1"
    ):
        ranking(one, 1)
