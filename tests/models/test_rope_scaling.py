"""Rotary encodings with another scaling: read from configs, given, and written."""

import json
import os

import numpy as np
import pytest
from keras import ops
from published import SIZES, answer, publish, token_ids

from keras_posenc import build_transformer_model, save_checkpoint

TOLERANCE = 1e-5
ESM = {**SIZES, "model_type": "esm", "position_embedding_type": "rotary", "mask_token_id": 3}

SCALINGS = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0},
    "longrope": {"factor": 4.0, "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1, 2, 3, 4]},
    "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
}


@pytest.mark.once
@pytest.mark.parametrize("kind", SCALINGS)
def test_rope_scaling_is_that_of_transformers(rotating, tmp_path, kind):
    import transformers

    scaling = {"rope_type": kind, **SCALINGS[kind]}
    if kind == "llama3":
        scaling["original_max_position_embeddings"] = 16
    ours = build_transformer_model(rotating, extension=scaling)
    config = transformers.AutoConfig.from_pretrained(rotating)
    parameters = {**scaling, "rope_theta": 100.0}
    if kind in ("yarn", "longrope"):
        parameters["original_max_position_embeddings"] = 16
    config.rope_parameters = parameters
    reference = transformers.EuroBertModel.from_pretrained(rotating, config=config).eval()
    save_checkpoint(ours, tmp_path)
    written = build_transformer_model(tmp_path)
    plain = build_transformer_model(rotating)
    for length in (12, 50):
        ids = token_ids(length)[0][:1]
        expected = answer(reference, ids, ids > 0)
        found = [ops.convert_to_numpy(model([ids])) for model in (ours, written, plain)]
        atol = TOLERANCE * abs(expected).max()
        np.testing.assert_allclose(found[0], expected, rtol=0, atol=atol)
        np.testing.assert_allclose(found[1], expected, rtol=0, atol=atol)
    assert np.abs(found[2] - expected).max() > 1e-3


@pytest.mark.once
@pytest.mark.parametrize("name", ["rerope", "self_extend", "dual_chunk", "string"])
def test_other_distances_take_the_place_of_the_familys_rotary(rotating, name):
    """With the family's layout and base; texts within the window are read as before."""
    plain, other = build_transformer_model(rotating), build_transformer_model(
        rotating, encodings=[name, {"name": "log_n", "clipped": True}]
    )  # fmt: skip
    attention = other.transformer.layers["Transformer-0-MultiHeadSelfAttention"]
    rotary, log_n = attention.encodings
    assert (rotary.layout, rotary.base, log_n.clipped) == ("half", 100.0, True)
    ids = token_ids(30)[0]
    found = [ops.convert_to_numpy(model([ids])) for model in (plain, other)]
    np.testing.assert_allclose(*found, atol=1e-5)
    scaled = {"rope_type": "linear", "factor": 2.0}
    both = build_transformer_model(rotating, encodings=[name], extension=scaled)
    found = [build_transformer_model(rotating, extension=scaled), both]
    np.testing.assert_allclose(*(ops.convert_to_numpy(m([ids])) for m in found), atol=1e-5)


@pytest.mark.once
def test_positions_are_dropped_by_a_fraction_of_zero(rotating, tmp_path):
    """DroPE: a reordered text is the same set of features; the saved model has none either."""
    dropped = {"rope_type": "proportional", "partial_rotary_factor": 0.0}
    temperature = {"name": "temperature", "value": 1.2}
    model = build_transformer_model(rotating, extension=dropped, encodings=[temperature])
    save_checkpoint(model, tmp_path)
    ids = token_ids(12)[0][:1]
    found = ops.convert_to_numpy(model([ids]))
    for blind in (model, build_transformer_model(tmp_path)):
        backwards = ops.convert_to_numpy(blind([ids[:, ::-1]]))
        np.testing.assert_allclose(backwards[:, ::-1], found, atol=1e-5)
    seeing = build_transformer_model(rotating, encodings=[temperature])
    assert np.abs(ops.convert_to_numpy(seeing([ids])) - found).max() > 1e-2


@pytest.mark.once
def test_rope_scaling_that_no_config_has(rotating, tmp_path):
    su = build_transformer_model(rotating, extension={"type": "su_fixed", "factor": 4.0})
    save_checkpoint(su, tmp_path / "su")
    assert json.loads((tmp_path / "su" / "config.json").read_text())["model_type"].startswith(
        "keras_posenc-"
    )
    again = build_transformer_model(tmp_path / "su")
    inputs = [np.arange(1, 25)[None] % 9] * len(su.inputs)
    np.testing.assert_array_equal(*(ops.convert_to_numpy(m(inputs)) for m in (su, again)))
    with pytest.raises(ValueError, match="Unknown rope type 'yan': did you mean 'yarn'?"):
        build_transformer_model(rotating, extension={"type": "yan", "factor": 4.0})
    publish(tmp_path / "bert", "BertModel", **SIZES)
    with pytest.raises(ValueError, match="scales rotary encodings, and BERT has none; a table"):
        build_transformer_model(tmp_path / "bert", extension={"type": "ntk", "factor": 4.0})


PARTIAL = {
    "LlamaModel": {},
    "MistralModel": {"sliding_window": None},
    "Qwen2Model": {},
    "Qwen3Model": {"head_dim": 8},
    "EuroBertModel": {},
    "ModernBertModel": {"num_key_value_heads": 2, "reference_compile": False},
}


@pytest.mark.once
@pytest.mark.parametrize("inside", [True, False], ids=["in rope_parameters", "beside"])
@pytest.mark.parametrize("name", PARTIAL)
def test_a_fraction_without_a_scaling_is_ignored_as_by_transformers(tmp_path, name, inside):
    rope = {"rope_type": "default", "rope_theta": 100.0}
    if name == "ModernBertModel":  # which has one for each kind of layer
        parts = {kind: dict(rope) for kind in ("full_attention", "sliding_attention")}
    else:
        parts = rope
    config = {**SIZES, "num_key_value_heads": 1, "rope_parameters": parts, **PARTIAL[name]}
    reference = publish(tmp_path, name, **config)
    written = json.loads((tmp_path / "config.json").read_text())
    inner = [rope] if parts is rope else parts.values()
    for part in inner if inside else [written]:
        part["partial_rotary_factor"] = 0.5
    written["rope_parameters"] = parts
    (tmp_path / "config.json").write_text(json.dumps(written))
    reference = type(reference).from_pretrained(tmp_path).eval()
    ours = build_transformer_model(tmp_path)
    ids = token_ids(12)[0][:1]
    expected = answer(reference, ids, ids > 0)
    found = ops.convert_to_numpy(ours([ids]))
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * abs(expected).max())
    # An argument is not a key of a file: it rotates the fraction, also once it is written.
    if parts is rope:
        half = {"rope_type": "default", "partial_rotary_factor": 0.5}
        partly = build_transformer_model(tmp_path, extension=half)
        save_checkpoint(partly, tmp_path / "partly")
        models = partly, build_transformer_model(tmp_path / "partly")
        found = [ops.convert_to_numpy(model([ids])) for model in models]
        np.testing.assert_array_equal(*found)
        assert np.abs(found[0] - expected).max() > 1e-2


WITHOUT_A_KEY = {
    # A key beside the scaling, of the kinds of layers, a length of dynamic's own, none at all, and
    # one that no other library reads: transformers' RoFormer has a table of sines.
    "ministral3": {**SIZES, "model_type": "ministral3", "num_key_value_heads": 1},
    "gemma3": {**SIZES, "model_type": "gemma3_text", "rope_theta": 100.0},
    "llama": {**SIZES, "model_type": "llama", "hidden_act": "silu"},
    "esm": ESM,
    "roformer": {**SIZES, "model_type": "roformer", "type_vocab_size": 2},
    "neobert": {**SIZES, "model_type": "neobert"},
}


@pytest.mark.once
@pytest.mark.parametrize("name", WITHOUT_A_KEY)
def test_a_scaling_that_files_of_a_family_cannot_have_is_kept(name, tmp_path):
    kind = "dynamic" if name == "llama" else "linear"
    scaling = {"rope_type": kind, "factor": 4.0, "original_max_position_embeddings": 8}
    model = build_transformer_model(WITHOUT_A_KEY[name], extension=scaling)
    save_checkpoint(model, tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())["model_type"]
    assert written.startswith("keras_posenc-")
    ids = token_ids(14)[0]
    again = build_transformer_model(tmp_path)
    feeds = [ids, 0 * ids][: len(model.inputs)]
    np.testing.assert_array_equal(*(ops.convert_to_numpy(m(feeds)) for m in (model, again)))


@pytest.mark.once
@pytest.mark.parametrize("kind", ["dynamic", "longrope", "llama3", "yarn"])
@pytest.mark.parametrize("place", ["inside", "outside", "both"])
def test_the_original_length_is_read_where_transformers_reads_it(rotating, tmp_path, kind, place):
    """Outside of the dict it comes first, and "dynamic" has none."""
    import transformers

    length = "original_max_position_embeddings"
    values = json.loads((rotating / "config.json").read_text())
    scaling = {"rope_type": kind, **SCALINGS[kind], "rope_theta": 100.0}
    if place == "outside":
        values[length] = 8
    else:
        scaling[length] = 8 if place == "inside" else 13
        values |= {length: 8} if place == "both" else {}
    values["rope_parameters"] = scaling
    for name in os.listdir(rotating):
        (tmp_path / name).write_bytes((rotating / name).read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(values))
    reference = transformers.EuroBertModel.from_pretrained(tmp_path).eval()
    ours = build_transformer_model(tmp_path)
    for count in (12, 50):
        ids = token_ids(count)[0][:1]
        expected = answer(reference, ids, ids > 0)
        atol = TOLERANCE * abs(expected).max()
        found = ops.convert_to_numpy(ours([ids]))
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}
LINEAR = {"rope_type": "linear", "factor": 3.0}
LLAMA_4 = {**LINEAR, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 8}
ELSEWHERE = {"original_max_position_embeddings": 16}
LOCAL = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
PLACES = {
    "a scaling beside the dict": ("Qwen3Model", {}, {"rope_scaling": YARN}),
    "a scaling beside a default": ("Ministral3Model", {}, {"rope_scaling": LLAMA_4}),
    "a length outside": ("Ministral3Model", {}, ELSEWHERE),
    "a scaling of both kinds": ("ModernBertModel", LOCAL, {"rope_scaling": LINEAR}),
    "a base of no kind": ("ModernBertModel", LOCAL, {"rope_parameters": None, "rope_theta": 7.0}),
    "a scaling of one kind": ("Gemma3TextModel", LOCAL, {"rope_scaling": LINEAR, **ELSEWHERE}),
    "no dict": ("GteModel", {}, {"rope_parameters": None}),
}


@pytest.mark.once
@pytest.mark.parametrize("case", PLACES)
def test_keys_in_several_places_count_as_in_transformers(case, tmp_path):
    name, config, keys = PLACES[case]
    more = {} if name.startswith(("Modern", "Gte")) else {"head_dim": 8, "num_key_value_heads": 1}
    reference = publish(tmp_path, name, **SIZES, **more, **config)
    written = json.loads((tmp_path / "config.json").read_text()) | keys
    written = {key: value for key, value in written.items() if value is not None}
    (tmp_path / "config.json").write_text(json.dumps(written))
    reference = type(reference).from_pretrained(tmp_path).eval()
    ids = token_ids(24)[0][:1]
    expected = answer(reference, ids, ids > 0)
    ours = build_transformer_model(tmp_path)
    feeds = [ids, 0 * ids][: len(ours.inputs)]
    atol = TOLERANCE * abs(expected).max()
    np.testing.assert_allclose(ops.convert_to_numpy(ours(feeds)), expected, rtol=0, atol=atol)
    if "rope_scaling" in keys and "Ministral" not in name:
        other = build_transformer_model(tmp_path, extension={**LINEAR, "factor": 5.0})
        save_checkpoint(other, tmp_path / "out")
        reference = type(reference).from_pretrained(tmp_path / "out").eval()
        expected, found = answer(reference, ids, ids > 0), ops.convert_to_numpy(other(feeds))
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * abs(expected).max())


@pytest.mark.once
def test_encodings_are_swapped_and_added_by_name(rotating):
    mine = [{"name": "rotary", "layout": "half", "base": 50.0}, "log_n"]
    model = build_transformer_model(rotating, encodings=mine)
    found = model.get_layer("Transformer-0-MultiHeadSelfAttention").encodings
    assert [type(encoding).__name__ for encoding in found] == ["RotaryEmbedding", "LogN"]
    assert found[0].base == 50.0
