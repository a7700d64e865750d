"""What a generator takes: a model, and numbers of NumPy, as ids and settings have them."""

import keras
import numpy as np
import pytest

from keras_posenc.models import Generator, build_transformer_model


def test_numbers_of_numpy_are_as_those_of_python(tmp_path):
    numbers = {"max_length": 4, "end_id": [2, 3], "pad_id": 0, "top_k": 5, "n": 2, "seed": 7}
    given = {name: np.int64(value) for name, value in numbers.items() if name != "end_id"}
    given |= {"end_id": list(np.array([2, 3])), "temperature": np.float32(0.5)}
    sizes = {"vocab_size": 13, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = build_transformer_model(model="gpt2", max_position=32, with_mlm="linear", **sizes)
    prompts = [[4, 5, 6]]
    expected = Generator(model, temperature=0.5, **numbers).predict(prompts, verbose=0)
    np.testing.assert_array_equal(Generator(model, **given).predict(prompts, verbose=0), expected)
    Generator(model, **given).save(tmp_path / "g.keras")
    loaded = keras.saving.load_model(tmp_path / "g.keras")
    np.testing.assert_array_equal(loaded.predict(prompts, verbose=0), expected)


@pytest.mark.once
def test_a_generator_takes_a_model():
    with pytest.raises(TypeError, match="`model` must be a model of Keras. Received: 'minilm'"):
        Generator("minilm")
