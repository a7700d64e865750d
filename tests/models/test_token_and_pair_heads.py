"""Heads of tokens, spans and pairs, with their losses and metrics, on every backend."""

import keras
import numpy as np
import pytest
from selection import on_all

from keras_posenc import TextBatches, build_transformer_model
from keras_posenc.heads import (
    MaskedPooling,
    SpanLogits,
    classifier,
    regressor,
    similarity,
    span_head,
    token_classifier,
)
from keras_posenc.losses import CosineRegression, MultipleNegativesRanking, SpanCrossentropy
from keras_posenc.metrics import InBatchAccuracy, SpanAccuracy
from keras_posenc.text import SpanLabels, TagLabels

RNG = np.random.default_rng(0)


@pytest.fixture
def encoder(tiny_config):
    return build_transformer_model({**tiny_config, "num_hidden_layers": 1})


def log_softmax(x, axis):
    x = np.asarray(x, "float64")
    x = x - x.max(axis=axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


def masked_logits(size):
    """A model whose output (B, T, size) carries a mask, as any Dense on masked features does."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, 4, mask_zero=True)(ids)
    return keras.Model(ids, keras.layers.Dense(size)(x))


def number(tensor):
    return float(keras.ops.convert_to_numpy(tensor))


IDS = np.array([[1, 2, 3, 0], [4, 5, 0, 0], [6, 0, 0, 0], [7, 8, 1, 2]])  # B == T


def test_the_loss_of_spans_is_one_number_a_row_whatever_the_mask():
    model, spans = masked_logits(2), np.array([[0, 2], [1, 1], [0, 0], [3, 3]])
    logits = keras.ops.convert_to_numpy(model(IDS))
    log_p = log_softmax(np.where((IDS > 0)[..., None], logits, -1e9), 1)
    rows = -(log_p[range(4), spans[:, 0], 0] + log_p[range(4), spans[:, 1], 1]) / 2
    weights = np.array([1.0, 0.0, 2.0, 1.0])
    assert number(SpanCrossentropy()(spans, model(IDS))) == pytest.approx(rows.mean(), abs=1e-5)
    weighted = SpanCrossentropy(reduction="mean_with_sample_weight")
    expected = (rows * weights).sum() / weights.sum()
    assert number(weighted(spans, model(IDS), weights)) == pytest.approx(expected, abs=1e-5)
    # In `fit`, too: what `evaluate` says is that loss.
    model.compile(loss=SpanCrossentropy(), metrics=[SpanAccuracy()])
    loss, accuracy = model.evaluate(IDS, spans, batch_size=4, verbose=0)
    assert loss == pytest.approx(rows.mean(), abs=1e-5)
    best = np.where((IDS > 0)[..., None], logits, -1e9).argmax(axis=1)
    assert accuracy == pytest.approx((best == spans).all(axis=1).mean())


def test_a_span_is_not_of_the_question_nor_of_padding(encoder):
    model = span_head(encoder, dropout_rate=0.0)
    ids = np.array([[2, 7, 3, 8, 9, 3, 0], [2, 7, 8, 9, 4, 5, 3]])
    segments = np.array([[0, 0, 0, 1, 1, 1, 0], [0] * 7])
    logits = model.predict({"token_ids": ids, "segment_ids": segments}, verbose=0)
    assert logits.dtype == np.float32
    is_open = [[True, False, False, True, True, True, False], [True] * 7]
    for end in range(2):
        assert (logits[..., end] > -1e8).tolist() == is_open
    assert SpanLogits().compute_mask(None) is None


def ranking(vectors, ids, scale):
    """The loss, from its formula in float64."""
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    losses, right = [], []
    for i, anchor in enumerate(unit[:, 0]):
        scores, place = [], None
        for side in range(1, unit.shape[1]):
            for j in range(len(unit)):
                if i != j and ids[i] == ids[j]:
                    continue
                place = len(scores) if (side, j) == (1, i) else place
                scores.append(scale * anchor @ unit[j, side])
        losses.append(-log_softmax(scores, 0)[place])
        right.append(int(np.argmax(scores)) == place)
    return losses, right


@pytest.mark.parametrize("sides", [2, 3])
def test_multiple_negatives_ranking(sides):
    vectors, ids = RNG.normal(size=(5, sides, 6)), np.array([0, 1, 1, 2, 3])
    vectors[:, 1] += vectors[:, 0]
    losses, right = ranking(vectors, ids, 7.0)
    loss = MultipleNegativesRanking(scale=7.0)
    assert float(loss(ids, vectors)) == pytest.approx(np.mean(losses), rel=1e-5)
    weights = np.arange(5.0)
    expected = (losses * weights).sum() / 5
    assert float(loss(ids[:, None], vectors, weights)) == pytest.approx(expected, rel=1e-5)
    metric = InBatchAccuracy()
    metric.update_state(ids, vectors)
    assert float(metric.result()) == pytest.approx(np.mean(right))
    with pytest.raises(ValueError, match="`scale` must be a positive number. Received: 0"):
        MultipleNegativesRanking(scale=0)


def test_cosine_regression():
    vectors, scores = RNG.normal(size=(4, 2, 6)), RNG.uniform(-1, 1, (4, 1))
    a, b = vectors[:, 0], vectors[:, 1]
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    expected = np.square(cosines - scores[:, 0]).mean()
    assert float(CosineRegression()(scores, vectors)) == pytest.approx(expected, rel=1e-5)


def tag_batches():
    texts = [[2, *RNG.integers(5, 40, n), 3] for n in (3, 6, 9, 2)]
    tags = [["O", *(f"B-{i % 2}" for i in text[1:-1]), "O"] for text in texts]
    return TextBatches(texts, TagLabels(tags), token_budget=24, pad_to=4, shuffle=False)


def embedder_of(encoder):
    return keras.Model(encoder.inputs, MaskedPooling(dtype="float32")(encoder.output))


def pairs():
    ids = RNG.integers(5, 40, (4, 2, 7)).astype("int32")
    return {"token_ids": ids, "segment_ids": 0 * ids}, np.arange(4)


def spans_of_ids():
    texts = [[2, *RNG.integers(5, 40, n), 3] for n in (3, 6, 9, 2)]
    labels = SpanLabels([(1, 3), None, (2, 4), (1, 2)])
    return TextBatches(texts, labels, token_budget=24, pad_to=4, shuffle=False)


@pytest.mark.parametrize("head", on_all(["pairs"], ["tags", "spans", "pairs"]))
def test_in_fit_from_plain_generators_in_mixed_precision_and_saved(encoder, tmp_path, head):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        config = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "vocab_size": 40}
        config |= {"num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 12}
        encoder = build_transformer_model(config | {"type_vocab_size": 2, "hidden_act": "gelu"})
        if head == "tags":
            model, batches = token_classifier(encoder, 3), list(tag_batches())
            loss = keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="mean_with_sample_weight"
            )
            metrics = ["accuracy"]
        elif head == "spans":
            model, batches = span_head(encoder), list(spans_of_ids())
            loss, metrics = SpanCrossentropy(), [SpanAccuracy()]
        else:
            model, batches = similarity(embedder_of(encoder)), [pairs()] * 2
            loss, metrics = MultipleNegativesRanking(), [InBatchAccuracy()]
        model.compile("adam", loss, weighted_metrics=metrics, jit_compile="auto")
        logs = model.fit(
            (batch for batch in batches), steps_per_epoch=2, shuffle=False, verbose=0
        ).history
        assert np.isfinite(logs["loss"][0]) and 0 <= logs["accuracy"][0] <= 1
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        for one, other in zip(again.weights, model.weights, strict=True):
            np.testing.assert_array_equal(
                keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other)
            )
        inputs = batches[0][0]
        np.testing.assert_allclose(
            again.predict_on_batch(inputs), model.predict_on_batch(inputs), atol=1e-2
        )
        assert again.loss.get_config() == model.loss.get_config()
    finally:
        keras.config.set_dtype_policy("float32")


def test_a_pipeline_of_tf_data_gives_the_same_loss(encoder):
    import tensorflow as tf

    batches = tag_batches()
    rows = [batches[i] for i in range(len(batches))]
    model = token_classifier(encoder, 3, dropout_rate=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    model.compile("adam", loss, weighted_metrics=["accuracy"])
    signature = keras.tree.map_structure(
        lambda x: tf.TensorSpec([None] * x.ndim, x.dtype), batches[0]
    )
    pipeline = tf.data.Dataset.from_generator(lambda: iter(rows), output_signature=signature).apply(
        tf.data.experimental.assert_cardinality(len(rows))
    )
    found = model.evaluate(pipeline, verbose=0)
    np.testing.assert_allclose(found, model.evaluate(batches, verbose=0), rtol=1e-5)
    logs = model.fit(pipeline.repeat(), steps_per_epoch=3, shuffle=False, verbose=0).history
    assert np.isfinite(logs["loss"][0])


def test_what_does_not_count_changes_neither_loss_nor_metrics(encoder):
    """Padding, special tokens and further tokens of a word; with as many rows as tokens."""
    model = token_classifier(encoder, 4, dropout_rate=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    model.compile("sgd", loss, weighted_metrics=["accuracy"])
    ids = np.zeros((6, 6), "int32")
    tags, weights = np.zeros((6, 6), "int32"), np.zeros((6, 6), "float32")
    for row, length in enumerate((6, 3, 2, 5, 4, 2)):
        ids[row, :length] = RNG.integers(5, 40, length)
        tags[row, :length] = RNG.integers(0, 4, length)
        weights[row, 1 : length - 1] = 1
    inputs = {"token_ids": ids, "segment_ids": 0 * ids}
    evaluated = model.evaluate(inputs, tags, sample_weight=weights, batch_size=6, verbose=0)
    logits = log_softmax(model.predict(inputs, batch_size=6, verbose=0), -1)
    picked = -np.take_along_axis(logits, tags[..., None], -1)[..., 0]
    counts = weights > 0
    assert evaluated[0] == pytest.approx(picked[counts].mean(), rel=1e-5)
    assert evaluated[1] == pytest.approx((logits.argmax(-1) == tags)[counts].mean(), rel=1e-5)
    changed = np.where(counts, tags, 3)
    again = model.evaluate(inputs, changed, sample_weight=weights, batch_size=6, verbose=0)
    assert again == pytest.approx(evaluated)


@pytest.mark.once
def test_heads_refuse(encoder, tiny_config):
    pooled = build_transformer_model(tiny_config, with_pool=True)
    for head, words in (
        (lambda e: token_classifier(e, 3), "A token classifier needs the features"),
        (span_head, "A span head needs the features"),
        (regressor, "A regressor needs the features"),
        (lambda e: classifier(e, 3), "A classifier needs the features"),
    ):
        with pytest.raises(ValueError, match=words):
            head(pooled)
    with pytest.raises(
        ValueError, match="`num_tags` must be an integer of at least 2. Received: 1"
    ):
        token_classifier(encoder, 1)
    with pytest.raises(ValueError, match="`num_values` must be a positive integer. Received: 0"):
        regressor(encoder, 0)
    with pytest.raises(
        ValueError, match="`num_texts` must be an integer of at least 2. Received: 1"
    ):
        similarity(embedder_of(encoder), 1)
    with pytest.raises(ValueError, match="needs an embedder, from a text to a vector"):
        similarity(encoder)
