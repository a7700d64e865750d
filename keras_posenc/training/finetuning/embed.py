"""Vectors of texts, so that those of texts that belong together are near."""

import dataclasses
import typing

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote
from keras_posenc.losses.matryoshka import check_dimensions
from keras_posenc.losses.similarity import InBatchAccuracy
from keras_posenc.metrics.scores import check_finite, unit_rows
from keras_posenc.models.sentence_embedding import embedder
from keras_posenc.models.similarity import similarity
from keras_posenc.text import FloatLabels, Texts, read_texts
from keras_posenc.text.decoding import FilePart
from keras_posenc.text.groups import read_groups
from keras_posenc.text.labels import TextNumbers
from keras_posenc.text.same_texts import text_numbers
from keras_posenc.training.finetuning.embedding_losses import (
    check_loss,
    distilled,
    loss_of,
    ranked,
    scored,
)
from keras_posenc.training.finetuning.passages import check_passage, encode_passages, passage_model
from keras_posenc.training.finetuning.task import FinetuneTask, pooled, value_names

SCORED = ["score"]
IN_DOCUMENT = ["query", "document", "passage"]
TEACHER = "scores"  # the last name where a teacher scored the documents of each query


class Vector(typing.NamedTuple):
    """The embedding of a text, of length 1."""

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
    and its documents with a teacher's scores; or, with `document_weight`, a query, a document and
    the passage of it that answers the query. The label names are what the texts are: `anchor`,
    `positive`, `negative`, the last with a number if there are several, and `scores` if there are
    those of a teacher; or `score`; or `query`, `document` and `passage`.

    A passage is a part of its document. Its vector is the mean of its tokens' features in the whole
    document, as with reading="late:256" of `embed`. Its negatives are other passages of the same
    document, with the weight `document_weight`, and those of the rest of the batch (InSeNT). Of a
    query, the first 256 tokens are read. In files, the columns have these names.

    Args:
        pooling: str. How the features of the tokens become those of a text. One of "mean", "cls",
            "max", "last", "weighted_mean", "sqrt_mean".
        loss: str. For tuples of texts "multiple_negatives_ranking" (InfoNCE with the texts of the
            batch and hard negatives). For pairs with a score "cosine_regression" or "cosent". For
            documents with a teacher's scores "margin_mse" or "listwise_kl". For passages in
            documents "passage_ranking" (`PassageRanking`). By default the first that fits the
            documents. A number after a colon, as in "margin_mse:5", is the scale of the cosines;
            otherwise it is 20.
        matryoshka: list of int. Dimensions of vectors to train, such as [384, 256, 128, 64].
            Vectors can then be shortened to these sizes.
        query_prompt: str. A text in front of the first text of each tuple.
        document_prompt: str. A text in front of the other texts, and after training in front of all
            texts without another prompt.
        document_weight: float in [0, 1] or None. Weight of passages of the same document as
            negatives. If given, documents are (query, document, passage).
        sub_batches: int. In how many parts a batch is computed, while its negatives are those of
            the whole batch (GradCache). Each part is computed once more in the backward pass, and
            memory is that of one part: for 4 parts, give four times the `token_budget`. Not with
            `document_weight`.

    Example:

    >>> Embed(loss="cosent:10")
    Embed(loss='cosent:10')

    References: [InSeNT](https://arxiv.org/abs/2505.24782) (`document_weight`),
    [GradCache](https://arxiv.org/abs/2101.06983) (`sub_batches`).
    """

    pooling: str = "mean"
    loss: str | None = None
    matryoshka: list | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    document_weight: float | None = None
    sub_batches: int = 1

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
    training_options = {"apart": True}

    def __post_init__(self):
        for name in ("query_prompt", "document_prompt"):
            checks.instance(name, getattr(self, name), (str, type(None)), "a str")
        if self.loss is not None:
            check_loss(self.loss)
        if self.matryoshka is not None:
            check_dimensions("matryoshka", self.matryoshka)
        if self.document_weight is not None:
            checks.number("document_weight", self.document_weight, least=0, most=1)
            checks.choice("pooling", self.pooling, ("mean",))
            if self.sub_batches != 1:
                raise ValueError(
                    "`sub_batches` does not go with `document_weight`: a batch of documents is "
                    f"computed as a whole. Leave it out. Received: {self.sub_batches}"
                )
        checks.whole("sub_batches", self.sub_batches)

    def record(self):
        record, later = super().record(), {"document_weight": None, "sub_batches": 1}
        return {name: x for name, x in record.items() if name not in later or x != later[name]}

    @property
    def prompts(self):
        """Keywords of a `TextModel`: the prompts that it is made with."""
        sides = {"query": self.query_prompt or "", "document": self.document_prompt or ""}
        given = (self.query_prompt, self.document_prompt) != (None, None)
        return {"prompt": sides["document"], "prompts": sides} if given else {}

    def read_part(self, source, role, text=None, label=None):
        if isinstance(source, (list, tuple)) and not isinstance(source, FilePart):
            texts, labels = source if _is_labelled(source) else (source, None)
            if labels is None:
                source = Texts(list(texts), None, list(range(1, len(texts) + 1)))
        return super().read_part(source, role, text, label)

    def columns(self, text, label):
        if self.document_weight is not None and text is None:
            return tuple(IN_DOCUMENT), False
        return text, label

    def read_file(self, path, text, label):
        return read_groups(path, *self.columns(text, label))

    def of_names(self, label_names):
        is_in_document = label_names == IN_DOCUMENT
        return dataclasses.replace(self, document_weight=0.0) if is_in_document else self

    def measured(self, label_names):
        if not _has_scores(label_names):
            return "accuracy", "mean_reciprocal_rank"
        return ("pearson", "spearman", *(["loss"] if label_names == SCORED else ["accuracy"]))

    def read_unlabelled(self, path, text):
        return read_texts(path, text=text, label=False)

    def checked(self, where, text, value):
        is_group = isinstance(text, tuple) and len(text) >= 2
        if not is_group or not all(isinstance(each, str) and each.strip() for each in text):
            raise ValueError(
                f"The text {where} is {quote(text)}: give pairs, or tuples (anchor, positive, "
                "negative, ...), of texts."
            )
        if self.document_weight is not None:
            if len(text) != 3 or value is not None:
                raise ValueError(
                    f"The text {where} is {quote(text)}: with `document_weight`, give (query, "
                    "document, passage), without scores."
                )
            check_passage(where, *text[1:])
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
        if self.document_weight is not None:
            return list(IN_DOCUMENT)
        self.check_label_names(train, label_names, "train")
        return label_names

    def check_label_names(self, documents, label_names, role):
        for line, group, score in zip(
            documents.lines, documents.texts, documents.labels, strict=True
        ):
            names = _names(group, score)
            if label_names == IN_DOCUMENT and len(names) == 3 and score is None:
                names = label_names
            if names != label_names:
                has = "without a score" if score is None else "with a score"
                raise ValueError(
                    f"{role}, line {line}: {len(group)} texts {has}, where the training's first "
                    f"line has {', '.join(label_names)}."
                )

    def check_settings(self, label_names):
        self.make_loss(label_names)

    def labels(self, label_names, values=None):
        return (FloatLabels if _has_scores(label_names) else TextNumbers)(values)

    def check_batches(self, batches, label_names):
        alone = len(batches.lengths) < 1.5 * len(batches)  # most batches are of one pair
        if label_names == _names(("", ""), None) and alone:
            raise ValueError(
                f"The {len(batches.lengths):,} pairs of train make {len(batches):,} batches, and a "
                "pair that is alone in a batch has no negatives: raise `token_budget` to several "
                "times what a pair takes, lower `max_length`, or add negatives. The shapes are "
                f"{batches.shapes}."
            )

    def encoded(self, texts, text_model):
        if text_model.label_names != IN_DOCUMENT:
            return None
        prompts = text_model.prompts or {}
        return encode_passages(
            texts,
            text_model.tokenizer,
            text_model.max_length,
            prompts.get("query", ""),
            prompts.get("document", ""),
        )

    def model(self, encoder, label_names):
        return embedder(encoder, self.pooling)

    def trained(self, model, label_names):
        if label_names == IN_DOCUMENT:
            return passage_model(model)
        count = 2 if label_names == SCORED else len(label_names) - (label_names[-1] == TEACHER)
        return similarity(model, count, self.sub_batches)

    def make_loss(self, label_names):
        if label_names == IN_DOCUMENT:
            more = {"document_weight": self.document_weight}
            return loss_of("passages of documents", self.loss, self.matryoshka, **more)
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
        if finetuned.label_names == IN_DOCUMENT:
            return self._measure_passages(finetuned, documents)
        groups = [finetuned.with_prompts(group) for group in documents.texts]
        texts = [text for group in groups for text in group]
        firsts, numbers = np.unique(text_numbers(texts, finetuned.tokenizer), return_inverse=True)
        # The texts have their prompts already.
        plain = dataclasses.replace(finetuned, prompt="")
        vectors, lengths = plain.judged([texts[first] for first in firsts], verbose)
        groups = numbers.reshape(len(groups), -1)
        lengths = lengths[groups].max(axis=1)
        if not _has_scores(finetuned.label_names):
            return ranked(vectors, groups, lengths)
        measure = scored if finetuned.label_names == SCORED else distilled
        return measure(vectors, groups, np.array(documents.labels), lengths)

    def _measure_passages(self, finetuned, documents):
        """Where the passage of each query stands among those of all; one that is cut off is not
        found."""
        rows = self.encoded(documents.texts, finetuned)
        whole = [number for number, row in enumerate(rows) if row]
        vectors = np.zeros((len(rows), 2, finetuned.model.output_shape[-1]), "float32")
        vectors[:, 0, 0], vectors[:, 1, 0] = 1, -1
        lengths = np.full(len(rows), finetuned.max_length or 0)
        if whole:
            plain = dataclasses.replace(finetuned, prompt="", prompts=None)
            batches = plain.batches([rows[number] for number in whole], apart=True)
            model = passage_model(finetuned.model)
            found = batches.restore_order(model.predict(batches, verbose=0))[:, :2]
            vectors[whole] = unit_rows(found.reshape(-1, found.shape[-1])).reshape(found.shape)
            lengths[whole] = batches.lengths
        tokenizer = finetuned.tokenizer
        sides = [text_numbers(list(side), tokenizer) for side in zip(*documents.texts, strict=True)]
        queries, *places = sides
        _, passages = np.unique(np.stack(places), axis=1, return_inverse=True)
        numbers = np.concatenate([queries, len(queries) + passages.ravel()])
        every = np.zeros((2 * len(queries), vectors.shape[-1]), "float32")
        every[numbers] = np.concatenate([vectors[:, 0], vectors[:, 1]])
        return ranked(every, numbers.reshape(2, -1).T, lengths)

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
