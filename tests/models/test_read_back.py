"""Configs whose meaning is not in their keys alone, written and read back."""

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG

from keras_posenc import build_transformer_model, save_checkpoint

pytestmark = pytest.mark.once
IDS = np.arange(3, 13, dtype="int32")[None]


def features(model):
    inputs = {x.name: IDS if x.name == "token_ids" else 0 * IDS for x in model.inputs}
    return keras.ops.convert_to_numpy(model(inputs))


def test_roberta_in_googles_layout_is_a_bert(tmp_path):
    """As bert4keras names it: its positions are counted from 0."""
    config = {key: value for key, value in TINY_CONFIG.items() if key != "model_type"}
    model = build_transformer_model(config, model="roberta")
    save_checkpoint(model, tmp_path / "out")
    again = build_transformer_model(tmp_path / "out")
    np.testing.assert_allclose(features(again), features(model), atol=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras").transformer.config
    assert (loaded.max_position, loaded.position_offset) == (12, 0)


def test_a_gemma_that_sees_later_tokens_keeps_its_window(tmp_path):
    config = {"model_type": "gemma3_text", "vocab_size": 40, "hidden_size": 16, "head_dim": 8}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    config |= {"intermediate_size": 32, "sliding_window": 4, "sliding_window_pattern": 2}
    model = build_transformer_model(config, causal=False)
    save_checkpoint(model, tmp_path / "out")
    again = build_transformer_model(tmp_path / "out")
    np.testing.assert_allclose(features(again), features(model), atol=1e-6)


def test_the_padding_token_stays_where_positions_begin(tmp_path):
    config = TINY_CONFIG | {"model_type": "xlm-roberta", "pad_token_id": 1}
    save_checkpoint(build_transformer_model(config), tmp_path / "out")
    kept = [0, 1, *range(3, 40)]
    assert build_transformer_model(tmp_path / "out", keep_tokens=kept).output_shape[-1] == 16
    with pytest.raises(ValueError, match="`keep_tokens` must keep the padding token at its place"):
        build_transformer_model(tmp_path / "out", keep_tokens=[1, 0, *range(3, 40)])


def test_a_scaling_in_the_older_words_replaces_the_default():
    from keras_posenc.models.config_file import read_config
    from keras_posenc.models.families.rope import rotary

    config = read_config({**TINY_CONFIG, "rope_scaling": {"type": "linear", "factor": 2.0}})
    default = {"rope_type": "yarn", "factor": 32.0}
    assert rotary(config, default=default)["scaling"]["factor"] == 2.0
