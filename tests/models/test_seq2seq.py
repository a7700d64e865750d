"""The encoder-decoder: its forward pass against NumPy, its masks, its one table, its cache."""

import keras
import numpy as np
import oracles_seq2seq
import pytest
from keras import ops

from keras_posenc.losses.smoothed import SmoothedSparseCategoricalCrossentropy
from keras_posenc.models.seq2seq import EncoderDecoder, build_encoder_decoder
from keras_posenc.training.schedules import Noam

SOURCE = np.array([[3, 4, 5, 6, 0, 0], [7, 8, 9, 10, 11, 12]])
TARGET = np.array([[1, 5, 6, 7, 2], [1, 8, 9, 0, 0]])
SIZES = dict(
    vocab_size=13,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
)


def build(**changes):
    model = build_encoder_decoder(**SIZES | changes)
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        if variable.path.endswith(("bias", "gamma", "beta")):
            variable.assign(np.array(variable) + rng.normal(0, 0.1, variable.shape))
    return model


def logits(model, source=SOURCE, target=TARGET):
    return ops.convert_to_numpy(model([source, target]))


@pytest.mark.once
def test_the_forward_pass_is_the_papers():
    model = build()
    weights = {v.path: np.array(v) for v in model.trainable_variables}
    expected = oracles_seq2seq.logits(weights, SOURCE, TARGET, heads=2)
    np.testing.assert_allclose(logits(model), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.once
def test_one_table_serves_three_times():
    model = build()
    paths = [v.path for v in model.variables if 13 in v.shape]
    assert paths == ["Embedding-Token/embeddings"]
    table = model.get_layer("Embedding-Token").embeddings
    before = logits(model)
    changed = np.array(table)
    changed[3] += 1  # a token of the first source only; as an output it is in both
    table.assign(changed)
    moved = np.abs(logits(model) - before) > 1e-6
    assert moved[0].all() and moved[1, :, 3].all()
    assert not np.delete(moved[1], 3, axis=1).any()


@pytest.mark.once
def test_padding_changes_nothing():
    model = build(encodings=["log_n"], cross_encodings=["log_n"])
    expected = logits(model)
    longer = np.pad(SOURCE, [(0, 0), (0, 3)]), np.pad(TARGET, [(0, 0), (0, 2)])
    np.testing.assert_allclose(logits(model, *longer)[:, :5], expected, rtol=1e-5, atol=1e-6)
    alone = logits(model, SOURCE[:1, :4], TARGET[:1])
    np.testing.assert_allclose(alone, expected[:1], rtol=1e-5, atol=1e-6)


@pytest.mark.once
def test_a_token_is_seen_from_itself_on():
    model = build()
    changed = TARGET.copy()
    changed[0, 3] = 11
    moved = np.abs(logits(model, target=changed) - logits(model)).max(-1) > 1e-5
    assert moved[0].tolist() == [False] * 3 + [True] * 2 and not moved[1].any()


@pytest.mark.once  # the searches of test_generation.py step through a cache on every backend
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "absolute_positions": False,
            "encodings": ["rotary"],
            "decoder_encodings": ["alibi", "log_n"],
            "cross_encodings": ["rotary", "log_n"],
        },
        {"encodings": ["t5"], "cross_encodings": ["t5"], "hidden_act": ["silu", "linear"]},
    ],
)
def test_a_cache_says_what_a_full_pass_says(changes):
    model = build(**changes)
    parts = EncoderDecoder(model.layers)
    memory, mask = parts.encode(ops.convert_to_tensor(SOURCE)), SOURCE != 0
    caches = parts.make_caches(2, 6, 5)
    rows = []
    for place in range(5):
        token = ops.convert_to_tensor(TARGET[:, place : place + 1])
        row, caches = parts.step(token, place, caches, memory, mask)
        rows.append(ops.convert_to_numpy(row))
        memory, mask = memory[:, :0], mask[:, :0]
    np.testing.assert_allclose(np.stack(rows, 1), logits(model), rtol=1e-4, atol=1e-5)


@pytest.mark.once
def test_it_trains_as_published_and_is_saved(tmp_path):
    """Dropout, Noam, label smoothing, padding: a tiny set of pairs is learnt by heart."""
    model = build_encoder_decoder(
        **SIZES | {"hidden_size": 16, "num_hidden_layers": 1, "encodings": ["rotary"]}
    )
    loss = SmoothedSparseCategoricalCrossentropy(0.1, from_logits=True, ignore_class=0)
    rate = Noam(16, warmup_steps=10, factor=0.25)
    model.compile(keras.optimizers.Adam(rate, beta_2=0.98, epsilon=1e-9), loss)
    pairs = [SOURCE, TARGET[:, :-1]], TARGET[:, 1:]
    losses = model.fit(*pairs, epochs=50, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2
    answer = logits(model, target=TARGET[:, :-1]).argmax(-1)
    real = TARGET[:, 1:] != 0
    assert (answer == TARGET[:, 1:])[real].all()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits(again), logits(model))
    assert sum(13 in v.shape for v in again.trainable_variables) == 1


@pytest.mark.once
def test_sizes_that_are_no_model_are_refused():
    with pytest.raises(ValueError, match="hidden_size=9 does not divide into"):
        build(hidden_size=9)
    with pytest.raises(ValueError, match="`hidden_size` must be a positive integer"):
        build(hidden_size=0)
    with pytest.raises(ValueError, match="`num_hidden_layers` must be a positive integer"):
        build(num_hidden_layers=0)
    with pytest.raises(ValueError, match="no decoder.*`build_encoder_decoder`"):
        EncoderDecoder([keras.layers.Dense(1)])
