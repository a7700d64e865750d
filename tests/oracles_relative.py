"""Relative encodings cell by cell in float64 NumPy; nothing of the package is imported here.

Shapes: q (B, Tq, H, D), k (B, Tk, H, D), v (B, Tk, H, Dv); distances i - j (B, Tq, Tk).
"""

import math

import numpy as np
from oracles import softmax


def float64(*arrays):
    return [np.asarray(x, "float64") for x in arrays]


def attend(logits, v, allowed=True, values=None):
    """Weights of the logits (B, H, Tq, Tk) times v_j + values[i, j], the latter (B, Tq, Tk, Dv)."""
    weights = softmax(np.where(allowed, logits, -1e30))
    output = np.einsum("bhij,bjhd->bihd", weights, v)
    return output if values is None else output + np.einsum("bhij,bijd->bihd", weights, values)


def shaw(q, k, v, distance, keys, values, allowed=True):
    """Every key is k_j + a[clip(j - i)], every value v_j + b[clip(j - i)]; 2n + 1 rows each."""
    q, k, v, keys = float64(q, k, v, keys)
    n = len(keys) // 2
    index = np.clip(-np.round(distance).astype(int), -n, n) + n
    met = k[:, None] + keys[index][..., None, :]
    logits = np.einsum("bihd,bijhd->bhij", q, met) / math.sqrt(q.shape[-1])
    return attend(logits, v, allowed, None if values is None else np.asarray(values)[index])


def nezha_table(n, size, first):
    """Row number m holds sin and cos of (m + first) 10000^(-2c/size) at 2c and 2c + 1."""
    table = np.zeros((2 * n + 1, size))
    for row in range(2 * n + 1):
        for column in range(size):
            angle = (row + first) / 10000 ** (2 * (column // 2) / size)
            table[row, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


def transformer_xl(q, k, v, distance, u, w, kernel, allowed=True):
    """(q_i + u) k_j + (q_i + w) (W s(i - j)), the relative keys W s as one tensor T x T x H x D."""
    q, k, v, u, w, kernel = float64(q, k, v, u, w, kernel)
    size = len(kernel)
    angles = distance[..., None] * np.array([10000 ** (-2 * m / size) for m in range(size // 2)])
    s = np.concatenate([np.sin(angles), np.cos(angles)], -1)
    relative = np.einsum("bijs,shd->bijhd", s, kernel)
    logits = np.einsum("bihd,bjhd->bhij", q + u, k)
    logits += np.einsum("bihd,bijhd->bhij", q + w, relative)
    return attend(logits / math.sqrt(q.shape[-1]), v, allowed)


def deberta_bucket(r, buckets, farthest):
    """DeBERTa-v2's bucket of one distance: itself up to half the buckets, then logarithmic."""
    middle = buckets // 2
    if abs(r) <= middle:
        return r
    share = math.log(abs(r) / middle) / math.log((farthest - 1) / middle)
    return int(math.copysign(middle + math.ceil(share * (middle - 1)), r))


def deberta(q, k, v, distance, keys, queries, bucket, released=False, allowed=True):
    """(Qc Kc' + Qc K[d(i, j)]' + Kc Q[d(j, i)]') / sqrt(terms D), cell by cell."""
    q, k, v = float64(q, k, v)
    terms = 1 + (keys is not None) + (queries is not None)
    logits = np.einsum("bihd,bjhd->bhij", q, k)

    def row(r, table):
        half = len(table) // 2
        return min(max(bucket(r) + half, 0), 2 * half - 1)

    for b, h, i, j in np.ndindex(*logits.shape):
        r = int(np.round(distance[b, i, j]))
        if keys is not None:
            logits[b, h, i, j] += q[b, i, h] @ keys[row(r, keys), h]
        if queries is not None:
            side = r if released else -r
            logits[b, h, i, j] += k[b, j, h] @ queries[row(side, queries), h]
    return attend(logits / math.sqrt(terms * q.shape[-1]), v, allowed)
