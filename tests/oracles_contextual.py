"""Encodings that read the content, in float64 NumPy loops; nothing of the package is imported."""

import math

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


def forgotten(gates, keep):
    """ln f_j+1 + ... + ln f_i (B, H, T, T) for gates f (B, T, H); padding forgets nothing."""
    logs = np.where(keep[:, :, None], np.log(np.asarray(gates, "float64")), 0).transpose(0, 2, 1)
    length = logs.shape[-1]
    total = np.zeros((*logs.shape[:2], length, length))
    for i in range(length):
        for j in range(i + 1):
            total[:, :, i, j] = logs[:, :, j + 1 : i + 1].sum(-1)
    return total


def reflections(states, keep, weights):
    """w (B, T, H, D) and b (B, T, H) of PaTH's transformations I - b w w'; padding has none."""
    states = np.where(keep[:, :, None], states, 0)
    kernel = weights["convolution"]
    shape = (*keep.shape, *kernel.shape[1:])
    projected = (states @ weights["down"] @ weights["up"]).reshape(shape)
    y = np.zeros(shape)
    for row, is_token in enumerate(keep):  # padding is none, wherever it stands
        tokens = np.flatnonzero(is_token)
        for number, t in enumerate(tokens):
            for s in range(min(len(kernel), number + 1)):
                y[row, t] += kernel[len(kernel) - 1 - s] * projected[row, tokens[number - s]]
    y = y * sigmoid(y)
    b = 2 * sigmoid(states @ weights["strength"] + weights["strength_bias"])
    return y / np.sqrt((y**2).sum(-1, keepdims=True) + 1e-6), b * keep[:, :, None]


def reflected(q, k, w, b):
    """q_i' H_i ... H_j+1 k_j (B, H, T, T): each token transforms all keys before it."""
    batch, length, heads, _ = q.shape
    products, keys = np.zeros((batch, heads, length, length)), np.array(k, "float64")
    for i in range(length):
        along = np.einsum("bhd,bjhd->bjh", w[:, i], keys[:, :i])
        keys[:, :i] -= np.einsum("bh,bjh,bhd->bjhd", b[:, i], along, w[:, i])
        products[:, :, i, : i + 1] = np.einsum("bhd,bjhd->bhj", q[:, i], keys[:, : i + 1])
    return products


def selected(logits, cells):
    """F_ij: what queries k < i said in head 0 against key j, but for their own and first keys."""
    masked = np.zeros((len(logits), *logits.shape[2:]))
    for b, i, j in np.ndindex(*masked.shape):
        for k in range(i):
            first = np.argmax(cells[b, 0, k])
            if cells[b, 0, k, j] and cells[b, 0, k, k] and j not in (k, first):
                masked[b, i, j] += max(logits[b, 0, k, j], 0)
    return masked


def broken_stick(logits, cells):
    """Going back from the query, every open key takes its share of what is left of 1."""
    weights = np.zeros(logits.shape)
    for b, h, i in np.ndindex(*logits.shape[:3]):
        left = 1.0
        for j in reversed(range(i)):
            if cells[b, h, i, j]:
                weights[b, h, i, j] = left * sigmoid(logits[b, h, i, j])
                left *= 1 - sigmoid(logits[b, h, i, j])
    return weights


def squared_relu(logits, cells):
    squares = np.where(cells, np.maximum(logits, 0) ** 2, 0)
    return squares / np.maximum(cells.sum(-1, keepdims=True), 1)


def path(m, a, w):
    """q_i' (H_i ... H_j+1 - 1) k_j: each token transforms all keys before it."""
    y, b = path_tokens(m, w)
    direction = y / np.sqrt((y**2).sum(-1, keepdims=True) + 1e-6)
    q, keys = m.first[0], np.array(m.first[1])
    bias, number = np.zeros(m.open.shape), 0
    for t in range(m.k.shape[1]):
        along = np.einsum("bhd,bjhd->bjh", direction[:, t], keys[:, :t])
        keys[:, :t] -= np.einsum("bh,bjh,bhd->bjhd", b[:, t], along, direction[:, t])
        if number < len(m.index) and m.index[number] == t:
            moved = keys[:, : t + 1] - m.first[1][:, : t + 1]
            bias[:, :, number, : t + 1] = np.einsum("bhd,bjhd->bhj", q[:, number], moved)
            number += 1
    m.bias = m.bias + bias / math.sqrt(m.size)


def path_tokens(m, w):
    """y (B, Tk, H, D) after the short convolution, and b (B, Tk, H)."""
    kernel = w["convolution"]
    shape = (*m.keep.shape, *kernel.shape[1:])
    projected = (m.of_keys @ w["down"] @ w["up"]).reshape(shape)
    y, square = np.zeros(shape), not m.cached and len(m.index) == shape[1]
    for row, is_token in enumerate(m.keep):  # padding is none, wherever it stands
        tokens = np.flatnonzero(is_token)
        for number, t in enumerate(tokens):
            for s in range(min(len(kernel), number + 1)):
                other = tokens[number - s]
                seen = m.given[row, :, t, other] if square and s else np.ones(m.heads, bool)
                if m.document is not None:
                    seen = seen & (m.document[row, t] == m.document[row, other])
                y[row, t] += kernel[len(kernel) - 1 - s] * projected[row, other] * seen[:, None]
    b = 2 * sigmoid(m.of_keys @ w["strength"] + w["strength_bias"])
    return y * sigmoid(y), b * m.keep[:, :, None]
