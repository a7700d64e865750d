"""What Hugging Face's transformers answers, on real and on tiny random checkpoints, and we."""

import keras
import numpy as np
import pytest
from selection import on_all

from keras_posenc.models.factory import build_transformer_model

TOLERANCE = 1e-5


@pytest.fixture(scope="session")
def transformers():
    """transformers, and torch beneath it, imported by the first test that needs them."""
    import transformers

    return transformers


def run_reference(model, token_ids, segment_ids=None, pad_token_id=0):
    import torch

    feeds = {"input_ids": token_ids, "attention_mask": token_ids != pad_token_id}
    if segment_ids is not None:
        feeds["token_type_ids"] = segment_ids
    # In its own device and mode: Keras' torch backend may have set others.
    model = model.eval().to("cpu")
    with torch.no_grad():
        return model(**{k: torch.tensor(v, dtype=torch.int64) for k, v in feeds.items()})


def run_ours(model, token_ids, segment_ids=None):
    feeds = {"token_ids": token_ids}
    if segment_ids is not None:
        feeds["segment_ids"] = segment_ids
    outputs = model(feeds)
    outputs = outputs if isinstance(outputs, list | tuple) else [outputs]
    return [keras.ops.convert_to_numpy(x) for x in outputs]


def with_hidden_states(transformer):
    """The model of a Transformer, its hidden states put before its other outputs."""
    last = transformer.config.num_hidden_layers - 1
    hidden = transformer.layers[f"Transformer-{last}-FeedForward-Norm"].output
    return keras.Model(transformer.model.inputs, [hidden, *transformer.model.outputs])


def assert_close(ours, reference, where=..., tolerance=TOLERANCE):
    np.testing.assert_allclose(ours[where], reference.numpy()[where], rtol=0, atol=tolerance)


# ---------------------------------------------------------------- the real MiniLM
@pytest.fixture(scope="session")
def minilms(minilm, transformers):
    """The real MiniLM, theirs and ours, the latter with hidden states and pooler as outputs."""
    reference = transformers.BertModel.from_pretrained(minilm)
    ours = build_transformer_model(minilm, with_pool=True, return_keras_model=False)
    return reference, with_hidden_states(ours)


@pytest.fixture(scope="session")
def encode(minilm):
    """A function from texts to ids padded to the longest, at most 512."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.enable_truncation(512)
    tokenizer.enable_padding()

    def encode(texts):
        encoded = tokenizer.encode_batch(texts)
        ids = np.array([e.ids for e in encoded], "int32")
        return ids, np.array([e.type_ids for e in encoded], "int32")

    return encode


SENTENCES = [
    "",
    "Train short, test long.",
    ("Was it the whale?", "It was the whale, said the captain, and shut the hatch."),
    "Ein naïver Café-Besucher bezahlt 3,50 € — 東京 🙂.",
    "The same word again: " + "again " * 60,
]


def texts_of(path, count):
    """The longest fields of the first rows of an Orange .tab file: the texts."""
    lines = path.read_text("utf-8").splitlines()[3 : 3 + count]
    return [max(line.split("\t"), key=len) for line in lines]


LONGER = [pytest.param(kind, marks=pytest.mark.once) for kind in ("newsgroups", "books")]


@pytest.mark.parametrize("kind", ["sentences", *LONGER])
def test_minilm_on_real_text(minilms, encode, newsgroups_test, book_excerpts, kind):
    texts = {
        "sentences": SENTENCES,
        "newsgroups": texts_of(newsgroups_test, 3),
        "books": texts_of(book_excerpts, 1) + SENTENCES[1:3],
    }[kind]
    token_ids, segment_ids = encode(texts)
    reference, ours = minilms
    expected = run_reference(reference, token_ids, segment_ids)
    feeds = {"token_ids": token_ids, "segment_ids": segment_ids}
    hidden, pooled = ours.predict(feeds, verbose=0)
    real = token_ids != 0
    assert_close(hidden, expected.last_hidden_state, real)
    assert_close(pooled, expected.pooler_output)
    # What stands on padding says nothing and is ill-conditioned: in float32 transformers itself is
    # 2e-4 away there from what it says in float64.
    assert_close(hidden, expected.last_hidden_state, ~real, tolerance=1e-3)


# ---------------------------------------------------------------- tiny random models
SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 12,
}


def tiny(transformers, class_name, **changes):
    """A random model of theirs, no weight of it zero or one; its weights; its config."""
    import torch

    architecture = getattr(transformers, class_name)
    config = architecture.config_class(**SIZES | changes)
    model = architecture(config)
    random = np.random.default_rng(0)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            scale = 0.3 if parameter.ndim == 2 else 0.1
            mean = 1.0 if "norm.weight" in name.lower() else 0.0
            parameter.copy_(torch.tensor(random.normal(mean, scale, parameter.shape)))
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    return model, weights, config.to_dict()


def tiny_ids(pad_token_id=0, segments=2, length=9, side="right"):
    """Three examples of 9, 6 and 2 real tokens, padded on a side; and where the real ones are."""
    random = np.random.default_rng(1)
    token_ids = random.integers(2, SIZES["vocab_size"], (3, length)).astype("int32")
    segment_ids = np.sort(random.integers(0, segments, (3, length))).astype("int32")
    steps = np.arange(length)
    steps = steps if side == "right" else steps[::-1]
    real = steps < np.array([length, length - 3, 2])[:, None]
    return np.where(real, token_ids, pad_token_id).astype("int32"), segment_ids * real, real


# What a config says is no matter of the backend: the first ones run on all of them.
CHANGES = [
    {},
    {"hidden_act": "gelu_new"},
    {"pad_token_id": 1},
    {"hidden_act": "gelu_pytorch_tanh"},
    {"hidden_act": "relu"},
    {"hidden_act": "silu"},
    {"hidden_act": "tanh"},
    {"layer_norm_eps": 1e-5},
    {"layer_norm_eps": 0.1},
    {"type_vocab_size": 1},
    {"type_vocab_size": 3},
    {"num_hidden_layers": 1},
    {"hidden_size": 15, "num_attention_heads": 3, "intermediate_size": 7},
    {"hidden_size": 13, "num_attention_heads": 1},
    {"max_position_embeddings": 9},
    {"initializer_range": 0.5, "hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.5},
]


@pytest.mark.parametrize("changes", on_all(CHANGES[:3], CHANGES), ids=str)
def test_bert_model(transformers, changes):
    reference, weights, config = tiny(transformers, "BertModel", **changes)
    pad = changes.get("pad_token_id", 0)
    token_ids, segment_ids, _ = tiny_ids(pad, changes.get("type_vocab_size", 2))
    ours = build_transformer_model(config, weights, with_pool=True, return_keras_model=False)
    expected = run_reference(reference, token_ids, segment_ids, pad)
    hidden, pooled = run_ours(with_hidden_states(ours), token_ids, segment_ids)
    assert_close(hidden, expected.last_hidden_state)
    assert_close(pooled, expected.pooler_output)


def test_bert_with_padding_in_front(transformers):
    reference, weights, config = tiny(transformers, "BertModel")
    token_ids, segment_ids, real = tiny_ids(side="left")
    ours = build_transformer_model(config, weights)
    expected = run_reference(reference, token_ids, segment_ids)
    (hidden,) = run_ours(ours, token_ids, segment_ids)
    assert_close(hidden, expected.last_hidden_state, real)


@pytest.mark.parametrize("hidden_act", on_all(["gelu"], ["gelu", "relu"]))
def test_bert_heads(transformers, hidden_act):
    reference, weights, config = tiny(transformers, "BertForPreTraining", hidden_act=hidden_act)
    token_ids, segment_ids, _ = tiny_ids()
    ours = build_transformer_model(config, weights, with_nsp="linear", with_mlm="linear")
    expected = run_reference(reference, token_ids, segment_ids)
    next_sentence, masked_words = run_ours(ours, token_ids, segment_ids)
    assert_close(next_sentence, expected.seq_relationship_logits)
    assert_close(masked_words, expected.prediction_logits)


@pytest.mark.once
def test_bert_probabilities(transformers):
    reference, weights, config = tiny(transformers, "BertForPreTraining")
    token_ids, segment_ids, _ = tiny_ids()
    ours = build_transformer_model(config, weights, with_nsp=True, with_mlm=True)
    expected = run_reference(reference, token_ids, segment_ids)
    next_sentence, masked_words = run_ours(ours, token_ids, segment_ids)
    assert_close(next_sentence, expected.seq_relationship_logits.softmax(-1))
    assert_close(masked_words, expected.prediction_logits.softmax(-1))


def test_bert_masked_lm(transformers):
    reference, weights, config = tiny(transformers, "BertForMaskedLM")
    token_ids, segment_ids, _ = tiny_ids()
    ours = build_transformer_model(config, weights, with_mlm="linear")
    expected = run_reference(reference, token_ids, segment_ids)
    (logits,) = run_ours(ours, token_ids, segment_ids)
    assert_close(logits, expected.logits)


@pytest.mark.once
def test_bert_as_language_model(transformers):
    reference, weights, config = tiny(transformers, "BertLMHeadModel", is_decoder=True)
    token_ids, segment_ids, _ = tiny_ids()
    # Theirs asks the config for a decoder, ours the caller.
    config = config | {"is_decoder": False}
    ours = build_transformer_model(config, weights, application="lm", with_mlm="linear")
    expected = run_reference(reference, token_ids, segment_ids)
    (logits,) = run_ours(ours, token_ids, segment_ids)
    assert_close(logits, expected.logits)


ROBERTA = {"type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5}
LIKE_ROBERTA = [("Roberta", "right"), ("Roberta", "left"), ("XLMRoberta", "left")]
LIKE_ROBERTA += [("Camembert", "right")]
LIKE_ROBERTA = on_all([("Roberta", "left")], LIKE_ROBERTA)


@pytest.mark.parametrize(("family", "side"), LIKE_ROBERTA)
def test_roberta_model(transformers, family, side):
    reference, weights, config = tiny(transformers, family + "Model", **ROBERTA)
    token_ids, segment_ids, real = tiny_ids(1, segments=1, side=side)
    ours = build_transformer_model(
        config, weights, model="roberta", with_pool=True, return_keras_model=False
    )
    expected = run_reference(reference, token_ids, segment_ids, 1)
    hidden, pooled = run_ours(with_hidden_states(ours), token_ids, segment_ids)
    assert_close(hidden, expected.last_hidden_state, real)
    # The pooler reads the first token, which is padding where the padding is in front.
    assert_close(pooled, expected.pooler_output, real[:, 0])


@pytest.mark.parametrize(("family", "side"), LIKE_ROBERTA)
def test_roberta_masked_lm(transformers, family, side):
    reference, weights, config = tiny(transformers, family + "ForMaskedLM", **ROBERTA)
    # 10 positions, and the two rows that no position uses.
    token_ids, segment_ids, real = tiny_ids(1, segments=1, length=10, side=side)
    ours = build_transformer_model(config, weights, model="roberta", with_mlm="linear")
    expected = run_reference(reference, token_ids, segment_ids, 1)
    (logits,) = run_ours(ours, token_ids, segment_ids)
    assert_close(logits, expected.logits, real)


@pytest.mark.once
@pytest.mark.parametrize("family", ["Roberta", "XLMRoberta", "Camembert"])
def test_roberta_by_its_defaults(transformers, family):
    """Padding is 1 where the config has none; the activation of the head is GELU in any case."""
    reference, weights, config = tiny(
        transformers, family + "ForMaskedLM", **ROBERTA, hidden_act="relu"
    )
    del config["pad_token_id"]
    token_ids, segment_ids, real = tiny_ids(1, segments=1, length=10)
    ours = build_transformer_model(config, weights, with_mlm="linear")
    expected = run_reference(reference, token_ids, segment_ids, 1)
    assert_close(run_ours(ours, token_ids, segment_ids)[0], expected.logits, real)


@pytest.mark.once
@pytest.mark.parametrize("sharded", [False, True])
def test_a_directory_that_transformers_wrote(transformers, tmp_path, sharded):
    reference, _, _ = tiny(transformers, "BertForPreTraining", hidden_act="gelu_new")
    reference.save_pretrained(tmp_path, **({"max_shard_size": "10KB"} if sharded else {}))
    assert (tmp_path / "model.safetensors.index.json").exists() == sharded
    ours = build_transformer_model(tmp_path, with_nsp="linear", with_mlm="linear")
    token_ids, segment_ids, _ = tiny_ids()
    expected = run_reference(reference, token_ids, segment_ids)
    next_sentence, masked_words = run_ours(ours, token_ids, segment_ids)
    assert_close(next_sentence, expected.seq_relationship_logits)
    assert_close(masked_words, expected.prediction_logits)
