"""A step of decoding: the query of the newest token, which sees every key before it."""

import functools

from keras import ops

from keras_posenc import backend
from keras_posenc.attention.call import as_ids
from keras_posenc.attention.key_values import FULL, Overwritten
from keras_posenc.attention.whole_text import needs_no_map
from keras_posenc.maps.grid import Grid
from keras_posenc.positions import consecutive
from keras_posenc.positions.position_range import check_length

# The arguments of a call that such a step may have, beside its inputs.
KNOWN = {"cache", "query_mask", "value_mask", "key_mask", "query_positions", "key_positions"}


def attend_last(layer, query, named):
    """The results of a layer for the newest token, or None where this is no such call.

    It is self-attention after a cache, by a layer whose encodings, if any, act on each token as it
    is written. Then padding and a window alone mask keys. Everything else is left to the layer.

    Args:
        layer: `PositionalAttention`.
        query: (B, 1, E), which is also the value and the key.
        named: dict, the other arguments of the call.

    Returns:
        The output (B, 1, output size) and the new cache, or None.
    """
    cache, added = named.get("cache"), named.get("value_mask")
    if not isinstance(cache, Overwritten) or added is None or query.shape[1] != 1:
        return None
    if any(x is not None and name not in KNOWN for name, x in named.items()):
        return None
    if not needs_no_map(layer, query) or backend.is_traced(cache.start):
        return None
    start = int(cache.start)
    if not all(mask is None or backend.all_true(mask) for mask in (added, named.get("key_mask"))):
        return None
    last, ids = (as_ids(named.get(name), None) for name in ("query_positions", "key_positions"))
    if (last is None) != (ids is None):  # the other ids are then indices
        return None
    if ids is None:
        last = last_key = consecutive(1, start)[None]
    else:
        ids = ids[:, : start + 1]
        last_key = ids[:, start:]
    near = None
    if layer.sliding_window is not None:
        ids = consecutive(start + 1)[None] if ids is None else ids
        if len(ids.shape) > 2:
            return None
        near = ops.abs(last - ids) < layer.sliding_window
        if not backend.all_true(near[:, start:]):  # then it may see nothing
            return None
    check_length(start, 1, cache.key_mask.shape[1], FULL)
    q, k, v, merge = layer._project(query, query, query)
    grid = Grid(last, last_key)
    for encoding in layer.encodings:
        q, k = encoding.heads(q, k, grid)
    # By methods, which PyTorch and JAX have: those of `keras.ops` take 2% of a step.
    keys = backend.overwrite(cache.keys, start, k.swapaxes(1, 2), axis=2)
    values = backend.overwrite(cache.values, start, v.swapaxes(1, 2), axis=2)
    key_mask = backend.overwrite(cache.key_mask, start, added, axis=1)
    heads = q, *(x[:, :, : start + 1].swapaxes(1, 2) for x in (keys, values))
    masks = [
        x for x in (key_mask[:, : start + 1], near) if x is not None and not backend.all_true(x)
    ]
    mask = functools.reduce(ops.logical_and, masks)[:, None, None] if masks else None
    attended = backend.dot_product_attention(*heads, None, mask, layer.key_dim**-0.5, False, None)
    return merge(attended), Overwritten(keys, values, key_mask, cache.start + 1)
