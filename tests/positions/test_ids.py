import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc import PaddedPositionIds
from keras_posenc.positions import check_positions, consecutive

TOKENS = np.array([[1, 1, 7, 8, 9], [7, 8, 1, 1, 1], [7, 1, 8, 9, 1], [1, 1, 1, 1, 1]])
EXPECTED = np.array([[0, 0, 0, 1, 2], [0, 1, 1, 1, 1], [0, 0, 1, 2, 2], [0, 0, 0, 0, 0]])


def test_padded_ids_count_the_real_tokens():
    ids = PaddedPositionIds(pad_token_id=1)(TOKENS)
    assert keras.backend.standardize_dtype(ids.dtype) == "int32"
    np.testing.assert_array_equal(ops.convert_to_numpy(ids), EXPECTED)


def test_padded_ids_inside_a_model_are_int32_under_any_policy():
    tokens = keras.Input((None,), dtype="int32")
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        ids = PaddedPositionIds(pad_token_id=1)(tokens)
        long = np.full((1, 600), 7)
        result = keras.Model(tokens, ids).predict(long, verbose=0)
    finally:
        keras.config.set_dtype_policy("float32")
    assert ids.dtype == "int32"
    np.testing.assert_array_equal(result[0], np.arange(600))


def test_consecutive_ids_start_anywhere():
    np.testing.assert_array_equal(ops.convert_to_numpy(consecutive(4, 300)), [300, 301, 302, 303])


def test_check_says_value_bound_and_remedy():
    ids = ops.convert_to_tensor(np.array([[0, 9]]))
    assert check_positions(ids, 10, "") is ids
    with pytest.raises(ValueError, match="Position 9 does not exist: .* from 0 to 8. Do this."):
        check_positions(ids, 9, "Do this.")
    with pytest.raises(ValueError, match="Position -3 does not exist"):
        check_positions(ids - 3, 9, "")
