"""Decoding from a cache is a full pass: for every encoding, kind of position and kind of model."""

import warnings

import keras
import numpy as np
import pytest
from cases import CASES, PAIRS, case, spec
from keras import ops

from keras_posenc import (
    PaddedPositionIds,
    PositionalAttention,
    RandomPositionIds,
    SinusoidalPositionEmbedding,
    build_transformer_model,
)
from keras_posenc.models.generation.decoding import AfterPrompt

VOCAB, NEW = 40, 3
RNG = np.random.default_rng(0)
# Of two lengths, one a single token; and what comes after each.
PROMPTS = [RNG.integers(3, VOCAB, n) for n in (6, 1)]
ANSWERS = RNG.integers(3, VOCAB, (len(PROMPTS), NEW))


def build(encodings=None, application="lm", **changes):
    """A tiny model with weights that are far from their beginnings."""
    sizes = {
        "vocab_size": VOCAB,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "hidden_act": "gelu",
        "max_position": 9,
        "with_mlm": "linear",
    }
    model = build_transformer_model(
        application=application, encodings=encodings, **{**sizes, **changes}
    )
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(weight + 0.3 * rng.normal(size=weight.shape))
    return model


def padded(rows, length):
    return np.stack([np.pad(row, (0, length - len(row))) for row in rows]).astype("int32")


def cached_logits(model, **inputs):
    """(B, NEW + 1, V): after each prompt, and after each token of its answer."""
    decoding = AfterPrompt(model, NEW + 1)
    lengths = np.array([[len(prompt)] for prompt in PROMPTS], "int32")
    inputs = {"token_ids": padded(PROMPTS, 8), "lengths": lengths, **inputs}
    tensors = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    context, caches, logits = decoding.begin(tensors)
    found = [logits]
    for place in range(NEW):
        tokens = ops.convert_to_tensor(ANSWERS[:, place].astype("int32"))
        logits, caches = decoding.step(tokens, place + 1, context, caches)
        found.append(logits)
    return np.stack([ops.convert_to_numpy(ops.cast(x, "float32")) for x in found], axis=1)


def full_logits(model, segment=0, **inputs):
    """The same, of one pass over each text: no cache, no padding, no other text beside it."""
    found = []
    for number, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        tokens = np.concatenate([prompt, answer])[None].astype("int32")
        segments = np.where(np.arange(tokens.shape[1]) < len(prompt), 0, segment)[None]
        feeds = {"token_ids": tokens, "segment_ids": segments.astype("int32")}
        feeds["position_ids"] = np.arange(tokens.shape[1], dtype="int32")[None]
        feeds |= {name: x[number : number + 1] for name, x in inputs.items()}
        feeds = [feeds[x.name] for x in model.inputs]
        logits = ops.convert_to_numpy(ops.cast(model(feeds, training=False), "float32"))
        found.append(logits[0, len(prompt) - 1 :])
    return np.stack(found)


def check(model, segment=0, tolerance=2e-4, **inputs):
    found, expected = cached_logits(model, **inputs), full_logits(model, segment, **inputs)
    assert np.abs(expected).max() > 0.1, "the model says nothing"
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def in_layers(cases, size=7):
    """Lists of cases, each list for the layers of one model."""
    cases = [list(case.encodings) for case in cases]
    return [cases[start : start + size] for start in range(0, len(cases), size)]


# The layers after one make its faults smaller, up to ten times each.
CLOSE = 1e-5
GATE = case(spec("forget_gate", bidirectional=True), apart=False, gaps=False)
SERVED = [c for c in CASES + PAIRS if c.decodes and c.axes == 1 and not c.whole_sequence]

SEEING = [c for c in SERVED if not c.causal_only]


@pytest.mark.once
@pytest.mark.parametrize("layers", in_layers(SERVED), ids=str)
def test_every_encoding_after_a_prompt(layers):
    model = build(layers, num_hidden_layers=len(layers), absolute_positions=False)
    check(model, tolerance=CLOSE)


@pytest.mark.once
@pytest.mark.parametrize("layers", in_layers([c for c in SEEING if c != GATE]), ids=str)
def test_every_encoding_after_a_prompt_that_sees_itself(layers):
    model = build(layers, "unilm", num_hidden_layers=len(layers), absolute_positions=False)
    check(model, segment=1, tolerance=CLOSE)


@pytest.mark.once
def test_gates_to_both_sides_decode_in_the_causal_order_only():
    with pytest.raises(ValueError, match="on one sequence, or from a cache in the causal order. R"):
        check(build([list(GATE.encodings)], "unilm", absolute_positions=False))


QWEN = {"head_dim": 6, "num_key_value_heads": 1, "rope_theta": 500.0}
GEMMA = {
    **QWEN,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 3,
}
MODELS = {
    "a table": {},
    "a table that is stretched": {
        "hierarchical_position": True,
        "max_position_embeddings": 4,
        "max_position": None,
    },
    "ids that skip padding": {"model": "roberta"},
    "random ids": {"position_ids": RandomPositionIds("sorted", 9), "encodings": ["rotary"]},
    "padded ids": {"position_ids": PaddedPositionIds(0), "encodings": ["rotary"]},
    "ids that are given": {"custom_position_ids": True, "encodings": ["t5"]},
    "a shared table": {"encodings": [{"name": "t5", "shared": True}], "num_hidden_layers": 2},
    "residual scores": {"residual_attention_scores": True, "num_hidden_layers": 2},
    "a shared layer": {"model": "albert", "num_hidden_layers": 3, "embedding_size": 8},
    "gated units": {"model": "gau_alpha", "num_hidden_layers": 2, "attention_key_size": 8},
    "gpt2": {"model": "gpt2", "num_hidden_layers": 2},
    "qwen3": {"model": "qwen3", **QWEN},
    "gemma3": {"model": "gemma3", "num_hidden_layers": 2, **GEMMA},
    "deberta": {
        "model": "deberta_v2",
        "relative_attention": True,
        "position_buckets": 4,
        "share_att_key": True,
        "pos_att_type": ["c2p", "p2c"],
    },
}


@pytest.mark.once
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_position_and_of_block(name):
    check(build(**MODELS[name]))


@pytest.mark.once
@pytest.mark.parametrize("head", ["activation", "dense"])
def test_probabilities_are_taken_back_to_logits(head):
    model = build(with_mlm="softmax" if head == "activation" else "linear")
    if head == "dense":
        x = keras.layers.Dense(VOCAB, activation="softmax")(model.output)
        model = keras.Model(model.inputs, x)
    found = np.exp(cached_logits(model))
    expected = full_logits(model)
    np.testing.assert_allclose(found / found.sum(-1, keepdims=True), expected, atol=1e-5)


@pytest.mark.once
def test_a_condition_is_that_of_each_text():
    condition = keras.Input((5,), name="condition")
    model = build(
        layer_norm_cond=condition, layer_norm_cond_hidden_size=4, additional_input_layers=condition
    )
    check(model, condition=np.random.default_rng(3).normal(size=(2, 5)).astype("float32"))


@pytest.mark.once
def test_a_prompt_that_sees_itself_by_its_segment():
    """With a table of positions and one of segments, whose second row is the answer's."""
    check(build(application="unilm", num_hidden_layers=2), segment=1)


@pytest.mark.once
def test_segments_go_on_as_the_prompt_ends():
    model = build()
    segments = np.zeros((2, 8), "int32")
    segments[:, 1:] = 1
    segments[1] = 1
    found = cached_logits(model, segment_ids=segments)
    tokens = np.concatenate([PROMPTS[1], ANSWERS[1]])[None].astype("int32")
    feeds = {"token_ids": tokens, "segment_ids": np.ones_like(tokens)}
    np.testing.assert_allclose(found[1], ops.convert_to_numpy(model(feeds))[0], atol=1e-5)


@pytest.mark.once
def test_a_model_that_a_user_wrote():
    """Any functional model will do whose attention is ours and causal."""
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    x = keras.layers.Embedding(VOCAB, 16)(tokens)
    x = SinusoidalPositionEmbedding(16)(x)
    attention = PositionalAttention(4, 4, num_key_value_heads=2, encodings=["alibi"])
    normal = keras.layers.LayerNormalization()(x)
    x = x + attention(normal, normal, use_causal_mask=True)
    check(keras.Model([tokens], keras.layers.Dense(VOCAB)(x)))


@pytest.mark.once
def test_a_window_of_a_layer_counts_positions():
    """Not the columns of the cache, some of which are padding."""
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    x = keras.layers.Embedding(VOCAB, 16, keras.initializers.RandomNormal(0, 1, seed=0))(tokens)
    attention = PositionalAttention(2, 8, sliding_window=2)
    x = x + attention(x, x, use_causal_mask=True)
    check(keras.Model([tokens], keras.layers.Dense(VOCAB)(x)))


@pytest.mark.once
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_in_the_precision_of_the_policy(policy):
    keras.config.set_dtype_policy(policy)
    try:
        model = build([["rotary", "log_n"], ["t5"]], num_hidden_layers=2)
    finally:
        keras.config.set_dtype_policy("float32")
    caches = AfterPrompt(model, 2).graph.make_caches(1, 2)
    assert all(x.dtype == caches[0][0].dtype for cache in caches for x in cache[:2])
    assert keras.backend.standardize_dtype(caches[0][0].dtype) == policy.removeprefix("mixed_")
    check(model, tolerance=0.15)


@pytest.mark.once
def test_in_int8():
    model = build(["rotary"])
    with warnings.catch_warnings(action="ignore"):  # of the layers that have no matrix
        model.quantize("int8")
    check(model)
