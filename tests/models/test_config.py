import dataclasses
import json

import numpy as np
import pytest

from keras_posenc import Config, read_config

pytestmark = pytest.mark.once


def test_reads_a_file_a_directory_and_a_dict_alike(tiny_config, tmp_path):
    (tmp_path / "bert_config.json").write_text(json.dumps(tiny_config), encoding="utf-8")
    from_file = read_config(tmp_path / "bert_config.json")
    assert from_file == read_config(tmp_path) == read_config(tiny_config)
    assert from_file.max_position == 12
    assert from_file.segment_vocab_size == 2


def test_keywords_override_under_either_name(tiny_config):
    tiny_config["hidden_dropout_prob"] = 0.3
    assert read_config(tiny_config).dropout_rate == 0.3
    assert read_config(tiny_config, dropout_rate=0.1).dropout_rate == 0.1
    assert read_config(tiny_config, hidden_dropout_prob=0.2).dropout_rate == 0.2
    assert read_config(tiny_config, dropout_rate=None).dropout_rate == 0.0


def test_keys_of_no_consequence_are_passed_over(tiny_config):
    extra = {"architectures": ["BertModel"], "id2label": {"0": "a"}, "transformers_version": "4"}
    google = {"directionality": "bidi", "pooler_fc_size": 768, "pooler_type": "first_token"}
    assert read_config({**tiny_config, **extra, **google}) == read_config(tiny_config)


def test_every_field_survives_the_round_trip(tiny_config):
    config = read_config(tiny_config, layer_norm_eps=1e-5, embedding_size=8, pad_token_id=3)
    assert read_config(config.to_huggingface()) == config


def test_the_real_minilm(minilm):
    config = read_config(minilm)
    assert (config.hidden_size, config.num_hidden_layers, config.key_size) == (384, 6, 32)
    assert (config.dropout_rate, config.attention_dropout_rate) == (0.1, 0.1)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"hiden_size": 3}, "Unknown key 'hiden_size' in the config: did you mean 'hidden_size'?"),
        ({"layer_norm_epsilon": 1e-5}, "did you mean 'layer_norm_eps'?"),
        ({"position_embedding_type": "relative_key"}, "Only absolute positions.*'relative_key'"),
        ({"is_decoder": True}, 'application="lm".*is_decoder=True'),
        ({"add_cross_attention": True}, "Cross-attention is not supported"),
        ({"pruned_heads": {"0": [1]}}, "Pruned heads"),
        ({"is_encoder_decoder": True}, "Encoder-decoder models"),
        ({"hidden_size": "16"}, "`hidden_size` must be a positive integer. Received: '16'"),
        ({"vocab_size": 0}, "`vocab_size` must be a positive integer. Received: 0"),
        ({"num_hidden_layers": -1}, "`num_hidden_layers` must be an integer of at least 0"),
        ({"hidden_dropout_prob": 1.0}, "`dropout_rate` must be a number of at least 0 and below 1"),
        ({"pad_token_id": 40}, "must be an integer from 0 to 39: it is a token id. Received: 40"),
        ({"initializer_range": -1}, "`initializer_range` must be a number of at least 0"),
        ({"embedding_size": 0}, "`embedding_size` must be a positive integer"),
        ({"attention_head_size": -3}, "`attention_head_size` must be a positive integer"),
        ({"hidden_act": None}, "`hidden_act` must be a name or a list of names. Received: None"),
        ({"layer_norm_eps": 0}, "`layer_norm_eps` must be a positive number"),
        ({"num_attention_heads": 3}, "hidden_size=16 does not divide into num_attention_heads=3"),
    ],
)
def test_what_would_be_wrong_in_silence_is_refused(tiny_config, change, message):
    with pytest.raises(ValueError, match=message):
        read_config({**tiny_config, **change})


def test_heads_of_another_size_need_not_divide(tiny_config):
    config = read_config({**tiny_config, "num_attention_heads": 3, "attention_head_size": 5})
    assert (config.value_size, config.key_size) == (5, 5)


def test_missing_keys_are_named(tiny_config):
    del tiny_config["vocab_size"], tiny_config["hidden_act"]
    with pytest.raises(ValueError, match="Missing in the config: vocab_size, hidden_act. Is it"):
        read_config(tiny_config)
    with pytest.raises(ValueError, match="Missing in the keywords: vocab_size, hidden_size"):
        read_config()


def test_paths_that_hold_no_config(tmp_path):
    with pytest.raises(FileNotFoundError, match="No config at .*nowhere"):
        read_config(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="No config.json or bert_config.json in the dir"):
        read_config(tmp_path)
    (tmp_path / "a.json").write_bytes(b"\x80\x02not json")
    with pytest.raises(ValueError, match="a.json is not JSON .*give the config, not the weights"):
        read_config(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("[1, 2]")
    with pytest.raises(TypeError, match="A config is a path, a dict or a Config. Received: 5"):
        read_config(5)
    with pytest.raises(ValueError, match="b.json holds a list, not the keys of a config"):
        read_config(tmp_path / "b.json")


def test_a_byte_order_mark_and_a_config_are_read(tiny_config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(tiny_config), encoding="utf-8-sig")
    config = read_config(tmp_path)
    assert read_config(config) == config
    assert read_config(config, pad_token_id=None).pad_token_id is None


ALTERED = [
    ({}, {"num_hidden_layers": 1, "hidden_act": "relu", "layer_norm_eps": 0.1}),
    ({"model_type": "modernbert"}, {"num_hidden_layers": 5, "hidden_act": "relu"}),
    ({"model_type": "mistral", "sliding_window": 4}, {"sliding_window": 8, "causal": False}),
    ({"model_type": "qwen3", "is_causal": False}, {"causal": True}),
    ({"model_type": "roberta", "pad_token_id": 1}, {"max_position": 7}),
    ({"encodings": ["rotary"]}, {"num_hidden_layers": 2}),
]


@pytest.mark.parametrize(("source", "changes"), ALTERED)
def test_a_config_with_other_fields_is_written_with_them(tiny_config, source, changes):
    sizes = {**tiny_config, "pad_token_id": 0, **source}
    before = read_config(sizes)
    config = read_config(before, **changes)
    in_file = dict(changes)
    if "max_position" in in_file:
        in_file["max_position"] += config.position_offset
    assert config == read_config(sizes, **in_file)
    assert read_config(config.to_huggingface(config.saved_encodings)) == config
    assert config.source.keys() >= set(source)


def test_what_was_replaced_in_a_config_stays(tiny_config):
    config = dataclasses.replace(read_config(tiny_config), norm="pre")
    other = read_config(config, hidden_act="relu")
    assert (other.norm, other.hidden_act) == ("pre", "relu")


def test_numpy_numbers_are_saved(tiny_config):
    config = read_config(tiny_config, hidden_size=np.int64(32), dropout_rate=np.float32(0.5))
    assert json.loads(json.dumps(config.to_huggingface()))["hidden_size"] == 32


def test_a_config_cannot_be_changed(tiny_config):
    with pytest.raises(AttributeError):
        read_config(tiny_config).vocab_size = 3
    assert isinstance(read_config(tiny_config), Config)


@pytest.mark.parametrize("family", ["bert", "esm", "gpt2"])
def test_no_padding_token_is_written_where_a_family_has_one(tiny_config, family):
    rotary = {"position_embedding_type": "rotary"} if family == "esm" else {}
    tiny_config.update(model_type=family, pad_token_id=None, **rotary)
    config = read_config(tiny_config)
    assert config.pad_token_id is None
    assert read_config(config.to_huggingface()).pad_token_id is None


def test_a_config_that_is_made_without_a_file():
    config = Config(40, 8, 1, 2, 16, "gelu").with_label_names(["a", "b"])
    assert config.label_names == ["a", "b"] and config.source["hidden_size"] == 8
    with pytest.raises(ValueError, match="`causal` must be true or false. Received: 'no'"):
        Config(40, 8, 1, 2, 16, "gelu", causal="no")
