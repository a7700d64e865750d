"""Reference losses of embedders in NumPy float64, naive and short; imports nothing of the package.

Each function takes (y_true, vectors) as the losses do, and returns one number per row.
"""

import numpy as np


def softmax_loss(logits):
    """-log softmax of the first of a list of logits."""
    logits = np.array(logits)
    return np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[0]


def cosine(one, other):
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return one @ other / lengths if lengths else 0.0


def maxsim(query, document):
    """Of tokens (T, D + 1), whose last number is 1 if they are scored."""
    found = 0.0
    for token in query[query[:, -1] > 0]:
        found += max(token[:-1] @ other[:-1] for other in document[document[:, -1] > 0])
    return found


def candidates(numbers, row, texts):
    """(row, side) of the positive of a row, and of each text that is a negative of it."""
    anchor, whole = numbers[row][0], len(numbers[row]) == 1
    belongs = {anchor}
    if not whole:
        belongs |= {each[1] for each in numbers if each[0] == anchor}
    found = [(row, 1)]
    for other, each in enumerate(numbers):
        for side in range(1, texts):
            if (other, side) == (row, 1) or each[0] < 0:
                continue
            if other != row and each[0] == anchor:
                continue
            if not whole and each[side] in belongs:
                continue
            found.append((other, side))
    return found


def in_batch(y_true, vectors, scale, score=cosine):
    numbers = np.asarray(y_true).reshape(len(vectors), -1).tolist()
    return np.array([
        softmax_loss([
            scale * score(vectors[row, 0], vectors[other, side])
            for other, side in candidates(numbers, row, vectors.shape[1])
        ])
        for row in range(len(vectors))
    ])  # fmt: skip


def accuracy(y_true, vectors):
    """1 / n where the positive is nearest together with n - 1 others, 0 where others are nearer."""
    numbers = np.asarray(y_true).reshape(len(vectors), -1).tolist()
    found = []
    for row in range(len(vectors)):
        places = candidates(numbers, row, vectors.shape[1])
        cosines = np.array([cosine(vectors[row, 0], vectors[place]) for place in places])
        level = np.abs(cosines - cosines.max()) < 1e-9
        found.append(level[0] / level.sum())
    return np.array(found)


def passages(y_true, vectors, scale, weight):
    across, within = in_batch(y_true, vectors[:, :2], scale), []
    for query, *parts in vectors:
        there = [part for part in parts if part.any()]
        within.append(softmax_loss([scale * cosine(query, part) for part in there]))
    return weight * np.array(within) + (1 - weight) * across


def cosent(y_true, vectors, scale):
    scores = np.ravel(y_true)
    cosines = [cosine(*pair) for pair in vectors]
    total = 1.0
    for i, one in enumerate(scores):
        for j, other in enumerate(scores):
            if one > other >= -1:
                total += np.exp(scale * (cosines[j] - cosines[i]))
    return np.full(len(vectors), np.log(total))


def regression(y_true, vectors):
    return np.array([(cosine(*pair) - y) ** 2 for pair, y in zip(vectors, y_true, strict=True)])


def margin(y_true, vectors, scale):
    found = []
    for (query, *documents), teacher in zip(vectors, y_true, strict=True):
        scores = [scale * query @ document for document in documents]
        gaps = teacher if len(teacher) < len(scores) else teacher[0] - teacher[1:]
        errors = [scores[0] - s - gap for s, gap in zip(scores[1:], gaps, strict=True)]
        found.append(np.mean(np.square(errors)))
    return np.array(found)


def listwise(y_true, vectors, scale, temperature):
    found = []
    for (query, *documents), teacher in zip(vectors, y_true, strict=True):
        scores = np.array([scale * query @ document for document in documents])
        p, q = (np.exp(x / temperature) / np.exp(x / temperature).sum() for x in (teacher, scores))
        found.append(temperature**2 * np.sum(p * np.log(p / q)))
    return np.array(found)


def matryoshka(loss, dimensions, weights):
    """Of the first numbers of the vectors, each at length 1."""

    def found(y_true, vectors):
        total = 0.0
        for size, weight in zip(dimensions, weights, strict=True):
            cut = vectors[..., :size]
            lengths = np.linalg.norm(cut, axis=-1, keepdims=True)
            total = total + weight * loss(y_true, cut / np.maximum(lengths, 1e-12))
        return total

    return found


def reduced(values, weights, reduction):
    if reduction == "mean_with_sample_weight":
        return (values * weights).sum() / weights.sum()
    return (values * weights).mean()
