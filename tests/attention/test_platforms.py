"""What a program does on the platform that it is traced for."""

import types

import keras
import laws
import numpy as np
import pytest
from cases import CASES
from keras import ops

from keras_posenc import PositionalAttention, backend
from keras_posenc.positions.position_range import check_positions

ON_JAX = pytest.mark.skipif(keras.backend.backend() != "jax", reason="TPUs are JAX's")
SOME = [case for case in CASES if str(case) in ("rotary", "t5", "sandwich", "alibi")]


@pytest.fixture
def traced_for_a_tpu(monkeypatch):
    import jax

    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")


@ON_JAX
@pytest.mark.parametrize("case", SOME, ids=str)
def test_on_a_tpu_the_fused_path_of_keras_is_never_taken(case, traced_for_a_tpu, monkeypatch):
    """It adds a causal mask, leaves the queries unscaled and leaves the bias out."""

    def wrong(*_, **__):
        raise AssertionError("the fused path of Keras was taken")

    monkeypatch.setattr(ops, "dot_product_attention", wrong)
    layer, x, causal = laws.attention(case), laws.numbers(), case.orders[0]
    keep = np.arange(laws.T) < laws.T - np.arange(len(x))[:, None]
    explicit = laws.call(layer, x, causal=causal, value_mask=keep, return_attention_scores=True)
    laws.close(laws.run(layer, x, causal=causal, value_mask=keep), laws.to_numpy(explicit[0]))
    laws.finite(layer, x, causal=causal, training=True)


@ON_JAX
def test_the_platform_is_that_of_the_device_that_programs_are_for(traced_for_a_tpu):
    import jax

    x = np.zeros((1, 1, 1, 1), "float32")
    assert backend.platform(x) == "tpu"
    with jax.default_device(jax.devices("cpu")[0]):
        assert backend.platform(x) == "cpu"
        assert not backend.on_accelerator(x)


@ON_JAX
def test_on_a_tpu_the_bias_of_path_is_a_kernel_of_its_own(traced_for_a_tpu):
    """One kernel with the softmax has no room: `benchmarks.accelerators.aot`."""
    import jax

    (case,) = (case for case in CASES if str(case) == "path")
    layer, x = laws.attention(case), laws.numbers()
    program = jax.make_jaxpr(lambda x: layer(x, x, use_causal_mask=True))(x)
    assert "optimization_barrier" in str(program)
    laws.finite(layer, x, causal=True, training=True)


def test_every_backend_knows_its_platform():
    x = ops.zeros((1, 1, 1, 1))
    assert backend.platform(x) in ("cpu", "gpu", "tpu")
    assert backend.on_accelerator(x) == (backend.platform(x) != "cpu")


@ON_JAX
@pytest.mark.parametrize(
    "capability, dtype, head_size",
    [("7.5", "float16", 64), ("9.0", "float32", 64), ("8.0", "bfloat16", 256)],
)
def test_a_gpu_without_flash_attention_gets_blocks(capability, dtype, head_size, monkeypatch):
    """There Keras materialises the map, which is 12 GB for 16,384 tokens of 12 heads."""
    import jax

    gpu = types.SimpleNamespace(platform="gpu", compute_capability=capability)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda *_: [gpu])
    rows = []

    def kernel(q, k, v, **_):
        rows.append(q.shape[1])
        return q[..., : v.shape[-1]]

    monkeypatch.setattr(ops, "dot_product_attention", kernel)
    layer = PositionalAttention(12, head_size, dtype=dtype)
    layer.build((1, 8, 16), (1, 8, 16))
    x = jax.ShapeDtypeStruct((1, 16384, 16), dtype)
    assert jax.eval_shape(lambda x: layer(x, x), x).shape == x.shape
    assert rows and max(rows) * 4 * 12 * 16384 <= 2**28
    rows.clear()
    gpu.compute_capability = "9.0"
    layer = PositionalAttention(12, 64, dtype="bfloat16")
    layer.build((1, 8, 16), (1, 8, 16))
    jax.eval_shape(lambda x: layer(x, x), jax.ShapeDtypeStruct(x.shape, "bfloat16"))
    assert rows == [16384]


@ON_JAX
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("encodings", [(), ("t5",), ("sink_logits",)], ids=str)
def test_cudnn_gets_what_it_takes(encodings, padded, causal, monkeypatch):
    """A mask of the keys alone, or odd lengths in training, it refuses; Keras then materialises the
    matrix."""
    layer, x = laws.attention(laws.Case(encodings)), laws.numbers(length=7)
    keep = np.ones((laws.B, 7), bool)
    arguments = {"causal": causal, "counted": keep}
    if padded:
        keep[0, 4:], keep[1, :2] = False, False
        arguments["value_mask"] = keep
    explicit = laws.gradients(layer, x, return_attention_scores=True, **arguments)
    attend = ops.dot_product_attention
    taken = []

    def kernel(q, k, v, bias=None, mask=None, **named):
        taken.append(q.shape)
        assert q.shape[1] % 2 == k.shape[1] % 2 == 0
        for term in (bias, mask):
            assert term is None or term.shape[-2:] == (q.shape[1], k.shape[1])
            assert term is None or all(size % 2 == 0 for size in term.shape[-2:])
        return attend(q, k, v, bias=bias, mask=mask, **named)

    monkeypatch.setattr(ops, "dot_product_attention", kernel)
    monkeypatch.setattr(backend, "has_kernel", lambda *_: True)
    monkeypatch.setattr(backend, "runs_cudnn", lambda q: True)
    for one, other in zip(laws.gradients(layer, x, **arguments), explicit, strict=True):
        laws.close(one, other, 1e-4)
    assert taken


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's kernels")
def test_on_torch_a_gpu_does_not_materialise_a_large_matrix(monkeypatch):
    """Its kernel for that is disabled; without another, rows are computed in blocks."""
    import torch

    def heads(dtype, length):
        device = types.SimpleNamespace(type="cuda")
        return types.SimpleNamespace(device=device, dtype=dtype, shape=(1, length, 12, 64))

    def allows_math(q):
        with backend.fused_kernels(q, q):
            return torch.backends.cuda.math_sdp_enabled()

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    half, brain = heads(torch.float16, 16384), heads(torch.bfloat16, 16384)
    assert not allows_math(half) and allows_math(heads(torch.float16, 128))
    assert backend.kernel_forms_map(brain, False) and not backend.kernel_forms_map(half, False)
    assert allows_math(brain)  # a block at a time
    assert backend.kernel_forms_map(heads(torch.float64, 16384), False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    assert not backend.kernel_forms_map(brain, False) and not allows_math(brain)
    assert backend.kernel_multiple(half) == 8
    on_cpu = torch.zeros(1, 16384, 12, 2)
    assert backend.kernel_multiple(on_cpu) == 1 and allows_math(on_cpu)
    assert not backend.kernel_forms_map(on_cpu, False)


@ON_JAX
def test_blocks_on_an_accelerator_have_whole_tiles_of_rows(monkeypatch):
    """Blocks of 631 rows are those of no tile, and cuDNN has no gradient for odd numbers."""
    from keras_posenc.attention import blocks

    q = np.zeros((1, 1, 8192, 1), "float32")
    monkeypatch.setattr(backend, "on_accelerator", lambda q: True)
    assert blocks._even_rows(q, 8192, 640) == 640
    assert blocks._even_rows(q, 8192, 1024) == 1024
    assert blocks._even_rows(q, 300, 200) == 200  # no more than allowed
    monkeypatch.undo()
    assert blocks._even_rows(q, 8192, 640) == 631


@ON_JAX
def test_a_loop_over_blocks_reads_no_block_of_zeros(cut_maps):
    """JAX takes what no turn changes out of a loop, such as the zeros of dropped weights: there it
    was read again in each turn."""
    import jax

    cut_maps(0, 4 * 2 * 16 * 64)
    layer = PositionalAttention(2, 8, dropout=0.1)
    layer.build((1, 64, 8), (1, 64, 8))
    state = [[v.value for v in layer.trainable_variables], [layer.seed_generator.state.value]]

    def loss(weights, seed, x):
        return layer.stateless_call(weights, seed, x, x, training=True)[0].sum()

    program = jax.make_jaxpr(jax.grad(loss))(*state, np.ones((1, 64, 8), "float32"))
    loops = [each for each in program.eqns if each.primitive.name == "scan"]
    sizes = [variable.aval.size for loop in loops for variable in loop.invars]
    assert len(loops) == 2 and max(sizes) < 2 * 16 * 64


@ON_JAX
def test_a_step_on_a_tpu_does_not_wait_for_the_host(traced_for_a_tpu):
    """Position ids that are known only when the step runs are not checked by Python there."""
    import jax

    ids = jax.ShapeDtypeStruct((2, 8), "int32")
    program = jax.make_jaxpr(lambda ids: check_positions(ids, 8, ""))(ids)
    assert "callback" not in str(program)
    with jax.default_device(jax.devices("cpu")[0]):
        program = jax.make_jaxpr(lambda ids: check_positions(ids, 8, ""))(ids)
    assert "callback" in str(program)
