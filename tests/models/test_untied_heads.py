"""Heads of tokens with a matrix and a bias of their own, in families that share the token table."""

import json
import shutil

import numpy as np
import pytest
from keras import ops
from published import SIZES, answer, publish, token_ids
from selection import on_all

from keras_posenc import build_transformer_model, save_checkpoint
from keras_posenc.retrieval import embed

OWN = {"tie_word_embeddings": False}
SHORT = {"max_position_embeddings": 12}
ESM = {"position_embedding_type": "rotary", "pad_token_id": 1, "mask_token_id": 3}
CASES = {
    "BertForMaskedLM": SHORT,
    "RobertaForMaskedLM": {"max_position_embeddings": 14, "pad_token_id": 1},
    "ElectraForMaskedLM": {"embedding_size": 8, **SHORT},
    "AlbertForMaskedLM": {"embedding_size": 8, **SHORT},
    "DistilBertForMaskedLM": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24},
    "DebertaV2ForMaskedLM": SHORT,
    "DebertaV2ForMaskedLM, new": {"legacy": False, **SHORT},
    "EsmForMaskedLM": ESM,
    "RoFormerForMaskedLM": {"embedding_size": 8, "max_position_embeddings": 50},
    "MPNetForMaskedLM": {"max_position_embeddings": 14, "pad_token_id": 1},
    "ModernBertForMaskedLM": {"max_position_embeddings": 32},
    "NomicBertForMaskedLM": {},
    "GteForMaskedLM": {"type_vocab_size": 2},
    "JinaEmbeddingsV3ForMaskedLM": {},
    "GPT2LMHeadModel": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 12},
    "Gemma3ForCausalLM": {"num_key_value_heads": 1, "head_dim": 8},
}
EVERYWHERE = ("BertForMaskedLM", "GPT2LMHeadModel")


@pytest.mark.parametrize("name", on_all(EVERYWHERE, CASES))
def test_they_are_read_and_written(name, tmp_path):
    class_name, config = name.partition(",")[0], CASES[name]
    reference = publish(tmp_path, class_name, **{**SIZES, **config, **OWN})
    model = build_transformer_model(tmp_path, with_mlm="linear")
    ids, real = token_ids(12, reference.config.pad_token_id or 0)
    expected = answer(reference, ids, real)[real]
    feeds = [ids] if len(model.inputs) == 1 else [ids, 0 * ids]

    def difference(found, of=expected):
        return abs(ops.convert_to_numpy(found)[real] - of).max() / abs(of).max()

    assert difference(model(feeds)) < 1e-5
    save_checkpoint(model, tmp_path / "out")
    again = type(reference).from_pretrained(tmp_path / "out")
    assert difference(answer(again, ids, real)) < 1e-5
    features = build_transformer_model(tmp_path)
    with_both = answer(reference.base_model, ids, real)[real]
    assert difference(features(feeds), with_both) < 1e-5
    assert all("copy of" not in why for _, why in features.transformer.account.unused)


@pytest.mark.once
def test_a_matrix_without_its_bias_takes_the_shared_one(tmp_path):
    """transformers 4 wrote one of the two biases, which were always one."""
    from safetensors.numpy import load_file, save_file

    publish(tmp_path, "RobertaForMaskedLM", **{**SIZES, **CASES["RobertaForMaskedLM"], **OWN})
    weights = load_file(tmp_path / "model.safetensors")
    del weights["lm_head.decoder.bias"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    model = build_transformer_model(tmp_path, with_mlm="linear")
    bias = ops.convert_to_numpy(model.transformer.layers["MLM-Bias"].weights[0])
    np.testing.assert_array_equal(bias, weights["lm_head.bias"])
    with pytest.raises(ValueError, match="There are no Google checkpoints of roberta with MLM-Out"):
        save_checkpoint(model, tmp_path / "google", format="google")


@pytest.mark.once
def test_the_encoder_alone_needs_no_head(tmp_path, first_layer):
    """A directory says so where the texts are embedded, too."""
    folder, texts = shutil.copytree(first_layer, tmp_path / "untied"), ["A river is long."]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **OWN}))
    np.testing.assert_array_equal(embed(folder, texts), embed(first_layer, texts))
    with pytest.raises(ValueError, match="The file has no MLM head"):
        build_transformer_model(folder, with_mlm=True)
