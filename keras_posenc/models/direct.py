"""Layers of a graph called without what Keras does around a call, where that costs time.

On PyTorch, Keras' work around a call takes as long as a small layer itself: in a pass over a few
tokens, or in decoding, most of the time. The graph stays as it is and is read at each pass. What is
not known here is called as Keras calls it.
"""

import functools

import keras

from keras_posenc import backend
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.attention.shortcuts import attend_last, attend_whole
from keras_posenc.backend.keras_names import (
    mask_of,
    nodes_by_depth,
    output_structure,
    set_mask,
    takes_training,
    uncast,
)
from keras_posenc.backend.shared_pass import sharing
from keras_posenc.keras_support.nested_layers import applied
from keras_posenc.layers.dropout import Dropout
from keras_posenc.layers.feedforward import FeedForward
from keras_posenc.layers.norm import RMSNormalization
from keras_posenc.layers.token_embedding import AddTo, BiasAdd, IdEmbedding, TokenEmbedding
from keras_posenc.positions.learned import LearnedPositionEmbedding
from keras_posenc.positions.sinusoidal import SinusoidalPositionEmbedding


def calls_in(graph):
    """The calls in a functional graph, Keras' nodes without its inputs, in the order of a pass.

    `graph`: a `keras.Model` or `keras.Function`. One that is not functional has none.
    """
    by_depth = nodes_by_depth(graph)
    nodes = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
    return [node for node in nodes if not node.is_input]


def direct(operation):
    """A function of the arguments of operation(...), with the same result and mask.

    `operation`: the layer or the operation of a node of a functional graph. Returns a function, or
    the operation itself.
    """
    # Of a subclass, nothing is known.
    call = CALLS.get(type(operation))
    return operation if call is None else functools.partial(call, operation)


class Steps:
    """The calls of a functional graph in their order, whose arguments are taken apart only once.

    `graph`: a functional `keras.Model` or `keras.Function`.
    """

    def __init__(self, graph):
        nodes = calls_in(graph)
        self.constants = {}  # id -> an argument that is the same in each pass
        self.steps = []
        for node, ids in zip(nodes, _ids(nodes, graph.outputs), strict=True):
            args = [self._key(x) for x in node.arguments.args]
            named = {name: self._key(x) for name, x in node.arguments.kwargs.items()}
            self.steps.append((node.operation, direct(node.operation), args, named, *ids))
        self.inputs = [id(x) for x in graph.inputs]
        self.outputs = [id(x) for x in graph.outputs]
        self.structure = output_structure(graph)

    def _key(self, x):
        """What `_value` finds an argument by: ids, or itself if tensors are deep inside."""
        if isinstance(x, list) and x and all(isinstance(each, keras.KerasTensor) for each in x):
            return [id(each) for each in x]
        deep = any(isinstance(each, keras.KerasTensor) for each in keras.tree.flatten(x))
        if not deep:
            self.constants[id(x)] = x
        return id(x) if not deep or isinstance(x, keras.KerasTensor) else (x,)

    def run(self, inputs, operation_fn=None, training=None):
        """The outputs of the graph for a list of all its inputs, as `_run_through_graph` of Keras.

        `operation_fn`: function of an operation, and of what calls it directly, that returns what
        is called in its place; by default the latter. `training`: bool or None, for the layers
        that take it.
        """
        with sharing():
            values = {**self.constants, **dict(zip(self.inputs, inputs, strict=True))}
            for operation, call, args, named, outputs, last in self.steps:
                if operation_fn is not None:
                    call = operation_fn(operation, call)
                args = [_value(key, values) for key in args]
                named = {name: _value(key, values) for name, key in named.items()} if named else {}
                if training is not None and takes_training(operation):
                    named["training"] = training or bool(named.get("training"))
                found = call(*args, **named)
                del args, named  # or they would keep what is let go
                if len(outputs) == 1 and not isinstance(found, (list, tuple, dict)):
                    values[outputs[0]] = found
                else:
                    values.update(zip(outputs, keras.tree.flatten(found), strict=False))  # as Keras
                del found
                for key in last:
                    values.pop(key, None)
            return keras.tree.pack_sequence_as(
                self.structure, [values[key] for key in self.outputs]
            )


def _value(key, values):
    if isinstance(key, tuple):
        return keras.tree.map_structure(lambda x: values.get(id(x), x), key)[0]
    return [values[each] for each in key] if isinstance(key, list) else values[key]


def _ids(nodes, outputs):
    """For each node, the ids of its outputs, and those of the tensors that no later node reads, nor
    an output is."""
    seen, found = {id(x) for x in outputs}, []
    for node in reversed(nodes):
        read = {id(x) for x in (*node.input_tensors, *node.outputs)} - seen
        seen |= read
        found.append(([id(x) for x in node.outputs], tuple(read)))
    return found[::-1]


def _one(compute, layer, x, *args, **named):
    """layer(x), by compute(layer, x)."""
    if not backend.is_plain(layer, x, compute in CAST):
        return layer(x, *args, **named)
    y = compute(layer, x, *args, **named)
    if y is not x and (mask := layer.compute_mask(x, mask_of(x))) is not None:
        set_mask(y, mask)
    return y


def _drop(layer, x, *args, training=None, **named):
    return layer.call(x, training=True) if training else x


def _product(layer, x, *args, **named):
    return applied(layer, x)


def _norm(layer, x, *args, **named):
    """`LayerNormalization` of the last axis, without the casts of Keras."""
    last = layer.axis in (-1, [-1], x.dim() - 1, [x.dim() - 1])
    if not last or getattr(layer, "rms_scaling", False) or layer.compute_dtype == "float64":
        return layer(x)
    return backend.layer_norm(x, layer.gamma, layer.beta, layer.epsilon)


def _sum(layer, tensors):
    """`AddTo` of two tensors of one shape, with the mask of the first."""
    first, *others = tensors
    second = others[0]
    if len(others) > 1 or first.shape != second.shape or first.dtype != second.dtype:
        return layer(tensors)
    if not backend.is_plain(layer, first, casts=True):
        return layer(tensors)
    y = first + second
    set_mask(y, mask_of(first))
    return y


def _attention(layer, query, value, key=None, **named):
    if not backend.is_plain(layer, query, casts=True):
        tensors = (query, value) if key is None else (query, value, key)
        return layer(*tensors, **named)
    alone = value is query and (key is None or key is query)
    mask = mask_of(query)
    for name, x in (("query_mask", query), ("value_mask", value), ("key_mask", key)):
        if named.get(name) is None:
            named[name] = mask if alone else mask_of(x)
    found = None
    with uncast():
        if alone and not named.get("training"):
            attend = attend_whole if named.get("cache") is None else attend_last
            found = attend(layer, query, named)
        if found is None:
            found = layer.call(query, value, key, **named)
    set_mask(found[0] if isinstance(found, tuple) else found, mask)
    return found


# What reads no variables, or casts them.
CAST = (_product, _norm, _drop, keras.layers.Activation.call)

# The class of a layer of a transformer -> how one of it is called. These classes take a mask from
# their first input or none, and nothing else from Keras.
CALLS = {
    PositionalAttention: _attention,
    AddTo: _sum,
    keras.layers.Activation: functools.partial(_one, keras.layers.Activation.call),
    keras.layers.Dense: functools.partial(_one, _product),
    keras.layers.LayerNormalization: functools.partial(_one, _norm),
    **dict.fromkeys((Dropout, keras.layers.Dropout), functools.partial(_one, _drop)),
    **{
        kind: functools.partial(_one, kind.call)
        for kind in (
            BiasAdd,
            FeedForward,
            IdEmbedding,
            LearnedPositionEmbedding,
            RMSNormalization,
            SinusoidalPositionEmbedding,
            TokenEmbedding,
        )
    },
}
