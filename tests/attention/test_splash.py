"""Attention by the splash kernel on a TPU, interpreted, beside the explicit attention matrix."""

import functools

import keras
import laws
import numpy as np
import pytest

from keras_posenc import PositionalAttention, backend

T = 200  # two blocks of 128, the second of which is filled up
KEEP = np.ones((laws.B, T), bool)
KEEP[0, 150:], KEEP[1, :30] = False, False
NOTHING = KEEP & np.array([[False], [True]])  # a text of padding alone
PACKED = {
    "query_positions": np.concatenate([np.arange(n) for n in (50, 90, 60)])[None],
    "packed": True,
}
PACKED["query_positions"] = PACKED["query_positions"].astype("int32")
WINDOW = {"name": "window", "window": 20}
CASES = {
    "plain": ((), {}),
    "rotary padded": (("rotary",), {"value_mask": KEEP}),
    "all padding": ((), {"value_mask": NOTHING}),
    "causal padded": ((), {"causal": True, "value_mask": KEEP}),
    "alibi causal": (("alibi",), {"causal": True}),
    "window": ((WINDOW,), {}),
    "window causal padded": ((WINDOW,), {"causal": True, "value_mask": KEEP}),
    "packed padded": ((), {**PACKED, "value_mask": KEEP}),
    "packed causal padded": ((), {**PACKED, "causal": True, "value_mask": KEEP}),
    "packed window": ((WINDOW,), PACKED),
}
# Further encodings that are folded into queries and keys.
FOLDED = [
    (("rotary_bias", "sandwich"), False),
    (
        ("ssmax", {"name": "temperature", "value": 3.0}, {"name": "log_n", "train_length": 50}),
        False,
    ),
    (("pope", "forget_gate"), True),
]
BLOCKS = {
    "few rows": ((), {"length": 100}),
    "a bias": (("t5",), {}),
    "an attention mask": ((), {"attention_mask": np.ones((T, T), bool)}),
    "another order": ((), {"query_order": KEEP * 1, "key_order": KEEP * 1}),
    "sinks of a window": (({**WINDOW, "sinks": 2},), {}),
    "a sink": (("sink_logits",), {}),
    "packed window padded": ((WINDOW,), {**PACKED, "value_mask": KEEP}),
}

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="TPUs are JAX's")


@pytest.fixture
def on_a_tpu(monkeypatch):
    """Programs are traced for a TPU, and run here by the interpreter of Pallas."""
    import jax
    from jax.experimental.pallas.ops.tpu import splash_attention

    from keras_posenc.backend import jax_splash

    made = []

    def make(masks, **arguments):
        made.append(masks)
        return interpreted(masks, **arguments)

    interpreted = functools.partial(splash_attention.make_splash_mha, interpret=True)
    monkeypatch.setattr(splash_attention, "make_splash_mha", make)
    monkeypatch.setattr(jax_splash, "BLOCKS", (128,))
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    return made


def results(layer, x, arguments):
    """The output and the gradients of the input and the weights."""
    return laws.gradients(layer, x, compiled=True, **arguments)


@pytest.mark.parametrize("name", CASES)
def test_splash_attention_is_attention(name, on_a_tpu, monkeypatch):
    encodings, arguments = CASES[name]
    layer, x = laws.attention(laws.Case(encodings, heads=2)), laws.numbers(length=T)
    arguments = {"training": True, "counted": arguments.get("value_mask"), **arguments}
    found = results(layer, x, arguments)
    assert on_a_tpu
    monkeypatch.setattr(backend, "has_splash", lambda q: False)
    on_a_tpu.clear()
    wanted = results(layer, x, arguments)
    laws.close(found[0], wanted[0], 1e-5)
    size = max(np.abs(gradient).max() for gradient in wanted[1:])  # that of a key's bias is 0
    for one, other in zip(found[1:], wanted[1:], strict=True):
        laws.close(one / size, other / size, 1e-5)
    assert not on_a_tpu


@pytest.mark.parametrize("encodings, causal", FOLDED, ids=str)
def test_folded_encodings_act_on_the_kernel(encodings, causal, on_a_tpu):
    import jax

    layer, x = laws.attention(laws.Case(encodings, heads=2)), laws.numbers(length=128)
    found = jax.jit(lambda x: laws.call(layer, x, causal=causal))(x)
    assert on_a_tpu
    found = laws.to_numpy(found)
    explicit = laws.call(layer, x, causal=causal, return_attention_scores=True)[0]
    explicit = laws.to_numpy(explicit)
    size = np.abs(explicit).max()
    laws.close(found / size, explicit / size, 1e-5)


@pytest.mark.parametrize("name", BLOCKS)
def test_what_the_kernel_does_not_serve_is_computed_in_blocks(name, on_a_tpu):
    import jax

    encodings, arguments = BLOCKS[name]
    length = arguments.get("length", T)
    arguments = {key: value for key, value in arguments.items() if key != "length"}
    layer = laws.attention(laws.Case(encodings, heads=2))
    x = laws.numbers(length=length)
    program = jax.make_jaxpr(lambda x: laws.call(layer, x, **arguments))(x)
    assert not on_a_tpu and "pallas" not in str(program)


def test_a_window_reads_the_blocks_that_it_touches(on_a_tpu):
    """Of 16 blocks of keys, each block of queries reads at most three."""
    import jax

    layer = laws.attention(laws.Case((WINDOW,), heads=2))
    program = jax.make_jaxpr(lambda x: laws.call(layer, x))(laws.numbers(length=2048))
    assert "i8[1,16,3]" in str(program)


def test_a_fused_kernel_that_must_be_is_refused_where_it_cannot_serve(on_a_tpu):
    layer, x = PositionalAttention(2, 4, flash_attention=True), laws.numbers()
    with pytest.raises(ValueError, match="`flash_attention` must be None or False on a TPU for"):
        layer(x, x)


def test_a_batch_over_several_devices_is_split_by_hand(on_a_tpu, monkeypatch):
    """XLA does not split a kernel."""
    import jax

    mesh = keras.distribution.DeviceMesh((1, 1), ["batch", "model"], jax.devices("cpu")[:1])
    layouts = keras.distribution.LayoutMap(mesh)
    layer, x = laws.attention(laws.Case((), heads=2)), laws.numbers(length=T)
    expected = laws.run(layer, x)
    split = keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch")
    monkeypatch.setattr(keras.distribution, "distribution", lambda: split)
    program = str(jax.make_jaxpr(lambda x: laws.call(layer, x))(x))
    assert "shard_map" in program
    laws.close(laws.run(layer, x), expected, 1e-5)


@pytest.mark.parametrize("devices", [1, 4])
def test_what_xla_splits_over_devices_is_computed_in_blocks(devices, on_a_tpu):
    """It cannot split a kernel, and knows of shardings of plain JAX only."""
    import jax

    mesh = jax.sharding.AbstractMesh((devices,), ("data",))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    layer = laws.attention(laws.Case((), heads=2))
    x = jax.ShapeDtypeStruct((4, T, laws.E), "float32", sharding=place)
    jax.jit(lambda x: laws.call(layer, x)).trace(x)
    assert bool(on_a_tpu) == (devices == 1)
