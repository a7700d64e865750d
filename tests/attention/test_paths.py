"""Blocks of rows compute what the whole map says, and keep no map."""

import keras
import laws
import numpy as np
import pytest
from cases import CASES, PAIRS
from keras import ops
from programs import one_program

from keras_posenc import PositionalAttention, backend
from keras_posenc.attention import choose
from keras_posenc.attention.blocks import attend_in_blocks
from keras_posenc.attention.fused import attend_fused, fused_cells
from keras_posenc.attention.matrix import attend_explicitly, weigh_cells
from keras_posenc.attention.rules import Hooks, Rules
from keras_posenc.encodings import ContextualPositionEmbedding, DeBERTaRelative, Grid

BACKEND = keras.backend.backend()
T, BLOCK = 22, 5  # the last block is not full
B, H, D = 2, laws.H, 4


def case_of(name):
    return next(case for case in PAIRS + CASES if str(case) == name)


# A loop compiles for seconds: torch runs every case, the others one of each hook.
NAMES = ("cope+rotary", "selective", "squared_relu+shaw+t5")
CHOSEN = PAIRS + CASES if BACKEND == "torch" else [case_of(name) for name in NAMES]

ON_TORCH = pytest.mark.skipif(BACKEND != "torch", reason="of torch alone")


@pytest.fixture
def small_blocks(cut_maps):
    """Cuts every map, into blocks of at most five rows of 22 columns."""
    cut_maps(0, 4 * B * H * T * BLOCK)


def padding():
    keep = np.ones((B, T), bool)
    keep[0, T - 3 :] = False
    return keep


def tensors(seed=0, rows=T, columns=T, dtype="float32"):
    """q, k, v."""
    rng = np.random.default_rng(seed)
    shapes = [(B, rows, H, D), (B, columns, H, D), (B, columns, H, D)]
    return [ops.convert_to_tensor(rng.normal(size=s).astype("float32"), dtype) for s in shapes]


def grid_of(rows=T, columns=T, **arguments):
    rows, columns = ops.arange(rows)[None], ops.arange(columns)[None]
    return Grid(rows, columns, **arguments).replace(ids_are_indices=True)


def numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_blocks_are_the_map_in_full(case, causal, small_blocks):
    """Values and gradients; on torch also blocks of a fused kernel, where one may be taken."""
    if causal not in (case.orders if BACKEND == "torch" else case.orders[:1]):
        return
    layer, x = laws.attention(case), laws.numbers(length=T)
    keep = padding()
    arguments = dict(causal=causal, value_mask=keep, counted=keep)
    explicit = laws.gradients(layer, x, return_attention_scores=True, **arguments)
    found = laws.gradients(layer, x, training=True, **arguments)
    # In a window beside the padding a row may see nothing.
    explicit[0], found[0] = explicit[0] * keep[..., None], found[0] * keep[..., None]
    for one, other in zip(found, explicit, strict=True):
        laws.close(one, other, 1e-4)


@pytest.mark.once
@pytest.mark.parametrize("axes", [2, 3, 4])
def test_masks_and_biases_are_cut_too(axes):
    rng = np.random.default_rng(1)
    mask = rng.random((B, H, T, T)[4 - axes :] if axes != 3 else (B, T, T)) > 0.4
    mask[..., 0] = True
    bias = ops.convert_to_tensor(rng.normal(size=(1, H, T, T)).astype("float32"))
    grid = grid_of(attention_mask=ops.convert_to_tensor(mask))
    for some in (bias, bias[:, :, :1], bias[..., :1]):
        arguments = *tensors(), grid, Rules(scale=0.3, bias=some)
        blocks = attend_in_blocks(*arguments, BLOCK, weigh_cells)
        explicit = attend_explicitly(*arguments)
        np.testing.assert_allclose(numpy(blocks), numpy(explicit), atol=1e-5)


@pytest.mark.once
@pytest.mark.parametrize("window", [None, 1, 2.5, 4])
@pytest.mark.parametrize("sinks", [0, 1, 9])
@pytest.mark.parametrize("rows", [T, 9])
def test_columns_that_are_closed_to_a_run_of_blocks_are_left_out(window, sinks, rows):
    """In a causal map, in a window, in both; with fewer rows, as from a cache, and more."""
    if window is None and sinks:
        return
    for columns in (T, 9):
        start = max(0, columns - rows)
        order = ops.arange(rows)[None] + start, ops.arange(columns)[None]
        for causal in (True, False):
            given = dict(query_order=order[0], key_order=order[1]) if causal else {}
            grid = Grid(*order, order_is_index=causal, window=window, sinks=sinks, **given)
            grid = grid.replace(ids_are_indices=True)
            q, k, v = tensors(rows=rows, columns=columns)
            blocks = numpy(attend_in_blocks(q, k, v, grid, Rules(scale=0.3), 3, weigh_cells))
            explicit = numpy(attend_explicitly(q, k, v, grid, Rules(scale=0.3)))
            cells = grid.mask()
            some = True if cells is None else numpy(ops.any(cells, -1))[0, 0][:, None, None] > 0
            np.testing.assert_allclose(blocks * some, explicit * some, atol=1e-5)


def test_blocks_drop_what_the_whole_map_drops():
    class Draws:
        def next(self):
            return np.array([5, 77], "int32")

    for order in ({}, dict(query_order=ops.arange(T)[None], key_order=ops.arange(T)[None])):
        grid = grid_of(order_is_index=bool(order), **order)

        def found(q, k, v, grid=grid):
            dropping = Rules(scale=0.3, dropout=0.4, draws=Draws()).drawn(q, k, fused=False)
            return (
                attend_in_blocks(q, k, v, grid, dropping, BLOCK, weigh_cells),
                attend_explicitly(q, k, v, grid, dropping),
                attend_explicitly(q, k, v, grid, Rules(scale=0.3)),
            )

        blocks, explicit, still = map(numpy, one_program(found)(*tensors()))
        np.testing.assert_allclose(blocks, explicit, atol=1e-5)
        assert np.abs(blocks - still).max() > 0.1


SINKS = {"name": "window", "window": 3, "sinks": 1}


@pytest.mark.parametrize("encodings", [["t5"], [SINKS, "rotary", "sandwich", "rotary_bias"]])
def test_gradients_with_dropout_are_those_of_the_whole_map(encodings, monkeypatch):
    """The block that is computed again drops the same, and so does the map that is returned."""
    keras.utils.set_random_seed(0)
    layer = PositionalAttention(H, D, encodings=encodings, dropout=0.3, seed=3)
    x = laws.numbers(length=T)
    layer.build(x.shape, x.shape)
    state = layer.seed_generator.state.numpy() if BACKEND != "jax" else None
    found = []
    for size in (None, T, BLOCK):
        monkeypatch.setattr(choose, "rows_of_block", lambda *_, size=size: size)
        if state is not None:
            layer.seed_generator.state.assign(state)
        explicitly = {"return_attention_scores": True} if size is None else {}
        found.append(laws.gradients(layer, x, training=True, **explicitly))
    for explicit, one, other in zip(*found, strict=True):
        laws.close(one, explicit, 1e-4)
        laws.close(other, explicit, 1e-4)


@pytest.mark.once
def test_blocks_are_the_map_in_full_in_low_precision(small_blocks):
    layer = laws.attention(case_of("cope+rotary"), dtype="mixed_bfloat16")
    x = laws.numbers(length=T)
    blocks = laws.run(layer, x, causal=True, training=True)
    explicit = laws.call(layer, x, causal=True, return_attention_scores=True)[0]
    assert keras.backend.standardize_dtype(explicit.dtype) == "bfloat16"
    scale = np.abs(numpy(explicit)).max()
    np.testing.assert_allclose(blocks / scale, numpy(explicit) / scale, atol=0.02)


@pytest.mark.once
def test_fused_blocks_are_the_map_in_full():
    """With a bias, a mask and both; the kernel is whatever the backend has."""
    q, k, v = tensors()
    bias = ops.convert_to_tensor(np.random.default_rng(2).normal(size=(1, H, T, T)), "float32")
    order = dict(query_order=ops.arange(T)[None], key_order=ops.arange(T)[None])
    keep = ops.convert_to_tensor(padding())
    for given in (None, bias):
        for grid in (grid_of(order_is_index=True, **order), grid_of(key_mask=keep, **order)):
            rules = Rules(scale=0.3, bias=given)
            blocks = attend_in_blocks(q, k, v, grid, rules, BLOCK, fused_cells)
            whole = attend_fused(q, k, v, grid, rules)
            explicit = attend_explicitly(q, k, v, grid, rules)
            for result in (blocks, whole):
                np.testing.assert_allclose(numpy(result), numpy(explicit), atol=1e-5)


@ON_TORCH
@pytest.mark.parametrize("name", ["alibi", "sandwich", "rotary_bias", "forget_gate"])
def test_wider_heads_stay_in_the_kernel_of_torch(name):
    """It has one for heads of one size only; else it would keep whole maps."""
    import torch

    layer, x = PositionalAttention(H, D, encodings=[name]), laws.numbers(length=T)
    expected = laws.gradients(layer, x, causal=True, return_attention_scores=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        found = laws.gradients(layer, x, causal=True)
    for one, other in zip(found, expected, strict=True):
        laws.close(one, other, 1e-4)


@ON_TORCH
@pytest.mark.filterwarnings("ignore")  # what torch says of tracing
def test_a_mask_that_keeps_all_is_left_out(monkeypatch):
    """On a CPU of torch, but not where a program is traced, which is for other masks too."""
    import torch

    kernel, masks = torch.nn.functional.scaled_dot_product_attention, []

    def noted(*heads, attn_mask=None, **options):
        masks.append(attn_mask)
        return kernel(*heads, attn_mask=attn_mask, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", noted)
    x = ops.convert_to_tensor(laws.numbers(length=T))
    full = ops.ones(x.shape[:2], "bool")
    some = ops.arange(T)[None] < T - 3 * ops.arange(len(x))[:, None]

    class Causal(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = PositionalAttention(H, D)

        def forward(self, x, mask):
            return self.layer(x, x, value_mask=mask, use_causal_mask=True)

    attend = Causal()
    with torch.no_grad():
        np.testing.assert_array_equal(attend(x, full), attend(x, None))
        assert masks == [None, None]
        traced = torch.jit.trace(attend, (x, full), check_trace=False)
        assert masks[2] is not None
        # A traced program adds a bias after the product, not in it.
        np.testing.assert_allclose(traced(x, some), attend(x, some), rtol=0, atol=1e-6)


@ON_TORCH
@pytest.mark.parametrize("slope", [0.1, 5.0])
def test_weights_too_small_for_a_processor_are_zero(slope, monkeypatch):
    """On a CPU of torch, where a row has such; the output and its gradients stay."""
    from keras_posenc.backend import torch as on_torch

    cut, taken = on_torch.WithoutSmall, []

    class Noted:
        @staticmethod
        def apply(logits):
            taken.append(logits.shape)
            return cut.apply(logits)

    monkeypatch.setattr(on_torch, "WithoutSmall", Noted)
    near = -slope * np.abs(np.arange(T)[:, None] - np.arange(T))[None, None]
    bias = ops.convert_to_tensor(near.astype("float32"))
    grid = grid_of(key_mask=ops.convert_to_tensor(padding()))
    found = []
    for attend in (attend_explicitly, attend_in_blocks):
        heads = [x.requires_grad_() for x in tensors()]
        blocks = attend is attend_in_blocks
        output = attend(*heads, grid, Rules(scale=0.3, bias=bias), *(BLOCK, weigh_cells) * blocks)
        output.square().sum().backward()
        found.append([numpy(x) for x in (output.detach(), *(x.grad for x in heads))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert bool(taken) == (slope == 5.0)
    small = ops.softmax(cut.apply(bias))
    assert not ops.any((small > 0) & (small < 1e-31))


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_what_earlier_rows_say_is_carried_from_block_to_block(policy, small_blocks):
    """Also operation by operation, beside gaps, and by two encodings of which each has its own."""
    encodings = ["selective", "rotary", "selective"]
    layer, x = PositionalAttention(H, D, encodings=encodings, dtype=policy), laws.numbers(length=T)
    arguments = dict(causal=True, value_mask=np.arange(T) % 4 != np.array([[1], [2]]))
    blocks = laws.run(layer, x, training=True, **arguments)
    explicit = laws.call(layer, x, return_attention_scores=True, **arguments)[0]
    laws.close(blocks, numpy(explicit), 1e-4 if policy == "float32" else 0.03)


@pytest.mark.once
def test_the_size_of_a_block_follows_the_shape(monkeypatch):
    sizes, none = (2**25, 2**24), Hooks()
    q = np.zeros((1, 2048, 12, 1), "float32")
    monkeypatch.setattr(backend, "on_accelerator", lambda q: False)
    assert choose.rows_of_block(q, q, none, 12, sizes) == 2**24 // (4 * 12 * 2048)
    assert choose.rows_of_block(q[:, :512], q[:, :512], none, 12, sizes) is None
    near = ContextualPositionEmbedding()
    most = near.execution.max_rows
    assert choose.rows_of_block(q, q, Hooks([near]), 12, sizes) == most < 2**24 // (4 * 12 * 2048)
    asks = DeBERTaRelative(max_distance=512)
    assert choose.rows_of_block(q, q, Hooks([asks, near]), 12, sizes) == 512
    assert choose.rows_of_block(q, q, Hooks([asks]), 12, sizes) == 512
    many = np.zeros((8, 2048, 12, 1), "float32")
    assert choose.rows_of_block(many, many, Hooks([asks]), 12, sizes) == 4 * 2**24 // (
        8 * 4 * 12 * 2048
    )
    long = np.zeros((1, 2**15, 12, 1), "float32")
    assert choose.rows_of_block(long, long, none, 12, sizes) == choose.FEWEST_ROWS
    assert choose.rows_of_block(q[:, :1], long, none, 12, sizes) is None
    monkeypatch.undo()
    monkeypatch.setattr(backend, "platform", lambda q: "tpu")
    monkeypatch.setattr(backend, "on_accelerator", lambda q: True)
    # Multiples of 128, and of what one chip computes.
    assert choose.rows_of_block(q[:, :512], q[:, :512], none, 12, sizes) is None
    assert choose.rows_of_block(q, q, none, 12, sizes) == 256
    assert choose.rows_of_block(long, long, Hooks([near]), 12, sizes) == 128
    monkeypatch.setattr(choose, "_batch_shards", lambda: 8)
    assert choose.rows_of_block(many, many, none, 12, sizes) == 256
    monkeypatch.setattr(backend, "platform", lambda q: "gpu")
    assert choose.rows_of_block(q, q, none, 12, sizes) is None
