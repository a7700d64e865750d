"""Position encodings inside pretrained models: any of them, per layer, saved, trained, refused."""

import json

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG
from keras import ops

from keras_posenc import (
    Encoding,
    PaddedPositionIds,
    build_transformer_model,
    save_checkpoint,
)
from keras_posenc.encodings import ENCODINGS

TOKENS = np.random.default_rng(0).integers(1, 40, (2, 10)).astype("int32")
INPUTS = {"token_ids": TOKENS, "segment_ids": np.zeros_like(TOKENS)}


def outputs(model, inputs=INPUTS):
    return ops.convert_to_numpy(model(inputs, training=False))


def attention(model, layer):
    return model.transformer.layers[f"Transformer-{layer}-MultiHeadSelfAttention"]


@pytest.mark.once
def test_a_pretrained_model_takes_encodings_with_its_table(minilm):
    plain = build_transformer_model(minilm)
    neutral = build_transformer_model(minilm, encodings=[{"name": "temperature", "value": 1.0}])
    np.testing.assert_array_equal(outputs(plain), outputs(neutral))
    learned = build_transformer_model(minilm, encodings=["rotary", "ssmax"])
    assert np.abs(outputs(plain) - outputs(learned)).max() > 1e-2
    assert plain.transformer.account.loaded == learned.transformer.account.loaded
    prefix = "Transformer-0-MultiHeadSelfAttention/encoding_1/"
    assert any(name.startswith(prefix) for name in learned.transformer.account.initialised)


@pytest.mark.once
def test_positions_may_be_left_to_the_encodings(minilm):
    """Without the table and without an encoding a reordered text is the same set of features."""
    backwards = {name: x[:, ::-1] for name, x in INPUTS.items()}
    blind = build_transformer_model(minilm, absolute_positions=False)
    assert "Embedding-Position" not in blind.transformer.layers
    np.testing.assert_allclose(outputs(blind, backwards)[:, ::-1], outputs(blind), atol=1e-4)
    seeing = build_transformer_model(minilm, absolute_positions=False, encodings=["rotary"])
    assert np.abs(outputs(seeing, backwards)[:, ::-1] - outputs(seeing)).max() > 1e-2


@pytest.mark.once
def test_layers_may_differ(tiny_config):
    model = build_transformer_model(
        tiny_config, encodings=[["rotary", {"name": "window", "window": 4}], ["log_n"]]
    )
    names = [[type(e).__name__ for e in attention(model, i).encodings] for i in range(2)]
    assert names == [["RotaryEmbedding", "Window"], ["LogN"]]


@pytest.mark.once
def test_an_instance_is_copied_for_every_layer(tiny_config):
    encoding = ENCODINGS["ssmax"]()
    model = build_transformer_model(tiny_config, encodings=[encoding])
    copies = [attention(model, i).encodings[0] for i in range(2)]
    assert len({id(e) for e in [encoding, *copies]}) == 3


@pytest.mark.once
def test_ids_given_reach_the_encodings(tiny_config):
    """Rotary is relative: ids three apart from the usual ones change nothing, spread ids do."""
    model = build_transformer_model(
        tiny_config, custom_position_ids=True, absolute_positions=False, encodings=["rotary"]
    )
    for weight in model.weights:
        weight.assign(np.random.default_rng(1).normal(size=weight.shape) * 0.3)
    ids = np.arange(10, dtype="int32")[None].repeat(2, 0)
    usual, shifted, spread = (
        outputs(model, {**INPUTS, "position_ids": x}) for x in (ids, ids + 3, ids * 3)
    )
    np.testing.assert_allclose(shifted, usual, atol=1e-5)
    assert np.abs(spread - usual).max() > 1e-3


@pytest.mark.once
def test_a_layer_may_make_the_ids(tiny_config):
    model = build_transformer_model(
        tiny_config, encodings=["rotary"], position_ids=PaddedPositionIds(pad_token_id=0)
    )
    padded = {name: np.pad(x, [(0, 0), (2, 0)]) for name, x in INPUTS.items()}
    np.testing.assert_allclose(outputs(model, padded)[:, 2:], outputs(model), atol=1e-5)


@pytest.mark.once
def test_saved_trained_and_taken_as_a_checkpoint(tiny_config, tmp_path):
    encodings = ["rotary", {"name": "kerple", "kind": "log"}]
    model = build_transformer_model(tiny_config, encodings=encodings)
    model.compile("adam", "mse")
    model.fit(INPUTS, np.ones((2, 10, 16)), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(outputs(again), outputs(model), atol=1e-6)
    rebuilt = build_transformer_model(tiny_config, tmp_path / "model.keras", encodings=encodings)
    np.testing.assert_allclose(outputs(rebuilt), outputs(model), atol=1e-6)
    again.fit(INPUTS, np.ones((2, 10, 16)), verbose=0)


@pytest.mark.once
def test_errors(tiny_config, tmp_path):
    def refused(error, message, **arguments):
        with pytest.raises(error, match=message):
            build_transformer_model(tiny_config, **arguments)

    refused(ValueError, "Unknown encoding 'rotery': did you mean 'rotary'", encodings=["rotery"])
    refused(TypeError, "a list of names, dicts or encodings.*'rotary'", encodings="rotary")
    refused(ValueError, "needs 2 lists, one for each layer", encodings=[["rotary"]])
    refused(ValueError, "needs 2 lists", encodings=[["rotary"], "rotary"])
    refused(
        ValueError, "ALiBi is for causal attention, which is application='lm'", encodings=["alibi"]
    )
    refused(
        ValueError, "nothing to extend. Received: extension='hierarchical'",
        absolute_positions=False, hierarchical_position=True,
    )  # fmt: skip
    refused(ValueError, "a layer that makes ids.*Received: 5", position_ids=5)
    refused(
        ValueError, "goes without `custom_position_ids`",
        position_ids=PaddedPositionIds(), custom_position_ids=True,
    )  # fmt: skip
    caches = {"Transformer-0-MultiHeadSelfAttention": [None, None]}
    refused(ValueError, "have no position for them", encodings=["rotary"], attention_caches=caches)
    for arguments, words in (
        ({"encodings": ["kerple"]}, "no place in a bert checkpoint, such as Transformer-0"),
        ({"encodings": [Unnamed()]}, "Unnamed has no name among those of `ENCODINGS`: save"),
        ({"absolute_positions": False}, "no table: save it"),
    ):
        model = build_transformer_model(tiny_config, **arguments)
        with pytest.raises(ValueError, match=f"{words}.*as .keras"):
            save_checkpoint(model, tmp_path)


class Unnamed(Encoding):
    def bias(self, q, grid):
        return ops.zeros((1, 1, 1, 1))


@pytest.mark.once
@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_a_checkpoint_names_the_encodings_of_each_layer(tiny_config, tmp_path, format):
    window = {"name": "window", "window": 4, "global_tokens": 1}
    model = build_transformer_model(tiny_config, encodings=[[window, "log_n"], []])
    for weight in model.weights:
        weight.assign(np.random.default_rng(1).normal(size=weight.shape) * 0.3)
    save_checkpoint(model, tmp_path, format)
    again = build_transformer_model(tmp_path)
    np.testing.assert_array_equal(outputs(again), outputs(model))
    assert again.transformer.config.saved_encodings == [[window, {"name": "log_n"}], []]
    assert again.transformer.config.model_type == "bert"
    plain = build_transformer_model(tmp_path, encodings=[])
    assert np.abs(outputs(plain) - outputs(model)).max() > 1e-3
    name = {"huggingface": "config.json", "google": "bert_config.json"}[format]
    assert json.loads((tmp_path / name).read_text())["model_type"] == "keras_posenc-bert"


@pytest.mark.once
@pytest.mark.parametrize(
    "wrong",
    [
        "rotary",
        [{"class_name": "Own"}],
        [[["t5"]]],
        [{"name": "t5", "shared": {"class_name": "Own"}}],
        [True],
    ],
)
def test_a_config_names_known_encodings_alone(tiny_config, wrong):
    with pytest.raises(ValueError, match="`encodings` must be a list of names and dicts of num"):
        build_transformer_model({**tiny_config, "encodings": wrong})


@pytest.mark.once
def test_shared_layers_have_the_encodings_of_all_their_blocks():
    albert = {**TINY_CONFIG, "model_type": "albert", "embedding_size": 8, "num_hidden_groups": 1}
    build_transformer_model(albert, encodings=[["rotary"], ["rotary"]])
    expected = "`encodings` of block 1 must be those of its layer .*Received: ..T5Bias"
    with pytest.raises(ValueError, match=expected):
        build_transformer_model(albert, encodings=[["rotary"], ["t5"]])
    first = build_transformer_model(TINY_CONFIG, return_keras_model=False)
    with pytest.raises(ValueError, match="of block 0 must be those of its layer .*: ... Received"):
        build_transformer_model(TINY_CONFIG, layers=first.layers, encodings=["rotary"])


@pytest.mark.once
def test_other_distances_keep_what_they_were_given():
    """And take the rest from the rotary encoding of the family."""
    sizes = dict(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    sizes |= {"intermediate_size": 9, "model_type": "roformer", "rope_theta": 500.0}
    for given, base in (({}, 500.0), ({"base": 77.0}, 77.0)):
        model = build_transformer_model(sizes, encodings=[{"name": "rerope", "window": 3, **given}])
        (encoding,) = model.get_layer("Transformer-0-MultiHeadSelfAttention").encodings
        assert (encoding.base, encoding.layout, encoding.window) == (base, "interleaved", 3)
