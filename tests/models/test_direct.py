"""Layers called without what Keras does around a call give the numbers, masks and errors of Keras.

Only PyTorch calls them so; the cached decoding of every encoding is in test_cached_decoding.py.
"""

import inspect

import keras
import numpy as np
import pytest
from keras import ops
from tiny_models import SIZES

from keras_posenc import (
    Encoding,
    GatedAttentionUnit,
    PositionalAttention,
    backend,
    build_transformer_model,
)
from keras_posenc.attention import choose
from keras_posenc.layers.token_embedding import AddTo
from keras_posenc.models.direct import Steps, direct

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="programs have no calls while they run"
)
TOKENS = np.array([[3, 4, 5, 6, 0, 0], [7, 8, 9, 10, 11, 12]], "int32")
WEIGHT = 0.3


def build(**changes):
    model = build_transformer_model(**{**SIZES, "dropout_rate": 0.1, **changes})
    rng = np.random.default_rng(1)
    for weight in model.weights:
        if keras.backend.is_float_dtype(weight.dtype):
            weight.assign(weight + WEIGHT * rng.normal(size=weight.shape))
    return model


def inputs_of(model):
    feeds = {"token_ids": TOKENS, "segment_ids": np.zeros_like(TOKENS)}
    feeds["position_ids"] = np.arange(TOKENS.shape[1], dtype="int32")[None] % 4 + 0 * TOKENS
    return [ops.convert_to_tensor(feeds[x.name]) for x in model.inputs]


def by_keras(model, monkeypatch):
    """The outputs of the graph by Keras' calls alone."""
    with monkeypatch.context() as patch:
        patch.setattr(backend, "is_plain", lambda *a, **named: False)
        return model(inputs_of(model), training=False)


def check(model, monkeypatch, tolerance=1e-6, calls=1):
    """The outputs, found by `calls` runs of `Steps`, with the numbers and the mask of Keras'."""
    expected, runs, run = by_keras(model, monkeypatch), [], Steps.run
    with monkeypatch.context() as patch:
        patch.setattr(Steps, "run", lambda *args, **named: (runs.append(1), run(*args, **named))[1])
        found = model(inputs_of(model), training=False)
    assert len(runs) == calls
    masks = [getattr(x, "_keras_mask", None) for x in (found, expected)]
    assert (masks[0] is None) == (masks[1] is None)
    if masks[0] is not None:
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, masks))
    found, expected = (ops.convert_to_numpy(ops.cast(x, "float32")) for x in (found, expected))
    assert np.abs(found - expected).max() <= tolerance * max(1, np.abs(expected).max())
    return found


MODELS = {
    "bert": {"num_hidden_layers": 2},
    "logits": {"with_mlm": "linear"},
    "pooled": {"with_pool": True},
    "unilm": {"application": "unilm"},
    "gpt2": {"model": "gpt2", "application": "lm"},
    "qwen3": {"model": "qwen3", "head_dim": 6, "num_key_value_heads": 1, "rope_theta": 500.0},
    "albert": {"model": "albert", "num_hidden_layers": 2, "embedding_size": 4},
    "gau_alpha": {"model": "gau_alpha", "attention_key_size": 4},
    "packed": {"packed": True, "encodings": ["rotary"]},
    "encodings": {"encodings": [["rotary"], ["t5"]], "num_hidden_layers": 2},
    "residual scores": {"residual_attention_scores": True, "num_hidden_layers": 2},
}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_masks_are_those_of_keras(name, monkeypatch):
    check(build(**MODELS[name]), monkeypatch)


def test_layers_of_others_are_called_by_keras(monkeypatch):
    """A subclass with a tensor deep inside its arguments, and a layer that is not known."""

    class Louder(keras.layers.Dense):
        def call(self, inputs, by=None):
            return super().call(inputs) * 3 + (0 if by is None else by["more"])

    encoder = build()
    x = Louder(8)(encoder.output, by={"more": encoder.output})
    x = keras.layers.Dropout(0.5)(keras.layers.Activation("tanh")(x))
    model = type(encoder)(encoder.inputs, x)
    check(model, monkeypatch, tolerance=4e-6)  # three times what rounding makes


def test_sums_norms_and_attention_of_other_forms(monkeypatch):
    """Three terms, a term of one token, two axes, mean squares, another dtype."""
    encoder = build(sequence_length=TOKENS.shape[1])
    x = AddTo()([encoder.output] * 3)
    x = AddTo()([x, x[:, :1]])
    x = keras.layers.LayerNormalization(axis=[1, 2])(x)
    if "rms_scaling" in inspect.signature(keras.layers.LayerNormalization).parameters:
        x = keras.layers.LayerNormalization(rms_scaling=True)(x)
    for key in ([], [x]):
        attend = PositionalAttention(2, 4, dtype="bfloat16")
        x = AddTo()([x, keras.layers.Identity()(attend(x, x, *key))])
    check(type(encoder)(encoder.inputs, x), monkeypatch)


def test_the_penalty_of_a_layer_is_in_the_loss():
    """That of what it computes, which Keras adds around the call."""
    encoder = build()
    x = keras.layers.Dense(4, activity_regularizer=keras.regularizers.L2(0.5))(encoder.output)
    model = type(encoder)(encoder.inputs, x)
    one = [x[:1] for x in inputs_of(model)]  # some versions of Keras divide by the texts
    found = ops.convert_to_numpy(model(one, training=False))
    (penalty,) = model.losses
    expected = 0.5 * np.square(found).sum()
    np.testing.assert_allclose(ops.convert_to_numpy(penalty), expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`:UserWarning")
@pytest.mark.filterwarnings("ignore:On a CPU, a model quantized to int8")
@pytest.mark.parametrize("change", ["weights", "lora", "int8", "frozen"])
def test_a_changed_layer_counts_at_once(change, monkeypatch):
    model = build(num_hidden_layers=2)
    before = check(model, monkeypatch)
    if change == "weights":
        model.set_weights([2 * weight for weight in model.get_weights()])
    elif change == "int8":
        model.quantize("int8")
    elif change == "frozen":
        model.trainable = False
    else:
        dense = next(layer for layer in model._flatten_layers() if layer.name == "intermediate")
        dense.enable_lora(2)
        dense.lora_kernel_b.assign(ops.ones_like(dense.lora_kernel_b))
    found = check(model, monkeypatch)
    assert np.array_equal(found, before) == (change == "frozen")


@pytest.mark.filterwarnings("ignore:(?s).*not yet implemented the batching rule:UserWarning")
@pytest.mark.parametrize("encodings", [["rotary"], ["t5"]], ids=["kernel", "blocks"])
def test_gradients_of_each_text_by_torch_func(encodings, monkeypatch):
    """The fused kernel, blocks of rows, masks and checks of ids under `vmap` and `grad`."""
    import torch

    monkeypatch.setattr(choose, "rows_of_block", lambda *_: 4)
    model = build(encodings=encodings)
    weights = [each.value.detach() for each in model.trainable_variables]
    others = [each.value for each in model.non_trainable_variables]

    def loss(weights, ids):
        given = {"token_ids": ids[None], "segment_ids": torch.zeros_like(ids)[None]}
        features, _ = model.stateless_call(weights, others, given, training=False)
        return torch.sum(features[:, :3] ** 3)

    ids = torch.tensor(TOKENS)
    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, ids)
    for text in range(len(ids)):
        copies = [each.clone().requires_grad_() for each in weights]
        expected = torch.autograd.grad(loss(copies, ids[text]), copies, allow_unused=True)
        for one, other in zip(found, expected, strict=True):
            other = torch.zeros_like(one[text]) if other is None else other
            torch.testing.assert_close(one[text], other, rtol=1e-4, atol=1e-4)


def test_a_stateless_call_reads_the_weights_that_it_is_given():
    model = build(num_hidden_layers=1)
    given = [2 * variable.value.detach() for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]
    found, _ = model.stateless_call(given, others, inputs_of(model), training=False)
    for variable, value in zip(model.trainable_variables, given, strict=True):
        variable.assign(value)
    expected = model(inputs_of(model), training=False)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (found, expected)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float16"])
def test_low_precision(policy, monkeypatch):
    keras.config.set_dtype_policy(policy)
    try:
        model = build(num_hidden_layers=2)
    finally:
        keras.config.set_dtype_policy("float32")
    check(model, monkeypatch, 0.02)


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
def test_predictions_are_those_of_a_call(kind, monkeypatch):
    """Arrays of a model's inputs are not given to Keras' call, whose numbers they have."""
    model = build(**MODELS[kind])
    calls, call = [], type(model).__call__
    arrays = {x.name: TOKENS if x.name == "token_ids" else 0 * TOKENS for x in model.inputs}
    monkeypatch.setattr(
        type(model), "__call__", lambda *a, **n: (calls.append(1), call(*a, **n))[1]
    )
    found = model.predict_on_batch(arrays)
    assert not calls
    by_fewer = model.predict_on_batch([arrays[x.name] for x in model.inputs])
    assert calls == [1]
    np.testing.assert_array_equal(found, by_fewer)
    np.testing.assert_array_equal(found, ops.convert_to_numpy(model(arrays, training=False)))


def test_a_call_of_a_subclass_predicts():
    encoder = build()

    class Half(type(encoder)):
        def call(self, *args, **kwargs):
            return super().call(*args, **kwargs) / 2

    arrays = {"token_ids": TOKENS, "segment_ids": 0 * TOKENS}
    half = Half(encoder.inputs, encoder.outputs).predict_on_batch(arrays)
    np.testing.assert_array_equal(np.asarray(half), encoder.predict_on_batch(arrays) / 2)


def test_dropout_drops_in_training():
    model = build(dropout_rate=0.5, attention_dropout_rate=0.5)
    first, second = (model(inputs_of(model), training=True) for _ in range(2))
    assert bool(ops.any(first != second))
    x = keras.layers.Dropout(0.5)(model.output, training=True)
    always = type(model)(model.inputs, x)
    assert bool(ops.any(always(inputs_of(model), training=False) == 0))


def test_hooks_and_replaced_calls_of_layers_run():
    """As those that Keras' quantization sets, and those of torch."""
    model, seen = build(), []
    attention = next(x for x in model.layers if isinstance(x, PositionalAttention))
    handle = attention.query_dense.register_forward_hook(lambda *_: seen.append("hook"))
    dense = next(layer for layer in model._flatten_layers() if layer.name == "intermediate")
    call = dense.call

    def replaced(*args, **kwargs):
        seen.append("call")
        return call(*args, **kwargs)

    object.__setattr__(dense, "call", replaced)
    model(inputs_of(model), training=False)
    assert sorted(seen) == ["call", "hook"]
    handle.remove()


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # of a layer of ids
@pytest.mark.parametrize("hook", ["full_backward_hook", "full_backward_pre_hook"])
def test_backward_hooks_of_layers_run(hook):
    model, seen = build(), []
    parts = [x for x in model._flatten_layers(include_self=False) if x.weights]
    called = [x for x in parts if not isinstance(x, Encoding)]
    handles = [
        getattr(x, f"register_{hook}")(lambda layer, *_: seen.append(layer.path)) for x in called
    ]
    ops.sum(model(inputs_of(model), training=False)).backward()
    assert sorted(seen) == sorted(x.path for x in called)
    for handle in handles:
        handle.remove()


def test_another_forward_of_a_layer_runs():
    model, seen = build(), []
    norm = next(x for x in model.layers if isinstance(x, keras.layers.LayerNormalization))
    forward = norm.forward
    object.__setattr__(norm, "forward", lambda *args: seen.append("forward") or forward(*args))
    model(inputs_of(model), training=False)
    assert seen == ["forward"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_weights_that_torch_gave_another_dtype(dtype):
    import torch

    x = np.random.default_rng(0).normal(size=(1, 5, 8)).astype("float32")
    cope = {"name": "cope", "gate": "separate_keys"}
    inputs = keras.Input((None, 8))
    y = PositionalAttention(2, 4, encodings=[cope])(inputs, inputs, use_causal_mask=True)
    model = keras.Model(inputs, GatedAttentionUnit(8, 4)(y))
    expected = ops.convert_to_numpy(model(x))
    found = model.to(getattr(torch, dtype))(x).detach().float().numpy()
    np.testing.assert_allclose(found, expected, atol=0.1 if dtype == "bfloat16" else 1e-5)


def test_a_gradient_passes():
    model = build()
    loss = ops.sum(ops.square(model(inputs_of(model), training=False)))
    loss.backward()
    assert all(x.value.grad is not None for x in model.trainable_variables)


def test_features_are_let_go_when_the_last_layer_has_read_them():
    import gc
    import weakref

    import torch

    def most_alive(layers):
        model, made, counts = build(num_hidden_layers=layers), [], []

        def watched(operation, direct):
            def call(*args, **named):
                gc.collect()  # in Keras 3.12, some are in cycles
                counts.append(sum(each() is not None for each in made))
                found = direct(*args, **named)
                made.append(weakref.ref(found))
                return found

            return call

        with torch.no_grad():
            model._steps.run(inputs_of(model), watched)
        return max(counts)

    gc.freeze()  # so that only what is made from here on is looked through
    try:
        assert most_alive(4) == most_alive(2)
    finally:
        gc.unfreeze()


def test_what_is_not_known_is_returned():
    layer = keras.layers.Permute((2, 1))
    assert direct(layer) is layer
