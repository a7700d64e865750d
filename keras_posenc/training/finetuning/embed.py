"""Vectors of texts, so that those of texts that belong together are near."""

import dataclasses
import typing

import numpy as np

from keras_posenc.losses.matryoshka import check_dimensions
from keras_posenc.losses.similarity import InBatchAccuracy
from keras_posenc.metrics.scores import unit_rows
from keras_posenc.models.sentence_embedding import embedder
from keras_posenc.models.similarity import similarity
from keras_posenc.text import ClassLabels, FloatLabels, Texts, read_texts
from keras_posenc.text.files import FilePart
from keras_posenc.text.groups import read_groups
from keras_posenc.training.finetuning.embedding_losses import check_loss, loss_of
from keras_posenc.training.finetuning.embedding_measures import distilled, ranked, scored
from keras_posenc.training.finetuning.task import (
    FinetuneTask,
    check_finite,
    pooled,
    value_names,
)
from keras_posenc.untrusted import quote

SCORED = ["score"]
TEACHER = "scores"  # the last name where a teacher scored the documents of each query


class Vector(typing.NamedTuple):
    """The embedding of a text.

    Attributes:
        embedding: list of float, of length 1.
    """

    embedding: list

    def columns(self):
        """The names of the cells."""
        return value_names(len(self.embedding))

    def cells(self):
        """The numbers, as text."""
        return [f"{value:.6g}" for value in self.embedding]


@dataclasses.dataclass(frozen=True, repr=False)
class Embed(FinetuneTask):
    """The settings of `finetune(task="embed")`: vectors that are near where texts belong together.

    Documents are texts that belong together, with negatives or not; pairs with a score; or a query
    and its documents with a teacher's scores. The label names are what the texts are: `anchor`,
    `positive`, `negative`, the last with a number if there are several, and `scores` if there are
    those of a teacher; or `score`.

    Args:
        pooling: str. How the features of the tokens become those of a text. One of "mean", "cls",
            "max", "last", "weighted_mean", "sqrt_mean".
        loss: str. "multiple_negatives_ranking" of tuples of texts (InfoNCE with the texts of the
            batch and hard negatives); "cosine_regression" or "cosent" of pairs with a score;
            "margin_mse" or "listwise_kl" of documents with a teacher's scores. By default the first
            that fits the documents. A number after a colon, as in "margin_mse:5", is the scale of
            the cosines; otherwise it is 20.
        matryoshka: list of int. Dimensions of vectors to train, such as [384, 256, 128, 64].
            Vectors can then be shortened to these sizes.
        query_prompt: str. A text in front of the first text of each tuple.
        document_prompt: str. A text in front of the other texts, and after training in front of all
            texts without another prompt.

    Raises:
        TypeError: if a setting has the wrong type.
        ValueError: on an unknown loss or pooling, or dimensions that are no vector's.

    Example:

    >>> Embed(loss="cosent:10")
    Embed(loss='cosent:10')
    """

    pooling: str = "mean"
    loss: str | None = None
    matryoshka: list | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None

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
    embeds = True

    def __post_init__(self):
        for name in ("query_prompt", "document_prompt"):
            if not isinstance(value := getattr(self, name), (str, type(None))):
                raise TypeError(f"`{name}` must be a str. Received: {quote(value)}")
        if self.loss is not None:
            check_loss(self.loss)
        if self.matryoshka is not None:
            check_dimensions("matryoshka", self.matryoshka)

    @property
    def prompts(self):
        if self.query_prompt is None and self.document_prompt is None:
            return {}
        query, document = self.query_prompt or "", self.document_prompt or ""
        return {"prompt": document, "prompts": {"query": query, "document": document}}

    def read_part(self, source, role, text=None, label=None):
        if isinstance(source, (list, tuple)) and not isinstance(source, FilePart):
            texts, labels = source if _is_labelled(source) else (source, None)
            if labels is None:
                source = Texts(list(texts), None, list(range(1, len(texts) + 1)))
        return super().read_part(source, role, text, label)

    def read_file(self, path, text, label):
        return read_groups(path, text, label)

    def read_unlabelled(self, path, text):
        return read_texts(path, text=text, label=False)

    def checked(self, where, text, value):
        is_group = isinstance(text, tuple) and len(text) >= 2
        if not is_group or not all(isinstance(each, str) and each.strip() for each in text):
            raise ValueError(
                f"The text {where} is {quote(text)}: give pairs, or tuples (anchor, positive, "
                "negative, ...), of texts."
            )
        if value is None:
            return None
        try:
            scores = np.atleast_1d(np.asarray(value, "float64"))
        except (TypeError, ValueError, OverflowError):
            scores = np.array([np.nan])
        if len(text) == 2:
            if scores.shape != (1,) or not -1 <= scores[0] <= 1:
                raise ValueError(
                    f"The text {where} has the score {quote(value)}: a cosine is from -1 to 1, and "
                    "of a pair; divide scores by the largest."
                )
            return float(scores[0])
        count = len(text) - 1
        if scores.shape not in ((count,), (count - 1,)) or not np.isfinite(scores).all():
            raise ValueError(
                f"The text {where} has the scores {quote(value)}: give a number for each of the "
                f"{count} documents of a query, or the {count - 1} margins between the first and "
                "the others."
            )
        # Losses know the margins alone, so the first score may be 0.
        return (scores if len(scores) == count else np.append(0.0, -scores)).tolist()

    def label_names(self, train):
        label_names = _names(train.texts[0], train.labels[0])
        self.check_label_names(train, label_names, "train")
        return label_names

    def check_label_names(self, documents, label_names, role):
        for line, group, score in zip(
            documents.lines, documents.texts, documents.labels, strict=True
        ):
            if _names(group, score) != label_names:
                has = "without a score" if score is None else "with a score"
                raise ValueError(
                    f"{role}, line {line}: {len(group)} texts {has}, where the training's first "
                    f"line has {', '.join(label_names)}."
                )

    def check_settings(self, label_names):
        self.make_loss(label_names)

    def targets(self, documents):
        if documents.labels[0] is not None:
            return documents.labels
        order = {}  # rows of one anchor have one number
        return [order.setdefault(group[0], len(order)) for group in documents.texts]

    def labels(self, label_names, values=None):
        return (FloatLabels if _has_scores(label_names) else ClassLabels)(values)

    def training_options(self):
        return {"apart": True}

    def check_batches(self, batches, label_names):
        alone = len(batches.lengths) < 1.5 * len(batches)  # most batches are of one pair
        if label_names == _names(("", ""), None) and alone:
            raise ValueError(
                f"The {len(batches.lengths):,} pairs of train make {len(batches):,} batches, and a "
                "pair that is alone in a batch has no negatives: raise `token_budget` to several "
                "times what a pair takes, lower `max_length`, or add negatives. The shapes are "
                f"{batches.shapes}."
            )

    def model(self, encoder, label_names):
        return embedder(encoder, self.pooling)

    def trained(self, model, label_names):
        return similarity(
            model, 2 if label_names == SCORED else len(label_names) - (label_names[-1] == TEACHER)
        )

    def make_loss(self, label_names):
        kind = "groups with a teacher's scores" if label_names[-1] == TEACHER else "groups"
        kind = "pairs with a score" if label_names == SCORED else kind
        return loss_of(kind, self.loss, self.matryoshka)

    def metrics(self, label_names):
        return [] if _has_scores(label_names) else [InBatchAccuracy()]

    def merged(self, texts, batches, outputs, label_names, pool):
        """Vectors (N, D)."""
        check_finite(outputs)
        if len(outputs) == len(texts):
            return outputs
        return unit_rows(pooled(batches, outputs, pool))

    def measure(self, finetuned, documents, verbose):
        groups = [finetuned.with_prompts(group) for group in documents.texts]
        texts = list(dict.fromkeys(text for group in groups for text in group))
        order = {text: number for number, text in enumerate(texts)}
        # The texts have their prompts already.
        vectors, lengths = dataclasses.replace(finetuned, prompt="").judged(texts, verbose)
        groups = np.array([[order[text] for text in group] for group in groups])
        lengths = lengths[groups].max(axis=1)
        if not _has_scores(finetuned.label_names):
            return ranked(vectors, groups, lengths)
        measure = scored if finetuned.label_names == SCORED else distilled
        return measure(vectors, groups, np.array(documents.labels), lengths)

    def predictions(self, texts, results, label_names):
        return [Vector([float(value) for value in row]) for row in results]


def _is_labelled(source):
    """Whether this is (texts, labels), and not a list of groups."""
    return len(source) == 2 and not all(isinstance(each, str) for each in source[0])


def _names(group, score):
    """What the texts of a group are."""
    if score is not None and len(group) == 2:
        return SCORED
    negatives = [f"negative_{number}" for number in range(1, len(group) - 1)]
    negatives = ["negative"] if len(negatives) == 1 else negatives
    return ["anchor", "positive", *negatives, *([] if score is None else [TEACHER])]


def _has_scores(label_names):
    return label_names == SCORED or label_names[-1] == TEACHER
