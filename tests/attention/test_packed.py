"""Rows that hold several documents: each comes out as if it were alone."""

import keras
import laws
import numpy as np
import pytest
from keras import ops
from programs import one_program
from selection import on_all

from keras_posenc import GatedAttentionUnit, PositionalAttention
from keras_posenc.attention import choose, local

H, D = laws.H, 4
SIZES = (70, 3, 90, 37)  # across blocks, and within one
T = sum(SIZES)
LISTS = {
    "window": [{"name": "window", "window": 6}, "rotary", "t5"],
    "map": [{"name": "alibi", "direction": "symmetric"}, "deberta"],
    "value": ["nezha", "log_n"],
    "carry": ["selective", "cope"],
}


@pytest.fixture
def small_maps(cut_maps, monkeypatch):
    """Blocks of few rows, chunks of 16 columns; and a note of each window that goes by them."""
    taken, attend_locally = [], local.attend_locally

    def noted(*arguments, **options):
        taken.append(True)
        return attend_locally(*arguments, **options)

    monkeypatch.setattr(local, "FEWEST_ROWS", 1)
    monkeypatch.setattr(choose, "attend_locally", noted)
    cut_maps(0, 4 * laws.B * H * T * 16)
    return taken


def ids():
    return np.repeat(np.concatenate([np.arange(n) for n in SIZES])[None], laws.B, 0).astype("int32")


@pytest.mark.parametrize("name", [*LISTS][: 4 if keras.backend.backend() == "torch" else 1])
@pytest.mark.parametrize("causal", on_all([True], [True, False]))
def test_values_and_gradients_are_those_of_the_documents_alone(name, causal, small_maps):
    """In blocks, in a window at its cost and without a map; the weights' gradients are sums."""
    if name == "carry" and not causal:
        return
    layer, x = PositionalAttention(H, D, encodings=LISTS[name], seed=1), laws.numbers(length=T)
    layer.build(x.shape, x.shape)
    keep = np.arange(T) < T - 5
    positions = {"query_positions": ids(), "key_positions": ids()}
    padded = {"value_mask": np.repeat(keep[None], laws.B, 0), **positions}
    packed = laws.gradients(
        layer, x, causal=causal, counted=keep[None], packed=True, training=True, **padded
    )
    assert bool(small_maps) == (name == "window")
    # The gradients are those of a mask (T, T) that says the same.
    document = np.repeat(np.arange(len(SIZES)), SIZES)
    mask = document[:, None] == document[None]
    mask = mask & np.tril(np.ones((T, T), bool)) if causal else mask
    masked = laws.gradients(
        layer, x, causal=causal, counted=keep[None], attention_mask=mask, **padded
    )
    packed[0], masked[0] = packed[0] * keep[:, None], masked[0] * keep[:, None]
    for one, other in zip(packed, masked, strict=True):
        laws.close(one, other, 1e-4)
    start, run = 0, one_program(lambda x: layer(x, x, use_causal_mask=causal))
    for size in SIZES[:-1]:
        alone = laws.to_numpy(run(ops.convert_to_tensor(x[:, start : start + size])))
        laws.close(packed[0][:, start : start + size], alone, 1e-4)
        start += size


@pytest.mark.once
def test_sinks_are_those_of_each_document(small_maps):
    specs = [{"name": "window", "window": 4, "sinks": 2, "global_tokens": 1}, "rotary"]
    layer, x = PositionalAttention(H, D, encodings=specs), laws.numbers(length=T)
    packed = laws.run(layer, x, query_positions=ids(), packed=True)
    start = 0
    for size in SIZES:
        laws.close(packed[:, start : start + size], laws.run(layer, x[:, start : start + size]))
        start += size
    assert small_maps == []


@pytest.mark.once
def test_a_gated_unit_keeps_documents_apart():
    layer = GatedAttentionUnit(8, key_size=4, encodings=["rotary"], normalization="squared_relu")
    x = laws.numbers(length=T)
    packed = laws.to_numpy(layer(ops.convert_to_tensor(x), positions=ids(), packed=True))
    start = 0
    for size in SIZES:
        alone = laws.to_numpy(layer(ops.convert_to_tensor(x[:, start : start + size])))
        laws.close(packed[:, start : start + size], alone)
        start += size


@pytest.mark.once
def test_what_cannot_be_packed():
    layer, x = PositionalAttention(H, D), ops.convert_to_tensor(laws.numbers())
    n, every = laws.T, {"packed": True}
    with pytest.raises(ValueError, match="`packed` rows hold documents that begin where"):
        layer(x, x, **every)
    with pytest.raises(ValueError, match="with these ids, and without a cache"):
        layer(x, x, query_positions=np.arange(n), cache=layer.make_cache(laws.B, n), **every)
    with pytest.raises(ValueError, match=r"whole numbers \(B, T\).*Received: \(1, 8\).*float32"):
        layer(x, x, query_positions=np.arange(n, dtype="float32"), **every)
    with pytest.raises(ValueError, match=r"as many for the keys.*Received: \(1, 8\) and \(1, 4\)"):
        layer(x, x[:, :4], query_positions=np.arange(n), key_positions=np.arange(4), **every)
    with pytest.raises(ValueError, match=r"Received: \(2, 8, 2\)"):
        layer(x, x, query_positions=np.zeros((2, n, 2), "int32"), **every)
    scaling = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 4}
    layer = PositionalAttention(H, D, encodings=[{"name": "rotary", "scaling": scaling}])
    with pytest.raises(ValueError, match="RotaryEmbedding with these arguments depends on the le"):
        layer(x, x, query_positions=np.arange(n), **every)
