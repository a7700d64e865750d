"""Which encodings have cuDNN's attention on JAX: its name stands in the program for CUDA, which a
CPU can lower, though not compile."""

import types

import keras
import numpy as np
import pytest

if keras.backend.backend() != "jax":
    pytest.skip("PyTorch chooses its kernels as a program runs", allow_module_level=True)

import jax
import jax.numpy as jnp
from jax._src.cudnn import fused_attention_stablehlo as cudnn

from keras_posenc import PositionalAttention, backend

pytestmark = pytest.mark.once
FORWARD, BACKWARD = "__cudnn$fmha", "Backward"
NAMES = "alibi fire kerple log_cpb log_n pope rotary rotary_bias sandwich sink_logits ssmax t5 xpos"
FUSED = (None, "temperature", *NAMES.split())


@pytest.fixture
def hopper(monkeypatch):
    """A CPU for which programs of an H100 are lowered, with cuDNN 9.10."""
    device = types.SimpleNamespace(platform="gpu", compute_capability="9.0")
    for name, answer in (
        ("check_cudnn_version", lambda: 91000),
        ("check_compute_capability", lambda capability: float(capability) <= 9),
        ("is_cuda_compute_capability_equal", lambda capability: capability == "9.0"),
    ):
        monkeypatch.setattr(cudnn, name, answer)
    module = __import__("keras_posenc.backend.jax", fromlist=["platform"])
    for place in (module, backend):
        monkeypatch.setattr(place, "platform", lambda x: "gpu")
    monkeypatch.setattr(module, "_has_flash_attention", lambda dtype, size: dtype == jnp.bfloat16)
    return device


def program_of(encoding, length, padded, causal):
    """The gradient of a layer, lowered for CUDA."""
    encodings = [] if encoding is None else [encoding]
    layer = PositionalAttention(2, 64, encodings=encodings, dtype="bfloat16")
    shape = 2, length, 128
    mask = np.arange(length)[None] < np.array([[length], [200]]) if padded else None
    layer.build(shape, shape)

    def loss(weights, x):
        named = {"value_mask": mask, "use_causal_mask": causal}
        output, _ = layer.stateless_call(weights, [], x, x, **named)
        return jnp.sum(output.astype(jnp.float32))

    weights, x = (
        [w.value for w in layer.trainable_variables],
        jax.ShapeDtypeStruct(shape, "bfloat16"),
    )
    program = jax.jit(jax.grad(loss)).trace(weights, x).lower(lowering_platforms=("cuda",))
    return program.as_text()


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("encoding", FUSED)
def test_cudnn_computes_attention(encoding, padded, hopper):
    program = program_of(encoding, 256, padded, encoding in ("alibi", "xpos"))
    assert FORWARD in program and BACKWARD in program
    assert "2x2x256x25" not in program.replace("2x2x256x256xbf16", "")  # the map of all heads


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("encoding", [None, "sink_logits"])
def test_cudnn_computes_odd_lengths(encoding, causal, hopper):
    """JAX has a gradient of even lengths only, and Keras then materialises the map."""
    for length in (255, 256):
        program = program_of(encoding, length, False, causal)
        assert FORWARD in program and BACKWARD in program
