"""Blocks keep no map: memory is linear in the tokens, in training, at lengths known late too."""

import gc
import pathlib

import keras
import numpy as np
import pytest
from forks import run_fork
from keras import ops

from keras_posenc import PositionalAttention
from keras_posenc.attention import choose
from keras_posenc.attention.choose import attend
from keras_posenc.attention.rules import Hooks, Rules
from keras_posenc.encodings import ENCODINGS, ALiBi, Grid, SelectiveAttention

BACKEND = keras.backend.backend()
H, D = 2, 4
OTHERS = [name for name in ENCODINGS if name != "cope"]
once = pytest.mark.once


@pytest.fixture
def block_of(cut_maps):
    """A function that sets the bytes of a block's map, and its rows; 0: the map in one piece."""

    def set_bytes(size, fewest_rows=1):
        cut_maps(*((0, size) if size else (2**60, 0)), fewest_rows)

    return set_bytes


class Draws:
    """A seed generator whose state is no variable."""

    def next(self):
        return ops.convert_to_tensor(np.array([1, 2], "int32"))


def loss(q, k, v, encoding=None):
    """Of a causal map with a bias and dropout."""
    encoding = ALiBi("symmetric") if encoding is None else encoding
    encoding.build((None, None, H, D))
    ids = ops.arange(q.shape[1])[None]
    rules = Rules(Hooks((encoding,)), 0.5, dropout=0.1, draws=Draws())
    grid = Grid(ids, ids, query_order=ids, key_order=ids, training=True)
    return ops.sum(attend(q, k, v, grid, rules)[0] ** 2)


def heads(length):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(1, length, H, D)).astype("float32") for _ in "qkv"]


@pytest.mark.skipif(BACKEND != "jax", reason="JAX tells how much memory a program takes")
def test_the_memory_of_a_compiled_step_is_linear(block_of):
    import jax

    def memory(length):
        compiled = jax.jit(jax.grad(loss, (0, 1, 2))).lower(*heads(length)).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    # Three maps of a block and the heads of 256 tokens are about the same.
    block_of(2**14)
    assert memory(512) < 2.2 * memory(256)
    block_of(0)
    assert memory(512) > 3.5 * memory(256)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="the others take one way over a map")
def test_a_map_in_one_pass_is_the_map_pass_by_pass(block_of, monkeypatch):
    """By XLA in a graph on a CPU; not where there is a GPU, whose plugin may not know XLA."""
    import tensorflow as tf

    from keras_posenc.backend import tensorflow as on_tensorflow

    def gradients():
        inputs = [tf.constant(x) for x in heads(64)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = loss(*inputs)
        return [total, *tape.gradient(total, inputs)]

    block_of(2**12)
    graph = tf.function(gradients)
    in_one_pass = graph()
    assert "over_map" in str(graph.get_concrete_function().graph.as_graph_def())
    monkeypatch.setattr(on_tensorflow, "on_accelerator", lambda _: True)
    graph = tf.function(gradients)
    with_a_gpu = graph()
    assert "over_map" not in str(graph.get_concrete_function().graph.as_graph_def())
    for found in (with_a_gpu, gradients()):
        for x, y in zip(in_one_pass, found, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(BACKEND != "jax", reason="JAX tells what a program is made of")
@pytest.mark.parametrize("size", [0, 2**12])
def test_the_backward_pass_does_not_form_the_output_again(block_of, size):
    """It has the map's product and four gradients, the forward pass the map's and the output's."""
    import jax

    block_of(size)
    program = jax.make_jaxpr(jax.grad(loss, (0, 1, 2)))(*heads(64))
    assert str(program).count(" dot_general[") == 2 + 5


def saved_bytes(layer, length):
    """Bytes of what a layer saves in training for its backward pass."""
    inputs = heads(length)[0].reshape(1, length, H * D)
    if BACKEND == "jax":
        import jax

        def gradient(x):
            return jax.vjp(lambda x: layer(x, x, use_causal_mask=True, training=True), x)[1]

        saved = jax.tree.leaves(jax.eval_shape(gradient, inputs))
        return sum(x.size * x.dtype.itemsize for x in saved)
    import torch

    found = {}

    def pack(x):
        storage = x.untyped_storage()
        found[storage.data_ptr()] = storage  # kept, so that no other gets its address
        return x

    x = torch.tensor(inputs, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        layer(x, x, use_causal_mask=True, training=True)
    return sum(storage.nbytes() for storage in found.values())


def attention(name, dropout):
    encodings = [] if name == "plain" else [name]
    layer = PositionalAttention(H, D, encodings=encodings, dropout=dropout)
    layer.build((None, None, H * D), (None, None, H * D))
    return layer


@pytest.mark.skipif(BACKEND == "tensorflow", reason="TensorFlow does not show what it saves")
@pytest.mark.parametrize("name", ["plain", "cope", *(pytest.param(n, marks=once) for n in OTHERS)])
def test_a_small_map_is_not_saved(name):
    """In one piece, with dropout: without, a fused kernel saves the mask that it is given."""
    layer = attention(name, 0.1)
    assert saved_bytes(layer, 128) < 2.2 * saved_bytes(layer, 64)


@pytest.mark.skipif(BACKEND != "torch", reason="torch shows what it saves")
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", ["plain", *ENCODINGS])
def test_what_is_saved_of_blocks_is_linear(name, dropout, block_of):
    """With a fused kernel and without one."""
    layer = attention(name, dropout)
    # Of rows as in use: selective attention saves a number for each key and block.
    block_of(2**15, choose.FEWEST_ROWS)
    assert saved_bytes(layer, 256) < 2.2 * saved_bytes(layer, 128)


@pytest.fixture
def new_objects():
    """A function that lists the objects made during a test; those of other tests are not seen."""
    gc.freeze()

    def listed():
        gc.collect()
        return gc.get_objects()

    yield listed
    gc.unfreeze()


@pytest.mark.skipif(BACKEND != "torch", reason="torch keeps a graph as long as its loss")
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", ["plain", "t5", "cope", "selective", "forget_gate"])
def test_nothing_outlives_the_backward_pass(name, dropout, block_of, new_objects):
    """Of a whole step nothing is left, and while the loss is held nothing but the loss."""
    import torch

    block_of(2**10)
    layer = attention(name, dropout)
    x = torch.tensor(heads(32)[0].reshape(1, 32, H * D), requires_grad=True)

    def step():
        total = layer(x, x, use_causal_mask=True, training=True).sum()
        total.backward()
        return total

    def tensors():
        return [found for found in new_objects() if issubclass(type(found), torch.Tensor)]

    step()  # makes room for the gradients
    before = {id(found) for found in tensors()}
    assert id(x) in before
    total = step()
    assert [found for found in tensors() if id(found) not in before] == [total]
    del total
    assert {id(found) for found in tensors()} == before


ALONE = """
import dataclasses
import torch
from keras_posenc import PositionalAttention, backend

backend.TRAITS = dataclasses.replace(backend.TRAITS, map_bytes=0, block_bytes=2**20)

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024

layer = PositionalAttention(4, 8, dropout=0.1)
for length in (64, 4096):
    before, x = peak(), torch.zeros(1, length, 32, requires_grad=True)
    layer(x, x, training=True).sum().backward()
print(peak() - before)
"""


@pytest.mark.skipif(BACKEND != "torch", reason="the others keep no tensors between blocks")
@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="Linux tells the peak")
def test_the_process_does_not_grow_by_the_maps_of_all_blocks():
    """As it would if what lasts lay where a block's map was, and the next found no room."""
    run = run_fork("code", ALONE)
    assert not run.returncode, run.stderr
    assert int(run.stdout) < 4 * 4 * 4096**2 / 2


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow shows the shapes of its graphs")
@pytest.mark.parametrize("encoding", [ALiBi("symmetric"), SelectiveAttention()], ids=type)
def test_no_tensor_of_the_graph_is_a_map(encoding, block_of):
    import tensorflow as tf

    length = 96

    def step(q, k, v):
        with tf.GradientTape() as tape:
            tape.watch((q, k, v))
            total = loss(q, k, v, encoding)
        return tape.gradient(total, (q, k, v))

    def maps():
        graph = tf.function(step).get_concrete_function(*map(tf.constant, heads(length))).graph
        graphs = [graph, *(f.graph for f in graph._functions.values())]
        tensors = [x for g in graphs for op in g.get_operations() for x in op.outputs]
        shapes = [x.shape.as_list() for x in tensors if x.shape.rank]
        return [shape for shape in shapes if shape.count(length) > 1]

    block_of(4 * H * length * 10)
    assert maps() == []
    block_of(0)
    assert maps() != []


def test_a_model_fits_texts_of_several_lengths(block_of):
    """With dropout, through `fit`: the same weights as without blocks."""
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, 8, mask_zero=True)(tokens)
    layer = PositionalAttention(H, D, encodings=["t5", "rotary"], dropout=0.2, seed=3)
    y = keras.layers.GlobalAveragePooling1D()(layer(x, x))
    model = keras.Model(tokens, keras.layers.Dense(1)(y))
    start, state = model.get_weights(), np.array(layer.seed_generator.state)
    rng = np.random.default_rng(0)
    batches = [rng.integers(1, 11, (4, length)) for length in (13, 20)]
    results = []
    for size in (0, 4 * 4 * H * 20 * 6):
        block_of(size)
        model.set_weights(start)
        layer.seed_generator.state.assign(state)
        model.compile(keras.optimizers.SGD(1.0), "mean_squared_error")
        for batch in batches:
            batch[0, -3:] = 0
            model.fit(batch, np.ones((4, 1)), shuffle=False, verbose=0)
        results.append(model.get_weights())
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert np.abs(results[0][0] - start[0]).max() > 1e-3
