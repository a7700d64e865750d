"""Ids made of the tokens, against loops over strings: digits by place, tokens by segment."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import LearnedPositionEmbedding
from keras_posenc.positions import AbacusPositionIds, CoupledPositionIds, SegmentPositionIds

SYMBOLS = "0123456789+= "
PAD = SYMBOLS.index(" ")
SUMS = ["653+49=207", "1+2=3     ", "  12345=54", "+=++==+=+=", "1234567890", "         7"]


def tokens_of(texts):
    return np.array([[SYMBOLS.index(c) for c in text] for text in texts], "int32")


def numbers_in(text):
    """(start, end) of each run of digits."""
    cuts = [-1, *(i for i, c in enumerate(text) if not c.isdigit()), len(text)]
    return [(a + 1, b) for a, b in zip(cuts, cuts[1:], strict=False) if b > a + 1]


def by_loop(text, coupled):
    ids = [0] * len(text)
    for start, end in numbers_in(text):
        backwards = coupled and "=" not in text[:start]
        for i in range(start, end):
            ids[i] = end - i if backwards else i - start + 1
    return ids


def layer_of(coupled, **arguments):
    if coupled:
        return CoupledPositionIds(range(10), SYMBOLS.index("="), **arguments)
    return AbacusPositionIds(range(10), **arguments)


@pytest.mark.parametrize("coupled", [False, True])
def test_digits_of_equal_value_have_equal_ids(coupled):
    layer, tokens = layer_of(coupled), tokens_of(SUMS)
    found = layer(tokens)
    assert keras.backend.standardize_dtype(found.dtype) == "int32"
    expected = [by_loop(text, coupled) for text in SUMS]
    np.testing.assert_array_equal(ops.convert_to_numpy(found), expected)
    # In a functional model whose length is unknown, cut short, and without gradients.
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, layer(inputs))
    np.testing.assert_array_equal(ops.convert_to_numpy(model(tokens[:, :7]))[0], expected[0][:7])


@pytest.mark.once
def test_the_answer_reads_nothing_that_comes_later():
    """A model that writes the answer digit by digit has the ids of the full text."""
    layer, text = layer_of(True), "653+49=207"
    full = ops.convert_to_numpy(layer(tokens_of([text])))[0]
    for length in range(text.index("=") + 1, len(text)):
        part = ops.convert_to_numpy(layer(tokens_of([text[:length]])))[0]
        np.testing.assert_array_equal(part, full[:length])


@pytest.mark.once
@pytest.mark.parametrize("coupled", [False, True])
def test_offsets_shift_all_numbers_of_a_sequence_alike(coupled):
    layer, tokens = layer_of(coupled, max_offset=3, seed=0), tokens_of(["653+49=207"] * 400)
    plain = np.array(by_loop("653+49=207", coupled))
    shifts = ops.convert_to_numpy(layer(tokens, training=True)) - plain
    counted = shifts if coupled else shifts[:, plain > 0]
    assert (counted == counted[:, :1]).all()
    assert set(counted[:, 0]) == {0, 1, 2, 3}
    assert coupled or not shifts[:, plain == 0].any()
    assert (ops.convert_to_numpy(layer(tokens)) == plain).all()


def segments_by_loop(row, separators, pad):
    places, segments, place, segment = [], [], 0, 0
    for token in row:
        places.append(max(place - (token == pad), 0))
        segments.append(segment)
        place += token != pad
        if token in separators:
            place, segment = 0, segment + 1
    return places, segments


def test_segments_end_with_their_separators():
    tokens = np.array(
        [[5, 6, 9, 7, 9, 8, 8, 8], [0, 0, 5, 9, 9, 6, 6, 0], [5] * 8, [9] * 8], "int32"
    )
    layer = SegmentPositionIds([9, 4], pad_token_id=0)
    found = [ops.convert_to_numpy(x) for x in layer(tokens)]
    expected = [segments_by_loop(row, (9, 4), 0) for row in tokens.tolist()]
    np.testing.assert_array_equal(np.stack(found, axis=1), expected)
    clipped = SegmentPositionIds([9], max_position=2)(tokens)[0]
    np.testing.assert_array_equal(ops.convert_to_numpy(clipped)[2], [0, 1, 1, 1, 1, 1, 1, 1])


@pytest.mark.once
@pytest.mark.parametrize(
    "layer",
    [
        AbacusPositionIds([1, 2], max_offset=4, seed=1),
        CoupledPositionIds([1, 2], 3, max_offset=4, seed=1),
        SegmentPositionIds([1, 2], max_position=4, pad_token_id=0),
    ],
)
def test_configs_are_complete(layer, tmp_path):
    config = json.loads(json.dumps(layer.get_config()))
    assert type(layer).from_config(config).get_config() == layer.get_config()
    inputs = keras.Input((None,), dtype="int32")
    ids = layer(inputs)
    ids = ids[0] if isinstance(ids, tuple) else ids
    x = keras.layers.Embedding(4, 4)(inputs)
    model = keras.Model(inputs, LearnedPositionEmbedding(9, 4)(x, ids))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    tokens = np.array([[1, 2, 3, 1, 0]])
    np.testing.assert_allclose(
        *(ops.convert_to_numpy(m(tokens)) for m in (again, model)), atol=1e-6
    )


@pytest.mark.once
def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`digit_token_ids` must have at least one token id"):
        AbacusPositionIds([])
    with pytest.raises(ValueError, match="`max_offset` must be an integer of at least 0"):
        AbacusPositionIds([1], max_offset=-1)
    with pytest.raises(ValueError, match="`answer_token_id` must be the token between"):
        CoupledPositionIds([1, 2], 2)
    with pytest.raises(ValueError, match="`separator_token_ids` must have at least one token id"):
        SegmentPositionIds([])
    with pytest.raises(ValueError, match="`pad_token_id` must be another token than those"):
        SegmentPositionIds([1], pad_token_id=1)
    with pytest.raises(ValueError, match="`max_position` must be a positive integer. Received: 0"):
        SegmentPositionIds([1], max_position=0)
    for layer in (AbacusPositionIds([1]), CoupledPositionIds([1], 2), SegmentPositionIds([1])):
        with pytest.raises(ValueError, match="expected ndim=2, found ndim=1"):
            layer(np.array([1, 2, 3]))
