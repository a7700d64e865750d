"""Beam search, step by step."""

import keras
import numpy as np
import pytest
from keras import ops
from oracles_decoding import Search

from keras_posenc import Generator, PositionalAttention
from keras_posenc.models.generation.search import Beams


@pytest.mark.once
def test_each_beam_knows_what_itself_has_written():
    """Beams take each other's places, and a penalty of repetitions goes with the text."""
    search = Beams(max_length=6, beams=3, repetition_penalty=1.5)
    rng = np.random.default_rng(0)
    state = search.start(6, ops.zeros((6, 9), "bool"), None)
    for place in range(6):
        logits = ops.convert_to_tensor(rng.normal(size=(6, 9)).astype("float32"))
        state, _ = search.grow(place, logits, state, ())
        written = ops.convert_to_numpy(state["tokens"])[:, : place + 1]
        seen = (written[..., None] == np.arange(9)).any(axis=1)
        np.testing.assert_array_equal(ops.convert_to_numpy(state["seen"]), seen)


@pytest.mark.once
def test_a_search_for_short_texts_tries_the_next_length():
    """With a negative alpha, the length that suits a beginning best is the next one, not the last:
    of a model of one token after another, the end is likely only after the token 2."""
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    table, attention = keras.layers.Embedding(3, 3), PositionalAttention(1, 2)
    x = table(tokens)
    model = keras.Model(tokens, keras.layers.Add()([x, attention(x, x, use_causal_mask=True)]))
    attention.set_weights([0 * weight for weight in attention.get_weights()])
    table.set_weights([np.log([[0.9, 0.05, 0.05], [0.06, 0.04, 0.9], [0.9, 0.05, 0.05]])])
    generator = Generator(model, end_id=0, max_length=64, beams=2, alpha=-1.5)
    assert generator.predict([[1]], verbose=0)[0, :3].tolist() == [2, 0, 0]


@pytest.mark.once
@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.parametrize("end_ids", [(0,), (0, 3)])
def test_a_search_finds_the_texts_of_its_definition(beams, end_ids):
    """Over random tables: ends inside and below the K likeliest, and ends of the last place."""
    for seed in range(60):
        search = Beams(max_length=4, end_ids=end_ids, beams=beams, n=2, alpha=seed % 3 / 2)
        table = np.random.default_rng(seed).normal(size=(4, 6, 6), scale=1.5).astype("float32")
        table[..., list(end_ids)] += seed % 2 * 2  # of many beginnings all ends are likely
        state = search.start(beams, None, None)
        for place in range(search.max_length):
            tokens = ops.convert_to_numpy(state["tokens"])
            last = tokens[:, place - 1] if place else np.ones(beams, int)
            logits = ops.convert_to_tensor(table[place, last])
            state, _ = search.grow(place, logits, state, ())
            if not bool(search.goes_on(place, state)):
                break
        found = ops.convert_to_numpy(search.result(state))[0].tolist()
        rows = table.astype("float64")
        expected = Search(lambda text: rows[len(text), text[-1] if text else 1], search).texts()  # noqa: B023
        assert found == expected, seed
