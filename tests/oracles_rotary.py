"""Rotary formulas in float64 NumPy, with complex numbers; nothing of the package is imported."""

import math

import numpy as np


def ladder(size, base=10000.0):
    """theta_k = base^(-2k / size)."""
    return np.array([base ** (-2 * k / size) for k in range(size // 2)])


def pairs(x, layout):
    """The features of x (..., D) as D / 2 complex numbers."""
    x = np.asarray(x, "float64")
    half = x.shape[-1] // 2
    if layout == "half":
        return x[..., :half] + 1j * x[..., half:]
    return x[..., 0::2] + 1j * x[..., 1::2]


def features(z, layout):
    """The inverse of `pairs`."""
    if layout == "half":
        return np.concatenate([z.real, z.imag], -1)
    return np.stack([z.real, z.imag], -1).reshape(*z.shape[:-1], -1)


def rotary(x, ids, theta, layout="interleaved", magnitude=1.0):
    """x (B, T, H, D), its first features turned by ids (B, T) or (B, T, pairs) times theta."""
    x, ids = np.asarray(x, "float64"), np.asarray(ids, "float64")
    angles = (ids[..., None] if ids.ndim == 2 else ids) * theta
    size = 2 * angles.shape[-1]
    turn = magnitude * np.exp(1j * angles)[:, :, None]
    turned = features(pairs(x[..., :size], layout) * turn, layout)
    return np.concatenate([turned, x[..., size:]], -1)


def product(q, k):
    """(B, H, Tq, Tk) inner products."""
    return np.einsum("bihd,bjhd->bhij", np.asarray(q, "float64"), np.asarray(k, "float64"))


def at_distances(q, k, distance, theta, layout="interleaved", factor=None):
    """q_i R_r k_j, r = distance[b, i, j], cell by cell; R_r turns the query forward.

    `factor` (B, Tq, Tk, pairs) multiplies the products of each pair.
    """
    size = 2 * len(theta)
    a = pairs(np.asarray(q)[..., :size], layout)[:, :, None]
    b = pairs(np.asarray(k)[..., :size], layout)[:, None]
    turn = np.exp(1j * np.asarray(distance, "float64")[..., None] * theta)[:, :, :, None]
    if factor is not None:
        turn = turn * factor[:, :, :, None]
    turned = np.sum((a * turn * b.conj()).real, -1)
    rest = np.einsum("bihd,bjhd->bijh", np.asarray(q)[..., size:], np.asarray(k)[..., size:])
    return (turned + rest).transpose(0, 3, 1, 2)


def xpos_factor(distance, count, scale_base=512.0, gamma=0.4):
    """z_k^((i - j) / B), z_k = (k / count + gamma) / (1 + gamma)."""
    z = (np.arange(count) / count + gamma) / (1 + gamma)
    return z ** (np.asarray(distance, "float64")[..., None] / scale_base)


def rectified(distance, window, leak=None):
    """r within the window; beyond, the window, or one more for every `leak` more."""
    distance = np.asarray(distance, "float64")
    size = np.abs(distance)
    beyond = window if leak is None else window + (size - window) / leak
    return np.sign(distance) * np.where(size < window, size, beyond)


def frequencies(size, base, scaling, length):
    """(theta, factor of cosine and sine), of a text of `length` positions."""
    theta = ladder(size, base)
    if not scaling:
        return theta, 1.0
    kind, s = scaling["rope_type"], scaling["factor"]
    if kind == "linear":
        return theta / s, 1.0
    n = scaling["original_max_position_embeddings"]
    if kind == "dynamic":
        stretch = max(1.0, s * length / n - (s - 1))
        return ladder(size, base * stretch ** (size / (size - 2))), 1.0
    if kind == "longrope":
        divisors = scaling["long_factor" if length > n else "short_factor"]
        return theta / divisors, math.sqrt(1 + math.log(s) / math.log(n))
    assert kind == "yarn", kind

    def pair_that_turns(times):
        return size * math.log(n / (2 * math.pi * times)) / (2 * math.log(base))

    low = max(math.floor(pair_that_turns(32)), 0)
    high = min(math.ceil(pair_that_turns(1)), size - 1)
    ramp = np.clip((np.arange(size // 2) - low) / max(high - low, 0.001), 0, 1)
    return theta * (1 - ramp) + theta / s * ramp, 0.1 * math.log(s) + 1
