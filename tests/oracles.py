"""Formulas in float64 NumPy, written from the papers; nothing of the package is imported here."""

import numpy as np


def hierarchical(table, alpha, positions):
    """q[i n + j] = alpha u[i] + (1 - alpha) u[j], u = (p - alpha p[0]) / (1 - alpha)."""
    table = np.asarray(table, "float64")
    n = len(table)
    u = (table - alpha * table[0]) / (1 - alpha)
    return np.stack([alpha * u[p // n] + (1 - alpha) * u[p % n] for p in positions])


def interpolated(table, length, positions):
    """The table as a polyline over [0, n - 1], read at p (n - 1) / (length - 1)."""
    table = np.asarray(table, "float64")
    at = np.asarray(positions) * (len(table) - 1) / (length - 1)
    return np.stack([np.interp(at, np.arange(len(table)), column) for column in table.T], -1)


def sinusoid(positions, size, base=10000.0):
    """(sines, cosines), each (len, size / 2): sin and cos of p base^(-2k / size)."""
    frequencies = np.array([base ** (-2 * k / size) for k in range(size // 2)])
    angles = np.asarray(positions, "float64")[:, None] * frequencies
    return np.sin(angles), np.cos(angles)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, scale, bias=0.0, allowed=None):
    """softmax(scale q k' + bias) v over heads last: q, k, v (B, T, H, D)."""
    q, k, v = (np.asarray(x, "float64").transpose(0, 2, 1, 3) for x in (q, k, v))
    logits = scale * q @ k.transpose(0, 1, 3, 2) + bias
    if allowed is not None:
        logits = np.where(allowed, logits, -1e30)
    return (softmax(logits) @ v).transpose(0, 2, 1, 3)


def conditional_norm(x, gamma, beta, epsilon):
    """Layer normalisation with the gamma and beta of each sequence, (B, D)."""
    x = np.asarray(x, "float64")
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma[:, None] + beta[:, None]
