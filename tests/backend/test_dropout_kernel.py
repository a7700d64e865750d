"""JAX's kernel that drops attention weights on a GPU, interpreted on a CPU: it drops the same cells
as blocks of rows."""

import sys
import types

import keras
import numpy as np
import pytest

if keras.backend.backend() != "jax":
    pytest.skip("the kernel is JAX's", allow_module_level=True)

import jax
import jax.numpy as jnp

from keras_posenc import PositionalAttention, backend
from keras_posenc.backend import jax_dropping

pytestmark = pytest.mark.once
module = __import__("keras_posenc.backend.jax", fromlist=["dropout_kernel"])


@pytest.fixture
def kernel(monkeypatch):
    """The heads of each call that the kernel has computed; it is taken for all dtypes."""
    seen = []

    def interpreted(*arguments):
        seen.append(arguments[0].shape)
        return jax_dropping.attend(*arguments, interpret=True)

    monkeypatch.setattr(backend, "dropout_kernel", interpreted)
    monkeypatch.setattr(backend, "has_dropout_kernel", lambda q: True)
    return seen


def gradients(layer, x, seed=1, mask=None, **arguments):
    """The output, and the gradients of its weighted sum by the weights and by x."""
    if not layer.built:
        layer.build(x.shape, x.shape)
    weights = [w.value for w in layer.trainable_variables]
    factors = np.random.default_rng(5).normal(size=x.shape).astype("float32")
    factors = factors if mask is None else factors * mask[..., None]

    def loss(weights, x):
        state = [jnp.array([0, seed], "uint32") for _ in layer.non_trainable_variables]
        output, _ = layer.stateless_call(
            weights, state, x, x, value_mask=mask, training=True, **arguments
        )
        return (output * factors).sum(), output

    found = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(weights, x)
    (_, output), (of_weights, of_x) = found
    return [output if mask is None else output * mask[..., None], of_x, *of_weights]


def layer_of(encodings=(), **options):
    keras.utils.set_random_seed(0)
    options = {"dropout": 0.3, "encodings": list(encodings), **options}
    return PositionalAttention(4, 16, **options)


def numbers(length):
    return np.random.default_rng(0).normal(size=(2, length, 24)).astype("float32")


def padding(length):
    return np.arange(length)[None] < np.array([[length], [length // 2]])


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("options", [{}, {"encodings": ["rotary"]}, {"num_key_value_heads": 2}])
def test_the_kernel_drops_the_cells_of_blocks(options, padded, causal, kernel, monkeypatch):
    """Values and gradients, of a length that is no multiple of the kernel's parts."""
    x = numbers(100)
    arguments = {"mask": padding(100) if padded else None, "use_causal_mask": causal}
    found = gradients(layer_of(**options), x, **arguments)
    assert kernel == [(2, 100, 4, 16)]
    monkeypatch.setattr(backend, "has_dropout_kernel", lambda q: False)
    expected = gradients(layer_of(**options), x, **arguments)
    assert len(kernel) == 1
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)


def test_seeds_decide_which_cells_are_dropped(kernel):
    x, layer = numbers(64), layer_of()
    first, again, other = (gradients(layer, x, seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_share_of_dropped_cells_is_the_rate(rate):
    """Equal weights of values that name their keys: what is left shows each cell."""
    from keras_posenc.maps.attention_dropout import dropout_hashes

    q, v = jnp.zeros((2, 64, 2, 64)), jnp.broadcast_to(jnp.eye(64)[None, :, None], (2, 64, 2, 64))
    hashes = dropout_hashes(jnp.array([3, 4]), 2, 2, 64, 64)
    cells = jax_dropping.attend(q, q, v, None, hashes, 1.0, rate, False, interpret=True)
    np.testing.assert_allclose(np.unique(cells), [0, 1 / 64 / (1 - rate)], rtol=1e-5)
    assert abs((np.asarray(cells) == 0).mean() - rate) < 0.02


@pytest.mark.parametrize(
    "options",
    [{"encodings": ["t5"]}, {"encodings": ["window"]}, {"flash_attention": False}],
    ids=str,
)
def test_what_the_kernel_does_not_compute_is_computed_in_blocks(options, kernel):
    gradients(layer_of(**options), numbers(64))
    assert not kernel


def test_an_attention_mask_is_computed_in_blocks(kernel):
    mask = np.tril(np.ones((1, 64, 64), "bool"), 3)
    gradients(layer_of(), numbers(64), attention_mask=mask)
    assert not kernel


def test_nothing_changes_without_dropout(kernel):
    gradients(layer_of(dropout=0.0), numbers(64))
    assert not kernel


@pytest.mark.parametrize(
    ("size", "dtype", "capability", "takes"),
    [
        (64, "bfloat16", "9.0", True),
        (128, "float16", "8.0", True),
        (64, "float32", "9.0", False),
        (80, "bfloat16", "9.0", False),
        (256, "bfloat16", "9.0", False),
        (64, "float16", "7.5", False),
    ],
)
def test_which_heads_a_gpu_takes(size, dtype, capability, takes, monkeypatch):
    device = types.SimpleNamespace(platform="gpu", compute_capability=capability)
    monkeypatch.setattr(module, "platform", lambda x: "gpu")
    monkeypatch.setattr(jax, "devices", lambda *_: [device])
    assert module.has_dropout_kernel(jnp.zeros((1, 1, 1, size), dtype)) is takes


@pytest.mark.parametrize("module_of_triton", [None, types.SimpleNamespace()])
def test_a_jax_without_triton_has_no_kernel(module_of_triton, monkeypatch):
    """Pallas is to lose it, and former versions have other names."""
    from jax.experimental import pallas

    monkeypatch.setattr(module, "_has_flash_attention", lambda *_: True)
    monkeypatch.setattr(module, "_has_triton", module._has_triton.__wrapped__)
    assert module.has_dropout_kernel(jnp.zeros((1, 1, 1, 64), "bfloat16"))
    monkeypatch.setitem(sys.modules, "jax.experimental.pallas.triton", module_of_triton)
    monkeypatch.setattr(pallas, "triton", module_of_triton)
    if module_of_triton is None:
        monkeypatch.delattr(pallas, "triton")
    assert not module.has_dropout_kernel(jnp.zeros((1, 1, 1, 64), "bfloat16"))


def test_the_kernel_is_in_the_program_for_cuda(monkeypatch):
    """Lowered by Triton, once forward and twice backward, without a map."""
    monkeypatch.setattr(backend, "has_dropout_kernel", lambda q: True)
    layer, shape = layer_of(dtype="bfloat16", dropout=0.1), (2, 256, 64)
    layer.build(shape, shape)
    weights = [w.value for w in layer.trainable_variables]

    def loss(weights, x):
        state = [layer.seed_generator.state.value]
        output, _ = layer.stateless_call(weights, state, x, x, training=True)
        return output.astype("float32").sum()

    step = jax.jit(jax.grad(loss)).trace(weights, jax.ShapeDtypeStruct(shape, "bfloat16"))
    program = step.lower(lowering_platforms=("cuda",)).as_text()
    assert program.count("triton") >= 3 and "2x4x256x256" not in program
