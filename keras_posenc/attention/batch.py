"""Data parallelism: each device attends for its own texts.

A bias over distances is the same for all texts, so its gradient is a sum over the batch. Left to
XLA, devices would add up a block of the attention matrix in every turn of the loop over blocks.
Here each device adds up its own texts, down to the weights of the encodings, and the devices add up
the gradients of these weights once.
"""

import contextlib
import dataclasses

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.blocks import AXES, Inputs
from keras_posenc.maps.axes import tensors_of, with_tensors


def splits_batch(q, rules):
    """Whether each device computes this call for its own texts: where all texts share weights."""
    shares = rules.bias is not None or any(e.weights for e in rules.hooks.encodings)
    return shares and backend.batch_shards(q) > 1


def attend_per_device(path, q, k, v, grid, rules):
    """Computes path(q, k, v, grid, rules) on each device for its texts.

    `path`: function, as in `PATHS`, whose result is the output (B, Tq, H, Dv) alone.
    """
    variables = {id(w): w for e in rules.hooks.encodings for w in e.weights}
    hashes = rules.hashes or (None, None)
    record = Inputs(q, k, v, grid, rules.bias, *hashes, variables)
    tensors = tensors_of(record)
    # Queries and keys may be content, too: what is one tensor stays one.
    unique = {id(x): x for x in tensors.values()}
    split = {id(x): _has_batch(key, x, ops.shape(q)[0]) for key, x in tensors.items()}

    def of_one(values):
        values = dict(zip(unique, values, strict=True))
        inputs = with_tensors(record, {key: values[id(x)] for key, x in tensors.items()})
        q, k, v = inputs.q, inputs.k, inputs.v
        grid = inputs.grid.replace(encoded=(q, k))
        hashes = (inputs.row_hashes, inputs.column_hashes) if rules.hashes else None
        here = dataclasses.replace(rules, bias=inputs.bias, hashes=hashes)
        pairs = [(variable, inputs.weights[key]) for key, variable in variables.items()]
        with keras.StatelessScope(pairs) if pairs else contextlib.nullcontext():
            return path(q, k, v, grid, here)

    values = [ops.convert_to_tensor(x) for x in unique.values()]
    return backend.over_batch(of_one, values, [split[key] for key in unique])


def _has_batch(key, x, batch):
    """Whether the first axis of a tensor is the batch, not one text for all, nor another axis."""
    axes, rank = AXES[key[0]], len(x.shape)
    of_map = [axis % rank for axis in (axes.rows, axes.columns) if axis is not None]
    return bool(of_map) and 0 not in of_map and x.shape[0] == batch
