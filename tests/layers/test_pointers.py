import keras
import numpy as np
import oracles_structured as oracles
import pytest
from keras import ops
from selection import on_all

from keras_posenc import EfficientGlobalPointer, GlobalPointer
from keras_posenc.backend.weighing import CLOSED
from keras_posenc.losses import (
    MultilabelCategoricalCrossentropy,
    SparseMultilabelCategoricalCrossentropy,
)
from keras_posenc.metrics import SpanF1

RNG = np.random.default_rng(0)
# As many texts as tokens: a mask on a wrong axis would go unnoticed.
SIZE, FEATURES, HEADS = 4, 6, 2
X = RNG.normal(size=(SIZE, SIZE, FEATURES)).astype("float32")
KEEP = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 1]], bool)


def numpy(x):
    return ops.convert_to_numpy(x)


def is_span(keep):
    return np.triu(np.ones((SIZE, SIZE), bool)) & keep[:, None] & keep[None]


@pytest.mark.once
@pytest.mark.parametrize("rope", [True, False])
@pytest.mark.parametrize("layer_class", [GlobalPointer, EfficientGlobalPointer])
def test_a_pointer_is_that_of_bert4keras(layer_class, rope):
    layer = layer_class(HEADS, 4, rope)
    layer.build(X.shape)
    layer.set_weights([RNG.normal(size=w.shape).astype("float32") for w in layer.weights])
    scores = numpy(layer(X, mask=ops.convert_to_tensor(KEEP)))
    weights = [np.float64(numpy(w)) for w in layer.weights]
    sizes = [4] if layer_class is EfficientGlobalPointer else [HEADS, 4]
    oracle = oracles.global_pointer if len(sizes) == 2 else oracles.efficient_global_pointer
    for row in range(SIZE):
        expected = oracle(np.float64(X[row]), *weights, *sizes, rope=rope)
        cells = np.broadcast_to(is_span(KEEP[row]), expected.shape)
        np.testing.assert_allclose(scores[row][cells], expected[cells], rtol=1e-4, atol=1e-5)
        assert (scores[row][~cells] == -1e9).all()


@pytest.mark.once
def test_without_a_triangle_a_span_may_end_before_it_begins():
    scores = numpy(GlobalPointer(1, 4, tril_mask=False)(X))
    assert (scores > -1e8).all()


@pytest.mark.once
def test_the_rotary_embedding_is_that_of_encodings():
    """A linear scaling by 2 at 2 t is none at t."""
    x = np.repeat(X[:1], 2, axis=1)
    plain = GlobalPointer(HEADS, 4)
    stretched = GlobalPointer(HEADS, 4, {"scaling": {"rope_type": "linear", "factor": 2.0}})
    one = numpy(plain(X[:1]))
    stretched.build(x.shape)
    stretched.set_weights(plain.get_weights())
    np.testing.assert_allclose(numpy(stretched(x))[:, :, ::2, ::2], one, rtol=1e-4, atol=1e-4)
    again = GlobalPointer.from_config(stretched.get_config())
    assert again.rotary == stretched.rotary


def cases():
    """Right spans in full (B, H, T, T) and listed (B, H, P, 2), all of them open."""
    full = np.zeros((SIZE, HEADS, SIZE, SIZE), bool)
    listed = np.full((SIZE, HEADS, 3, 2), -1)
    for row in range(SIZE):
        spans = np.argwhere(is_span(KEEP[row]))
        for head in range(HEADS):
            chosen = spans[RNG.permutation(len(spans))[: (row + head) % 4]]
            listed[row, head, : len(chosen)] = chosen
            full[row, head, chosen[:, 0], chosen[:, 1]] = True
    return full, listed


def losses_and_f1(scores, full):
    losses = np.zeros((SIZE, HEADS))
    for row in range(SIZE):
        cells = is_span(KEEP[row])
        for head in range(HEADS):
            right, mine = full[row, head][cells], np.float64(scores[row, head][cells])
            losses[row, head] = oracles.multilabel(right, mine)
    return losses, 2 * ((scores > 0) & full).sum() / ((scores > 0).sum() + full.sum())


@pytest.mark.parametrize("sparse", on_all([False], [False, True]))
def test_fit_and_save_with_a_pointer(tmp_path, sparse):
    full, listed = cases()
    y = listed if sparse else full
    loss = (
        SparseMultilabelCategoricalCrossentropy if sparse else MultilabelCategoricalCrossentropy
    )(axis=(-2, -1))
    tokens = np.where(KEEP, np.arange(1, SIZE * SIZE + 1).reshape(KEEP.shape), 0)
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(SIZE * SIZE + 1, FEATURES, mask_zero=True)(inputs)
    model = keras.Model(inputs, EfficientGlobalPointer(HEADS, 4)(x))
    model.compile(keras.optimizers.Adam(0.05), loss, metrics=[SpanF1(sparse)])
    expected, f1 = losses_and_f1(model.predict(tokens, verbose=0), full)
    found = model.evaluate(tokens, y, batch_size=SIZE, verbose=0)
    np.testing.assert_allclose(found, [expected.mean(), f1], rtol=1e-5)
    each = numpy(type(loss)(axis=(-2, -1), reduction=None)(y, model(tokens)))
    np.testing.assert_allclose(each, expected, rtol=1e-5)
    history = model.fit(tokens, y, batch_size=SIZE, epochs=40, verbose=0).history
    assert history["span_f1"][-1] == 1.0
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        again.evaluate(tokens, y, batch_size=SIZE, verbose=0),
        model.evaluate(tokens, y, batch_size=SIZE, verbose=0),
        rtol=1e-6,
    )


@pytest.mark.once
def test_classes_listed_and_in_full():
    scores = RNG.normal(size=(3, 5), scale=3).astype("float32")
    listed = np.array([[1, 4, -1], [-1, -1, -1], [0, 1, 0]])
    full = np.zeros((3, 5), bool)
    full[[0, 0, 2, 2], [1, 4, 0, 1]] = True
    expected = [oracles.multilabel(f, np.float64(s)) for f, s in zip(full, scores, strict=True)]
    for loss, y in (
        (MultilabelCategoricalCrossentropy(reduction=None), full),
        (SparseMultilabelCategoricalCrossentropy(reduction=None), listed),
    ):
        np.testing.assert_allclose(numpy(loss(y, scores)), expected, rtol=1e-5)
    # Where right classes outweigh all others, a difference of two sums would be rounded away.
    sure = np.array([[30.0, 25.0, 0.5]], "float32")
    loss = SparseMultilabelCategoricalCrossentropy()(np.array([[0, 1]]), sure)
    assert float(loss) == pytest.approx(np.log1p(np.exp(0.5)), rel=1e-5)
    # What is closed does not count, even if it is marked right.
    for closed in ([[2.0, CLOSED, -1.0]], [[2.0, -np.inf, -1.0]]):
        both, one = np.array([[1.0, 1.0, 0.0]]), np.array([[1.0, 0.0, 0.0]])
        losses = [
            float(MultilabelCategoricalCrossentropy()(y, np.array(closed, "float32")))
            for y in (both, one)
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
        assert losses[0] == pytest.approx(np.log1p(np.exp(-2.0)) + np.log1p(np.exp(-1.0)), rel=1e-5)
    # How probable a class is: bert4keras' form with log y and log (1 - y).
    share = np.array([[0.25, 0.0, 1.0]])
    wrong = np.log(1 + 0.75 * np.exp(2.0) + np.exp(-1.0))
    right = np.log(1 + 0.25 * np.exp(-2.0) + np.exp(-0.5))
    loss = MultilabelCategoricalCrossentropy()(share, np.array([[2.0, -1.0, 0.5]], "float32"))
    assert float(loss) == pytest.approx(wrong + right, rel=1e-5)


@pytest.mark.once
def test_f1_is_counted_over_all_batches():
    full, listed = cases()
    scores = RNG.normal(size=full.shape).astype("float32")
    metric, weighted = SpanF1(), SpanF1(sparse=True)
    for row in range(SIZE):
        metric.update_state(full[row : row + 1], scores[row : row + 1])
    found = scores > 0
    expected = 2 * (found & full).sum() / (found.sum() + full.sum())
    assert float(metric.result()) == pytest.approx(expected)
    weighted.update_state(listed, scores, sample_weight=np.array([1.0, 0, 0, 0]))
    expected = 2 * (found[0] & full[0]).sum() / (found[0].sum() + full[0].sum())
    assert float(weighted.result()) == pytest.approx(expected)
    lightly = SpanF1()
    lightly.update_state(full, scores, sample_weight=np.full(SIZE, 0.01))
    assert float(lightly.result()) == pytest.approx(float(metric.result()), rel=1e-5)
    metric.reset_state()
    assert float(metric.result()) == 0


@pytest.mark.once
def test_errors():
    with pytest.raises(ValueError, match="`heads` must be a positive integer. Received: 0"):
        GlobalPointer(0, 4)
    with pytest.raises(ValueError, match="`head_size` must be a positive integer. Received: 2.5"):
        GlobalPointer(1, 2.5)
    with pytest.raises(ValueError, match="even number of features per head; this head has 3"):
        GlobalPointer(1, 3)(X)
    with pytest.raises(ValueError, match=r"takes features \(B, T, D\). Received: \(4, 6\)"):
        EfficientGlobalPointer(1, 4)(X[0])
    with pytest.raises(ValueError, match=r"`axis` must be one of .* Received: -2"):
        MultilabelCategoricalCrossentropy(axis=-2)
    scores = np.zeros((2, 1, 3, 3), "float32")
    with pytest.raises(ValueError, match=r"0 or 1 in the shape of the scores, \(2, 1, 3, 3\)"):
        MultilabelCategoricalCrossentropy((-2, -1))(np.zeros((2, 1, 3, 4)), scores)
    sparse = SparseMultilabelCategoricalCrossentropy((-2, -1))
    with pytest.raises(ValueError, match=r"right spans the shape \(\.\.\., P, 2\).*\(2, 1, 2, 3\)"):
        sparse(np.zeros((2, 1, 2, 3)), scores)
    with pytest.raises(ValueError, match=r"A span's token 3 does not exist: they run from 0 to 2"):
        sparse(np.full((2, 1, 1, 2), 3), scores)
    with pytest.raises(ValueError, match=r"right classes have the shape \(\.\.\., P\)"):
        SparseMultilabelCategoricalCrossentropy()(np.zeros((3, 1)), np.zeros((2, 5)))
    with pytest.raises(ValueError, match="Class 5 does not exist: they run from 0 to 4"):
        SparseMultilabelCategoricalCrossentropy()(np.full((2, 1), 5), np.zeros((2, 5)))
