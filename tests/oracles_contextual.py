"""Encodings that read the content, in float64 NumPy loops; nothing of the package is imported."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cope_positions(gates):
    """p_ij = g_ij + ... + g_ii for gates (..., T, T) that are zero after the query."""
    gates = np.asarray(gates, "float64")
    positions = np.zeros_like(gates)
    for i in range(gates.shape[-2]):
        for j in range(gates.shape[-1]):
            positions[..., i, j] = gates[..., i, j:].sum(-1)
    return positions


def two_sided_positions(gates):
    """The sum over all t between i and j, both included; negative for j > i."""
    gates = np.asarray(gates, "float64")
    positions = np.zeros_like(gates)
    for i in range(gates.shape[-2]):
        for j in range(gates.shape[-1]):
            if j <= i:
                positions[..., i, j] = gates[..., i, j : i + 1].sum(-1)
            else:
                positions[..., i, j] = -gates[..., i, i : j + 1].sum(-1)
    return positions


def cope_bias(q, table, positions, first=0):
    """q_i . e[p_ij], e interpolated between the columns of `table`, the first of them e[first].

    q (B, T, H, D), table (D, P), positions (B, H, T, T).
    """
    q, table = np.asarray(q, "float64"), np.asarray(table, "float64")
    integers = first + np.arange(table.shape[1])
    bias = np.zeros(positions.shape)
    for b, h, i, j in np.ndindex(*positions.shape):
        at = np.clip(positions[b, h, i, j], integers[0], integers[-1])
        row = [np.interp(at, integers, table[d]) for d in range(len(table))]
        bias[b, h, i, j] = q[b, i, h] @ row
    return bias
