"""Turning pairs of features by angles."""

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
