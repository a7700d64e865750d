"""Losses of embedders, drawn at random, against `oracles_losses.py`: values and gradients.

Groups of equal texts, masks of tokens and of passages, weights, rows that fill a batch up, and
replicas that share it. Each day draws other cases; the seed is in the name of the test.
"""

import datetime
import os
import threading

import keras
import numpy as np
import oracles_losses as oracles
import pytest

from keras_posenc.losses import (
    CoSENT,
    CosineRegression,
    ListwiseKL,
    MarginMSE,
    Matryoshka,
    MaxSimRanking,
    MultipleNegativesRanking,
    PassageRanking,
    similarity,
)
from keras_posenc.metrics import InBatchAccuracy

# LOSS_SEED=20261129 draws the cases of that day again.
SEED = int(os.environ.get("LOSS_SEED", datetime.date.today().strftime("%Y%m%d")))
# Of each loss; JAX compiles a program for each shape.
CASES, SHARED = (12, 3) if keras.backend.backend() == "torch" else (3, 1)
MEAN = "mean_with_sample_weight"


def numbers(rng, rows, texts):
    """Of each text of a batch, of each row, or none that are equal; some rows fill it up."""
    kind = rng.integers(4)
    if kind == 0:
        found = np.arange(rows)
    elif kind == 1:
        found = rng.integers(0, max(1, rows // 2), rows)[:, None]
    else:  # one pool for anchors and others, or two
        found = rng.integers(0, (rows, 3 * rows)[kind - 2], (rows, texts))
        found[:, 0] += rng.integers(2) * 4 * rows
    weights = rng.integers(0, 4, rows) / 2
    weights[rng.integers(rows)] = 1
    for row in range(rows):
        if weights[row] == 0 and rng.random() < 0.7:
            found[row] = -1
    return found, weights


def normal(rng, *shape):
    """Numbers that float32 holds, with some vectors that are equal."""
    found = rng.normal(size=shape).astype("float32")
    if rng.random() < 0.3:
        found[-1] = found[0]
    return found.astype("float64")


def ranking(rng, rows):
    texts, scale = int(rng.integers(2, 5)), float(rng.uniform(0.5, 8))
    y_true, weights = numbers(rng, rows, texts)
    vectors, wanted = normal(rng, rows, texts, 6), lambda y, x: oracles.in_batch(y, x, scale)
    return MultipleNegativesRanking(scale, reduction=MEAN), wanted, y_true, vectors, weights


def matryoshka(rng, rows):
    loss, wanted, *rest = ranking(rng, rows)
    sizes, of_each = [6, 2], [float(x) for x in rng.uniform(0.2, 2, 2)]
    loss = Matryoshka(loss, sizes, of_each, reduction=MEAN)
    return loss, oracles.matryoshka(wanted, sizes, of_each), *rest


def late(rng, rows):
    texts, tokens, scale = int(rng.integers(2, 4)), 4, float(rng.uniform(0.2, 2))
    y_true, weights = numbers(rng, rows, texts)
    vectors = normal(rng, rows, texts, tokens, 4)
    vectors[..., -1] = rng.random((rows, texts, tokens)) < 0.7
    vectors[..., 0, -1] = 1
    loss = MaxSimRanking(scale, reduction=MEAN)
    return (
        loss,
        lambda y, x: oracles.in_batch(y, x, scale, oracles.maxsim),
        y_true,
        vectors,
        weights,
    )


def in_documents(rng, rows):
    scale, weight = float(rng.uniform(0.5, 8)), float(rng.uniform())
    y_true, weights = numbers(rng, rows, 2)
    vectors = normal(rng, rows, 5, 6)
    vectors[:, 2:] *= rng.random((rows, 3, 1)) < 0.7
    loss = PassageRanking(scale, weight, reduction=MEAN)
    return loss, lambda y, x: oracles.passages(y, x, scale, weight), y_true, vectors, weights


def scored(rng, rows, loss, wanted):
    y_true, weights = rng.integers(-2, 5, rows) / 4, np.ones(rows)
    if isinstance(loss, CoSENT):
        filled = rng.random(rows) < 0.2
        filled[:2] = False
        y_true[filled], weights[filled] = -2, 0
    return loss, wanted, y_true, normal(rng, rows, 2, 6), weights


def cosent(rng, rows):
    scale = float(rng.uniform(0.5, 5))
    return scored(rng, rows, CoSENT(scale, MEAN), lambda y, x: oracles.cosent(y, x, scale))


def regression(rng, rows):
    return scored(rng, rows, CosineRegression(MEAN), oracles.regression)


def taught(rng, rows, make):
    texts, scale = int(rng.integers(3, 6)), float(rng.uniform(0.2, 2))
    loss, wanted, fewer = make(rng, scale)
    y_true = rng.normal(size=(rows, texts - 1 - fewer))
    weights = rng.integers(1, 4, rows) / 2
    return loss, wanted, y_true, normal(rng, rows, texts, 6), weights


def margin(rng, rows):
    return taught(rng, rows, lambda rng, scale: (
        MarginMSE(scale, MEAN), lambda y, x: oracles.margin(y, x, scale), rng.integers(2)
    ))  # fmt: skip


def listwise(rng, rows):
    temperature = float(rng.uniform(0.5, 3))
    return taught(rng, rows, lambda rng, scale: (
        ListwiseKL(temperature, scale, MEAN),
        lambda y, x: oracles.listwise(y, x, scale, temperature), 0,
    ))  # fmt: skip


DRAWS = (ranking, matryoshka, late, in_documents, cosent, regression, margin, listwise)


def value_and_gradient(function, x):
    """Of a function of one tensor, on the backend at hand."""
    if keras.backend.backend() == "torch":
        x = keras.ops.convert_to_tensor(x).requires_grad_()
        value = function(x)
        value.backward()
        return float(value.detach()), x.grad.cpu().numpy()
    if keras.backend.backend() == "jax":
        import jax

        value, gradient = jax.jit(jax.value_and_grad(function))(x)
        return float(value), np.asarray(gradient)
    import tensorflow as tf

    x = tf.convert_to_tensor(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x)
    return float(value), tape.gradient(value, x).numpy()


@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: f"{draw.__name__}-{SEED}")
def test_values_and_gradients(draw):
    for case in range(CASES):
        rng = np.random.default_rng((SEED, DRAWS.index(draw), case))
        loss, wanted, y_true, vectors, weights = draw(rng, int(rng.integers(2, 8)))

        def expected(x, y_true=y_true, weights=weights, wanted=wanted):
            return oracles.reduced(wanted(y_true, x), weights, MEAN)

        def ours(x, y_true=y_true, weights=weights, loss=loss):
            y = y_true.astype("int32" if y_true.dtype.kind == "i" else "float32")
            return loss(y, x, weights.astype("float32"))

        value, gradient = value_and_gradient(ours, vectors.astype("float32"))
        assert value == pytest.approx(expected(vectors), rel=2e-4, abs=2e-5), (SEED, case)
        step = 1e-5 * rng.normal(size=vectors.shape)
        if draw is late:
            step[..., -1] = 0  # which tokens are scored
        step *= vectors.any(axis=-1, keepdims=True)  # what is not there stays so
        slope = (expected(vectors + step) - expected(vectors - step)) / 2
        assert (gradient * step).sum() == pytest.approx(slope, rel=5e-3, abs=2e-8), (SEED, case)


def test_the_accuracy(monkeypatch):
    for case in range(CASES):
        rng = np.random.default_rng((SEED, 100, case))
        rows, texts = int(rng.integers(2, 8)), int(rng.integers(2, 4))
        y_true, weights = numbers(rng, rows, texts)
        vectors = rng.integers(-1, 2, (rows, texts, 2)).astype("float32")  # many are level
        vectors[..., 0] += 3
        metric = InBatchAccuracy()
        metric.update_state(y_true.astype("int32"), vectors, weights.astype("float32"))
        wanted = oracles.reduced(oracles.accuracy(y_true, vectors.astype("float64")), weights, MEAN)
        assert float(metric.result()) == pytest.approx(wanted, abs=1e-5), (SEED, case)


@pytest.mark.parametrize("draw", DRAWS[:5], ids=lambda draw: f"{draw.__name__}-{SEED}")
def test_replicas_that_share_a_batch_find_what_one_does(draw, monkeypatch):
    """Each is a thread here, and what they gather stands in a list."""
    for case in range(SHARED):
        rng = np.random.default_rng((SEED, 200 + DRAWS.index(draw), case))
        count = int(rng.integers(2, 4))
        loss, wanted, y_true, vectors, _ = draw(rng, count * int(rng.integers(1, 4)))
        loss.reduction = None
        parts, barrier, found = [None] * count, threading.Barrier(count), [None] * count
        place = threading.local()

        def gather(x, parts=parts, barrier=barrier, place=place):
            parts[place.rank] = x
            barrier.wait()
            whole = keras.ops.concatenate(parts)
            first = sum(part.shape[0] for part in parts[: place.rank])
            barrier.wait()
            return whole, first

        def work(rank, loss=loss, y=y_true, x=vectors, place=place, found=found, count=count):
            place.rank = rank
            dtype = "int32" if y.dtype.kind == "i" else "float32"
            share = [np.split(each, count)[rank] for each in (y.astype(dtype), x.astype("float32"))]
            found[rank] = keras.ops.convert_to_numpy(loss.call(*map(keras.ops.array, share)))

        monkeypatch.setattr(similarity.backend, "gather_rows", gather)
        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        real = np.ravel(y_true) if y_true.ndim == 1 else y_true[:, 0]
        real = real >= (-1 if draw is cosent else 0)
        expected = wanted(y_true, vectors)
        np.testing.assert_allclose(
            np.concatenate(found)[real], expected[real], rtol=2e-4, atol=2e-5, err_msg=str(SEED)
        )
