"""Files of a whole model in other formats than .keras, and copies of a model."""

import keras
import numpy as np
import pytest

from keras_posenc import (
    LearnedPositionEmbedding,
    PositionalAttention,
    build_transformer_model,
    save_checkpoint,
)
from keras_posenc.checkpoints.keras_file import load_keras
from keras_posenc.heads import classifier

pytestmark = pytest.mark.once

SIZES = {"vocab_size": 11, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 4, "hidden_act": "relu", "max_position": 8}


@pytest.fixture
def model():
    return classifier(build_transformer_model(dict(SIZES)), 2)


@pytest.mark.parametrize("name", ["model.h5", "model.hdf5"])
def test_a_model_is_not_saved_to_a_file_that_cannot_be_loaded(tmp_path, model, name):
    path = tmp_path / name
    path.write_text("old")
    with pytest.raises(ValueError, match=r"cannot be loaded .* save the model as \.keras.*Receive"):
        model.save(path)
    assert path.read_text() == "old"
    with pytest.raises(ValueError, match=r"save the model as \.keras"):
        keras.saving.save_model(model, path)
    around = keras.Model(model.inputs, keras.layers.Dense(2)(model(model.inputs)))
    with pytest.raises(ValueError, match=r"save the model as \.keras"):
        around.save(path)


def test_files_that_go_on_working(tmp_path, model):
    model.save_weights(tmp_path / "a.weights.h5")
    before = model.get_weights()
    model.set_weights([0 * each for each in before])
    model.load_weights(tmp_path / "a.weights.h5")
    model.save(tmp_path / "a.keras")
    for each in (model, keras.saving.load_model(tmp_path / "a.keras")):
        assert all(map(np.array_equal, each.get_weights(), before))


def test_a_model_of_our_layers_in_an_h5_file(tmp_path):
    inputs = keras.Input((None, 8))
    x = LearnedPositionEmbedding(6, 8)(inputs)
    plain = keras.Model(inputs, PositionalAttention(2, 4, encodings=["rotary"])(x, x))
    plain.save(tmp_path / "plain.h5")
    values = np.random.default_rng(0).normal(size=(2, 5, 8))
    again = keras.saving.load_model(tmp_path / "plain.h5", compile=False)
    one, other = (each.predict(values, verbose=0) for each in (plain, again))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_clone_has_an_error_that_fits_and_the_remedy_works(tmp_path):
    model = build_transformer_model(dict(SIZES))
    clone = keras.models.clone_model(model)
    with pytest.raises(TypeError, match=r"clone_model loses it. Make the copy by type\(model\).fr"):
        save_checkpoint(clone, tmp_path)
    copy = type(model).from_config(model.get_config())
    copy.set_weights(clone.get_weights())
    save_checkpoint(copy, tmp_path)
    again = build_transformer_model(tmp_path)
    assert all(map(np.array_equal, again.get_weights(), clone.get_weights()))


def test_what_is_no_model_is_refused(tmp_path):
    dense = keras.layers.Dense(2)
    dense.build((None, 3))
    keras.saving.save_model(dense, tmp_path / "dense.keras")
    with pytest.raises(ValueError, match=r"dense\.keras holds a Dense, not a model\. Save a keras"):
        load_keras(tmp_path / "dense.keras")
