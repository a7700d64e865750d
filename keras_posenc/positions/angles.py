"""Angles of far positions in float32."""

import math

import numpy as np
from keras import ops

from keras_posenc import backend


def angles(ids, turns):
    """Computes ids * turns in radians, modulo whole turns, to about 3e-5 up to a million positions.

    After many turns a float32 product has few of its 24 bits left for the fraction of a turn. So
    ids and turns are split into parts of 12 bits, whose products are exact, and whole turns are
    removed from each product. `ids`: float32 (B, T, pairs or 1). `turns`: turns per position: NumPy
    (pairs,), split in float64, or float32 (B, 1, pairs). Returns float32 (B, T, pairs).
    """
    floor = np.floor if isinstance(turns, np.ndarray) else ops.floor
    coarse = floor(turns * 2**14) / 2**14
    coarse, fine = (backend.constant(x, "float32") for x in (coarse, turns - coarse))
    whole = ops.floor(ids)
    high = ops.floor(ids / 4096) * 4096
    low = whole - high
    rest = (ids - whole) * coarse + ids * fine
    return (_fraction(high * coarse) + _fraction(low * coarse) + _fraction(rest)) * (2 * math.pi)


def _fraction(x):
    return x - ops.floor(x)
