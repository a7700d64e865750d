"""Angles of far positions in float32."""

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
