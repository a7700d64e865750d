"""Self-attention of whole texts in one kernel, without what other calls need around it."""

import keras

from keras_posenc import backend
from keras_posenc.attention.call import as_ids
from keras_posenc.backend.shared_pass import shared
from keras_posenc.maps.grid import Grid
from keras_posenc.positions import consecutive

# The arguments of a call that are read here.
KNOWN = {"query_mask", "value_mask", "key_mask", "use_causal_mask", "query_positions"}


def attend_whole(layer, query, named):
    """The output of a layer for texts without padding, or None where this is no such call.

    It is self-attention by a layer whose encodings, if any, act on each token alone. Everything
    else is left to the layer. `layer`: `PositionalAttention`. `query`: (B, T, E), which is also the
    value and the key. `named`: dict, the other arguments of the call. Returns the output (B, T,
    output size), or None.
    """
    if any(x is not None and x is not False and name not in KNOWN for name, x in named.items()):
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
