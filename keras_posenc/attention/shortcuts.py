"""The newest token after a cache, and texts without padding, without the work of a call."""

import functools

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.call import as_ids
from keras_posenc.attention.key_values import FULL, Overwritten
from keras_posenc.backend.shared_pass import shared
from keras_posenc.maps.grid import Grid
from keras_posenc.positions import consecutive
from keras_posenc.positions.position_range import check_length

# The arguments of a call that are read here.
OF_WHOLE_TEXTS = {"query_mask", "value_mask", "key_mask", "use_causal_mask", "query_positions"}


def attend_whole(layer, query, named):
    """The output of a layer for texts without padding, or None where this is no such call.

    It is self-attention by a layer whose encodings, if any, act on each token alone. Everything
    else is left to the layer. `layer`: `PositionalAttention`. `query`: (B, T, E), which is also the
    value and the key. `named`: dict, the other arguments of the call. Returns the output (B, T,
    output size), or None.
    """
    if any(
        x is not None and x is not False and name not in OF_WHOLE_TEXTS for name, x in named.items()
    ):
        return None
    if layer.sliding_window is not None or layer.hooks.restrict or 0 in query.shape:
        return None
    if not needs_no_map(layer, query):
        return None
    if backend.on_accelerator(query):  # where a kernel is chosen by the sizes
        return None
    masks = named.get("value_mask"), named.get("key_mask")
    if not all(mask is None or _all_true(mask) for mask in masks[masks[0] is masks[1] :]):
        return None
    q, k, v, merge = layer._project(query, query, query)
    if layer.encodings:
        ids = as_ids(named.get("query_positions"), None)
        if ids is None:
            length = query.shape[1]
            ids = shared(("indices", length), (), lambda: consecutive(length)[None])
        for encoding in layer.encodings:
            q, k = encoding.heads(q, k, Grid(ids, ids))
    causal = bool(named.get("use_causal_mask"))
    return merge(
        backend.dot_product_attention(q, k, v, None, None, layer.key_dim**-0.5, causal, None)
    )


def needs_no_map(layer, query):
    """Whether the layer weighs keys, except masked ones, by their products alone, in a kernel."""
    flash = layer.flash_attention, keras.config.is_flash_attention_enabled()
    plain = layer.hooks.heads_and_masks_alone and layer.key_dim == layer.value_dim
    return plain and flash == (None, None) and backend.has_kernel(query, False)


# The arguments of a call that such a step may have, beside its inputs.
OF_NEWEST = "key_mask", "query_positions", "key_positions"
KNOWN = {"cache", "query_mask", "value_mask", *OF_NEWEST}


def attend_last(layer, query, named):
    """The results of a layer for the newest token, or None where this is no such call.

    It is self-attention after a cache, by a layer whose encodings, if any, act on each token as it
    is written, or mask keys by their positions. Everything else is left to the layer.

    `layer`: `PositionalAttention`. `query`: (B, 1, E), which is also the value and the key.
    `named`: dict, the other arguments of the call. Returns the output (B, 1, output size) and the
    new cache, or None.
    """
    cache, added = named.get("cache"), named.get("value_mask")
    if not isinstance(cache, Overwritten) or added is None or query.shape[1] != 1:
        return None
    unknown = any(x is not None and name not in KNOWN for name, x in named.items())
    if unknown or not needs_no_map(layer, query):
        return None
    read = cache.start, added, *(named.get(name) for name in OF_NEWEST)
    # Of all layers that have the same ones, as what is computed by `shared` below.
    newest = shared("newest", read, lambda: _newest(*read))
    if newest is None:
        return None
    start, grid, ids, after = newest
    near = None
    if layer.sliding_window is not None or layer.hooks.restrict:
        if len(ids.shape) > 2:
            return None
        columns = Grid(grid.query_positions, ids, window=layer.sliding_window)
        for encoding in layer.hooks.restrict:
            columns = encoding.restrict(columns)
        if columns.attention_mask is not None:
            return None
        window = "window", columns.window, columns.sinks, columns.global_tokens
        near = shared(window, (grid.query_positions, ids), columns.mask)
        if near is not None and not backend.all_true(near[..., start:]):
            return None  # then it may see nothing
    check_length(start, 1, cache.key_mask.shape[1], FULL)
    q, k, v, merge = layer._project(query, query, query)
    for encoding in layer.hooks.heads:
        q, k = encoding.heads(q, k, grid)
    # By methods, which PyTorch and JAX have: those of `keras.ops` take 2% of a step.
    keys = backend.overwrite(cache.keys, start, k.swapaxes(1, 2), axis=2)
    values = backend.overwrite(cache.values, start, v.swapaxes(1, 2), axis=2)
    write = functools.partial(_written, cache, start, added, after)
    key_mask, masks = shared("written", (cache.key_mask, added), write)
    heads = q, *(x[:, :, : start + 1].swapaxes(1, 2) for x in (keys, values))
    masks = masks if near is None or _all_true(near) else [*masks, near]
    mask = functools.reduce(ops.logical_and, masks) if masks else None
    attended = backend.dot_product_attention(*heads, None, mask, layer.key_dim**-0.5, False, None)
    return merge(attended), Overwritten(keys, values, key_mask, after)


def _all_true(mask):
    return shared("all true", (mask,), lambda: backend.all_true(mask))


def _newest(start, added, key_mask, of_rows, of_columns):
    """The number of keys before the newest token, the `Grid` of its row and column, the ids of all
    keys, and the number of keys from then on; None if the token is masked or has half its ids."""
    if backend.is_traced(start) or (of_rows is None) != (of_columns is None):
        return None  # the other ids are then indices
    if not all(mask is None or _all_true(mask) for mask in (added, key_mask)):
        return None
    before, given = backend.number(start), () if of_rows is None else (of_rows, of_columns)
    grid, ids = shared(("ids", before), given, lambda: _ids(before, *given))
    return before, grid, ids, backend.moved_on(start, 1, True)


def _ids(before, of_rows=None, of_columns=None):
    """The `Grid` of the newest token, whose ids are one tensor if they are the same, and the ids of
    all keys; the indices where no ids are given."""
    if of_rows is None:
        last = consecutive(1, before)[None]
        return Grid(last, last), consecutive(before + 1)[None]
    last, ids = as_ids(of_rows, None), as_ids(of_columns, None)[:, : before + 1]
    last_key = ids[:, before:]
    same = last.shape == last_key.shape and backend.all_true(last == last_key)
    return Grid(last, last if same else last_key), ids


def _written(cache, start, added, after):
    """The padding mask of a cache after the newest token, and a list of it for those attended to,
    which is empty if nothing is masked."""
    key_mask = backend.overwrite(cache.key_mask, start, added, axis=1)
    seen = key_mask[:, : start + 1]
    unmasked = backend.is_unmasked(after) or backend.all_true(seen)
    return key_mask, [] if unmasked else [seen[:, None, None]]
