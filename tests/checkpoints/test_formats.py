"""Every format that a checkpoint comes in gives the same model as the library that wrote it."""

import json

import keras
import numpy as np
import pytest

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.keras_file import load_keras
from keras_posenc.models.factory import build_transformer_model

pytestmark = pytest.mark.once

HEADS = {"with_nsp": "linear", "with_mlm": "linear"}


@pytest.fixture
def loads(tiny_config, pretraining, same_outputs):
    """Holds that a checkpoint gives the outputs of the tiny BERT, and returns the account."""

    def loads(checkpoint, format):
        assert open_checkpoint(checkpoint).format == format
        model = build_transformer_model(tiny_config, checkpoint, **HEADS)
        same_outputs(model, pretraining)
        return model.transformer.account

    return loads


def test_safetensors(pretraining, tmp_path, loads):
    pretraining.save_pretrained(tmp_path)
    for path in (tmp_path, tmp_path / "model.safetensors", str(tmp_path)):
        account = loads(path, "safetensors")
        assert account.unused == []


def test_sharded_safetensors(pretraining, tmp_path, loads):
    pretraining.save_pretrained(tmp_path, max_shard_size="8KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        loads(path, "safetensors")


@pytest.mark.parametrize("zip", [True, False])
def test_torch(pretraining, tmp_path, loads, zip):
    import torch

    path = tmp_path / "pytorch_model.bin"
    torch.save(pretraining.state_dict(), path, _use_new_zipfile_serialization=zip)
    for each in (tmp_path, path):
        account = loads(each, "torch")
        assert dict(account.unused) == {
            "cls.predictions.decoder.weight": "copy of bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "copy of cls.predictions.bias",
        }


def test_sharded_torch(pretraining, tmp_path, loads):
    import torch

    state, places = pretraining.state_dict(), {}
    for number, names in enumerate((list(state)[:20], list(state)[20:]), 1):
        shard = f"pytorch_model-{number:05}-of-00002.bin"
        torch.save({name: state[name] for name in names}, tmp_path / shard)
        places |= dict.fromkeys(names, shard)
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    for path in (tmp_path, index):
        loads(path, "torch")


def test_tensorflow_of_the_saver(google, tmp_path, loads, save_tensorflow):
    prefix = save_tensorflow(tmp_path / "bert_model.ckpt", google, train="bert/pooler/dense/kernel")
    for path in (prefix, tmp_path, f"{prefix}.index", f"{prefix}.data-00000-of-00001"):
        account = loads(path, "tensorflow")
        assert dict(account.unused) == {
            "bert/pooler/dense/kernel/Adam": "optimizer slot",
            "bert/pooler/dense/kernel/Adam_1": "optimizer slot",
            "beta1_power": "optimizer state",
            "beta2_power": "optimizer state",
            "global_step": "step counter",
        }


def test_tensorflow_as_google_trained_it(google, tmp_path, loads, save_tensorflow):
    slots = {
        f"{name}/{slot}": array for name, array in google.items() for slot in ("adam_m", "adam_v")
    }
    more = {"global_step": np.int64(1), "bert/embeddings/x/adam_m": np.ones(2, "float32")}
    prefix = save_tensorflow(tmp_path / "model.ckpt-1000", google | slots | more)
    account = loads(prefix, "tensorflow")
    assert len(account.unused) == 2 * len(google) + 2


def test_dict_of_arrays(arrays, google, loads):
    loads(arrays, "mapping")
    loads(google, "mapping")


def test_keras_file_of_ours(tiny_config, arrays, tmp_path, loads):
    for prefix in ("", "teacher-"):
        model = build_transformer_model(tiny_config, arrays, prefix=prefix, **HEADS)
        model.save(tmp_path / "model.keras")
        loads(tmp_path / "model.keras", "keras")
        loads(tmp_path, "keras")


def test_a_keras_file_is_read_without_a_draw(pretrained, tmp_path, monkeypatch):
    model = build_transformer_model(pretrained)
    model.save(tmp_path / "model.keras")

    def draw(*args, **kwargs):
        raise AssertionError("a weight was drawn only to be overwritten")

    with monkeypatch.context() as patched:
        patched.setattr(keras.initializers.TruncatedNormal, "__call__", draw)
        loaded = load_keras(tmp_path / "model.keras")
    for one, other in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    # What is made again from its config is drawn, as ever.
    table = keras.models.clone_model(loaded).get_layer("Embedding-Token").get_weights()[0]
    assert table.std() > 0


def test_keras_file_with_a_head_of_the_user(tiny_config, arrays, tmp_path):
    model = build_transformer_model(tiny_config, arrays)
    answer = keras.layers.Dense(3, name="answer")(model.output[:, 0])
    keras.Model(model.input, answer).save(tmp_path / "model.keras")
    again = build_transformer_model(tiny_config, tmp_path / "model.keras")
    unused = dict(again.transformer.account.unused)
    assert unused == {"answer/kernel": "not asked for", "answer/bias": "not asked for"}
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_prefix_and_with_old_norm_names(arrays, loads):
    bare = {name.removeprefix("bert."): array for name, array in arrays.items()}
    loads(bare, "mapping")
    old = {}
    for name, array in arrays.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        old[name.replace("LayerNorm.bias", "LayerNorm.beta")] = array
    assert not any("LayerNorm.weight" in name for name in old)
    loads(old, "mapping")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("file", ["safetensors", "torch", "legacy torch", "tensorflow"])
def test_half_precision(pretraining, google, tmp_path, tiny_config, save_tensorflow, file, dtype):
    import ml_dtypes
    import torch

    if file == "safetensors":
        path = tmp_path
        pretraining.to(getattr(torch, dtype)).save_pretrained(path)
    elif file == "tensorflow":
        numbers = getattr(ml_dtypes, dtype, dtype)
        half = {name: array.astype(numbers) for name, array in google.items()}
        path = save_tensorflow(tmp_path / "bert_model.ckpt", half)
    else:
        path = tmp_path / "pytorch_model.bin"
        state = pretraining.to(getattr(torch, dtype)).state_dict()
        torch.save(state, path, _use_new_zipfile_serialization=file == "torch")
    checkpoint = open_checkpoint(path)
    assert {checkpoint.dtype(name).name for name in checkpoint} == {dtype}
    model = build_transformer_model(tiny_config, checkpoint)
    table = model.get_layer("Embedding-Token").get_weights()[0]
    assert table.dtype == np.float32
    expected = google["bert/embeddings/word_embeddings"]
    np.testing.assert_allclose(table, expected, rtol=2**-8, atol=1e-6)
    assert not np.array_equal(table, expected)


def test_roberta(roberta, tmp_path):
    import torch

    roberta.save_pretrained(tmp_path)
    ours = build_transformer_model(tmp_path, model="roberta", with_mlm="linear")
    account = ours.transformer.account
    note = {variable: note for variable, _, note in account.loaded}
    assert note["Embedding-Position/embeddings"] == "first 2 rows dropped"
    ids = np.random.default_rng(0).integers(5, 40, (2, 9))
    found = ours({"token_ids": ids, "segment_ids": np.zeros_like(ids)})
    with torch.no_grad():
        expected = roberta(torch.tensor(ids)).logits.numpy()
    assert np.abs(keras.ops.convert_to_numpy(found) - expected).max() <= 1e-5


def test_roberta_named_like_bert(tiny_config, arrays):
    """The Chinese RoBERTa-wwm models are BERTs, and bert4keras calls them "roberta" too."""
    model = build_transformer_model(tiny_config, arrays, model="roberta", with_mlm=True)
    assert model.transformer.account.missing == []


def test_minilm(minilm):
    account = build_transformer_model(minilm).transformer.account
    assert len(account.loaded) == 5 + 6 * 16
    assert dict(account.unused) == {
        "embeddings.position_ids": "buffer",
        "pooler.dense.bias": "not asked for",
        "pooler.dense.weight": "not asked for",
    }
