"""Turning pairs of features by angles, and multiplying features."""

import keras
from keras import ops


def rotate(x, cos, sin, layout):
    """Rotates the first features of each head: (a, b) -> (a cos - b sin, b cos + a sin).

    Args:
        x: float32 (B, T, H, D).
        cos, sin: (B or 1, T, 1, pairs).
        layout: "interleaved" (pair k is 2k, 2k + 1) or "half" (k, k + pairs).

    Returns:
        float32 (B, T, H, D); features beyond 2 pairs are unchanged.
    """
    pairs = cos.shape[-1]
    x, *rest = [x] if x.shape[-1] == 2 * pairs else ops.split(x, [2 * pairs], axis=-1)
    # Not by slicing, whose gradients are slow on TensorFlow.
    if layout == "half":
        a, b = ops.split(x, 2, axis=-1)
        turned = ops.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    else:
        shape = ops.shape(x)
        a, b = ops.unstack(ops.reshape(x, (*shape[:-1], pairs, 2)), axis=-1)
        turned = ops.reshape(ops.stack([a * cos - b * sin, b * cos + a * sin], axis=-1), shape)
    return ops.concatenate([turned, *rest], axis=-1) if rest else turned


def times_features(x, factors, tokens=1, features=3):
    """Multiplies the first features of each head, in float32.

    Args:
        x: heads, (B, T, H, D) or with the axes in another order.
        factors: float32 (B or 1, T, F).
        tokens, features: int. The axes of T and D in x.

    Returns:
        A tensor like x, in float32 if x is float16, which has no room for large factors.
    """
    missing = x.shape[features] - factors.shape[-1]
    if missing:
        factors = ops.pad(factors, [(0, 0), (0, 0), (0, missing)], constant_values=1.0)
    if tokens > features:
        factors = ops.swapaxes(factors, 1, 2)
    (heads,) = {1, 2, 3} - {tokens, features}
    product = ops.cast(x, "float32") * ops.expand_dims(factors, heads)
    dtype = keras.backend.standardize_dtype(x.dtype)
    return product if dtype == "float16" else ops.cast(product, dtype)
