"""Presets of KerasHub, both ways, against the real package."""

import json
import pathlib

import numpy as np
import pytest

import keras_posenc.cli
from keras_posenc.checkpoints import open_checkpoint, save_checkpoint
from keras_posenc.checkpoints.keras_hub import BACKBONES
from keras_posenc.text import Tokenizer

keras_hub = pytest.importorskip("keras_hub")
models = keras_hub.models

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

SIZES = {"vocabulary_size": 60, "num_layers": 2, "num_heads": 2, "hidden_dim": 8}
ENCODER = {**SIZES, "intermediate_dim": 12, "max_sequence_length": 16}
DECODER = {"vocabulary_size": 60, "num_layers": 2, "num_query_heads": 4, "num_key_value_heads": 2}
DECODER |= {"hidden_dim": 16, "intermediate_dim": 24}
GEMMA = {"image_size": None, "vision_encoder": None, "head_dim": 4, "sliding_window_size": 4}
GEMMA |= {"use_post_ffw_norm": True, "use_post_attention_norm": True}
CASES = {
    "BertBackbone": ENCODER,
    "RobertaBackbone": ENCODER,
    "XLMRobertaBackbone": ENCODER,
    "DistilBertBackbone": ENCODER,
    "AlbertBackbone": {**ENCODER, "embedding_dim": 6},
    "ElectraBackbone": {
        **{key: value for key, value in ENCODER.items() if key != "vocabulary_size"},
        "vocab_size": 60,
        "embedding_dim": 6,
    },
    "DebertaV3Backbone": {**ENCODER, "bucket_size": 8},
    "GPT2Backbone": ENCODER,
    "LlamaBackbone": DECODER,
    "Llama3Backbone": {
        **DECODER,
        "rope_frequency_adjustment_factor": 8.0,
        "rope_low_freq_factor": 1.0,
        "rope_high_freq_factor": 4.0,
        "rope_pretraining_sequence_length": 8,
    },
    "MistralBackbone": {**DECODER, "sliding_window": 4, "rope_scaling_factor": 2.0},
    "QwenBackbone": {**DECODER, "tie_word_embeddings": False},
    # KerasHub's attention norms the heads with 1e-5, whatever the backbone's number is.
    "Qwen3Backbone": {**DECODER, "head_dim": 4, "layer_norm_epsilon": 1e-5},
    "Gemma3Backbone": {**DECODER, **GEMMA, "use_sliding_window_attention": True},
}
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the quick brown fox ##es jump ##ed . e".split()


def make(name, **changes):
    """A backbone with numbers that differ from those of its initializers."""
    backbone = getattr(models, name)(**{**CASES[name], **changes})
    rng = np.random.default_rng(0)
    for weight in backbone.weights:
        weight.assign(np.asarray(weight) + rng.normal(0, 0.1, weight.shape))
    return backbone


# ELECTRA of one width, as the base models are, has no projection.
ONE_WIDTH = pytest.param(("ElectraBackbone", {"embedding_dim": 8}), id="ElectraBackbone-one-width")


# Every sixth layer is global.
SEVEN = pytest.param(("Gemma3Backbone", {"num_layers": 7}), id="Gemma3Backbone-seven-layers")


@pytest.fixture(params=[*(pytest.param((name, {}), id=name) for name in CASES), ONE_WIDTH, SEVEN])
def preset(request, tmp_path):
    name, changes = request.param
    backbone = make(name, **changes)
    backbone.save_to_preset(str(tmp_path))
    return backbone, tmp_path


def theirs(backbone, ids):
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids), "segment_ids": ids % 2}
    names = backbone.input.keys()
    output = backbone.predict({name: inputs[name] for name in names}, verbose=0)
    return output["sequence_output"] if isinstance(output, dict) else output


def ours(model, ids):
    inputs = {"token_ids": ids, "segment_ids": ids % 2}
    names = [each.name for each in model.inputs]
    return model.predict({name: inputs[name] for name in names}, verbose=0)


def ids_of(length=11):
    return np.random.default_rng(1).integers(5, 60, (2, length)).astype("int32")


def test_names_are_shifted_once_for_all_files(tmp_path):
    """One file has ELECTRA's projection, and another its pooler."""
    backbone = make("ElectraBackbone")
    backbone.save_to_preset(str(tmp_path), max_shard_size=3e-6)
    assert len(list(tmp_path.glob("model_*.h5"))) > 2
    model = keras_posenc.build_transformer_model(str(tmp_path))
    np.testing.assert_allclose(ours(model, ids_of()), theirs(backbone, ids_of()), atol=1e-5)


def test_every_backbone_has_a_case():
    assert CASES.keys() == BACKBONES.keys()


def test_a_preset_has_kerashubs_numbers(preset):
    backbone, folder = preset
    model = keras_posenc.build_transformer_model(str(folder))
    ids = ids_of()
    rounding = 1e-6 * max(2, backbone.num_layers)  # each layer rounds once more
    np.testing.assert_allclose(ours(model, ids), theirs(backbone, ids), atol=rounding)


def test_a_preset_in_bfloat16(tmp_path):
    """Its weights are those of the file to the bit, and its numbers nearly those of KerasHub."""
    import keras

    backbone = make("BertBackbone", dtype="bfloat16")
    backbone.save_to_preset(str(tmp_path))
    model = keras_posenc.build_transformer_model(str(tmp_path), with_pool=True)
    numpy = keras.ops.convert_to_numpy
    table = numpy(keras.ops.cast(backbone.token_embedding.embeddings, "float32"))
    assert any(w.shape == table.shape and (numpy(w) == table).all() for w in model.weights)
    model = keras_posenc.build_transformer_model(str(tmp_path))
    expected = numpy(keras.ops.cast(theirs(backbone, ids_of()), "float32"))
    np.testing.assert_allclose(ours(model, ids_of()), expected, atol=0.05)


@pytest.mark.parametrize("name", [name for name in CASES if "dropout" in BACKBONES[name].keys])
def test_the_dropout_of_a_preset_is_that_of_features_and_attention(name, tmp_path):
    make(name, dropout=0.3).save_to_preset(str(tmp_path))
    config = keras_posenc.read_config(str(tmp_path))
    assert config.attention_dropout_rate == 0.3
    features_too = BACKBONES[name].keys["dropout"] != "attention_dropout"
    assert config.dropout_rate == (0.3 if features_too else 0.0)


def whole(folder, backbone):
    """Our model with everything that a backbone has."""
    more = {"with_pool": True} if isinstance(backbone.output, dict) else {}
    more |= {"application": "lm"} if hasattr(backbone, "num_query_heads") else {}
    return keras_posenc.build_transformer_model(str(folder), return_keras_model=False, **more)


def test_a_preset_comes_back_to_kerashub(preset, tmp_path):
    backbone, folder = preset
    transformer = whole(folder, backbone)
    if isinstance(backbone, models.Gemma3Backbone):
        with pytest.raises(ValueError, match="No preset of KerasHub is written of a model of type"):
            save_checkpoint(transformer, tmp_path / "back", format="keras_hub")
        return
    save_checkpoint(transformer, tmp_path / "back", format="keras_hub")
    again = models.Backbone.from_preset(str(tmp_path / "back"))
    ids = ids_of()
    np.testing.assert_allclose(theirs(again, ids), theirs(backbone, ids), atol=2e-6)
    for one, other in zip(again.weights, backbone.weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "extension", ["hierarchical", "hierarchical:0.2,kept_rows=1", "tile", "interpolate", "fresh"]
)
def test_more_positions_than_the_preset_has(extension, tmp_path):
    make("BertBackbone").save_to_preset(str(tmp_path))
    model = keras_posenc.build_transformer_model(
        str(tmp_path), extension=extension, max_position=40, with_pool=True
    )
    save_checkpoint(model, tmp_path / "long", format="keras_hub", positions=40)
    long = models.Backbone.from_preset(str(tmp_path / "long"))
    assert long.max_sequence_length == 40
    ids = ids_of(40)
    inputs = {"token_ids": ids, "segment_ids": ids % 2}
    pooled = model.predict(inputs, verbose=0)
    inputs["padding_mask"] = np.ones_like(ids)
    np.testing.assert_allclose(pooled, long.predict(inputs, verbose=0)["pooled_output"], atol=2e-6)


def test_a_table_of_one_segment_becomes_a_part_of_the_positions(tmp_path):
    make("RobertaBackbone").save_to_preset(str(tmp_path))
    config = keras_posenc.read_config(str(tmp_path))
    model = keras_posenc.build_transformer_model(
        config.to_huggingface() | {"type_vocab_size": 1, "vocab_size": 60}
    )
    save_checkpoint(model, tmp_path / "out", format="keras_hub")
    backbone = models.Backbone.from_preset(str(tmp_path / "out"))
    ids = ids_of()
    found = model.predict({"token_ids": ids, "segment_ids": 0 * ids}, verbose=0)
    np.testing.assert_allclose(found, theirs(backbone, ids), atol=2e-6)
    two = keras_posenc.build_transformer_model(config.to_huggingface() | {"type_vocab_size": 2})
    with pytest.raises(ValueError, match="RobertaBackbone has no segments, and this model has 2"):
        save_checkpoint(two, tmp_path / "two", format="keras_hub")


@pytest.mark.parametrize("name", ["BertBackbone", "AlbertBackbone", "ElectraBackbone"])
def test_a_model_without_segments_has_the_same_numbers_there(name, tmp_path):
    make(name).save_to_preset(str(tmp_path))
    model = keras_posenc.build_transformer_model(
        keras_posenc.read_config(str(tmp_path), segment_vocab_size=0), with_pool=True
    )
    save_checkpoint(model, tmp_path / "out", format="keras_hub")
    backbone, ids = models.Backbone.from_preset(str(tmp_path / "out")), ids_of()
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids), "segment_ids": ids % 2}
    found = backbone.predict(inputs, verbose=0)["pooled_output"]
    np.testing.assert_allclose(found, model.predict(ids, verbose=0), atol=2e-6)


def test_another_activation_is_named_and_another_epsilon_refused(tmp_path):
    sizes = {"vocab_size": 60, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 12, "max_position_embeddings": 16}
    model = keras_posenc.build_transformer_model(sizes | {"hidden_act": "gelu"}, with_pool=True)
    with pytest.warns(UserWarning, match="BertBackbone computes 'gelu_new', and this model has"):
        save_checkpoint(model, tmp_path, format="keras_hub")
    model = keras_posenc.build_transformer_model(sizes | {"hidden_act": "gelu_new"})
    with pytest.warns(UserWarning, match="untrained pooled_output: build the model with with_pool"):
        save_checkpoint(model, tmp_path, format="keras_hub")
    model = keras_posenc.build_transformer_model(sizes | {"hidden_act": "relu"})
    with pytest.raises(ValueError, match="'gelu_new', and this model has 'relu': no preset of it"):
        save_checkpoint(model, tmp_path, format="keras_hub")
    with pytest.raises(ValueError, match="written in float32. Received: dtype='float16'"):
        save_checkpoint(model, tmp_path, format="keras_hub", dtype="float16")
    model = keras_posenc.build_transformer_model(
        sizes | {"hidden_act": "gelu_new"}, encodings=["rotary"]
    )
    with pytest.raises(ValueError, match="no backbone with the encodings of this model"):
        save_checkpoint(model, tmp_path, format="keras_hub")
    model = keras_posenc.build_transformer_model(sizes | {"hidden_act": "gelu_new"}, with_mlm=True)
    with pytest.warns(UserWarning) as warned:
        save_checkpoint(model, tmp_path, format="keras_hub")
    assert any("no place for MLM-Bias, MLM-Dense, MLM-Norm" in str(w.message) for w in warned)


@pytest.mark.parametrize("kind", ["Bert", "DistilBert", "Electra"])
def test_the_tokenizer_of_a_preset(kind, tmp_path):
    tokenizer = getattr(models, f"{kind}Tokenizer")(WORDS, lowercase=True)
    tokenizer.save_to_preset(str(tmp_path))
    make(f"{kind}Backbone").save_to_preset(str(tmp_path))
    mine = Tokenizer(str(tmp_path))
    text = "The foxes jumped. Quick"
    ids = mine.encode(text)[0]
    assert list(ids)[1:-1] == np.asarray(tokenizer(text)).tolist()
    assert mine.special_tokens() == 2 and mine.pad_id == 0
    # KerasHub does not remove accents, which no uncased vocabulary has.
    assert list(mine.encode("\u00e9")[0])[1:-1] == [WORDS.index("e")]
    transformer = whole(tmp_path, make(f"{kind}Backbone"))
    save_checkpoint(transformer, tmp_path / "out", format="keras_hub", tokenizer=mine)
    again = getattr(models, f"{kind}Tokenizer").from_preset(str(tmp_path / "out"))
    assert np.asarray(again(text)).tolist() == np.asarray(tokenizer(text)).tolist()
    assert again.get_vocabulary() == WORDS


TEXTS = ["the quick fox", "the brown foxes jumped.", "quick e ."]


def save_whole_preset(folder, backbone):
    """A BERT with its tokenizer."""
    backbone.save_to_preset(str(folder))
    models.BertTokenizer(WORDS, lowercase=True).save_to_preset(str(folder))


@pytest.mark.once
def test_a_preset_embeds_and_is_finetuned_and_stretched(tmp_path):
    preset, long = tmp_path / "preset", tmp_path / "long"
    save_whole_preset(preset, make("BertBackbone"))
    vectors = keras_posenc.embed(preset, TEXTS, verbose=0)
    ids, segments = Tokenizer(preset).encode(TEXTS[0])
    model = keras_posenc.build_transformer_model(str(preset))
    inputs = {"token_ids": np.array([ids]), "segment_ids": np.array([segments])}
    np.testing.assert_allclose(vectors[0], model.predict(inputs, verbose=0)[0].mean(0), atol=1e-6)
    kept = {"max_length": 16, "epochs": 1, "verbose": 0}
    keras_posenc.finetune(preset, (TEXTS[:2], ["a", "b"]), tmp_path / "run", **kept)
    (prediction,) = keras_posenc.predict(tmp_path / "run", TEXTS[:1], verbose=0)
    assert prediction.label in ("a", "b")
    keras_posenc.stretch(preset, TEXTS * 9, long, max_length=48, steps=0, verbose=0)
    text = " ".join(TEXTS[:2] * 4)
    assert 16 < len(Tokenizer(long).encode(text)[0]) <= 48
    assert np.isfinite(keras_posenc.embed(long, [text], max_length=48, verbose=0)).all()
    np.testing.assert_allclose(keras_posenc.embed(long, TEXTS, verbose=0), vectors, atol=1e-5)


@pytest.mark.once
def test_the_preset_of_a_task_opens_as_its_encoder(tmp_path):
    tokenizer = models.BertTokenizer(WORDS, lowercase=True)
    preprocessor = models.BertTextClassifierPreprocessor(tokenizer, sequence_length=16)
    backbone = make("BertBackbone")
    task = models.BertTextClassifier(backbone, num_classes=2, preprocessor=preprocessor)
    task.save_to_preset(str(tmp_path / "task"))
    save_whole_preset(tmp_path / "encoder", backbone)
    ids = ids_of()
    model = keras_posenc.build_transformer_model(str(tmp_path / "task"))
    np.testing.assert_allclose(ours(model, ids), theirs(backbone, ids), atol=2e-6)
    mine = Tokenizer(str(tmp_path / "task"))
    assert list(mine.encode("The foxes")[0])[1:-1] == np.asarray(tokenizer("The foxes")).tolist()
    found, expected = (
        keras_posenc.embed(tmp_path / name, TEXTS, verbose=0) for name in ("task", "encoder")
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_byte_level_vocabularies(tmp_path):
    vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])}
    for token in ["a", "b", "\u0120", "ab", "\u0120ab"]:
        vocabulary[token] = len(vocabulary)
    tokenizer = models.RobertaTokenizer(vocabulary, ["a b", "\u0120 ab"])
    tokenizer.save_to_preset(str(tmp_path))
    make("RobertaBackbone").save_to_preset(str(tmp_path))
    mine = Tokenizer(str(tmp_path))
    with pytest.raises(ValueError, match="tokenizer of a RobertaBackbone is not written from here"):
        save_checkpoint(
            keras_posenc.build_transformer_model(str(tmp_path)),
            tmp_path / "out",
            format="keras_hub",
            tokenizer=mine,
        )
    assert list(mine.encode("ab ab a")[0])[1:-1] == np.asarray(tokenizer("ab ab a")).tolist()


def test_other_presets_are_refused_by_name(tmp_path):
    models.ESMBackbone(**SIZES, intermediate_dim=12).save_to_preset(str(tmp_path))
    message = "'keras_hub>ESMBackbone' of Keras, which is not read. Presets .*: BertBackbone"
    for opens in (keras_posenc.build_transformer_model, keras_posenc.read_config, open_checkpoint):
        with pytest.raises(ValueError, match=message):
            opens(str(tmp_path))
    make("LlamaBackbone", rope_position_scaling_factor=2.0).save_to_preset(str(tmp_path))
    with pytest.raises(ValueError, match="LlamaBackbone with rope_position_scaling_factor=2.0 is"):
        keras_posenc.read_config(str(tmp_path))


def test_damaged_presets(tmp_path):
    make("BertBackbone").save_to_preset(str(tmp_path))
    weights, config = tmp_path / "model.weights.h5", tmp_path / "config.json"
    data, text = weights.read_bytes(), config.read_text()
    weights.write_bytes(data[:-2000])
    with pytest.raises(ValueError, match="model.weights.h5 is damaged .*Download it again"):
        open_checkpoint(str(tmp_path))
    weights.write_bytes(data)
    values = json.loads(text)
    del values["config"]["hidden_dim"]
    config.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="Missing in .*hidden_size"):
        keras_posenc.read_config(str(tmp_path))
    config.write_text("{}")
    with pytest.raises(ValueError, match="is an HDF5 file without the config.json of a KerasHub"):
        open_checkpoint(str(tmp_path))
    (pathlib.Path(tmp_path) / "assets/tokenizer").mkdir(parents=True)
    (tmp_path / "assets/tokenizer/vocabulary.txt").write_text("\n".join(WORDS))
    (tmp_path / "tokenizer.json").write_text(json.dumps({"registered_name": "mine>Tokenizer"}))
    with pytest.raises(ValueError, match="describes a tokenizer of KerasHub that is not read"):
        Tokenizer(str(tmp_path))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_command_writes_a_tokenizer_into_a_preset(tmp_path, pretrained):
    given = ["convert", str(pretrained), str(tmp_path / "hub"), "--format", "keras_hub"]
    assert keras_posenc.cli.main([*given, "--tokenizer", str(pretrained)]) == 0
    assert (tmp_path / "hub" / "tokenizer.json").exists()
    tokenizer = keras_hub.tokenizers.Tokenizer.from_preset(str(tmp_path / "hub"))
    ids = Tokenizer(pretrained).contents(["w1 w4 w7"])[0]
    np.testing.assert_array_equal(np.asarray(tokenizer("w1 w4 w7")), ids)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "no rope_type 'yarn'"),
        ({"is_causal": False}, "is causal, and this model is not causal: no preset of it"),
        (
            {"model_type": "qwen2", "attention_bias": False},
            "The model lacks 6 weights of KerasHub's backbone, such as layers/qwen_transformer_dec",
        ),
    ],
)
def test_what_a_preset_cannot_compute_is_refused(tmp_path, change, message):
    config = {"model_type": "mistral", "vocab_size": 60, "hidden_size": 16, "head_dim": 4}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = keras_posenc.build_transformer_model({**config, "intermediate_size": 24, **change})
    with pytest.raises(ValueError, match=message):
        save_checkpoint(model, tmp_path / "out", format="keras_hub")
