"""Vectors of texts, so that those of texts that belong together are near."""

import typing

import numpy as np

from keras_posenc.models.sentence_embedding import embedder
from keras_posenc.models.similarity import similarity
from keras_posenc.text import ClassLabels, FloatLabels, Texts, read_texts
from keras_posenc.text.groups import read_groups
from keras_posenc.training.metrics import by_lengths, pearson, spearman, wilson
from keras_posenc.training.similarity_losses import (
    CosineRegression,
    InBatchAccuracy,
    MultipleNegativesRanking,
)
from keras_posenc.training.tasks.finetune_task import FinetuneTask, check_finite, numbered, pooled
from keras_posenc.untrusted import quote

SCORED = ["score"]
ROLES = ("anchor", "positive", "negative")
ROWS = 1024  # anchors that are compared with all candidates at a time


class Vector(typing.NamedTuple):
    """The embedding of a text.

    Attributes:
        embedding: list of float, of length 1.
    """

    embedding: list

    def columns(self):
        """The names of the cells."""
        return numbered("value", len(self.embedding))

    def cells(self):
        """The numbers, as text."""
        return [f"{value:.6g}" for value in self.embedding]


class Embedding(FinetuneTask):
    """Pairs that belong together, triples with a negative, or pairs with a score.

    The names are what the texts are: `anchor`, `positive`, `negative`; or `score`.
    """

    name = "embed"
    output_per_name = False
    scores = {
        "accuracy": "accuracy",
        "mean_reciprocal_rank": "mean rec. rank",
        "spearman": "Spearman",
        "pearson": "Pearson",
        "loss": "loss",
    }
    watched = ("accuracy",)
    needs_labels = False

    def read(self, source, role, text=None, label=None):
        if isinstance(source, (list, tuple)):
            texts, labels = source if _is_labelled(source) else (source, None)
            if labels is None:
                source = Texts(list(texts), None, list(range(1, len(texts) + 1)))
        return super().read(source, role, text, label)

    def read_file(self, path, text, label):
        return read_groups(path, text, label)

    def read_unlabelled(self, path, text):
        return read_texts(path, text=text, label=False)

    def checked(self, where, text, value):
        is_group = isinstance(text, tuple) and len(text) in (2, 3)
        if not is_group or not all(isinstance(each, str) and each.strip() for each in text):
            raise ValueError(
                f"The text {where} is {quote(text)}: give pairs, or triples (anchor, positive, "
                "negative), of texts."
            )
        if value is None:
            return None
        try:
            score = float(value)
        except (TypeError, ValueError, OverflowError):
            score = np.nan
        if not -1 <= score <= 1 or len(text) == 3:
            raise ValueError(
                f"The text {where} has the score {quote(value)}: a cosine is from -1 to 1, and of "
                "a pair; divide scores by the largest."
            )
        return score

    def names(self, train):
        scored = train.labels[0] is not None
        names = SCORED if scored else list(ROLES[: len(train.texts[0])])
        self.check_names(train, names, "train")
        return names

    def check_names(self, documents, names, role):
        for line, group, score in zip(
            documents.lines, documents.texts, documents.labels, strict=True
        ):
            wanted = 2 if names == SCORED else len(names)
            if len(group) != wanted or (score is not None) != (names == SCORED):
                has = "without a score" if score is None else "with a score"
                raise ValueError(
                    f"{role}, line {line}: {len(group)} texts {has}, where the training's first "
                    f"line has {', '.join(names)}."
                )

    def targets(self, documents):
        if documents.labels[0] is not None:
            return documents.labels
        order = {}  # rows of one anchor have one number
        return [order.setdefault(group[0], len(order)) for group in documents.texts]

    def labels(self, names, values=None):
        if names == SCORED:
            return FloatLabels(values)
        return ClassLabels(values)

    def training_options(self):
        return {"apart": True}

    def check_batches(self, batches, names):
        alone = len(batches.lengths) < 1.5 * len(batches)  # most batches are of one pair
        if names == list(ROLES[:2]) and alone:
            raise ValueError(
                f"The {len(batches.lengths):,} pairs of train make {len(batches):,} batches, and a "
                "pair that is alone in a batch has no negatives: raise `token_budget` to several "
                "times what a pair takes, lower `max_length`, or add negatives. The shapes are "
                f"{batches.shapes}."
            )

    def model(self, encoder, names, recipe):
        return embedder(encoder, recipe.pooling)

    def trained(self, model, names):
        return similarity(model, 2 if names == SCORED else len(names))

    def loss(self, names):
        kind = CosineRegression if names == SCORED else MultipleNegativesRanking
        return kind(reduction="mean_with_sample_weight")

    def metrics(self, names):
        return [] if names == SCORED else [InBatchAccuracy()]

    def merged(self, texts, batches, outputs, names, pool):
        check_finite(outputs)
        if len(outputs) == len(texts):
            return outputs
        vectors = pooled(batches, outputs, pool)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    def measure(self, finetuned, documents, verbose):
        texts = list(dict.fromkeys(text for group in documents.texts for text in group))
        order = {text: number for number, text in enumerate(texts)}
        vectors, lengths = finetuned.judged(texts, verbose)
        groups = np.array([[order[text] for text in group] for group in documents.texts])
        lengths = lengths[groups].max(axis=1)
        if finetuned.labels == SCORED:
            return _scored(vectors, groups, np.array(documents.labels), lengths)
        return _ranked(vectors, groups, lengths)

    def predictions(self, texts, results, names):
        return [Vector([float(value) for value in row]) for row in results]


def _is_labelled(source):
    """Whether this is (texts, labels), and not a list of groups."""
    return len(source) == 2 and not all(isinstance(each, str) for each in source[0])


def _scored(vectors, groups, true, lengths):
    cosines = (vectors[groups[:, 0]] * vectors[groups[:, 1]]).sum(axis=1, dtype="float64")

    def scores(chosen):
        return {"loss": float(np.square(cosines - true)[chosen].mean())}

    return {
        **by_lengths(scores, lengths),
        "pearson": pearson(true, cosines),
        "spearman": spearman(true, cosines),
    }


def _ranked(vectors, groups, lengths):
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

    def scores(chosen):
        first = ranks[chosen] == 1
        return {"accuracy": float(first.mean()), "interval": wilson(int(first.sum()), len(first))}

    return {
        **by_lengths(scores, lengths),
        "mean_reciprocal_rank": float((1 / ranks).mean()),
    }
