"""Checkpoints of models with LoRA: what it adds is merged into the weights."""

import keras
import numpy as np
import pytest

from keras_posenc import build_transformer_model, save_checkpoint
from keras_posenc.heads import classifier

INPUTS = {"token_ids": np.array([[2, 7, 8, 3]]), "segment_ids": np.zeros((1, 4), int)}


def adapted(model):
    """Turns LoRA on in every layer that has it, with factors that change what the model says."""
    rng, count = np.random.default_rng(0), 0
    for layer in model._flatten_layers():
        if hasattr(layer, "enable_lora"):
            layer.enable_lora(2, lora_alpha=3)
            for factor in layer.trainable_weights:
                if "lora" in factor.name:
                    factor.assign(rng.normal(size=factor.shape, scale=0.1))
            count += 1
    return count


def test_a_checkpoint_has_the_sums(pretrained, tmp_path):
    before = build_transformer_model(pretrained).predict(INPUTS, verbose=0)
    encoder = build_transformer_model(pretrained)
    assert adapted(encoder) > 6
    expected = encoder.predict(INPUTS, verbose=0)
    assert np.abs(expected - before).max() > 0.01
    save_checkpoint(encoder, tmp_path)
    again = build_transformer_model(tmp_path)
    np.testing.assert_allclose(again.predict(INPUTS, verbose=0), expected, atol=1e-4)


def test_so_has_that_of_a_head(pretrained, tmp_path):
    head = {"head": "sequence_classification"}
    model = build_transformer_model(pretrained, label_names=["a", "b", "c"], **head)
    adapted(model)
    expected = model.predict(INPUTS, verbose=0)
    save_checkpoint(model, tmp_path)
    again = build_transformer_model(tmp_path, **head)
    np.testing.assert_allclose(again.predict(INPUTS, verbose=0), expected, atol=1e-4)


def test_a_keras_file_has_them_too(pretrained, tmp_path):
    model = classifier(build_transformer_model(pretrained), 3)
    adapted(model)
    expected = model.predict(INPUTS, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(INPUTS, verbose=0), expected, atol=1e-4)
    assert not any("lora" in v.path for v in again.weights if "Transformer" in v.path)


@pytest.mark.once
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantized_weights_are_still_refused(pretrained, tmp_path):
    encoder = build_transformer_model(pretrained)
    encoder.quantize("int8")
    adapted(encoder)
    with pytest.raises(ValueError, match="weights have no place in a bert checkpoint"):
        save_checkpoint(encoder, tmp_path)
