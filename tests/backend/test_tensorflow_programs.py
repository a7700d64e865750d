"""Programs of TensorFlow: operations of a step, and XLA, which compiles all of it or none."""

import collections

import keras
import numpy as np
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("programs of TensorFlow", allow_module_level=True)

import tensorflow as tf

from keras_posenc import build_transformer_model
from keras_posenc.heads import classifier

pytestmark = pytest.mark.once
SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_act": "gelu",
    "max_position": 12,
    "dropout_rate": 0.1,
    "attention_dropout_rate": 0.1,
}
BATCH, LENGTH = 4, 96
# What computes nothing, and the functions that hold the others.
FREE = set("Const Identity IdentityN NoOp Placeholder ReadVariableOp StopGradient Reshape".split())
INNER = {"f", "body", "then_branch", "else_branch"}


def make(layers):
    keras.utils.set_random_seed(0)
    config = {**SIZES, "num_hidden_layers": layers}
    encoder = build_transformer_model(**config, hierarchical_position=True)
    return classifier(encoder, 2, dropout_rate=0.0)


def operations(function, *specs):
    """Number of operations of a traced function, and of those that it calls, by name."""
    graph = tf.function(function).get_concrete_function(*specs).graph.as_graph_def()
    functions = {each.signature.name: each.node_def for each in graph.library.function}
    found, left = collections.Counter(), [graph.node]
    for nodes in left:
        for node in nodes:
            found[node.op] += node.op not in FREE
            called = [node.attr[key].func.name for key in INNER & set(node.attr)]
            left += [functions[name] for name in called if name in functions]
    return found


def test_a_layer_has_few_operations():
    ids = tf.TensorSpec((BATCH, LENGTH), "int32")
    inputs, labels = {"token_ids": ids, "segment_ids": ids}, tf.TensorSpec((BATCH,), "int32")
    counts = collections.defaultdict(list)
    for layers in (1, 2):
        model = make(layers)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-3), loss)
        model.optimizer.build(model.trainable_variables)
        steps = {
            "forward": (lambda x, model=model: model(x, training=False), inputs),
            "train": (lambda *data, model=model: model.train_step(data), inputs, labels),
        }
        for mode, (step, *specs) in steps.items():
            counts[mode].append(operations(step, *specs).total())
    of_layer = {mode: two - one for mode, (one, two) in counts.items()}
    assert of_layer["forward"] <= 70 and of_layer["train"] <= 860


def test_xla_compiles_a_whole_step(cut_maps):
    """Attention in blocks, too. With `jit_compile=True` TensorFlow raises an error where it cannot
    compile all of it."""
    length = LENGTH + 1
    cut_maps(0, 4 * BATCH * 2 * length * 40)
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 40, (BATCH, length)).astype("int32")
    tokens[0, length // 2 :] = 0
    data = {"token_ids": tokens, "segment_ids": np.zeros_like(tokens)}, rng.integers(0, 2, BATCH)
    losses = []
    for jit in (False, True):
        model = make(1)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=jit)
        losses.append([model.train_on_batch(*data) for _ in range(2)])
    np.testing.assert_allclose(*losses, atol=1e-4)
