"""Values of configs that cannot be meant: one error, with file and key, and nothing is built."""

import json
import shutil

import numpy as np
import pytest
from published import SIZES

from keras_posenc import build_transformer_model, read_config
from keras_posenc.analysis import inspect_checkpoint, open_model
from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.safetensors import write_safetensors
from keras_posenc.cli import main
from keras_posenc.models import config as limits
from keras_posenc.models.extension import Extension

pytestmark = pytest.mark.once

HUGE = 10**12


@pytest.fixture
def folder(tmp_path, tiny_config):
    """A tiny checkpoint, and a function that writes its config with changes."""
    from keras_posenc.checkpoints import save_checkpoint

    save_checkpoint(build_transformer_model(tiny_config, with_pool=True), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())

    def write(**changes):
        (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"hidden_dropout_prob": float("inf")},
            "'hidden_dropout_prob' must be finite. Received: i",
        ),
        ({"layer_norm_eps": float("nan")}, "'layer_norm_eps' must be finite. Received: nan"),
        ({"unknown": [{"deep": [1, -float("inf")]}]}, "'unknown' must be finite. Received: -inf"),
        ({"hidden_act": "glue"}, "`hidden_act`: Unknown activation 'glue'"),
        ({"hidden_act": ["gelu", "glue"]}, "`hidden_act`: Unknown activation 'glue'"),
        ({"mlm_act": "glue"}, "`mlm_act`: Unknown activation 'glue'"),
        ({"encodings": ["alibj"]}, "`encodings`: Unknown encoding 'alibj': did you mean 'alibi'"),
        ({"encodings": [{"name": "t5", "num_buckets": HUGE}]}, "`encodings` must be a list of"),
        ({"encodings": [{"name": "t5", "bucket": 3}]}, "`encodings`: "),
        (
            {"tie_word_embeddings": "no"},
            "`tie_word_embeddings` must be true or false. Received: 'n",
        ),
        (
            {"attention_bias": "yes"},
            "`attention_bias` must be one of .True, False, 'input'",
        ),
        *(
            ({name: most + 1}, f"`{name}` must be at most {most}. Received: {most + 1}")
            for name, most in limits.MOST.items()
        ),
        ({"max_position": 2**25}, "`max_position` must be at most 16777216, the rows of a table"),
    ],
)
@pytest.mark.parametrize("where", ["file", "dict"])
def test_a_value_that_cannot_be_meant_is_named(folder, tiny_config, where, change, message):
    change = {"num_attention_heads": 2, **change}
    if where == "dict":
        with pytest.raises(ValueError, match=message):
            read_config({**tiny_config, **change})
        return
    if any(isinstance(value, float) for value in change.values()) or "unknown" in change:
        change = json.loads(json.dumps(change).replace("NaN", "1e999"))
        message = message.replace("nan", "inf")
    path = folder()
    text = json.dumps({**json.loads((path / "config.json").read_text()), **change})
    (path / "config.json").write_text(text.replace("Infinity", "1e999"))
    with pytest.raises(ValueError, match=message) as error:
        read_config(path)
    assert str(path / "config.json") in str(error.value)


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("modernbert", {"local_attention": "wide"}, "`local_attention` must be a number above 0"),
        ("modernbert", {"layer_types": "full"}, "`layer_types` must be a list. Received: 'full'"),
        ("gemma3_text", {"sliding_window": -4}, "`sliding_window` must be a number above 0"),
        ("gemma3_text", {"query_pre_attn_scalar": 0}, "`query_pre_attn_scalar` must be a number"),
        ("qwen3", {"rope_theta": "1e6"}, "`rope_theta` must be a number above 0. Received: '1e6'"),
        ("qwen3", {"rope_scaling": "yarn"}, "`rope_scaling` must be a dict. Received: 'yarn'"),
        ("qwen3", {"use_sliding_window": 1}, "`use_sliding_window` must be true or false"),
        ("gemma3_text", {"rope_parameters": {"full_attention": 5}}, "must be a dict. Received: 5"),
        ("t5", {"relative_attention_num_buckets": HUGE}, "must be an integer up to 65536"),
        ("nezha", {"max_relative_position": HUGE}, "must be an integer up to 65536"),
        ("t5", {"feed_forward_proj": 3}, "`hidden_act` must be a name or a list of names"),
        ("gpt2", {"n_inner": "many"}, "`n_inner` must be a number above 0"),
    ],
)
def test_what_a_family_reads_is_checked(tiny_config, family, change, message):
    values = {**tiny_config, "model_type": family, "head_dim": 8, **change}
    with pytest.raises(ValueError, match=message):
        read_config(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 500}, "num_hidden_layers=500 is more than .* holds, which has"),
        ({"vocab_size": 10**7}, "vocab_size=10000000 asks for 160,000,000 numbers, and .* holds"),
        ({"intermediate_size": 10**6}, "intermediate_size=1000000 asks for"),
        ({"max_position_embeddings": 10**7}, "max_position=10000000 asks for"),
        ({"num_attention_heads": 4096, "attention_head_size": 64}, "num_attention_heads=4096 asks"),
    ],
)
def test_a_config_of_far_more_than_the_file_holds(folder, capsys, change, message):
    """Nothing of that size is built first, whoever asks."""
    path = folder(**change)
    for read in (build_transformer_model, open_model):
        with pytest.raises(ValueError, match=message):
            read(path)
    assert inspect_checkpoint(path).problem
    assert main(["inspect", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_blocks_that_layers_share_are_not_counted(tiny_config, tmp_path):
    from keras_posenc.checkpoints import save_checkpoint

    config = {**tiny_config, "model_type": "albert", "embedding_size": 8}
    save_checkpoint(build_transformer_model(config), tmp_path)
    for family in ("albert", "albert_unshared"):
        build_transformer_model(tmp_path, model=family, num_hidden_layers=3)


@pytest.mark.parametrize("method", ["fp8", "bitsandbytes", "gptq", "awq", "compressed-tensors"])
def test_configs_of_quantized_weights(folder, method, tiny_config):
    config = {"quant_method": method, "bits": 4, "a": 1, "b": 2, "c": 3}
    for key in ("quantization_config", "compression_config"):
        message = f"`{key}` has quant_method '{method}'. Quantized weights are not read: take"
        with pytest.raises(ValueError, match=rf"config\.json: {message}"):
            build_transformer_model(folder(**{key: config}))
        with pytest.raises(ValueError, match=message):
            build_transformer_model({**tiny_config, key: config})
    build_transformer_model(folder(quantization_config=None))


@pytest.mark.parametrize(
    ("dtype", "companion", "words"),
    [
        ("float8_e4m3fn", "weight_scale_inv", "numbers of float8_e4m3fn and .*weight_scale_inv"),
        ("int8", "SCB", "numbers of int8 and .*query.SCB"),
        ("int8", None, "numbers of int8. Quantized weights are not read"),
        (None, "qweight", "The file has .*query.qweight. Quantized"),
        (None, "weight_packed", "The file has .*query.weight_packed. Quantized"),
    ],
)
def test_files_of_quantized_weights(folder, dtype, companion, words):
    import ml_dtypes

    path = folder()
    stored = open_checkpoint(path)
    name = next(name for name in stored if name.endswith("query.weight"))
    arrays = {name: np.array(array) for name, array in stored.items()}
    array = arrays.pop(name)
    if dtype is not None:
        arrays[name] = array.astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    if companion is not None:
        arrays[name.removesuffix("weight") + companion] = np.ones(2, "float32")
    write_safetensors(path / "model.safetensors", arrays)
    with pytest.raises(ValueError, match=words) as error:
        build_transformer_model(path)
    assert "model.dequantize()" in str(error.value)
    if dtype is not None:
        assert "of the wrong shape or type" in str(error.value)


def test_types_that_are_not_read(tmp_path):
    header = {"a": {"dtype": "F8_E8M0", "shape": [1], "data_offsets": [0, 1]}}
    text = json.dumps(header).encode().ljust(96)
    (tmp_path / "x.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"0")
    with pytest.raises(ValueError, match="holds 'a' as F8_E8M0.*Quantized weights are not read"):
        open_checkpoint(tmp_path)


# ---------------------------------------------------------------- what a file has too much
@pytest.fixture
def with_more(folder):
    """A checkpoint with tensors of heads that are not ours, as AntiBERTy has them."""
    path = folder()
    arrays = {name: np.array(array) for name, array in open_checkpoint(path).items()}
    for name in ("chain", "graft"):
        arrays |= {f"cls.{name}.weight": np.ones((2, 16)), f"cls.{name}.bias": np.ones(2)}
    arrays = {name: array.astype("float32") for name, array in arrays.items()}
    write_safetensors(path / "model.safetensors", arrays)
    return path


def test_tensors_that_are_to_be_left_out(with_more, capsys, tmp_path):
    with pytest.raises(ValueError, match=r"4 unexpected .*leave it out: `ignore` takes"):
        build_transformer_model(with_more)
    ignore = ["cls.chain.*", "cls.g?aft.*"]
    model = build_transformer_model(with_more, ignore=ignore, return_keras_model=False)
    assert [name for name, _ in model.account.ignored] == [
        "cls.chain.bias",
        "cls.chain.weight",
        "cls.graft.bias",
        "cls.graft.weight",
    ]
    assert "4 ignored" in model.account.summary()
    assert "by 'cls.g?aft.*'" in str(model.account)
    with pytest.raises(ValueError, match="2 unexpected"):
        build_transformer_model(with_more, ignore=ignore[:1])
    assert main(["inspect", str(with_more)]) == 2
    assert main(["inspect", str(with_more), "--all", "--ignore", *ignore]) == 0
    assert "Ignored (4)" in capsys.readouterr().out
    assert main(["convert", str(with_more), str(tmp_path / "out"), "--ignore", *ignore]) == 0
    assert build_transformer_model(tmp_path / "out").count_params() == model.model.count_params()


def test_patterns_that_leave_out_nothing(with_more, tiny_config):
    with pytest.raises(ValueError, match="`ignore` has 'cls.chian.*', which matches none of the"):
        build_transformer_model(with_more, ignore=["cls.chian.*"])
    with pytest.raises(TypeError, match="`ignore` must be a list of patterns of names. Received"):
        build_transformer_model(with_more, ignore="cls.*")
    with pytest.raises(ValueError, match="`ignore` is for a checkpoint's tensors. Received: ign"):
        build_transformer_model(tiny_config, ignore=["cls.*"])
    with pytest.raises(ValueError, match="unexpected"):  # what is needed is never left out
        build_transformer_model(with_more, ignore=["*.query.*"])


def test_the_head_in_the_file_counts_its_labels(tmp_path, tiny_config):
    """A published classifier has 50 rows, `num_labels` 50 and two labels in `id2label`."""
    from keras_posenc.checkpoints import save_checkpoint

    labels = [f"name {i}" for i in range(5)]
    model = build_transformer_model(tiny_config, head="sequence_classification", label_names=labels)
    save_checkpoint(model, tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    assert build_transformer_model(tmp_path, head="sequence_classification").output_shape[-1] == 5
    two = {"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}, "num_labels": 5}
    path.write_text(json.dumps({**config, **two}))
    with pytest.warns(UserWarning, match="names 2 labels, and the head in .* has 5: the head's si"):
        model = build_transformer_model(tmp_path, head="sequence_classification")
    assert model.output_shape[-1] == 5
    assert model.transformer.config.label_names == [f"LABEL_{i}" for i in range(5)]
    with pytest.warns(UserWarning, match="Correct `id2label` to give them names"):
        assert inspect_checkpoint(tmp_path).problem is None
    save_checkpoint(model, tmp_path / "again")
    again = build_transformer_model(tmp_path / "again", head="sequence_classification")
    assert again.transformer.config.label_names == model.transformer.config.label_names


@pytest.mark.parametrize("count", [1, 3])
def test_a_config_without_labels_has_those_of_the_head(tmp_path, tiny_config, count):
    """Two where nothing says more, also in transformers; a regressor has one."""
    from keras_posenc.checkpoints import save_checkpoint

    task = {"head": "sequence_classification"}
    labels = [f"name {i}" for i in range(count)]
    save_checkpoint(build_transformer_model(tiny_config, label_names=labels, **task), tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config = {key: value for key, value in config.items() if "label" not in key}
    path.write_text(json.dumps(config))
    model = build_transformer_model(tmp_path, **task)
    assert model.output_shape == (None, count)
    assert model.transformer.config.label_names == [f"LABEL_{i}" for i in range(count)]


def test_the_first_files_of_ultrabert_list_windows_and_bases_by_layer():
    sizes = {**SIZES, "model_type": "ultrabert", "num_hidden_layers": 3}
    keys = {"attention_windows": [3, None, 3], "rope_theta": [50.0, 7000.0, 50.0]}
    local = [{"name": "rotary", "layout": "half", "base": 50.0}, {"name": "window", "window": 4}]
    config = read_config({**sizes, **keys})
    assert config.encodings == (local, [{**local[0], "base": 7000.0}], local)
    assert read_config(config.to_huggingface()) == config
    for key, wrong in (("attention_windows", [3, None]), ("rope_theta", [1, "x", 2])):
        with pytest.raises(ValueError, match=f"`{key}` must list 3 numbers, one per layer. Rec"):
            read_config({**sizes, **keys, key: wrong})


@pytest.mark.once
@pytest.mark.parametrize(
    "record, line",
    [
        ({"extension": Extension("hierarchical", alpha=0.2).get_config()}, "hierarchical:0.2"),
        ({"extension": Extension.of("yarn:4").get_config()}, "yarn:4"),
        ({"stretch": "hierarchical", "alpha": 0.3, "kept_rows": 1}, "hierarchical:0.3,kept_rows=1"),
        ({"extension": {"table": "x"}}, "recipe.json is not readable: `table` must be "),
        ({"extension": 7}, "recipe.json is not readable: `extension` must be an Extension, a str"),
        ({"extension": None}, None),
        ({}, None),
    ],
)
def test_inspecting_shows_the_extension_of_the_run(pretrained, tmp_path, record, line):
    shutil.copytree(pretrained, tmp_path, dirs_exist_ok=True)
    (tmp_path / "recipe.json").write_text(json.dumps(record))
    lines = str(inspect_checkpoint(tmp_path)).splitlines()
    found = [each for each in lines if each.startswith("extension: ")]
    assert len(found) == (line is not None)
    assert line is None or found[0].startswith(f"extension: {line}")
    assert lines[-1].startswith("It can be loaded")
