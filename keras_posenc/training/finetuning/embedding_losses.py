"""The losses and the measures of `finetune(task="embed")`: which fit which documents."""

import inspect

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.losses.matryoshka import Matryoshka
from keras_posenc.losses.passages import PassageRanking
from keras_posenc.losses.ranking import ListwiseKL, MarginMSE
from keras_posenc.losses.similarity import TIE, CoSENT, CosineRegression, MultipleNegativesRanking
from keras_posenc.metrics.scores import accuracy, by_lengths, pearson, spearman

# Name -> the loss, and which documents it takes.
LOSSES = {
    "multiple_negatives_ranking": (MultipleNegativesRanking, "groups"),
    "cosine_regression": (CosineRegression, "pairs with a score"),
    "cosent": (CoSENT, "pairs with a score"),
    "passage_ranking": (PassageRanking, "passages of documents"),
    "margin_mse": (MarginMSE, "groups with a teacher's scores"),
    "listwise_kl": (ListwiseKL, "groups with a teacher's scores"),
}
SCALE = 20.0  # of cosines, where the recipe has none
MEAN = "mean_with_sample_weight"


def check_loss(loss):
    """The name and the scale (float or None) of `loss`, such as "cosent" or "cosent:10"."""
    name, colon, scale = loss.partition(":") if isinstance(loss, str) else (loss, "", "")
    checks.choice("loss", name, LOSSES)
    if not colon:
        return name, None
    try:
        scale = float(scale)
    except ValueError:
        pass
    remedy = f"give it as {name}:{SCALE:g}"
    if not _has_scale(name):
        raise ValueError(f"loss={loss!r}: {name} has no scale; give the name alone.")
    return name, checks.number(f"loss={name}:", scale, above=0, remedy=remedy)


def loss_of(kind, loss, dimensions, **more):
    """The `keras.losses.Loss` for documents of a kind; without a name, the first that fits."""
    fitting = [name for name, (_, takes) in LOSSES.items() if takes == kind]
    name, scale = (fitting[0], None) if loss is None else check_loss(loss)
    if name not in fitting:
        raise ValueError(
            f"loss={loss!r} is for {LOSSES[name][1]}, and train has {kind}: give "
            f"{' or '.join(fitting)}, or other documents."
        )
    options = {"scale": SCALE if scale is None else scale} if _has_scale(name) else {}
    found = LOSSES[name][0](**options, **more, reduction=MEAN)
    return found if dimensions is None else Matryoshka(found, dimensions, reduction=MEAN)


def _has_scale(name):
    return "scale" in inspect.signature(LOSSES[name][0]).parameters


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
    """Where each positive stands among all texts that do not belong to its anchor.

    Of texts that are equally near, each order is as likely: scores are their means over all orders.
    """
    candidates = np.unique(groups[:, 1:])
    belongs = {}
    for anchor, positive in groups[:, :2].tolist():
        belongs.setdefault(anchor, []).append(positive)
    nearer, level = [], []
    for start in range(0, len(groups), ROWS):
        part = groups[start : start + ROWS]
        cosines = vectors[part[:, 0]] @ vectors[candidates].T
        for row, (anchor, positive) in zip(cosines, part[:, :2].tolist(), strict=True):
            positive_cosine = row[np.searchsorted(candidates, positive)]
            others = ~np.isin(candidates, [*belongs[anchor], anchor])
            gaps = row[others] - positive_cosine
            nearer.append(int((gaps > TIE).sum()))
            level.append(1 + int((np.abs(gaps) <= TIE).sum()))
    nearer, level = np.array(nearer), np.array(level)
    # The sums of 1 / rank up to each rank; their differences are those over the ranks of a tie.
    sums = np.concatenate([[0], np.cumsum(1 / np.arange(1, (nearer + level).max() + 1))])
    reciprocal = (sums[nearer + level] - sums[nearer]) / level
    right = (nearer == 0) / level
    return {
        **by_lengths(lambda chosen: accuracy(right[chosen]), lengths),
        "mean_reciprocal_rank": float(reciprocal.mean()),
    }


def distilled(vectors, groups, teacher, lengths):
    """Of documents with a teacher's scores: how often both prefer the same document of a query, and
    the correlations of the margins between the first document and each other one."""
    products = vectors[groups[:, :1]] * vectors[groups[:, 1:]]
    cosines = products.sum(axis=2, dtype="float64")
    best = cosines >= cosines.max(axis=1, keepdims=True) - TIE
    # A copy of the text that the teacher prefers is that text.
    chosen = np.take_along_axis(groups[:, 1:], teacher.argmax(axis=1)[:, None], axis=1)
    same = (best & (groups[:, 1:] == chosen)).sum(axis=1) / best.sum(axis=1)
    true, found = ((x[:, :1] - x[:, 1:]).ravel() for x in (teacher, cosines))
    return {
        **by_lengths(lambda chosen: accuracy(same[chosen]), lengths),
        "pearson": pearson(true, found),
        "spearman": spearman(true, found),
    }
