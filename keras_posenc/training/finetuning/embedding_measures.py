"""How well vectors fit the documents of `finetune(task="embed")`."""

import numpy as np

from keras_posenc.metrics.scores import by_lengths, pearson, spearman, wilson

ROWS = 1024  # anchors that are compared with all candidates at a time


def scored(vectors, groups, true, lengths):
    """Of pairs with a score: the correlations of cosines and scores."""
    cosines = (vectors[groups[:, 0]] * vectors[groups[:, 1]]).sum(axis=1, dtype="float64")

    def scores(chosen):
        return {"loss": float(np.square(cosines - true)[chosen].mean())}

    return {
        **by_lengths(scores, lengths),
        "pearson": pearson(true, cosines),
        "spearman": spearman(true, cosines),
    }


def ranked(vectors, groups, lengths):
    """Where each positive stands among all texts that are no anchor of it."""
    candidates = np.unique(groups[:, 1:])
    belongs = {}
    for anchor, positive in groups[:, :2].tolist():
        belongs.setdefault(anchor, []).append(positive)
    ranks = []
    for start in range(0, len(groups), ROWS):
        part = groups[start : start + ROWS]
        cosines = vectors[part[:, 0]] @ vectors[candidates].T
        for row, (anchor, positive) in zip(cosines, part[:, :2].tolist(), strict=True):
            positive_cosine = row[np.searchsorted(candidates, positive)]
            others = ~np.isin(candidates, [*belongs[anchor], anchor])
            ranks.append(1 + int((row[others] >= positive_cosine).sum()))
    ranks = np.array(ranks)
    return {
        **by_lengths(lambda chosen: _accuracy(ranks[chosen] == 1), lengths),
        "mean_reciprocal_rank": float((1 / ranks).mean()),
    }


def distilled(vectors, groups, teacher, lengths):
    """Of documents with a teacher's scores: how often both prefer the same document of a query, and
    the correlations of the margins between the first document and each other one."""
    products = vectors[groups[:, :1]] * vectors[groups[:, 1:]]
    cosines = products.sum(axis=2, dtype="float64")
    same = cosines.argmax(axis=1) == teacher.argmax(axis=1)
    true, found = ((x[:, :1] - x[:, 1:]).ravel() for x in (teacher, cosines))
    return {
        **by_lengths(lambda chosen: _accuracy(same[chosen]), lengths),
        "pearson": pearson(true, found),
        "spearman": spearman(true, found),
    }


def _accuracy(right):
    return {"accuracy": float(right.mean()), "interval": wilson(int(right.sum()), len(right))}
