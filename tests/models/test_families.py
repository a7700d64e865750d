"""Each family from a directory that transformers wrote: the same numbers, there and back."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from programs import predicted
from published import SIZES, answer, publish, token_ids
from selection import on_all

from keras_posenc import build_transformer_model, read_config, save_checkpoint

# Of the largest value, in float32.
TOLERANCE = 1e-5

ONLY_TOKENS = dict.fromkeys(set(SIZES) - {"vocab_size", "pad_token_id"})
SHORT = {"max_position_embeddings": 12}
FAIRSEQ = {"max_position_embeddings": 14, "pad_token_id": 1, "type_vocab_size": 1}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "llama_4_scaling_beta": 0.3}
YARN |= {"original_max_position_embeddings": 8, "mscale": 1.0, "mscale_all_dim": 1.0}
# Name -> transformers' class, its config beside `SIZES`, arguments of the factory. A masked LM has
# all weights of an encoder, and those of a head.
CASES = {
    "bert": ("BertForMaskedLM", SHORT, {}),
    "xlm_roberta": ("XLMRobertaForMaskedLM", FAIRSEQ, {}),
    "camembert": ("CamembertForMaskedLM", FAIRSEQ, {}),
    "modernbert": (
        "ModernBertForMaskedLM",
        {"local_attention": 8, "max_position_embeddings": 32},
        {},
    ),
    "distilbert": (
        "DistilBertForMaskedLM",
        {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 12}
        | ONLY_TOKENS,
        {},
    ),
    "electra": ("ElectraForMaskedLM", {"embedding_size": 8, **SHORT}, {}),
    "electra_discriminator": (
        "ElectraForPreTraining",
        {"embedding_size": 8, "hidden_act": "relu", **SHORT},
        {"with_mlm": False, "with_discriminator": "linear"},
    ),
    "roformer": ("RoFormerForMaskedLM", {"embedding_size": 8, "max_position_embeddings": 50}, {}),
    "mpnet": (
        "MPNetForMaskedLM",
        {"max_position_embeddings": 14, "pad_token_id": 1},
        {},
    ),
    "albert": ("AlbertForMaskedLM", {"embedding_size": 8, **SHORT}, {}),
    "albert_two_groups": (
        "AlbertForMaskedLM",
        {"embedding_size": 8, "num_hidden_layers": 4, "num_hidden_groups": 2, **SHORT},
        {},
    ),
    "albert_mapped_to_the_same_size": (
        "AlbertForMaskedLM",
        {"embedding_size": 16, **SHORT},
        {},
    ),
    "deberta_v3": (
        "DebertaV2ForMaskedLM",
        {"relative_attention": True, "position_buckets": 4, "norm_rel_ebd": "layer_norm"}
        | {"share_att_key": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
        | {"max_position_embeddings": 12},
        {},
    ),
    "deberta_v2_without_tables": (
        "DebertaV2ForMaskedLM",
        {"relative_attention": False, "pos_att_type": "c2p|p2c", **SHORT},
        {},
    ),
    "deberta_v2_not_legacy": (
        "DebertaV2ForMaskedLM",
        {"relative_attention": True, "position_buckets": 4, "legacy": False, "type_vocab_size": 2}
        | {"share_att_key": True, "pos_att_type": ["c2p"], "max_relative_positions": 9, **SHORT},
        {},
    ),
    "nomic": ("NomicBertForMaskedLM", {}, {}),
    "gte": ("GteForMaskedLM", {"type_vocab_size": 2, "rope_theta": 500.0}, {}),
    "jina_v3": ("JinaEmbeddingsV3ForMaskedLM", {}, {}),
    "eurobert": ("EuroBertForMaskedLM", {"num_key_value_heads": 1}, {}),
    "ultrabert": (
        "UltrabertModel",
        {"num_key_value_heads": 1, "sliding_window": 4, "attention_bias": True},
        {"with_mlm": False},
    ),
    "privacy_filter": (
        "OpenAIPrivacyFilterModel",
        {"num_key_value_heads": 1, "sliding_window": 4, "head_dim": 8, "num_local_experts": 6}
        | {"num_experts_per_tok": 2, "swiglu_limit": 1.5},
        {"with_mlm": False},
    ),
    "lfm2": (
        "Lfm2ForCausalLM",
        {"num_key_value_heads": 1, "block_multiple_of": 4, "block_ffn_dim_multiplier": 1.1}
        | {"layer_types": ["conv", "full_attention", "conv"]},
        {},
    ),
    "esm": (
        "EsmForMaskedLM",
        {"position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 3}
        | {"pad_token_id": 1},
        {},
    ),
    "t5": (
        "T5EncoderModel",
        {"d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_heads": 2} | ONLY_TOKENS,
        {"with_mlm": False},
    ),
    "t5_gated": (
        "MT5EncoderModel",
        {"d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_heads": 2}
        | {"feed_forward_proj": "gated-gelu"}
        | ONLY_TOKENS,
        {"with_mlm": False},
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 12} | ONLY_TOKENS,
        {},
    ),
    "llama": (
        "LlamaForCausalLM",
        {"num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True},
        {},
    ),
    "mistral": ("MistralForCausalLM", {"num_key_value_heads": 1, "sliding_window": 5}, {}),
    "ministral3": (
        "Ministral3ForCausalLM",
        {"num_key_value_heads": 1, "head_dim": 6, "rope_parameters": YARN},
        {},
    ),
    "qwen2": ("Qwen2ForCausalLM", {"num_key_value_heads": 1}, {}),
    "qwen3": ("Qwen3ForCausalLM", {"num_key_value_heads": 1, "head_dim": 6}, {}),
    "qwen3_embedding": (
        "Qwen3Model",
        {"num_key_value_heads": 1, "head_dim": 6, "tie_word_embeddings": True},
        {"with_mlm": False},
    ),
    "embedding_gemma": (
        "Gemma3TextModel",
        {"num_key_value_heads": 1, "head_dim": 6, "sliding_window": 12, "num_hidden_layers": 3}
        | {"use_bidirectional_attention": True, "sliding_window_pattern": 3}
        | {"query_pre_attn_scalar": 5},
        {"with_mlm": False},
    ),
    "gemma3": (
        "Gemma3ForCausalLM",
        {"num_key_value_heads": 1, "head_dim": 6, "sliding_window": 5}
        | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        {},
    ),
}
MISSING = {
    "roformer.encoder.embed_positions.weight",
    "esm.contact_head.regression.weight",
    "esm.contact_head.regression.bias",
    "esm.rotary_embeddings.inv_freq",
}
LENGTH, LONGER = 12, 40  # the latter beyond windows and trained lengths


class Case:
    """A published model, and ours."""

    def __init__(self, name, folder):
        class_name, config, self.arguments = CASES[name]
        self.folder = folder / "theirs"
        config = {key: v for key, v in {**SIZES, **config}.items() if v is not None}
        self.reference = publish(self.folder, class_name, **config)
        self.arguments = {"with_mlm": "linear", **self.arguments}
        self.ours = build_transformer_model(self.folder, **self.arguments)
        self.pad = self.reference.config.pad_token_id or 0

    def inputs(self, length, side="right"):
        ids, real = token_ids(length, self.pad, side=side)
        feeds = {"token_ids": ids}
        if len(self.ours.inputs) > 1:
            feeds["segment_ids"] = np.zeros_like(ids)
        return feeds, real

    def compare(self, ours, reference, length, side="right"):
        """The largest difference, as a share of the largest value."""
        feeds, real = self.inputs(length, side)
        expected = answer(reference, feeds["token_ids"], real)
        found = predicted(ours, feeds).reshape(expected.shape)
        return abs(found - expected)[real].max() / abs(expected[real]).max()

    def check(self, *case, **options):
        assert self.compare(*case, **options) <= TOLERANCE


# A family is a function from config to config, and no matter of the backend: on all of them run a
# window, scores of content and position, grouped keys with a causal order, and experts.
EVERYWHERE = ("bert", "modernbert", "deberta_v3", "qwen3", "privacy_filter")


@pytest.fixture(scope="module", params=on_all(EVERYWHERE, CASES))
def case(request, tmp_path_factory):
    return Case(request.param, tmp_path_factory.mktemp(request.param))


def test_the_numbers_are_those_of_transformers(case):
    case.check(case.ours, case.reference, LENGTH)
    case.check(case.ours, case.reference, LENGTH, side="left")


def test_texts_longer_than_the_window_and_the_training(case):
    if case.ours.transformer.config.position_table:
        pytest.skip("a table ends")
    case.check(case.ours, case.reference, LONGER)


@pytest.mark.once
def test_a_saved_model_is_the_same(case, tmp_path):
    case.ours.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    feeds, _ = case.inputs(LENGTH)
    before, after = (ops.convert_to_numpy(m(feeds, training=False)) for m in (case.ours, again))
    np.testing.assert_array_equal(after, before)
    loaded = build_transformer_model(case.folder, tmp_path / "model.keras", **case.arguments)
    np.testing.assert_array_equal(ops.convert_to_numpy(loaded(feeds, training=False)), before)


@pytest.mark.once
def test_transformers_reads_what_is_written_back(case, tmp_path):
    save_checkpoint(case.ours, tmp_path)
    architecture = type(case.reference)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [
        architecture.__name__
    ]
    again, info = architecture.from_pretrained(tmp_path, output_loading_info=True)
    # Sines, which transformers computes again, and a head that is not built.
    info["missing_keys"] = set(info["missing_keys"]) - MISSING
    assert {name: list(what) for name, what in info.items() if what} == {}
    case.check(case.ours, again, LENGTH)
    before = dict(case.reference.state_dict())
    first = case.ours.transformer.config.position_offset  # rows that no real token reads
    for name, value in again.state_dict().items():
        if name in MISSING:
            continue
        from_row = first if "position_embeddings" in name else 0
        ours, reference = value.numpy()[from_row:], before[name].numpy()[from_row:]
        np.testing.assert_array_equal(ours, reference, err_msg=name)


@pytest.mark.once
def test_gradients_reach_every_weight(case):
    feeds, real = case.inputs(LENGTH)
    before = [ops.convert_to_numpy(w) for w in case.ours.trainable_variables]
    case.ours.compile(keras.optimizers.SGD(1.0), "mse", run_eagerly=True)
    size = case.ours.output_shape[-1]
    target = np.random.default_rng(2).normal(size=(*real.shape, size))
    case.ours.train_on_batch(feeds, target, sample_weight=real.astype("float32"))
    turned = "rotary" in str(case.ours.transformer.config.encodings)
    for weight, old in zip(case.ours.trainable_variables, before, strict=True):
        # What is the same for all keys changes no weight, unless it is turned.
        if turned or not weight.path.endswith("key/bias"):
            assert np.abs(ops.convert_to_numpy(weight) - old).max() > 0, weight.path
        weight.assign(old)


ESM = {**SIZES, "model_type": "esm", "position_embedding_type": "rotary", "token_dropout": True}


@pytest.mark.once
def test_tokens_that_there_are_are_kept_and_those_of_esm_are_of_one_text():
    gpt2 = {**SIZES, "model_type": "gpt2", "hidden_act": "gelu_new", "pad_token_id": None}
    kept = build_transformer_model(gpt2, keep_tokens=[3, 5]).transformer.config
    assert (kept.pad_token_id, kept.vocab_size) == (None, 2)
    config = {**ESM, "mask_token_id": 3, "eos_token_id": [7, 5], "bos_token_id": 8}
    kept = build_transformer_model(config, keep_tokens=[0, 3, 5]).transformer.config
    written = kept.to_huggingface()
    assert (written["mask_token_id"], written["eos_token_id"]) == (1, [2])
    assert written["bos_token_id"] is None
    assert read_config(written).zeroed_token_id == 1
    config = {**ESM, "mask_token_id": 3}
    kept = build_transformer_model(config, keep_tokens=[0, 3, 5]).transformer.config
    assert (kept.zeroed_token_id, kept.vocab_size) == (1, 3)
    with pytest.raises(ValueError, match="`keep_tokens` must keep the mask token, 3"):
        build_transformer_model(config, keep_tokens=[0, 5])
    with pytest.raises(ValueError, match="ESM-2 scales a text by its fraction of mask tokens, so"):
        build_transformer_model(config, packed=True)
    with pytest.raises(ValueError, match="`token_dropout` of ESM needs the `mask_token_id`"):
        build_transformer_model(ESM)
    with pytest.raises(ValueError, match="'esm' knows no other value. Found position_embedding_ty"):
        build_transformer_model({**config, "position_embedding_type": "absolute"})


@pytest.mark.once
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "EuroBertForMaskedLM"])
def test_an_untied_head_keeps_the_tokens_that_the_table_keeps(name, tmp_path):
    publish(tmp_path, name, **SIZES, num_key_value_heads=1, tie_word_embeddings=False)
    keep, compound = [0, 7, 3, 30], [[1, 2], ([1, 3], [3, 1])]
    whole = build_transformer_model(tmp_path, with_mlm="linear")
    model = build_transformer_model(
        tmp_path, with_mlm="linear", keep_tokens=keep, compound_tokens=compound
    )
    ids = np.array([[1, 3, 2, 1]], "int32")
    logits = ops.convert_to_numpy(whole([np.array(keep)[ids]]))[..., keep]
    means = [logits[..., [1, 2]].mean(-1), logits[..., [1, 3]] @ np.array([0.75, 0.25])]
    expected = np.concatenate([logits, np.stack(means, -1)], -1)
    np.testing.assert_allclose(ops.convert_to_numpy(model([ids])), expected, rtol=0, atol=1e-4)
    save_checkpoint(model, tmp_path / "out")
    again = build_transformer_model(tmp_path / "out", with_mlm="linear")
    found = [ops.convert_to_numpy(each([ids])) for each in (model, again)]
    np.testing.assert_array_equal(*found)


# ---------------------------------------------------------------- a head of its own in a tied file


@pytest.mark.once
@pytest.mark.parametrize("name", ["Llama", "Qwen3", "EuroBert", "Lfm2", "Gemma3"])
def test_a_head_that_a_tied_file_has_too_is_not_left_out(name, tmp_path):
    """transformers reads both tensors where they differ, whatever `tie_word_embeddings` says."""
    from safetensors.numpy import load_file, save_file

    kinds = {"layer_types": ["full_attention"] * 3} if name == "Lfm2" else {}
    masked = name == "EuroBert"
    reference = publish(
        tmp_path, f"{name}ForMaskedLM" if masked else f"{name}ForCausalLM",
        **SIZES, **kinds, num_key_value_heads=1, tie_word_embeddings=True,
    )  # fmt: skip
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    save_file(weights, file, {"format": "pt"})
    assert build_transformer_model(tmp_path, with_mlm="linear").transformer.account.unused
    weights["lm_head.weight"] = weights["lm_head.weight"][::-1].copy()
    save_file(weights, file, {"format": "pt"})
    message = "lm_head.weight, which differs from model.embed_tokens.weight,.* Nothing was loaded."
    with pytest.raises(ValueError, match=message) as error:
        build_transformer_model(tmp_path, with_mlm="linear")
    ignoring = build_transformer_model(tmp_path, with_mlm="linear", ignore=["lm_head.weight"])
    assert ("lm_head.weight", "by 'lm_head.weight'") in ignoring.transformer.account.ignored
    assert "Give tie_word_embeddings=False for a head of tokens" in str(error.value)
    ours = build_transformer_model(tmp_path, with_mlm="linear", tie_word_embeddings=False)
    reference = type(reference).from_pretrained(tmp_path)
    ids, real = token_ids(9)
    expected = answer(reference, ids, real)[real]
    found = ops.convert_to_numpy(ours([ids]))[real]
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * abs(expected).max())


# ---------------------------------------------------------------- what transformers has not


def nezha(folder):
    """Our model, ids, the mask, and what transformers' BERT answers with its attention rewritten as
    NEZHA's released code has it."""
    import torch

    reference = publish(folder, "BertForMaskedLM", **SIZES, max_position_embeddings=64)
    encoder, reach, size = reference.bert, 4, 8
    reference.bert.embeddings.position_embeddings.weight.data.zero_()
    row = np.arange(2 * reach + 1)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    table = torch.tensor(np.stack([np.sin(row), np.cos(row)], -1).reshape(-1, size)).float()

    def attend(layer, x, keep):
        batch, length, _ = x.shape
        q, k, v = (
            part(x).view(batch, length, 2, size).transpose(1, 2)
            for part in (layer.query, layer.key, layer.value)
        )
        steps = torch.arange(length)
        relative = table[(steps[None] - steps[:, None]).clamp(-reach, reach) + reach]
        logits = q @ k.transpose(2, 3) + torch.einsum("bhqd,qkd->bhqk", q, relative)
        weights = torch.softmax(logits / size**0.5 + (1 - keep[:, None, None]) * -1e9, -1)
        out = weights @ v + torch.einsum("bhqk,qkd->bhqd", weights, relative)
        return out.transpose(1, 2).reshape(batch, length, 2 * size)

    ids, real = token_ids(LENGTH)
    with torch.no_grad():
        x, keep = encoder.embeddings(torch.tensor(ids).long()), torch.tensor(real).float()
        for layer in encoder.encoder.layer:
            attended = attend(layer.attention.self, x, keep)
            x = layer.attention.output(attended, x)
            x = layer.output(layer.intermediate(x), x)
        expected = reference.cls(x).numpy()
    weights = {
        name.replace("bert.", "nezha.", 1): value.numpy()
        for name, value in reference.state_dict().items()
        if "position" not in name
    }
    config = {**reference.config.to_dict(), "model_type": "nezha", "max_relative_position": reach}
    ours = build_transformer_model(config, weights, with_mlm="linear")
    return ours, ids, real, expected


def unshared_albert(folder):
    """Our model, ids, the mask, and what transformers' ALBERT answers, whose layers are one."""
    reference = publish(folder, "AlbertModel", **SIZES, embedding_size=8)
    ours = build_transformer_model(folder, model="albert_unshared")
    ids, real = token_ids(LENGTH)
    return ours, ids, real, answer(reference, ids, real)


def difference(ours, ids, real, expected):
    """The largest difference, as a share of the largest value."""
    found = ops.convert_to_numpy(ours([ids, 0 * ids], training=False))
    return abs(found - expected)[real].max() / abs(expected[real]).max()


@pytest.mark.once
def test_nezha(tmp_path):
    ours, ids, *rest = nezha(tmp_path)
    assert difference(ours, ids, *rest) <= TOLERANCE
    save_checkpoint(ours, tmp_path / "again")
    again = build_transformer_model(tmp_path / "again", with_mlm="linear")
    np.testing.assert_array_equal(*(ops.convert_to_numpy(m([ids, 0 * ids])) for m in (ours, again)))


@pytest.mark.once
def test_unshared_layers_begin_as_one_and_part(tmp_path):
    unshared, *rest = unshared_albert(tmp_path)
    assert difference(unshared, *rest) <= TOLERANCE
    assert len(unshared.weights) > len(build_transformer_model(tmp_path).weights)
    with pytest.raises(ValueError, match="Several weights of this albert_unshared have one place"):
        save_checkpoint(unshared, tmp_path / "again")


# ---------------------------------------------------------------- what a config leaves to a default


def of_keys(folder, class_name, config, changes):
    """A model of transformers, and ours, of a file with other keys; None leaves one out."""
    publish(folder, class_name, **config)
    file = folder / "config.json"
    values = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: v for key, v in values.items() if v is not None}))
    import transformers

    reference = getattr(transformers, class_name).from_pretrained(folder)
    ids, real = token_ids(LENGTH)
    found = ops.convert_to_numpy(build_transformer_model(folder)([ids]))[real]
    expected = answer(reference, ids, real)[real]
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * abs(expected).max())


@pytest.mark.once
@pytest.mark.parametrize("norm", ["none", "layer_norm"])
def test_tables_of_deberta_without_terms_are_not_read(norm, tmp_path):
    config = {**SIZES, **SHORT, "relative_attention": True, "norm_rel_ebd": norm}
    of_keys(tmp_path, "DebertaV2Model", config, {"pos_att_type": None})


@pytest.mark.once
def test_the_activation_of_an_mt5_is_gated_where_its_file_names_none(tmp_path):
    config = {"vocab_size": 40, **CASES["t5_gated"][1]}
    config = {key: value for key, value in config.items() if value is not None}
    of_keys(tmp_path / "mt5", "MT5EncoderModel", config, {"feed_forward_proj": None})
    config = {**config, "feed_forward_proj": "relu"}
    of_keys(tmp_path / "t5", "T5EncoderModel", config, {"feed_forward_proj": None})


@pytest.mark.once
def test_a_deberta_with_embeddings_of_another_size_is_refused_by_its_key():
    config = {**SIZES, "model_type": "deberta-v2", "hidden_size": 16}
    build_transformer_model({**config, "embedding_size": 16})
    with pytest.raises(
        ValueError, match="`embedding_size` must be .* 16, as in all .* embedding_size=8"
    ):
        build_transformer_model({**config, "embedding_size": 8})
