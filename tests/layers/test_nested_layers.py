import keras
import numpy as np
import pytest
from keras import ops

from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.keras_support.nested_layers import Stored, initializer_of_part

RANDOM = keras.initializers.TruncatedNormal(stddev=0.02)


def values(**stored):
    """Initializer of the layer "here", of which a checkpoint has `stored`."""

    def read(name, shape):
        array = stored.get(name.removeprefix("here/").replace("/", "_"))
        return array if array is not None and array.shape == shape else None

    return Stored(0.02, read, "here")


def numbers(layer):
    return {w.path.split("/", 1)[-1]: ops.convert_to_numpy(w) for w in layer.weights}


def test_a_layer_is_made_of_the_stored_numbers_and_random_ones():
    key = np.arange(8 * 6, dtype="float32").reshape(8, 2, 3)
    wrong = np.ones((8, 6), "float32")
    stored = values(key_kernel=key, value_kernel=wrong)
    layer = PositionalAttention(2, 3, kernel_initializer=stored)
    layer.build((None, None, 8), (None, None, 8))
    made = numbers(layer)
    np.testing.assert_array_equal(made["key/kernel"], key)
    others = [made[f"{name}/kernel"] for name in ("query", "value", "attention_output")]
    assert all(0 < np.abs(each).max() < 0.05 for each in others)
    assert not np.array_equal(others[0], others[1])  # a draw of its own each


def test_stored_numbers_take_the_dtype_of_the_weight():
    array = np.float32([[1.001, 2]])
    made = Stored(0.02, lambda *_: array, "kernel")((1, 2), "bfloat16")
    assert keras.backend.standardize_dtype(made.dtype) == "bfloat16"
    np.testing.assert_array_equal(ops.convert_to_numpy(ops.cast(made, "float32")), [[1, 2]])


@pytest.mark.once
def test_what_is_made_again_from_a_config_is_random():
    saved = keras.initializers.serialize(values(kernel=np.ones((2, 2), "float32")))
    again = keras.initializers.deserialize(saved)
    assert type(again) is keras.initializers.TruncatedNormal and again.stddev == 0.02


@pytest.mark.once
def test_a_plain_initializer_is_cloned_for_each_part():
    one, other = (
        initializer_of_part(RANDOM, "query/kernel"),
        initializer_of_part(RANDOM, "key/kernel"),
    )
    assert one is not RANDOM and one is not other and one.stddev == 0.02


@keras.saving.register_keras_serializable(package="test")
class Training(keras.layers.Layer):
    """Adds 1 in training."""

    def call(self, x, training=False):
        return x + 1.0 if training else x


def test_a_norm_of_heads_knows_whether_it_is_trained():
    layer = PositionalAttention(2, 4, head_norm=Training())
    x = np.random.default_rng(0).normal(size=(1, 3, 8)).astype("float32")
    found = [keras.ops.convert_to_numpy(layer(x, x, training=each)) for each in (False, True)]
    assert np.abs(found[1] - found[0]).max() > 1e-3
