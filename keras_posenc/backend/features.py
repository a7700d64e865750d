"""What acts on the features of each token alone: products, norms and rotations."""

from keras import ops


def linear(x, kernel, bias, axes):
    """The product over the last axes of x and the first of a kernel, plus the bias unless None."""
    y = ops.tensordot(x, kernel, axes)
    return y if bias is None else y + bias


def rms_norm(x, gamma, offset, epsilon):
    """x / sqrt(mean(x^2) + epsilon) (offset + gamma), or without gamma no factor; the mean is one
    in float32."""
    dtype, x = x.dtype, ops.cast(x, "float32")
    x = x * ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + epsilon)
    x = ops.cast(x, dtype)
    return x if gamma is None else x * (gamma + offset)


def rotate(x, cos, sin, layout):
    """Rotates the first features of each head: (a, b) -> (a cos - b sin, b cos + a sin).

    `x`: (B, T, H, D). `cos`, `sin`: float32 (B or 1, T, 1, pairs). `layout`: "interleaved" (pair k
    is 2k, 2k + 1) or "half" (k, k + pairs). Returns a tensor like x, computed in float32; features
    beyond 2 pairs are unchanged.
    """
    pairs, dtype = cos.shape[-1], x.dtype
    x = ops.cast(x, "float32")
    x, *rest = [x] if x.shape[-1] == 2 * pairs else ops.split(x, [2 * pairs], axis=-1)
    # Not by slicing, whose gradients are slow on TensorFlow.
    if layout == "half":
        a, b = ops.split(x, 2, axis=-1)
        turned = ops.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    else:
        shape = ops.shape(x)
        a, b = ops.unstack(ops.reshape(x, (*shape[:-1], pairs, 2)), axis=-1)
        turned = ops.reshape(ops.stack([a * cos - b * sin, b * cos + a * sin], axis=-1), shape)
    return ops.cast(ops.concatenate([turned, *rest], axis=-1) if rest else turned, dtype)


def layer_norm(x, gamma, beta, epsilon):
    """Layer normalisation over the last axis, by variables or None."""
    return ops.layer_normalization(x, gamma, beta, -1, epsilon)
