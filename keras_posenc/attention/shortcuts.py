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
    masks = {id(x): x for name in ("value_mask", "key_mask") if (x := named.get(name)) is not None}
    if not all(map(backend.all_true, masks.values())):
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
KNOWN = {"cache", "query_mask", "value_mask", "key_mask", "query_positions", "key_positions"}


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
    if any(x is not None and name not in KNOWN for name, x in named.items()):
        return None
    if not needs_no_map(layer, query) or backend.is_traced(cache.start):
        return None
    start = backend.number(cache.start)
    if not all(mask is None or _all_true(mask) for mask in (added, named.get("key_mask"))):
        return None
    of_rows, of_columns = (named.get(f"{side}_positions") for side in ("query", "key"))
    if (of_rows is None) != (of_columns is None):  # the other ids are then indices
        return None
    given = () if of_rows is None else (of_rows, of_columns)
    last, last_key, ids = shared(("newest", start), given, lambda: _newest(start, *given))
    near = None
    if layer.sliding_window is not None or layer.hooks.restrict:
        if len(ids.shape) > 2:
            return None
        grid = Grid(last, ids, window=layer.sliding_window)
        for encoding in layer.hooks.restrict:
            grid = encoding.restrict(grid)
        if grid.attention_mask is not None:
            return None
        window = "window", grid.window, grid.sinks, grid.global_tokens
        near = shared(window, (last, ids), grid.mask)
        if near is not None and not backend.all_true(near[..., start:]):
            return None  # then it may see nothing
    check_length(start, 1, cache.key_mask.shape[1], FULL)
    q, k, v, merge = layer._project(query, query, query)
    grid = Grid(last, last_key)
    for encoding in layer.hooks.heads:
        q, k = encoding.heads(q, k, grid)
    # By methods, which PyTorch and JAX have: those of `keras.ops` take 2% of a step.
    keys = backend.overwrite(cache.keys, start, k.swapaxes(1, 2), axis=2)
    values = backend.overwrite(cache.values, start, v.swapaxes(1, 2), axis=2)
    # Of all layers that have the same ones.
    key_mask = shared(
        ("written", start),
        (cache.key_mask, added),
        lambda: backend.overwrite(cache.key_mask, start, added, axis=1),
    )
    after = shared("moved on", (cache.start,), lambda: backend.moved_on(cache.start, 1, True))
    heads = q, *(x[:, :, : start + 1].swapaxes(1, 2) for x in (keys, values))
    seen = key_mask[:, : start + 1]
    unmasked = backend.is_unmasked(after) or backend.all_true(seen)
    masks = [] if unmasked else [seen[:, None, None]]
    masks += [] if near is None or _all_true(near) else [near]
    mask = functools.reduce(ops.logical_and, masks) if masks else None
    attended = backend.dot_product_attention(*heads, None, mask, layer.key_dim**-0.5, False, None)
    return merge(attended), Overwritten(keys, values, key_mask, after)


def _all_true(mask):
    return shared("all true", (mask,), lambda: backend.all_true(mask))


def _newest(start, of_rows=None, of_columns=None):
    """The ids of the newest token as a query and as a key, one tensor if they are the same, and
    those of all keys; the indices where no ids are given."""
    if of_rows is None:
        last = consecutive(1, start)[None]
        return last, last, consecutive(start + 1)[None]
    last, ids = as_ids(of_rows, None), as_ids(of_columns, None)[:, : start + 1]
    last_key = ids[:, start:]
    same = last.shape == last_key.shape and backend.all_true(last == last_key)
    return last, last if same else last_key, ids
