"""LoRA adapters in PEFT's directories, merged as a checkpoint is read."""

import json

import numpy as np
import pytest
from keras import ops
from published import SIZES, answer, publish, token_ids
from safetensors.numpy import save_file

from keras_posenc import build_transformer_model
from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.reader import with_lora
from keras_posenc.cli import main

pytestmark = pytest.mark.once

RANK, ALPHA = 2, 6
# As PEFT's `LoraConfig` writes them.
SETTINGS = {
    "peft_type": "LORA", "task_type": None, "base_model_name_or_path": "somewhere/else",
    "r": RANK, "lora_alpha": ALPHA, "lora_dropout": 0.1, "bias": "none", "use_rslora": False,
    "use_dora": False, "fan_in_fan_out": False, "target_modules": ["q_proj", "down_proj"],
    "init_lora_weights": True, "alpha_pattern": {}, "rank_pattern": {}, "modules_to_save": None,
    "loftq_config": {}, "layer_replication": None,
}  # fmt: skip
MODULES = ("layers.0.self_attn.q_proj", "layers.2.mlp.down_proj")


@pytest.fixture
def base(tmp_path):
    """A model of transformers, its folder, and where adapters are written."""
    model = publish(tmp_path / "base", "Qwen2Model", **SIZES, num_key_value_heads=1)
    return model, tmp_path / "base", tmp_path / "adapter"


def write(folder, model, modules=MODULES, more=None, **settings):
    """Writes an adapter of random factors; returns them by module."""
    random = np.random.default_rng(0)
    weights, factors, tensors = dict(model.named_parameters()), {}, dict(more or {})
    for module in modules:
        rows, columns = weights[f"{module}.weight"].shape
        factors[module] = random.normal(size=(RANK, columns)), random.normal(size=(rows, RANK))
        for side, factor in zip("AB", factors[module], strict=True):
            name = f"base_model.model.{module}.lora_{side}.weight"
            tensors[name] = factor.astype("float32")
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({**SETTINGS, **settings}))
    return factors


def merge(model, factors, scale):
    """Adds the products to the weights of transformers' model, one by one."""
    import torch

    with torch.no_grad():
        for module, (first, second) in factors.items():
            weight = model.get_parameter(f"{module}.weight")
            weight += torch.tensor(scale * second @ first, dtype=torch.float32)


def compare(model, ours):
    ids, real = token_ids(12)
    expected = answer(model, ids, real)[real]
    found = ops.convert_to_numpy(ours([ids], training=False))[real]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * abs(expected).max())


@pytest.mark.parametrize(
    ("settings", "scales"),
    [
        ({}, (3.0, 3.0)),
        ({"use_rslora": True, "alpha_pattern": {"down_proj": 4}}, (6 / 2**0.5, 4 / 2**0.5)),
        # The first that fits counts; a name is a regular expression, and "^" its beginning.
        ({"alpha_pattern": {"lora_alpha": 50}}, (3.0, 3.0)),
        ({"alpha_pattern": {"^mlp.down_proj": 2, "down.proj": 4, "q_proj": 8}}, (4.0, 2.0)),
    ],
)
def test_the_numbers_are_those_of_transformers_with_the_products_added(base, settings, scales):
    model, folder, path = base
    factors = write(path, model, **settings)
    for (module, pair), scale in zip(factors.items(), scales, strict=True):
        merge(model, {module: pair}, scale)
    ours = build_transformer_model(folder, adapter=path)
    compare(model, ours)
    assert f"with the adapter {path}" in ours.transformer.account.summary()


def test_tensors_trained_in_full_and_tables_that_are_stored_transposed(base):
    """A norm, and an embedding, whose factors PEFT stores the other way round, with the table."""
    import torch

    model, folder, path = base
    random = np.random.default_rng(1)
    first, second = (random.normal(size=s).astype("float32") for s in ((RANK, 40), (16, RANK)))
    norm = random.normal(1, 0.1, 16).astype("float32")
    table = random.normal(size=(40, 16)).astype("float32")
    more = {
        "norm.weight": norm,
        "embed_tokens.base_layer.weight": table,
        "embed_tokens.lora_embedding_A": first,
        "embed_tokens.lora_embedding_B": second,
    }
    write(path, model, (), {f"base_model.model.{name}": x for name, x in more.items()})
    with torch.no_grad():
        model.norm.weight.copy_(torch.tensor(norm))
        model.embed_tokens.weight.copy_(torch.tensor(table + ALPHA / RANK * (second @ first).T))
    compare(model, build_transformer_model(folder, adapter=path))


def test_a_table_that_a_head_of_tokens_shares_is_not_changed_alone(tmp_path):
    """PEFT would no longer have the table in the head."""
    model = publish(
        tmp_path, "Qwen2ForCausalLM", **SIZES, num_key_value_heads=1, tie_word_embeddings=True
    )
    table = model.get_input_embeddings().weight.detach().numpy()
    path = tmp_path / "adapter"
    write(path, model, (), {"base_model.model.model.embed_tokens.weight": 2 * table})
    with pytest.raises(ValueError, match="changes 'model.embed_tokens.weight', which the head of"):
        build_transformer_model(tmp_path, adapter=path, with_mlm="linear")
    doubled = build_transformer_model(tmp_path, adapter=path).get_layer("Embedding-Token")
    np.testing.assert_array_equal(ops.convert_to_numpy(doubled.embeddings), 2 * table)
    write(path, model, (), {"base_model.model.lm_head.weight": 2 * table})
    with pytest.raises(ValueError, match="lm_head.weight, which differs from model.embed_tokens"):
        build_transformer_model(tmp_path, adapter=path, with_mlm="linear")
    both = {"lm_head.weight": 2 * table, "model.embed_tokens.weight": 2 * table}
    write(path, model, (), {f"base_model.model.{name}": array for name, array in both.items()})
    build_transformer_model(tmp_path, adapter=path, with_mlm="linear")


def test_a_prefix_of_the_checkpoint_or_of_the_adapter_is_no_matter():
    for stored, named in (("model.a.weight", "a"), ("a.weight", "model.a")):
        places = with_lora_of({stored: np.zeros((3, 4))}, named)
        assert list(places.products) == [stored] and places[stored].shape == (3, 4)


def with_lora_of(arrays, module, folder=None, shapes=((2, 4), (3, 2)), **settings):
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        path = pathlib.Path(folder or made)
        tensors = {
            f"base_model.model.{module}.lora_{side}.weight": np.ones(shape, "float32")
            for side, shape in zip("AB", shapes, strict=False)
        }
        save_file(tensors, path / "adapter_model.safetensors")
        (path / "adapter_config.json").write_text(json.dumps({**SETTINGS, **settings}))
        return with_lora(open_checkpoint(arrays), path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"use_dora": True}, "has 'use_dora' True, which is not supported: merge the adapter with"),
        ({"init_lora_weights": "pissa"}, "has 'init_lora_weights' 'pissa', which is not supported"),
        ({"peft_type": "IA3"}, "has 'peft_type' 'IA3', which is not supported"),
        ({"a_key_of_tomorrow": 3}, "has 'a_key_of_tomorrow' 3, which is not supported"),
        ({"lora_alpha": "8"}, "alpha of 'lora_alpha' must be a number for the name of a layer"),
        ({"alpha_pattern": {"(a+)+": 8}}, "alpha of '.a...' must be a number for the name of a"),
        (
            {"alpha_pattern": ["q_proj"]},
            "alpha_pattern must be an object, names of layers -> alpha",
        ),
        ({"use_rslora": "false"}, "use_rslora must be true or false. Received: 'false'"),
        ({"fan_in_fan_out": "no"}, "fan_in_fan_out must be true or false. Received: 'no'"),
        ({"shapes": ()}, "has no tensor, so that the adapter changes nothing"),
        ({"module": "b"}, "has the layer 'b.weight', and of .* none has this name: it was trained"),
        ({"module": "w"}, "has the layer 'w.weight', and of .* 2 of them has this name"),
        (
            {"shapes": ((2, 4), (4, 2))},
            "The factors of 'a' in the adapter .* do not fit the",
        ),
        ({"shapes": ((2, 4),)}, "do not fit the weight .3, 4.. Received: .'A': .2, 4.."),
    ],
)
def test_another_kind_of_adapter_or_model_is_refused(change, message):
    arrays = dict.fromkeys(("a.weight", "x.w.weight", "y.w.weight"), np.zeros((3, 4)))
    with pytest.raises(ValueError, match=message):
        with_lora_of(arrays, **{"module": "a", **change})


def test_files_that_are_not_there_or_no_adapter(tmp_path):
    arrays = {"a.weight": np.zeros((3, 4))}
    with pytest.raises(FileNotFoundError, match="No adapter_config.json in .*: `adapter` is a dir"):
        with_lora(arrays, tmp_path)
    file = tmp_path / "adapter_config.json"
    for text, message in (("{", "is damaged"), ("[]", "is damaged .it holds a list")):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            with_lora(arrays, tmp_path)
    file.write_text("{}")
    with pytest.raises(ValueError, match="has no `peft_type`: is it the config of a LoRA adapter"):
        with_lora(arrays, tmp_path)
    file.write_text('{"peft_type": "LORA"}')
    with pytest.raises(FileNotFoundError, match="No adapter_model.safetensors or .* in "):
        with_lora(arrays, tmp_path)
    with pytest.raises(ValueError, match="`adapter` is for a checkpoint's tensors. Received"):
        build_transformer_model({**SIZES, "hidden_act": "gelu"}, adapter=tmp_path)


def test_convert_writes_a_checkpoint_with_the_adapter_merged(base, tmp_path, capsys):
    model, folder, adapter = base
    write(adapter, model)
    merged = build_transformer_model(folder, adapter=adapter)
    arguments = ["convert", str(folder), str(tmp_path / "merged"), "--adapter", str(adapter)]
    assert main(arguments) == 0, capsys.readouterr().err
    written = build_transformer_model(tmp_path / "merged")
    for one, other in zip(written.get_weights(), merged.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    plain = build_transformer_model(folder).get_weights()
    assert any((a != b).any() for a, b in zip(plain, merged.get_weights(), strict=True))
