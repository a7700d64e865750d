"""Chains of tags and scores of spans in float64 NumPy, written from the papers and bert4keras."""

import itertools

import numpy as np


def log_sum_exp(x, axis=None):
    top = np.max(x, axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.sum(np.exp(x - top), axis=axis))


def log_softmax(x, axis=-1):
    return x - np.expand_dims(log_sum_exp(x, axis), axis)


def crf_score(path, x, transitions, start=0.0, end=0.0):
    """s(y) of one path over the scores (T, N) of the tokens in the chain."""
    ends = np.broadcast_to(start, x.shape[1])[path[0]] + np.broadcast_to(end, x.shape[1])[path[-1]]
    steps = sum(transitions[i, j] for i, j in itertools.pairwise(path))
    return ends + steps + sum(x[t, tag] for t, tag in enumerate(path))


def memm_score(path, x, transitions):
    """bert4keras' MaximumEntropyMarkovModel: minus its loss, summed over the tokens."""
    total = 0.0
    for order, moves in ((1, transitions), (-1, transitions.T)):
        tags, scores = list(path)[::order], x[::order]
        history = np.stack([scores[0], *(moves[tag] for tag in tags[:-1])])
        logs = log_softmax((scores + history) / 2)
        total += logs[np.arange(len(tags)), tags].sum() / 2
    return total


def paths(length, tags):
    return list(itertools.product(range(tags), repeat=length))


def chain_loss(tags, scores):
    """-log p of the paths that agree with the tags; a negative one agrees with all.

    Args:
        tags: list of ints.
        scores: dict, path -> s.
    """
    agree = [s for path, s in scores.items() if agrees(path, tags)]
    return log_sum_exp(np.array(list(scores.values()))) - log_sum_exp(np.array(agree))


def agrees(path, tags):
    return all(tag < 0 or tag == at_place for at_place, tag in zip(path, tags, strict=True))


def marginals(scores, tags):
    """(T, N) of dict path -> s."""
    logs = np.array(list(scores.values()))
    shares = np.exp(logs - log_sum_exp(logs))
    found = np.zeros((len(next(iter(scores))), tags))
    for path, share in zip(scores, shares, strict=True):
        found[np.arange(len(path)), path] += share
    return found


def rotated(x):
    """bert4keras' rotary embedding (T, D): pairs (2k, 2k + 1), base 10000."""
    length, size = x.shape
    by = np.arange(length)[:, None] * 10000.0 ** (-2 * np.arange(size // 2) / size)
    cos, sin = np.repeat(np.cos(by), 2, -1), np.repeat(np.sin(by), 2, -1)
    other = np.stack([-x[:, 1::2], x[:, ::2]], -1).reshape(x.shape)
    return x * cos + other * sin


def global_pointer(x, kernel, bias, heads, size, rope=True):
    """bert4keras' GlobalPointer of one text (T, D), without masks: (H, T, T)."""
    both = np.split(x @ kernel + bias, heads, axis=-1)
    turn = rotated if rope else np.asarray
    return np.stack([turn(h[:, :size]) @ turn(h[:, size:]).T / size**0.5 for h in both])


def efficient_global_pointer(x, kernel, bias, of_kinds, bias_of_kinds, size, rope=True):
    """bert4keras' EfficientGlobalPointer of one text (T, D), without masks: (H, T, T)."""
    both = x @ kernel + bias
    turn = rotated if rope else np.asarray
    scores = turn(both[:, ::2]) @ turn(both[:, 1::2]).T / size**0.5
    kinds = ((both @ of_kinds + bias_of_kinds) / 2).T
    return scores[None] + kinds[::2, None] + kinds[1::2, :, None]


def multilabel(right, scores):
    """Su Jianlin's loss of one list of classes, bools and scores (C,)."""
    wrong = np.append(scores[~right], 0.0)
    return log_sum_exp(wrong) + log_sum_exp(np.append(-scores[right], 0.0))
