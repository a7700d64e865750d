"""The grid of a call: the positions of its queries and keys, and the mask."""

import keras
from keras import ops

from keras_posenc.maps.grid import Content, Grid
from keras_posenc.positions import consecutive


def grid_of_call(
    q,
    memory,
    positions,
    orders,
    use_causal_mask,
    attention_mask,
    tables,
    training,
    packed=False,
):
    """Makes the `Grid` of queries (B, Tq, H, D) over a `Memory`.

    Args:
        positions, orders: what the call says of the queries, and of the keys; each may be None.
        use_causal_mask, attention_mask, training, packed: as in the call.
        tables: dict, encoding -> its table.

    Raises:
        ValueError: for an order and a causal mask together, or ids of another shape.
    """
    (query_positions, key_positions), (query_order, key_order) = positions, orders
    cached = memory.start is not None
    rows = consecutive(ops.shape(q)[1], memory.start if cached else 0)[None]
    columns = consecutive(ops.shape(memory.keys)[1])[None]
    if query_order is not None and use_causal_mask:
        raise ValueError(
            "`query_order` and `key_order` say who may attend in place of the causal order: "
            "leave `use_causal_mask` off."
        )
    has_ids = query_positions is not None or key_positions is not None
    row_ids = rows if query_positions is None else _ids(query_positions, q, "query_positions")
    column_ids = columns
    if key_positions is not None:
        column_ids = _ids(key_positions, memory.keys, "key_positions")
    if packed:
        _check_packed(row_ids, column_ids)
    causal = query_order is None and (use_causal_mask or cached)
    # A few queries among other keys: which of them are earlier only the positions tell.
    by_index = causal and (cached or not has_ids or q.shape[1] == memory.keys.shape[1])
    if causal:
        query_order, key_order = (rows, columns) if by_index else (row_ids, column_ids)
    grid = Grid(
        rows=row_ids,
        columns=column_ids,
        keep=memory.keep,
        row_order=query_order,
        column_order=key_order,
        order_is_index=by_index,
        mask=attention_mask,
        row_index=rows if packed else None,
        column_index=columns if packed else None,
        ids_are_indices=packed or not has_ids,
        training=training,
        content=Content(features=memory.features, tables=tables),
    )
    if causal and not by_index:
        grid.check_one_axis()
    return grid


def _check_packed(rows, columns):
    whole = all(keras.backend.is_int_dtype(ids.dtype) for ids in (rows, columns))
    alike = len(rows.shape) == len(columns.shape) == 2 and rows.shape[1] == columns.shape[1]
    if not whole or not alike:
        raise ValueError(
            "`packed` rows need ids that count the tokens of each document, whole numbers (B, T), "
            f"as many for the keys as for the queries. Received: {tuple(rows.shape)} and "
            f"{tuple(columns.shape)}, {keras.backend.standardize_dtype(rows.dtype)}"
        )


def _ids(ids, tokens, name):
    """Position ids with a batch dimension, as many as there are tokens, int32 or float32."""
    ids = ops.convert_to_tensor(ids)
    ids = ops.cast(ids, "int32" if keras.backend.is_int_dtype(ids.dtype) else "float32")
    ids = ids[None] if len(ids.shape) == 1 else ids
    if None not in (ids.shape[1], tokens.shape[1]) and ids.shape[1] != tokens.shape[1]:
        raise ValueError(
            f"`{name}` must have shape (T,), (B, T) or (B, T, axes) with T = {tokens.shape[1]}, "
            f"one id a token. Received: {ids.shape[1]} ids"
        )
    return ids
