"""Models of packed rows: the same features, loss and gradients as of each text alone."""

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG, WORDS

from keras_posenc import Generator, Tokenizer, build_transformer_model, embedder
from keras_posenc.heads import classifier, token_classifier
from keras_posenc.text import CausalBatches

ENCODINGS = {
    "learned": None,
    "rotary": ["rotary"],
    "t5": [{"name": "t5", "shared": True}],
    "window": [{"name": "window", "window": 4, "sinks": 1}, "rotary"],
    "alibi": [{"name": "alibi", "direction": "symmetric"}, "log_n"],
}
TORCH = keras.backend.backend() == "torch"
CASES = [(a, e) for a in ("encoder", "lm", "unilm") for e in ENCODINGS]
CHOSEN = CASES if TORCH else [("encoder", "rotary"), ("lm", "t5"), ("unilm", "learned")]


def both(application="encoder", encodings=None, **arguments):
    """A model of one text a row and one of packed rows with the same layers, of large weights."""
    arguments |= {"application": application, "encodings": encodings}
    keras.utils.set_random_seed(0)
    alone = build_transformer_model(TINY_CONFIG, return_keras_model=False, **arguments)
    rng = np.random.default_rng(0)
    for weight in alone.model.weights:
        if "seed" not in weight.path:
            weight.assign(weight + 0.2 * rng.normal(size=weight.shape))
    return alone.model, build_transformer_model(
        TINY_CONFIG, layers=alone.layers, packed=True, **arguments
    )


@pytest.mark.once
@pytest.mark.parametrize(("application", "name"), CHOSEN)
def test_each_document_is_as_if_alone(application, name):
    alone, packed = both(application, ENCODINGS[name], with_mlm="linear")
    rng, sizes = np.random.default_rng(1), (5, 9, 3, 7)
    texts = [rng.integers(1, TINY_CONFIG["vocab_size"], n) for n in sizes]
    segments = [(np.arange(n) > n // 2).astype("int32") for n in sizes]
    row = {
        "token_ids": np.concatenate([*texts, [0, 0]]),  # and padding
        "segment_ids": np.concatenate([*segments, [0, 0]]),
        "position_ids": np.concatenate([*map(np.arange, sizes), [7, 8]]),
    }
    found = packed.predict({key: ids[None] for key, ids in row.items()}, verbose=0)[0]
    assert np.isfinite(found).all()
    padded = np.zeros((2, len(sizes), max(sizes)), "int32")
    for n, size in enumerate(sizes):
        padded[:, n, :size] = texts[n], segments[n]
    expected = alone.predict(
        dict(zip(("token_ids", "segment_ids"), padded, strict=True)), verbose=0
    )
    start = 0
    for n, size in enumerate(sizes):
        place = slice(start, start + size)
        np.testing.assert_allclose(found[place], expected[n, :size], atol=1e-5, rtol=1e-5)
        start += size


@pytest.mark.once
def test_loss_and_gradients_are_those_of_each_text_alone():
    """One step of plain gradient descent, by `fit`: the batches hold all texts."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    tokenizer = Tokenizer(vocabulary={word: i for i, word in enumerate(words)})
    texts = [" ".join(WORDS[n : n + size]) for n, size in enumerate((3, 9, 1, 5, 2, 6))]
    losses, weights, shares = [], [], []
    for pack in (False, True):
        model = both("lm", ["rotary"], with_mlm="linear")[pack]
        batches = CausalBatches(texts, tokenizer, 12, token_budget=512, max_shapes=1, pack=pack)
        assert len(batches) == 1 and ("position_ids" in batches[0][0]) == pack
        shares.append(batches.padding_share)
        loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
        model.compile(keras.optimizers.SGD(0.5), loss)
        losses.append(model.fit(batches, verbose=0).history["loss"][0])
        weights.append({v.path: np.array(v) for v in model.trainable_variables})
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    before = {v.path: np.array(v) for v in both("lm", ["rotary"])[0].trainable_variables}
    moved = 0.0
    for path, array in weights[0].items():
        np.testing.assert_allclose(weights[1][path], array, atol=1e-5, err_msg=path)
        moved = max(moved, np.abs(array - before[path]).max())
    assert moved > 1e-2 and shares[1] < shares[0] / 2


@pytest.mark.once
def test_heads_of_a_text_are_refused():
    packed = build_transformer_model(TINY_CONFIG, packed=True)
    assert [each.name for each in packed.inputs] == ["token_ids", "segment_ids", "position_ids"]
    for build in (lambda: classifier(packed, 2), lambda: embedder(packed)):
        with pytest.raises(ValueError, match="one text per row, and the rows of this encoder"):
            build()
    assert token_classifier(packed, 3).output_shape == (None, None, 3)
    with pytest.raises(ValueError, match="A model of `packed` rows, each of several texts, writ"):
        Generator(build_transformer_model(TINY_CONFIG, packed=True, application="lm"))
    for name in ("with_pool", "with_nsp"):
        with pytest.raises(ValueError, match=f"`{name}` needs one text per row, and `packed` rows"):
            build_transformer_model(TINY_CONFIG, packed=True, **{name: True})
    with pytest.raises(ValueError, match="`head` needs one text per row"):
        build_transformer_model(
            TINY_CONFIG, packed=True, head="sequence_classification", label_names=["a", "b"]
        )
    scaling = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 16}
    with pytest.raises(ValueError, match="depends on the length of the text, and a `packed` row"):
        build_transformer_model(
            TINY_CONFIG, packed=True, encodings=[{"name": "rotary", "scaling": scaling}]
        )


@pytest.mark.once
def test_what_packed_rows_are_for_is_remembered(tmp_path):
    """In a file; and a model that is not for them does not take them in silence."""
    row = {"token_ids": np.arange(5, 13)[None], "segment_ids": np.zeros((1, 8), "int32")}
    row["position_ids"] = np.array([[0, 1, 2, 0, 1, 0, 1, 2]])
    packed = build_transformer_model(TINY_CONFIG, packed=True, encodings=["rotary"])
    packed.save(tmp_path / "packed.keras")
    again = keras.saving.load_model(tmp_path / "packed.keras")
    found, expected = (model.predict(row, verbose=0) for model in (again, packed))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    with pytest.raises(ValueError, match="one text per row, and the rows of this encoder"):
        classifier(again, 2)
    alone = build_transformer_model(TINY_CONFIG, with_mlm="linear")
    alone.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for use in (lambda: alone.predict(row, verbose=0), lambda: alone.fit(row, row["token_ids"])):
        with pytest.raises(ValueError, match="no such input: build it with packed=True for rows"):
            use()
    place = build_transformer_model(TINY_CONFIG, custom_position_ids=True)
    assert place.predict(row, verbose=0).shape == (1, 8, 16)
