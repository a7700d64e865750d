"""Multiplying features of heads."""

import keras
from keras import ops

from keras_posenc import backend


def times_features(x, factors, tokens=1, features=3):
    """Multiplies the first features of each head, in float32.

    `x`: heads, (B, T, H, D) or with the axes in another order. `factors`: float32 (B or 1, T, F).
    `tokens`, `features`: int. The axes of T and D in x. Returns a tensor like x, in float32 if x is
    float16, which has no room for large factors.
    """
    missing = x.shape[features] - factors.shape[-1]
    if missing:
        factors = backend.pad(factors, [(0, 0), (0, 0), (0, missing)], constant_values=1.0)
    if tokens > features:
        factors = ops.swapaxes(factors, 1, 2)
    (heads,) = {1, 2, 3} - {tokens, features}
    product = ops.cast(x, "float32") * ops.expand_dims(factors, heads)
    dtype = keras.backend.standardize_dtype(x.dtype)
    return product if dtype == "float16" else ops.cast(product, dtype)
