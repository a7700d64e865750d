"""Our encoder in the tasks of KerasHub."""

import keras
import numpy as np
import pytest

import keras_posenc
from keras_posenc.models.model import model_on

keras_hub = pytest.importorskip("keras_hub")
from keras_posenc.adapters import as_backbone  # noqa: E402
from keras_posenc.adapters.keras_hub import features_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] w1 w2 w3 w4 w5 w6 w7".split()


@pytest.fixture
def model(tiny_config):
    return keras_posenc.build_transformer_model(
        tiny_config, extension="hierarchical", max_position=64, with_pool=True
    )


def inputs_of(length):
    ids = np.random.default_rng(0).integers(5, 12, (2, length)).astype("int32")
    mask = np.ones_like(ids)
    mask[1, length // 2 :] = 0
    return {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": mask}


def test_a_backbone_has_the_models_numbers_and_hides_padding(model):
    backbone = as_backbone(model)
    inputs = inputs_of(40)
    found = backbone.predict(inputs, verbose=0)
    ids = inputs["token_ids"] * inputs["padding_mask"]
    padded = {"token_ids": ids, "segment_ids": 0 * ids}
    features = model_on(model, features_of(model), "features").predict(padded, verbose=0)
    np.testing.assert_allclose(found["sequence_output"], features, atol=1e-6)
    np.testing.assert_allclose(found["pooled_output"], model.predict(padded, verbose=0), atol=1e-6)
    hidden = {**inputs, "token_ids": np.where(inputs["padding_mask"], inputs["token_ids"], 7)}
    again = backbone.predict(hidden, verbose=0)
    np.testing.assert_array_equal(again["pooled_output"], found["pooled_output"])
    seen = backbone.predict({**hidden, "padding_mask": np.ones_like(ids)}, verbose=0)
    assert np.abs(seen["pooled_output"] - found["pooled_output"]).max() > 1e-4


def test_a_classifier_trains_a_stretched_model(model, tmp_path):
    tokenizer = keras_hub.models.BertTokenizer(WORDS, lowercase=True)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=40)
    backbone = as_backbone(model)
    classifier = keras_hub.models.BertTextClassifier(
        backbone, num_classes=2, preprocessor=preprocessor
    )
    classifier.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    table = model.transformer.layers["Embedding-Position"]
    before = [np.array(weight) for weight in table.weights]
    texts = [" ".join(["w1 w2"] * 15), " ".join(["w6 w7"] * 15)]
    classifier.fit(texts, np.array([0, 1]), verbose=0)
    after = [np.array(weight) for weight in table.weights]
    assert any(np.abs(x - y).max() > 0 for x, y in zip(before, after, strict=True))
    expected = classifier.predict(texts, verbose=0)
    backbone.save(tmp_path / "backbone.keras")
    again = keras.saving.load_model(tmp_path / "backbone.keras")
    inputs = inputs_of(40)
    np.testing.assert_allclose(
        again.predict(inputs, verbose=0)["pooled_output"],
        backbone.predict(inputs, verbose=0)["pooled_output"],
        atol=1e-6,
    )
    assert expected.shape == (2, 2)


def test_masked_tokens_are_predicted_with_the_shared_table(model):
    backbone = as_backbone(model)
    task = keras_hub.models.BertMaskedLM(backbone)
    positions = np.array([[1, 2], [1, 3]])
    found = task.predict({**inputs_of(20), "mask_positions": positions}, verbose=0)
    assert found.shape == (2, 2, backbone.vocabulary_size)


@pytest.mark.once
def test_masked_language_modelling_trains_the_extended_positions(model):
    tokenizer = keras_hub.models.BertTokenizer(WORDS, lowercase=True)
    preprocessor = keras_hub.models.BertMaskedLMPreprocessor(
        tokenizer, sequence_length=40, mask_selection_length=8, mask_selection_rate=0.5
    )
    task = keras_hub.models.BertMaskedLM(as_backbone(model), preprocessor=preprocessor)
    task.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    layers = [model.transformer.layers[f"Embedding-{name}"] for name in ("Token", "Position")]
    before = [np.array(layer.weights[0]) for layer in layers]
    texts = [" ".join(["w1 w2"] * 19), " ".join(["w6 w7"] * 19)]
    history = task.fit(texts, batch_size=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    for layer, old in zip(layers, before, strict=True):
        assert np.abs(np.array(layer.weights[0]) - old).max() > 1e-4


def test_what_is_no_model_of_ours_is_refused(tiny_config):
    unpadded = keras_posenc.build_transformer_model({**tiny_config, "pad_token_id": None})
    for model, name in ((keras.Sequential(), "Sequential"), (unpadded, "TransformerModel")):
        message = f"model of `build_transformer_model` with a padding token. Received: <{name}"
        with pytest.raises(ValueError, match=message):
            as_backbone(model)


def test_heads_are_refused(tiny_config):
    with pytest.raises(ValueError, match="needs a model without heads, or with_pool=True alone"):
        as_backbone(keras_posenc.build_transformer_model(tiny_config, with_nsp=True, with_mlm=True))
