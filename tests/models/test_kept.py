"""What a `.keras` file keeps of its transformer: enough to write a checkpoint, and train on."""

import json
import pathlib
import re

import keras
import numpy as np
import pytest
from keras import ops
from keras.src.saving.serialization_lib import ObjectSharingScope
from published import SIZES, publish, token_ids

from keras_posenc import (
    RotaryEmbedding,
    build_transformer_model,
    embedder,
    load_finetuned,
    save_checkpoint,
)
from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.encodings import spec_of
from keras_posenc.heads import classifier
from keras_posenc.models.model import model_on

SMALL = {**SIZES, "max_position_embeddings": 16, "hidden_act": "gelu"}


def reloaded(model, folder):
    model.save(folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras")


def assert_same_files(one, other):
    first, second = open_checkpoint(one), open_checkpoint(other)
    assert set(first) == set(second)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    configs = [json.loads((folder / "config.json").read_text()) for folder in (one, other)]
    assert configs[0] == configs[1]


@pytest.mark.once
def test_an_encoding_has_one_spec_however_often_a_file_names_it():
    """Keras marks what it has serialized before at the same address, also of what is gone."""
    encoding = RotaryEmbedding(base=50.0)
    with ObjectSharingScope():
        specs = [spec_of(encoding) for _ in range(3)]
        # Many that are thrown away, so that addresses come again.
        specs += [spec_of(RotaryEmbedding(base=50.0)) for _ in range(30)]
    assert specs == [{"name": "rotary", "base": 50.0}] * 33


OPTIONS = [
    {"hierarchical_position": True, "prefix": "x-"},
    {"encodings": ["rotary", "log_n"], "with_mlm": True},
    {"model": "albert"},
    {"head": "token_classification", "label_names": ["a", "b", "c"]},
]


@pytest.mark.once
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_loaded_model_writes_the_same_checkpoint(tmp_path, options):
    model = build_transformer_model(SMALL, **options)
    save_checkpoint(model, tmp_path / "one")
    again = reloaded(model, tmp_path)
    save_checkpoint(again, tmp_path / "two")
    assert_same_files(tmp_path / "one", tmp_path / "two")
    twice = reloaded(again, tmp_path)
    save_checkpoint(twice, tmp_path / "three")
    assert_same_files(tmp_path / "one", tmp_path / "three")
    ids, _ = token_ids(9)
    feeds = [ids, 0 * ids][: len(model.inputs)]
    outputs = [ops.convert_to_numpy(m(feeds, training=False)) for m in (model, twice)]
    np.testing.assert_array_equal(*outputs)


@pytest.mark.once
def test_the_account_comes_along(tmp_path):
    publish(tmp_path, "BertModel", **SIZES)
    model = build_transformer_model(tmp_path)
    again = reloaded(model, tmp_path)
    assert str(again.transformer.account) == str(model.transformer.account)


@pytest.mark.once
def test_layers_on_an_encoder_keep_it(tmp_path, finetuned):
    """Its encoder is written, with its head; layers that are no head are not lost in silence."""
    encoder = build_transformer_model(SMALL)
    save_checkpoint(encoder, tmp_path / "one")
    for model in (classifier(encoder, 2), embedder(encoder)):
        again = reloaded(model, tmp_path)
        save_checkpoint(again.transformer, tmp_path / "two")
        assert_same_files(tmp_path / "one", tmp_path / "two")
    save_checkpoint(again, tmp_path / "two")  # pooling has no weights
    model = classifier(encoder, 2)
    save_checkpoint(reloaded(model, tmp_path), tmp_path / "two")
    again = build_transformer_model(tmp_path / "two", head="sequence_classification")
    for a, b in zip(again.layers[-1].weights, model.layers[-1].weights, strict=True):
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (a, b)))
    other = model_on(encoder, keras.layers.Dense(2, name="Other")(encoder.output), "other")
    with pytest.raises(ValueError, match="such as Other/bias, which are not those of one head"):
        save_checkpoint(other, tmp_path / "two")
    loaded = load_finetuned(finetuned).model
    save_checkpoint(loaded.transformer, tmp_path / "tuned")
    tuned = build_transformer_model(tmp_path / "tuned", hierarchical_position=True)
    for name, layer in tuned.transformer.layers.items():
        for a, b in zip(layer.weights, loaded.get_layer(name).weights, strict=True):
            np.testing.assert_array_equal(*map(ops.convert_to_numpy, (a, b)))


@pytest.mark.once
def test_what_is_damaged_or_of_another_place(tmp_path):
    model = build_transformer_model(SMALL)
    config = model.get_config()
    about = json.loads(config["about"])
    for changes, message in (
        ({"family": "mine"}, "names a family 'mine', which is not registered"),
        ({"layers": None}, "is damaged .*: build the model again with the file as checkpoint_path"),
        ({"config": {"vocab_size": 0}}, "Missing in the config"),
    ):
        wrong = type(model).from_config({**config, "about": json.dumps({**about, **changes})})
        with pytest.raises(ValueError, match=message):
            save_checkpoint(wrong, tmp_path)
    clone = keras.models.clone_model(model)
    with pytest.raises(TypeError, match="knows its transformer, and this one does not"):
        save_checkpoint(clone, tmp_path)


@pytest.mark.once
def test_a_program_without_the_library_learns_what_to_import(tmp_path, monkeypatch):
    """By Keras, in its own words, which the guide quotes."""
    build_transformer_model(SMALL).save(tmp_path / "model.keras")
    registered = keras.saving.get_custom_objects()
    with monkeypatch.context() as patch:
        for name in [name for name in registered if name.startswith("keras_posenc>")]:
            patch.delitem(registered, name)
        with pytest.raises(TypeError) as error:
            keras.saving.load_model(tmp_path / "model.keras")
    guide = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "delivery.md"
    quoted = re.search(r'Keras reports "(.*?)",', " ".join(guide.read_text("utf-8").split()))[1]
    assert quoted in str(error.value)


@pytest.mark.once
def test_a_file_serves_the_positions_that_it_was_saved_with(tmp_path):
    """Without an argument of positions."""
    model = build_transformer_model(SMALL, hierarchical_position=0.3)
    model.save(tmp_path / "model.keras")
    again = build_transformer_model(SMALL, tmp_path / "model.keras")
    ids, _ = token_ids(40)
    feeds = {"token_ids": ids, "segment_ids": 0 * ids}
    found = [ops.convert_to_numpy(m(feeds, training=False)) for m in (model, again)]
    np.testing.assert_array_equal(*found)
