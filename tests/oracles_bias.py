"""Logit biases from their papers, in float64 NumPy; nothing of the package is imported."""

import math

import numpy as np


def slopes(heads):
    """ALiBi: the recursion of the authors' repository."""
    if math.log2(heads).is_integer():
        start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
        return [start * start**i for i in range(heads)]
    closest = 2 ** math.floor(math.log2(heads))
    return slopes(closest) + slopes(2 * closest)[0::2][: heads - closest]


def alibi(heads, rows, columns, left=1.0, right=1.0):
    """(H, Tq, Tk) from (Tq,) and (Tk,) positions."""
    r = np.subtract.outer(rows, columns).astype("float64")
    lengths = np.where(r >= 0, left * r, -right * r)
    return -np.asarray(slopes(heads))[:, None, None] * lengths


def linear(heads, rows, columns):
    """ALiBi without the absolute value, which in a causal map is the same."""
    r = np.subtract.outer(rows, columns).astype("float64")
    return -np.asarray(slopes(heads))[:, None, None] * r


def sandwich(heads, rows, columns, size=128, base=10000.0):
    r = np.subtract.outer(rows, columns).astype("float64")
    total = sum(np.cos(r * base ** (-2 * k / size)) for k in range(size // 2))
    ratio = 8 * np.arange(1, heads + 1) / heads
    return (total - size / 2) / ratio[:, None, None]


def rotation(position, size, base=10000.0):
    """The block rotation R_p, (size, size)."""
    matrix = np.zeros((size, size))
    for k in range(size // 2):
        angle = position * base ** (-2 * k / size)
        c, s = np.cos(angle), np.sin(angle)
        matrix[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[c, -s], [s, c]]
    return matrix


def rotary_bias(a, b, rows, columns, base=10000.0):
    """a' R_m' R_n b, with a, b (H, S)."""
    size = a.shape[-1]
    m = np.stack([rotation(p, size, base) @ a.T for p in rows])
    n = np.stack([rotation(p, size, base) @ b.T for p in columns])
    return np.einsum("msh,nsh->hmn", m, n)


def kerple_log(p, a, rows, columns):
    r = np.abs(np.subtract.outer(rows, columns)).astype("float64")
    return -p[:, None, None] * np.log(1 + a[:, None, None] * r)


def kerple_power(p, a, rows, columns):
    r = np.abs(np.subtract.outer(rows, columns)).astype("float64")
    return -a[:, None, None] * r ** p[:, None, None]


def t5_bucket(r, bidirectional, buckets, longest):
    """The bucket of a whole distance r = i - j, one at a time."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if r < 0 else 0
        r = abs(r)
    r = max(r, 0)
    exact = buckets // 2
    if r < exact:
        return first + r
    steps = math.log(r / exact) / math.log(longest / exact) * (buckets - exact)
    # Where the logarithm is whole, rounding must not put it below.
    return first + min(exact + math.floor(steps + 1e-9), buckets - 1)


def t5(table, rows, columns, bidirectional, longest):
    r = np.subtract.outer(rows, columns)
    index = np.vectorize(lambda x: t5_bucket(x, bidirectional, len(table), longest))(r)
    return np.moveaxis(table[index], -1, 0)


def fire(weights, c, length, rows, columns):
    """weights: (1, W), (W,), (W, H), (H,) of the network."""
    w, b, v, d = weights
    r = np.abs(np.subtract.outer(rows, columns)).astype("float64")
    normal = np.log(c * np.maximum(rows, length) + 1)
    x = np.log(c * r + 1) / normal[:, None]
    hidden = np.maximum(x[..., None] @ w + b, 0)
    return np.moveaxis(hidden @ v + d, -1, 0)


def log_cpb(weights, scale, length, bound, rows, columns):
    """weights: (W,), (W,), (W, H) of the network; one distance at a time."""
    w, u, v = weights
    bias = np.zeros((v.shape[1], len(rows), len(columns)))
    for i, j in np.ndindex(*bias.shape[1:]):
        r = rows[i] - columns[j]
        x = np.sign(r) * math.log(1 + scale * abs(r)) / math.log(1 + scale * length)
        bias[:, i, j] = np.maximum(w * x + u, 0) @ v
    return bias if bound is None else bound / (1 + np.exp(-bias))
