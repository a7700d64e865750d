"""Turning pairs of features by angles, both in float32."""

import math

import numpy as np
from keras import ops


def angles(ids, turns):
    """ids * turns in radians, less whole turns: exact to about 3e-5 up to a million positions.

    A float32 product keeps few of its 24 bits for the fraction of a turn once there are many turns.
    So ids and turns are cut into pieces of 12 bits, whose products are exact, and whole turns leave
    each product by itself.

    Args:
        ids: float32 (B, T, pairs or 1).
        turns: turns a position: NumPy (pairs,), then cut in float64; or float32 (B, 1, pairs).
    """
    floor = np.floor if isinstance(turns, np.ndarray) else ops.floor
    coarse = floor(turns * 2**14) / 2**14
    coarse, fine = ops.cast(coarse, "float32"), ops.cast(turns - coarse, "float32")
    whole = ops.floor(ids)
    high = ops.floor(ids / 4096) * 4096
    low = whole - high
    rest = (ids - whole) * coarse + ids * fine
    return (_fraction(high * coarse) + _fraction(low * coarse) + _fraction(rest)) * (2 * math.pi)


def _fraction(x):
    return x - ops.floor(x)


def rotate(x, cos, sin, layout):
    """The first features of x (B, T, H, D), pair by pair: (a, b) -> (a cos - b sin, b cos + a sin).

    Args:
        x: float32 (B, T, H, D).
        cos, sin: (B or 1, T, 1, pairs).
        layout: "interleaved" (pair k is 2k, 2k + 1) or "half" (k, k + pairs).
    """
    pairs = cos.shape[-1]
    if layout == "half":
        a, b = x[..., :pairs], x[..., pairs : 2 * pairs]
        parts = [a * cos - b * sin, b * cos + a * sin]
    else:
        a, b = x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
        turned = ops.stack([a * cos - b * sin, b * cos + a * sin], axis=-1)
        parts = [ops.reshape(turned, (*ops.shape(turned)[:-2], 2 * pairs))]
    if x.shape[-1] > 2 * pairs:
        parts.append(x[..., 2 * pairs :])
    return ops.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
