"""A linear model on fixed features, trained to convergence, with a cross-validated penalty."""

import collections
import typing

import numpy as np

from keras_posenc.metrics.scores import log_softmax, softmax

PENALTIES = 10.0 ** np.arange(2, -6, -1)  # of the mean squared weight, the strongest first
USUAL = 1e-2  # where no document can be left out
FOLDS = 5


class Linear(typing.NamedTuple):
    """A linear model: its kernel (D, C), its bias (C,), the penalty that was chosen, the mean loss
    of documents that were left out, and the steps of the last training."""

    kernel: np.ndarray
    bias: np.ndarray
    penalty: float
    loss: float | None
    steps: int


class Link(typing.NamedTuple):
    """What outputs z (N, C) are: `mean` gives what the targets are compared with."""

    mean: typing.Callable
    loss: typing.Callable  # of (z, y), a number per row


LINKS = {
    "single_label_classification": Link(softmax, lambda z, y: -(y * log_softmax(z)).sum(-1)),
    "multi_label_classification": Link(
        lambda z: 0.5 * (1 + np.tanh(z / 2)), lambda z, y: (np.logaddexp(0, z) - y * z).sum(-1)
    ),
    "regression": Link(lambda z: z, lambda z, y: 0.5 * np.square(z - y).sum(-1)),
}


def fit_linear(features, targets, link, weights=None, seed=0):
    """Trains a `Linear` from features (N, D) to targets (N, C): one-hot, of 0 and 1, or numbers.

    It minimises the weighted mean loss plus penalty/2 times the squared kernel, on features that
    are centred and scaled: all by one number, or each to variance 1. The penalty and the scaling
    are those of the least loss in cross-validation, whose folds `seed` draws.
    """
    features, targets = np.asarray(features, "float64"), np.asarray(targets, "float64")
    weights = np.ones(len(features)) if weights is None else np.asarray(weights, "float64")
    weights = weights / weights.mean()
    middle, unit = features.mean(0), np.ones(targets.shape[1])
    offset = np.zeros(targets.shape[1])
    if link == "regression":
        offset, unit = targets.mean(0), np.maximum(targets.std(0), 1e-12)
    targets = (targets - offset) / unit
    centred = features - middle
    each = np.maximum(centred.std(0), 1e-6 * max(centred.std(), 1e-12))
    folds = _folds(targets, link, seed)
    best = None
    for scale in (np.full_like(each, max(np.sqrt(np.square(centred).mean()), 1e-12)), each):
        scaled = centred / scale
        # There are no more directions than documents, and rotations keep the penalty.
        rotation = (
            np.linalg.svd(scaled, full_matrices=False)[2] if len(scaled) < len(each) else None
        )
        rows = scaled if rotation is None else scaled @ rotation.T
        losses = _left_out(rows, targets, LINKS[link], weights, folds)
        choice = (
            int(np.argmin(losses)) if folds.max() >= 0 else int(np.argmin(abs(PENALTIES - USUAL)))
        )
        if best is None or losses[choice] < best[0]:
            best = losses[choice], choice, scale, rotation, rows
    loss, choice, scale, rotation, rows = best
    solution, steps = _path(rows, targets, LINKS[link], weights, PENALTIES[: choice + 1])[-1]
    kernel = solution[:-1] if rotation is None else rotation.T @ solution[:-1]
    kernel = kernel / scale[:, None] * unit
    bias = solution[-1] * unit + offset - middle @ kernel
    loss = float(loss) if folds.max() >= 0 else None
    return Linear(kernel, bias, float(PENALTIES[choice]), loss, steps)


def _folds(targets, link, seed):
    """The fold (N,) of each row, of classes as evenly as possible; -1 is never left out."""
    order = np.random.default_rng(seed).permutation(len(targets))
    folds = np.full(len(targets), -1)
    if len(targets) < 2:
        return folds
    if link != "single_label_classification":
        folds[order] = np.arange(len(targets)) % min(FOLDS, len(targets))
        return folds
    classes, before = targets.argmax(-1), 0
    for number in range(targets.shape[1]):
        rows = order[classes[order] == number]
        if len(rows) > 1:  # of a class with one document none can be left out
            folds[rows] = (before + np.arange(len(rows))) % FOLDS
            before += len(rows)
    return folds


def _left_out(rows, targets, link, weights, folds):
    """The mean loss of the rows that are left out, by penalty."""
    sums = np.zeros(len(PENALTIES))
    for fold in range(folds.max() + 1):
        out = folds == fold
        if not out.any():
            continue
        path = _path(rows[~out], targets[~out], link, weights[~out], PENALTIES)
        sums += [
            weights[out] @ link.loss(rows[out] @ found[:-1] + found[-1], targets[out])
            for found, _ in path
        ]
    return sums / max(weights[folds >= 0].sum(), 1e-12)


def _path(rows, targets, link, weights, penalties):
    """The solutions (D + 1, C) for falling penalties, each from the one before, and their steps."""
    shape, count = (rows.shape[1] + 1, targets.shape[1]), weights.sum()
    solution, found = np.zeros(shape), []
    for penalty in penalties:

        def objective(flat, penalty=penalty):
            kernel, bias = flat.reshape(shape)[:-1], flat.reshape(shape)[-1]
            outputs = rows @ kernel + bias
            error = weights[:, None] * (link.mean(outputs) - targets) / count
            slope = np.concatenate([rows.T @ error + penalty * kernel, error.sum(0)[None]])
            loss = weights @ link.loss(outputs, targets) / count
            return loss + penalty / 2 * np.square(kernel).sum(), slope.ravel()

        flat, steps = minimise(objective, solution.ravel())
        solution = flat.reshape(shape)
        found.append((solution, steps))
    return found


def minimise(objective, start, most=200, tolerance=1e-5, memory=10):
    """Minimises a smooth convex function by L-BFGS; returns the place and the number of steps.

    `objective` returns the value and the gradient. `tolerance` is the largest entry of the gradient
    at the end, `memory` the number of steps that the curvature is estimated from.

    Reference: [L-BFGS](https://doi.org/10.1007/BF01589116).
    """
    place, (value, slope) = start, objective(start)
    pairs = collections.deque(maxlen=memory)
    for number in range(most):
        if np.abs(slope).max() < tolerance:
            return place, number
        direction = _two_loops(slope, pairs)
        size = 1.0 if pairs else min(1.0, 1 / np.linalg.norm(slope))
        while size > 1e-12:
            there = place - size * direction
            lower, turned = objective(there)
            if lower <= value - 1e-4 * size * (slope @ direction):
                break
            size /= 2
        else:  # no step is downhill any more, to the precision of the numbers
            return place, number
        step, change = there - place, turned - slope
        if step @ change > 0:
            pairs.append((step, change))
        place, value, slope = there, lower, turned
    return place, most


def _two_loops(slope, pairs):
    """The gradient times the inverse curvature of the last steps."""
    direction, factors = slope.copy(), []
    for step, change in reversed(pairs):
        factors.append(step @ direction / (step @ change))
        direction -= factors[-1] * change
    if pairs:
        step, change = pairs[-1]
        direction *= (step @ change) / (change @ change)
    for (step, change), factor in zip(pairs, reversed(factors), strict=True):
        direction += step * (factor - change @ direction / (step @ change))
    return direction
