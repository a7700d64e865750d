"""Factors of the logits in float64, from the papers; nothing of the package is imported here."""

import math

import numpy as np


def log_n(n, m, variant="log_n", clipped=False):
    """The factor of one query that sees n keys."""
    if variant == "yarn":
        scale = n / m
        return (0.1 * math.log(scale) + 1) ** 2 if scale > 1 else 1.0
    n = max(n, 16 if variant == "softmax_plus" else 1)
    factor = math.log(n) / math.log(m)
    return max(1.0, factor) if clipped else factor


def llama4(position, floor_scale=8192, attention_scale=0.1, offset=1):
    """The factor of a query, its position counted from 0."""
    return math.log(math.floor((position + offset) / floor_scale) + 1) * attention_scale + 1


def attend(q, k, v, allowed, factor):
    """Rows one by one, q, k, v (B, T, H, D): factor(b, h, i, n), n open keys of the row."""
    q, k, v = (np.asarray(x, "float64") for x in (q, k, v))
    output = np.zeros(q.shape[:3] + v.shape[-1:])
    for b, i, h in np.ndindex(q.shape[:3]):
        open_ = np.flatnonzero(allowed[b, i])
        z = k[b, open_, h] @ q[b, i, h] / math.sqrt(q.shape[-1]) * factor(b, h, i, len(open_))
        weights = np.exp(z - z.max())
        output[b, i, h] = weights / weights.sum() @ v[b, open_, h]
    return output


def projected(weights, x):
    """q, k, v (B, T, H, D) of the projections' weights in Keras' order, and what merges heads."""
    (wq, bq, wk, bk, wv, bv, wo, bo) = [np.asarray(w, "float64") for w in weights]
    heads = [np.einsum("btd,dhe->bthe", x, w) + b for w, b in ((wq, bq), (wk, bk), (wv, bv))]
    return *heads, lambda o: np.einsum("bthd,hde->bte", o, wo) + bo
