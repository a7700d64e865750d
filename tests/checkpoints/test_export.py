"""Writing checkpoints: other libraries read them, and reading them back gives the same bits."""

import dataclasses
import json
import sys

import keras
import numpy as np
import pytest

from keras_posenc.analysis import inspect_checkpoint
from keras_posenc.checkpoints import open_checkpoint, save_checkpoint
from keras_posenc.models.config_file import read_config
from keras_posenc.models.factory import build_transformer_model

HEADS = {"with_nsp": "linear", "with_mlm": "linear"}


@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_round_trip_to_the_bit(make, values, tmp_path, format):
    transformer = make(prefix="x-", **HEADS)
    written = save_checkpoint(transformer, tmp_path, format=format)
    assert sorted(written) == sorted(str(path) for path in tmp_path.iterdir())
    again = build_transformer_model(tmp_path, return_keras_model=False, **HEADS)
    assert again.account.unused == []
    before, after = values(transformer.layers), values(again.layers)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)
    assert again.config == transformer.config


@pytest.mark.once
def test_renamed_layers_are_found(tiny_config, tmp_path):
    model = build_transformer_model(tiny_config)
    for layer in model.layers:
        layer.name = f"first_{layer.name}"
    model.save(tmp_path / "model.keras")
    for number, each in enumerate((model, keras.saving.load_model(tmp_path / "model.keras"))):
        save_checkpoint(each, tmp_path / str(number))
        again = build_transformer_model(tmp_path / str(number))
        assert all(map(np.array_equal, again.get_weights(), model.get_weights()))


@pytest.mark.once
def test_transformers_reads_it(tiny_config, arrays, pretraining, tmp_path, same_outputs):
    import transformers

    model = build_transformer_model(tiny_config, arrays, **HEADS)
    save_checkpoint(model, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [
        "BertForPreTraining"
    ]
    again, info = transformers.BertForPreTraining.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not info["unexpected_keys"] and not info["mismatched_keys"]
    same_outputs(again.eval(), pretraining, tolerance=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_transformers_reads_as_many_bits_as_are_written(tiny_config, arrays, tmp_path, key):
    """The config of a file in bfloat16 says so, and its weights were trained in float32."""
    import transformers

    model = build_transformer_model(tiny_config | {key: "bfloat16"}, arrays)
    for dtype in (None, "bfloat16", "float64"):
        save_checkpoint(model, tmp_path, dtype=dtype)
        written = dtype or "float32"
        assert json.loads((tmp_path / "config.json").read_text())[key] == written
        again = transformers.BertModel.from_pretrained(tmp_path, add_pooling_layer=False)
        weight = again.embeddings.word_embeddings.weight.detach()
        assert str(weight.dtype) == f"torch.{written}"
        if dtype is None:
            table = model.transformer.layers["Embedding-Token"].embeddings
            np.testing.assert_array_equal(weight.numpy(), keras.ops.convert_to_numpy(table))
    save_checkpoint(build_transformer_model(tiny_config, arrays), tmp_path)
    assert key not in json.loads((tmp_path / "config.json").read_text())


@pytest.mark.once
@pytest.mark.parametrize("stretch", ["hierarchical", "tile", "interpolate", "fresh"])
def test_stretched_positions_as_plain_rows(tiny_config, arrays, tmp_path, stretch):
    import torch
    import transformers

    longer = {} if stretch in ("hierarchical", "tile") else {"max_position": 30}
    model = build_transformer_model(tiny_config, arrays, extension=stretch, **longer)
    save_checkpoint(model, tmp_path, positions=30)
    ids = np.random.default_rng(0).integers(5, 40, (2, 30))
    ours = keras.ops.convert_to_numpy(model({"token_ids": ids, "segment_ids": 0 * ids}))
    reference = transformers.BertModel.from_pretrained(tmp_path, add_pooling_layer=False).eval()
    with torch.no_grad():
        expected = reference(torch.tensor(ids)).last_hidden_state.numpy()
    assert np.abs(ours - expected).max() <= 1e-5
    plain = build_transformer_model(tmp_path)
    assert plain.transformer.config.max_position == 30


@pytest.mark.once
@pytest.mark.parametrize("buckets", [-1, 8])
def test_a_longer_table_does_not_change_the_distances_of_deberta(buckets, tiny_config, tmp_path):
    """Without `max_relative_positions` they reach as far as the table of the file."""
    import torch
    import transformers

    keys = {"model_type": "deberta-v2", "relative_attention": True, "pos_att_type": "c2p|p2c"}
    keys |= {"share_att_key": True, "position_buckets": buckets, "type_vocab_size": 0}
    keys |= {"initializer_range": 0.5}
    model = build_transformer_model({**tiny_config, **keys}, extension="tile")
    save_checkpoint(model, tmp_path, positions=24)
    ids = np.random.default_rng(0).integers(5, 40, (2, 24))
    expected = keras.ops.convert_to_numpy(model([ids]))
    found = keras.ops.convert_to_numpy(build_transformer_model(tmp_path)([ids]))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    reference = transformers.AutoModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        np.testing.assert_allclose(reference(torch.tensor(ids))[0], expected, atol=1e-5)


@pytest.mark.once
def test_roberta(roberta, tmp_path):
    import torch
    import transformers

    roberta.save_pretrained(tmp_path / "old")
    model = build_transformer_model(tmp_path / "old", model="roberta", with_mlm="linear")
    save_checkpoint(model, tmp_path / "new")
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "new").eval()
    ids = torch.tensor(np.random.default_rng(0).integers(5, 40, (2, 9)))
    with torch.no_grad():
        np.testing.assert_allclose(again(ids).logits, roberta(ids).logits, atol=1e-6)


@pytest.mark.once
def test_tensorflow_reads_it(make, google, tmp_path):
    import tensorflow as tf

    transformer = make(checkpoint_path=google, **HEADS)
    save_checkpoint(transformer, tmp_path, format="google")
    reader = tf.train.load_checkpoint(str(tmp_path / "bert_model.ckpt"))
    assert reader.get_variable_to_shape_map().keys() == google.keys()
    for name, array in google.items():
        np.testing.assert_array_equal(reader.get_tensor(name), array)


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtype(make, tmp_path, dtype):
    for format in ("huggingface", "google"):
        save_checkpoint(make(), tmp_path / format, format=format, dtype=dtype)
        checkpoint = open_checkpoint(tmp_path / format)
        assert {checkpoint.dtype(name).name for name in checkpoint} == {dtype}


@pytest.mark.once
def test_an_interrupted_save_leaves_the_old_files(make, tmp_path, monkeypatch):
    (tmp_path / "vocab.txt").write_text("[PAD]")
    save_checkpoint(make(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    transformer = make()
    with monkeypatch.context() as patch:

        def fail(*args, **kwargs):
            raise OSError("no space left on device")

        patch.setattr(json, "dumps", fail)
        with pytest.raises(OSError, match="no space left"):
            save_checkpoint(transformer, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    save_checkpoint(transformer, tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() != before["model.safetensors"]
    assert (tmp_path / "vocab.txt").read_text() == "[PAD]"


@pytest.mark.once
def test_saving_over_the_file_it_was_loaded_from(tiny_config, arrays, tmp_path, values):
    model = build_transformer_model(tiny_config, arrays)
    save_checkpoint(model, tmp_path)
    again = build_transformer_model(tmp_path)
    before = values(again.transformer.layers)
    save_checkpoint(again, tmp_path)
    save_checkpoint(again, tmp_path, dtype="float16")
    for name, value in values(again.transformer.layers).items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.once
def test_errors(make, tmp_path, monkeypatch):
    transformer = make()
    with pytest.raises(TypeError, match="needs a model of build_transformer_model"):
        save_checkpoint(keras.Sequential([keras.layers.Dense(2)]), tmp_path)
    with pytest.raises(
        ValueError, match="`format` must be one of .'huggingface', 'google', 'keras_hub'.. Received"
    ):
        save_checkpoint(transformer, tmp_path, format="tf")
    with pytest.raises(
        ValueError, match="`dtype` must be one of .None, 'float32'.* Received: 'int8'"
    ):
        save_checkpoint(transformer, tmp_path, dtype="int8")
    for positions in (0, 13, 2.5, True):
        with pytest.raises(ValueError, match=f"from 1 to 12. Received: {positions}"):
            save_checkpoint(transformer, tmp_path, positions=positions)
    with pytest.raises(ValueError, match="from 1 to 144. Received: 145"):
        save_checkpoint(make(extension="hierarchical"), tmp_path, positions=145)
    with pytest.raises(ValueError, match="8 fresh positions .* table of 12: give positions=20"):
        save_checkpoint(make(extension="fresh", max_position=20), tmp_path)
    with pytest.raises(
        ValueError, match="have no place in a bert checkpoint, such as Transformer-0"
    ):
        save_checkpoint(make(hidden_act=["gelu", "linear"]), tmp_path)
    with pytest.raises(ValueError, match="A preset of KerasHub is written in float32. Received: d"):
        save_checkpoint(transformer, tmp_path, format="keras_hub", dtype="float16")
    with pytest.raises(ValueError, match="`tokenizer` is written with format='keras_hub' only"):
        save_checkpoint(transformer, tmp_path, tokenizer="vocab.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file: give a directory"):
        save_checkpoint(transformer, tmp_path / "file")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ImportError, match="pip install tensorflow"):
        save_checkpoint(transformer, tmp_path, format="google")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.once
def test_what_a_family_has_no_files_for(tiny_config, tmp_path):
    del tiny_config["type_vocab_size"]
    config = read_config({**tiny_config, "model_type": "modernbert"})
    with pytest.raises(ValueError, match="There are no Google checkpoints of modernbert: use for"):
        save_checkpoint(build_transformer_model(config), tmp_path, format="google")
    ungated = build_transformer_model(dataclasses.replace(config, hidden_act="gelu"))
    config = read_config({**tiny_config, "model_type": "gpt2"}, num_key_value_heads=1)
    for model, packed in ((ungated, "mlp.Wi"), (build_transformer_model(config), "attn.c_attn")):
        message = rf"\.0\.{packed}\.weight of a \w+ checkpoint has parts of one size, of which this"
        with pytest.raises(ValueError, match=message):
            save_checkpoint(model, tmp_path)


@pytest.mark.once
def test_positions_of_a_family_without_a_table_are_refused(tiny_config, tmp_path):
    model = build_transformer_model({**tiny_config, "model_type": "roformer"})
    with pytest.raises(ValueError, match="roformer has no table of positions: leave `positions`"):
        save_checkpoint(model, tmp_path, positions=24)


@pytest.mark.once
def test_a_checkpoint_without_a_config_is_inspected(tiny_config, tmp_path):
    save_checkpoint(build_transformer_model(tiny_config), tmp_path)
    (tmp_path / "config.json").unlink()
    found = inspect_checkpoint(tmp_path)
    assert "Whether it can be loaded is not known: There is no config.json" in found
    assert "safetensors, " in found and found.problem is None
