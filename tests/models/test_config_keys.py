"""Every key of transformers' configs is read, irrelevant to the numbers, or refused by name."""

import dataclasses
import types

import keras
import numpy as np
import pytest
from published import answer, publish

from keras_posenc import Config, build_transformer_model, read_config
from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.models.config import FIELDS
from keras_posenc.models.families import FAMILIES
from keras_posenc.models.families.family import ALIASES
from keras_posenc.models.families.keys import IRRELEVANT, READ_BY_ALL, REQUIRED_VALUES

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "hidden_act": "gelu",
    "pad_token_id": 0,
}
TYPES = [(name, kind) for name, family in FAMILIES.items() for kind in family.model_types]


def lists(family):
    """The keys that a family reads, and those that it refuses unless they have one value."""
    required = {**REQUIRED_VALUES, **family.required}
    refused = {key for key, values in required.items() if values is not None}
    read = {*FIELDS, *ALIASES, *READ_BY_ALL, *family.keys_read, "use_bidirectional_attention"}
    return read - refused, refused


def keys_of(kind):
    """The keys of transformers' config of a `model_type`, and their defaults."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if kind not in CONFIG_MAPPING:
        pytest.skip(f"transformers has no {kind}")
    config = CONFIG_MAPPING[kind]()
    fields = {field.name for field in dataclasses.fields(config)}
    return {**{name: getattr(config, name) for name in fields}, **vars(config), **config.to_dict()}


@pytest.mark.once
@pytest.mark.parametrize(("name", "kind"), TYPES)
def test_each_key_is_in_one_list(name, kind):
    read, refused = lists(FAMILIES[name])
    keys = keys_of(kind)
    unknown = {key: value for key, value in keys.items() if key not in read | refused | IRRELEVANT}
    assert not unknown
    assert not {key for key in keys if key in IRRELEVANT and key in read | refused}


@pytest.mark.once
@pytest.mark.parametrize(("name", "kind"), TYPES)
def test_what_is_refused_is_named_and_the_default_is_not(name, kind):
    _, refused = lists(FAMILIES[name])
    base = config_of(name, kind)
    defaults = keys_of(kind)
    for key in refused:
        if key in defaults and key != "position_embedding_type":
            read_config({**base, key: defaults[key]}, name)
        with pytest.raises(ValueError, match=rf"Found {key}='another'"):
            read_config({**base, key: "another"}, name)


@pytest.mark.once
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_irrelevant_changes_nothing(name):
    base = config_of(name, FAMILIES[name].model_types[0])
    assert read_config({**base, **dict.fromkeys(IRRELEVANT, 7)}, name) == read_config(base, name)


def config_of(name, kind):
    base = {**SIZES, "model_type": kind, "feed_forward_type": "geglu", "relative_attention": True}
    base |= {"share_att_key": True, "pos_att_type": "c2p|p2c"}
    if name == "mpnet":
        base["pad_token_id"] = 1
    if name == "jina_v2":
        base["position_embedding_type"] = "alibi"
    if name in ("jina_v3", "esm"):
        base["position_embedding_type"] = "rotary"
    return base


class Recorder(dict):
    """A dict that remembers which keys it was asked for."""

    def __init__(self, values):
        super().__init__(values)
        self.asked = set()

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self.asked.add(key)
        return super().__contains__(key)

    def __or__(self, other):
        changed = Recorder(super().__or__(other))
        changed.asked = self.asked
        return changed


@pytest.mark.once
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_listed_as_read_is_asked_for(name):
    family = FAMILIES[name]
    values = config_of(name, family.model_types[0]) | {"rotary_scaling_factor": 2.0}
    source = Recorder(values)
    fields = {family.ours(k): v for k, v in values.items() if family.ours(k) in FIELDS}
    config = Config(**{**family.defaults, **fields}, family=name, source=source)
    config = family.configure(config)
    family.table(config)
    family.heads_of(config)
    assert set(family.keys) - source.asked <= {"num_hidden_groups"}


# ---------------------------------------------------------------- which way attention looks
DECODERS = [name for name, family in FAMILIES.items() if family.causal]
BOTH_WAYS = [{"is_causal": False}, {"use_bidirectional_attention": True}]


@pytest.mark.once
def test_the_decoders():
    assert {"gemma3", "gpt2", "qwen3"} <= set(DECODERS)


@pytest.mark.once
@pytest.mark.parametrize("keys", BOTH_WAYS)
@pytest.mark.parametrize("name", DECODERS)
def test_decoders_made_encoders_are_read_and_written(name, keys):
    base = {**SIZES, "model_type": FAMILIES[name].model_types[0]}
    assert read_config(base).causal and read_config({**base, "is_causal": True}).causal
    config = read_config({**base, **keys})
    assert not config.causal
    written = config.to_huggingface()
    assert read_config(written) == config
    assert not read_config(read_config(base, causal=False).to_huggingface()).causal
    assert read_config(config, causal=True).causal
    assert read_config({**base, **keys}, is_causal=True).causal
    for values in (written, read_config(base, causal=False).to_huggingface()):
        # By a key that transformers reads of this family.
        seen = values.get("use_bidirectional_attention") if name == "gemma3" else None
        assert seen or values["is_causal"] is False
    assert "is_causal" not in read_config(base).to_huggingface()


@pytest.mark.once
def test_a_model_without_a_window_is_written_without_one():
    """Mistral's default is a window of 4,096, also in transformers."""
    base = {**SIZES, "model_type": "mistral"}
    assert {spec["name"] for spec in read_config(base).encodings} == {"rotary", "window"}
    config = read_config({**base, "sliding_window": None})
    assert [spec["name"] for spec in config.encodings] == ["rotary"]
    assert read_config(config.to_huggingface()).encodings == config.encodings


@pytest.mark.once
@pytest.mark.parametrize("name", ["llama", "modernbert", "eurobert"])
def test_a_switch_without_a_value_is_as_the_family_has_it(name):
    base = {**SIZES, "model_type": name}
    null = dict.fromkeys(("attention_bias", "mlp_bias", "tie_word_embeddings"))
    assert read_config({**base, **null}) == read_config(base)


@pytest.mark.once
@pytest.mark.parametrize("name", ["mistral", "lfm2"])
def test_as_many_key_value_heads_as_heads_are_written_so(name):
    """Both have a default of 8, also in transformers."""
    base = {**SIZES, "model_type": name, "num_key_value_heads": None, "num_attention_heads": 16}
    config = read_config(base)
    assert config.num_key_value_heads is None
    assert read_config(config.to_huggingface()) == config


@pytest.mark.once
@pytest.mark.parametrize("kind", ["llama_bidirec", "bidirectional_pplx_qwen3"])
def test_types_of_embedding_models_see_all_tokens(kind):
    """NVIDIA's and Perplexity's names for decoders without the causal order."""
    config = read_config({**SIZES, "model_type": kind})
    assert not config.causal and not read_config(config.to_huggingface()).causal
    assert read_config({**SIZES, "model_type": kind, "is_causal": True}).causal


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        (
            "ministral3",
            {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
            "Ministral 3 needs `rope_parameters` with `llama_4_scaling_beta` and",
        ),
        ("qwen3", {"is_causal": None}, "`is_causal` must be true or false. Received: None"),
        ("qwen3", {"is_causal": "false"}, "`is_causal` must be true or false. Received: 'false'"),
        ("gemma3_text", {"use_bidirectional_attention": "vision"}, "must be true or false. Rec"),
        (
            "gpt2",
            {"is_causal": True, "use_bidirectional_attention": True},
            "`is_causal` and `use_bidirectional_attention` are true: drop one of them",
        ),
        ("bert", {"is_causal": True}, 'BERT is no causal model; application="lm" makes one'),
    ],
)
def test_directions_that_cannot_be_are_refused(name, keys, message):
    with pytest.raises(ValueError, match=message):
        read_config({**SIZES, "model_type": name, **keys})


TOKEN_IDS = np.array([[5, 6, 7, 8, 9, 3, 11, 2, 30, 17], [4, 9, 1, 2, 2, 7, 0, 0, 0, 0]], "int32")
GPT2 = {
    "n_embd": 16,
    "pad_token_id": 0,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 12,
    "vocab_size": 40,
}
SMALL = {key: value for key, value in SIZES.items() if key != "hidden_act"} | {"head_dim": 6}
SMALL |= {"num_key_value_heads": 1, "sliding_window": 6}
GEMMA = {**SMALL, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
CASES = {
    "qwen3": ("Qwen3Model", SMALL, {"is_causal": False}),
    "llama": ("LlamaModel", SMALL, {"is_causal": False}),
    "mistral": ("MistralModel", SMALL, {"is_causal": False}),
    "qwen2": ("Qwen2Model", SMALL, {"is_causal": False}),
    "gpt2": ("GPT2Model", GPT2, {"is_causal": False}),
    "gemma3": ("Gemma3TextModel", GEMMA, {"is_causal": False}),
    "embedding_gemma": ("Gemma3TextModel", GEMMA, {"use_bidirectional_attention": True}),
    "both_keys": (
        "Gemma3TextModel",
        GEMMA,
        {"is_causal": False, "use_bidirectional_attention": True},
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("case", CASES)
def test_decoders_made_encoders_have_the_numbers_of_transformers(case, tmp_path):
    """Also those of what is written, as transformers reads it."""
    import transformers

    name, sizes, keys = CASES[case]
    reference = publish(tmp_path / "in", name, **sizes, **keys)
    model = build_transformer_model(tmp_path / "in")
    save_checkpoint(model, tmp_path / "out")
    found = keras.ops.convert_to_numpy(model({"token_ids": TOKEN_IDS}))
    real = TOKEN_IDS != 0
    for one in (reference, getattr(transformers, name).from_pretrained(tmp_path / "out")):
        expected = answer(one, TOKEN_IDS, real)
        np.testing.assert_allclose(found[real], expected[real], rtol=0, atol=2e-5)


@pytest.mark.once
@pytest.mark.parametrize(
    "keys", [{}, {"block_auto_adjust_ff_dim": False}, {"block_ffn_dim_multiplier": None}]
)
def test_the_width_of_lfm2_is_that_of_transformers(keys):
    from transformers.models.lfm2 import modeling_lfm2

    keys = {"intermediate_size": 100, "block_multiple_of": 16, **keys}
    theirs = {"block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": 1.0, **keys}
    theirs = modeling_lfm2.Lfm2MLP(types.SimpleNamespace(hidden_size=16, **theirs))
    found = read_config({**SIZES, "model_type": "lfm2", **keys}).intermediate_size
    assert found == theirs.w1.out_features
