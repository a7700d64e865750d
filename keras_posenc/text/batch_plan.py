"""Which rows are read together, and how they are padded: the plan of `TextBatches`."""

import dataclasses

import numpy as np

from keras_posenc import backend
from keras_posenc.text import shapes
from keras_posenc.text.buckets import batch_sizes, choose_lengths, even_sizes


@dataclasses.dataclass(frozen=True)
class Plan:
    """Widths of batches, and the rows of each."""

    widths: np.ndarray  # ints that increase, the lengths T to which rows are padded
    buckets: list  # int arrays, the numbers of the rows of each width, shortest first
    sizes: list  # rows of a batch of each width
    fills: list  # of what the rows of a batch of each width are a multiple, by rows of weight 0


def plan_batches(
    lengths,
    sides,
    multiple,
    *,
    max_length,
    token_budget,
    max_shapes,
    pad_to,
    price,
    fixed_shapes,
    shuffle,
):
    """Chooses the widths of batches and how many rows they have.

    `lengths`: (N,) int array, tokens of each row, of the longest of its `sides` texts that are
    encoded separately. `multiple`: of which the rows of a batch are one. `price`: the `shape_price`
    of `TextBatches`, as the others are its arguments. Returns a `Plan`.
    """
    costs = shapes.costs()
    fixed = fixed_shapes is not None and costs.compiles_each
    if fixed:
        lengths, pad_to = shapes.on_ladder(lengths, fixed_shapes, pad_to), 1
    elif fixed_shapes is not None and backend.TRAITS.eager and not costs.accelerated:
        pad_to = 1  # a text alone has no padding, so a mask costs nothing
    if fixed_shapes is not None and not costs.accelerated:
        token_budget = min(token_budget, shapes.CPU_BATCH)
    priced, call = costs.priced_shapes, costs.call
    texts = sides or 1
    if priced < len(lengths) and lengths.max() * texts * len(lengths) > token_budget:
        price = 0  # the last batch has another number of rows: two shapes in any case
    if shuffle:  # the step of a small batch, which each length may make, counts as any other
        call = max(call, token_budget // 16)
    widths = choose_lengths(lengths, max_shapes, pad_to, price, priced, call)
    # Never past max_length: a model may have no position there.
    widths = widths if max_length is None else np.minimum(widths, max_length)
    bucket = np.searchsorted(widths, lengths)
    by_length = np.argsort(lengths, kind="stable")
    buckets = [by_length[bucket[by_length] == k] for k in range(len(widths))]
    # Texts that are encoded separately are compared with those of the other rows.
    sizes_of = shapes.fixed_sizes if fixed else batch_sizes if sides is None else even_sizes
    sizes = sizes_of([len(rows) for rows in buckets], widths * texts, token_budget, multiple)
    return Plan(widths, buckets, sizes, sizes if fixed else [multiple] * len(sizes))
