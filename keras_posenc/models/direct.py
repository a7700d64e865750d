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
        self.steps = [
            (node.operation, _arguments(node.arguments), [id(x) for x in node.outputs])
            for node in calls_in(graph)
        ]
        self.last = _read_last(calls_in(graph), graph.outputs)
        self.inputs = [id(x) for x in graph.inputs]
        self.outputs = [id(x) for x in graph.outputs]
        self.structure = output_structure(graph)

    def run(self, inputs, operation_fn=direct, training=None):
        """The outputs of the graph for a list of all its inputs, as `_run_through_graph` of Keras.

        `operation_fn`: function of an operation that returns what is called in its place.
        `training`: bool or None. If true, layers that take it get it.
        """
        with sharing():
            return self._run(inputs, operation_fn, training)

    def _run(self, inputs, operation_fn, training):
        values = dict(zip(self.inputs, inputs, strict=True))
        for (operation, arguments, outputs), last in zip(self.steps, self.last, strict=True):
            args, named = arguments(values)
            if training and takes_training(operation):
                named["training"] = True
            found = operation_fn(operation)(*args, **named)
            del args, named  # or they would keep what is let go
            alone = len(outputs) == 1 and not isinstance(found, (list, tuple, dict))
            found = [found] if alone else keras.tree.flatten(found)
            values.update(zip(outputs, found, strict=False))  # as Keras does
            del found
            for key in last:
                values.pop(key, None)
        return keras.tree.pack_sequence_as(self.structure, [values[key] for key in self.outputs])


def _read_last(nodes, outputs):
    """For each node, the ids of the tensors that no later node reads, nor an output is."""
    seen, last = {id(x) for x in outputs}, []
    for node in reversed(nodes):
        read = {id(x) for x in (*node.input_tensors, *node.outputs)} - seen
        seen |= read
        last.append(tuple(read))
    return last[::-1]


def _arguments(arguments):
    """A function of the values of tensors by id that returns the arguments of a call."""
    readers = [_reader(x) for x in arguments.args]
    named = {name: _reader(x) for name, x in arguments.kwargs.items()}
    if None in readers or None in named.values():  # tensors deep inside
        return arguments.fill_in
    return lambda values: (
        [read(values) for read in readers],
        {name: read(values) for name, read in named.items()},
    )


def _reader(x):
    """A function of the values by id that returns that of an argument; None if x is nested."""
    if isinstance(x, keras.KerasTensor):
        key = id(x)  # torch.compile cannot read an itemgetter
        return lambda values: values[key]
    if isinstance(x, list) and x and all(isinstance(each, keras.KerasTensor) for each in x):
        keys = [id(each) for each in x]
        return lambda values: [values[key] for key in keys]
    deep = any(isinstance(each, keras.KerasTensor) for each in keras.tree.flatten(x))
    return None if deep else lambda values: x


def _one(compute, layer, x, *args, **named):
    """layer(x), by compute(layer, x)."""
    if not backend.is_plain(layer, x, compute in CAST):
        return layer(x, *args, **named)
    y = compute(layer, x, *args, **named)
    if y is not x and (mask := layer.compute_mask(x, mask_of(x))) is not None:
        set_mask(y, mask)
    return y


def _call(layer, x, *args, **named):
    return layer.call(x, *args, **named)


def _drop(layer, x, *args, training=None, **named):
    return layer.call(x, training=True) if training else x


def _product(layer, x, *args, **named):
    return applied(layer, x)


def _activate(layer, x, *args, **named):
    return layer.activation(x)


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
    for name, x in (("query_mask", query), ("value_mask", value), ("key_mask", key)):
        if named.get(name) is None:
            named[name] = mask_of(x)
    alone = value is query and (key is None or key is query)
    found = None
    with uncast():
        if alone and not named.get("training"):
            attend = attend_whole if named.get("cache") is None else attend_last
            found = attend(layer, query, named)
        if found is None:
            found = layer.call(query, value, key, **named)
    y = found[0] if isinstance(found, tuple) else found
    set_mask(y, mask_of(query))
    return found


# What reads no variables, or casts them.
CAST = (_product, _norm, _drop, _activate)

# The class of a layer of a transformer -> how one of it is called. These classes take a mask from
# their first input or none, and nothing else from Keras.
CALLS = {
    PositionalAttention: _attention,
    AddTo: _sum,
    keras.layers.Activation: functools.partial(_one, _activate),
    keras.layers.Dense: functools.partial(_one, _product),
    keras.layers.LayerNormalization: functools.partial(_one, _norm),
    **dict.fromkeys((Dropout, keras.layers.Dropout), functools.partial(_one, _drop)),
    **dict.fromkeys(
        (
            BiasAdd,
            FeedForward,
            IdEmbedding,
            LearnedPositionEmbedding,
            RMSNormalization,
            SinusoidalPositionEmbedding,
            TokenEmbedding,
        ),
        functools.partial(_one, _call),
    ),
}
