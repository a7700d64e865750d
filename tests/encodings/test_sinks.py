"""Sink logits: gpt-oss's attention, and one more key on every path."""

import keras
import laws
import numpy as np
import pytest
from keras import ops

from keras_posenc import PositionalAttention, backend
from keras_posenc.encodings import SinkLogits

H, D, E, T = 4, 8, 12, 96


@pytest.mark.once
@pytest.mark.parametrize("window", [None, 5])
def test_it_is_the_attention_of_gpt_oss(window):
    """Rotary halves, keys for two heads each, a window, sinks."""
    torch = pytest.importorskip("torch")
    gpt_oss = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    kind = "full_attention" if window is None else "sliding_attention"
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    config = gpt_oss.GptOssConfig(
        hidden_size=E, num_attention_heads=H, num_key_value_heads=2, head_dim=D,
        num_hidden_layers=1, layer_types=[kind], sliding_window=window, rope_parameters=rope,
        attn_implementation="eager",
    )  # fmt: skip
    reference = gpt_oss.GptOssAttention(config, layer_idx=0)
    random = np.random.default_rng(0)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.copy_(torch.tensor(random.normal(0, 0.5, parameter.shape)))
    x = laws.numbers(length=16, features=E)
    distance = np.arange(16)[:, None] - np.arange(16)
    mask = (distance >= 0) & (distance < (window or 16))
    positions = gpt_oss.GptOssRotaryEmbedding(config)(torch.tensor(x), torch.arange(16)[None])
    with torch.no_grad():
        added = torch.tensor(np.where(mask, 0, -1e30)[None, None], dtype=torch.float32)
        expected, weights = reference(torch.tensor(x), positions, added)

    near = [{"name": "window", "window": window}] if window else []
    rotary = {"name": "rotary", "layout": "half"}
    layer = PositionalAttention(
        H, D, num_key_value_heads=2, encodings=[rotary, *near, "sink_logits"]
    )
    layer.build(x.shape, x.shape)
    for name, dense in (("q", layer.query_dense), ("k", layer.key_dense), ("v", layer.value_dense)):
        linear = getattr(reference, f"{name}_proj")
        kernel = linear.weight.detach().numpy().T.reshape(E, -1, D)
        dense.set_weights([kernel, linear.bias.detach().numpy().reshape(-1, D)])
    kernel = reference.o_proj.weight.detach().numpy().T.reshape(H, D, E)
    layer.output_dense.set_weights([kernel, reference.o_proj.bias.detach().numpy()])
    layer.encodings[-1].set_weights([reference.sinks.detach().numpy()])
    laws.close(laws.run(layer, x, causal=True), expected.numpy())
    _, found = laws.call(layer, x, causal=True, return_attention_scores=True)
    laws.close(laws.to_numpy(found), weights.numpy())


def with_sinks(*others, **arguments):
    layer = PositionalAttention(H, D, encodings=[*others, SinkLogits("ones")], **arguments)
    layer.build((None, T, E), (None, T, E))
    return layer


@pytest.mark.parametrize("others", [(), ("t5",)], ids=["plain", "bias"])
@pytest.mark.parametrize("causal", [True, False])
def test_every_path_has_the_same_sinks(others, causal, monkeypatch, cut_maps):
    """By the kernel's causal order, by its mask, in blocks, and by the matrix."""
    layer, x = with_sinks(*others), laws.numbers(length=T, features=E)
    expected = laws.gradients(layer, x, causal=causal, return_attention_scores=True)
    asked = "on_accelerator" if keras.backend.backend() == "torch" else "has_kernel"
    with monkeypatch.context() as patched:
        patched.setattr(backend, asked, lambda *_: True)
        by_kernel = laws.gradients(layer, x, causal=causal)
    cut_maps(0, 4 * 2 * H * T * 10)
    in_blocks = laws.gradients(layer, x, causal=causal, training=True)
    for one, two, three in zip(expected, by_kernel, in_blocks, strict=True):
        laws.close(two, one, 1e-4)
        laws.close(three, one, 1e-4)


@pytest.mark.once
def test_a_window_keeps_its_sinks():
    """Local attention, at the cost of the window, is the matrix in full."""
    layer, x = with_sinks({"name": "window", "window": 4}), laws.numbers(length=512, features=E)
    expected = laws.gradients(layer, x, causal=True, return_attention_scores=True)
    for found, one in zip(laws.gradients(layer, x, causal=True), expected, strict=True):
        laws.close(found, one, 1e-4)


@pytest.mark.once
def test_dropout_leaves_the_sink():
    """With a third of the weights dropped and the rest scaled up, the mean stays below 1."""
    layer = PositionalAttention(
        1, 4, encodings=["sink_logits"], dropout=0.3, seed=0, output_shape=4
    )
    layer.build((None, T, E), (None, T, E))
    for dense in (layer.query_dense, layer.key_dense):
        dense.set_weights([0 * w for w in dense.get_weights()])  # all logits are 0
    layer.value_dense.set_weights([np.zeros((E, 1, 4)), np.ones((1, 4))])
    layer.output_dense.set_weights([np.eye(4)[None], np.zeros(4)])
    x = np.zeros((8, T, E), "float32")
    found = laws.to_numpy(layer(x, x, training=True))
    assert 0.1 < found.std() * T**0.5 < 1
    assert abs(found.mean() - T / (T + 1)) < 0.01


@pytest.mark.once
def test_a_sink_starts_as_a_softmax_with_one_added():
    layer, x = with_sinks(), laws.numbers(length=5, features=E)
    layer.encodings[0].set_weights([np.zeros(H)])
    plain = PositionalAttention(H, D)
    plain.build(x.shape, x.shape)
    plain.set_weights(layer.get_weights()[1:])
    _, logits = plain(x, x, return_attention_logits=True)
    _, weights = layer(x, x, return_attention_scores=True)
    exponentials = ops.exp(logits)
    expected = exponentials / (1 + ops.sum(exponentials, axis=-1, keepdims=True))
    laws.close(laws.to_numpy(weights), laws.to_numpy(expected))


@pytest.mark.once
@pytest.mark.parametrize("other", ["stick_breaking", "squared_relu"])
def test_without_a_softmax_there_is_no_place_for_a_sink(other):
    with pytest.raises(ValueError, match="SinkLogits adds a key to the softmax, which"):
        PositionalAttention(H, D, encodings=["sink_logits", other])
