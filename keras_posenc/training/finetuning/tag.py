"""A tag for each word, or stretches of characters with their kinds."""

import dataclasses
import functools
import typing

import keras
import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.metrics.entities import entities, entity_scores
from keras_posenc.metrics.scores import by_lengths, check_finite, log_softmax
from keras_posenc.models.heads import token_classifier
from keras_posenc.text import TagLabels, tag_names
from keras_posenc.text.labels.tags import OUTSIDE, check_spans, check_tags, word_places, words_of
from keras_posenc.text.tagged import OBJECTS, read_tagged
from keras_posenc.training.finetuning.classify import Classify
from keras_posenc.training.finetuning.task import FinetuneTask


class TagPrediction(typing.NamedTuple):
    """What was found in a text.

    Attributes:
        entities: list of dict. Each has `kind`, `start`, `end` (in characters) and `text`. For a
            list of words, the characters are those of the words joined by spaces.
        tags: list of str or None. One per word; None if the text was a str.
    """

    entities: list
    tags: list | None

    def columns(self):
        """The names of the cells."""
        return ["entities"]

    def cells(self):
        """The entities in one cell, as `kind start-end text`, with | between."""
        found = [f"{e['kind']} {e['start']}-{e['end']} {e['text']}" for e in self.entities]
        return (" | ".join(found) or "-",)


class WordTags(typing.NamedTuple):
    """The words of a text, or the tokens of a str, and the logits (W, C) of each.

    What truncation cut off, and a word of no token, has NaN, and is tagged O.
    """

    starts: np.ndarray
    ends: np.ndarray
    logits: np.ndarray

    def tags(self, label_names):
        outside = label_names.index(OUTSIDE) if OUTSIDE in label_names else 0
        seen = ~np.isnan(self.logits[:, 0])
        best = np.where(seen, np.nan_to_num(self.logits).argmax(axis=1), outside)
        return [label_names[n] for n in best]


@dataclasses.dataclass(frozen=True, repr=False)
class Tag(FinetuneTask):
    """Words with a tag each, or texts with spans of characters.

    Args:
        head_dropout: float. Dropout before the last layer.
        class_weight: as in `Classify`.

    Example:

    >>> Tag(class_weight="balanced")
    Tag(class_weight='balanced')
    """

    head_dropout: float = 0.1
    class_weight: object = None

    name = "tag"
    scores = {
        "f1": "F1",
        "precision": "precision",
        "recall": "recall",
        "accuracy": "accuracy",
        "loss": "loss",
    }
    watched = ("accuracy",)
    per_token = True
    streamed = OBJECTS
    name_of_labels = "tag"
    read_file = staticmethod(read_tagged)
    loss_of_outputs = Classify.loss_of_outputs
    metrics_of_outputs = (functools.partial(keras.metrics.SparseCategoricalAccuracy, "accuracy"),)

    def checked(self, where, text, value):
        if not isinstance(value, (list, tuple, np.ndarray)):
            raise ValueError(
                f"The text {where} has the tags {quote(value)}: give a list, of tags or of spans."
            )
        if isinstance(text, str):
            return check_spans(where, text, value)
        if not isinstance(text, list) or not all(isinstance(word, str) for word in text):
            raise ValueError(f"The text {where} is {quote(text)}: give a str or a list of words.")
        return check_tags(where, list(value), len(text))

    def label_names(self, train):
        label_names = tag_names(train.labels)
        if len(label_names) < 2:
            raise ValueError(
                f"train has the tags {quote(label_names)} only: there is nothing to learn."
            )
        return label_names

    def names_in(self, label):
        return tag_names([label])

    def labels(self, label_names, values=None):
        return TagLabels(values, label_names)

    def model(self, encoder, label_names):
        return token_classifier(encoder, len(label_names), self.head_dropout)

    def merged(self, texts, batches, outputs, label_names, pool):
        """`WordTags` of each text."""
        all_words, rows = [], iter(zip(batches.rows, outputs, strict=True))
        for text, count in zip(texts, np.bincount(batches.text_of), strict=True):
            windows = [next(rows) for _ in range(count)]
            starts, ends = _places(text, [row for row, _ in windows])
            table = np.full((len(starts), len(label_names)), np.nan)
            for row, logits in windows:
                check_finite(logits)
                words, is_first = words_of(row, starts, ends)
                table[words[is_first]] = logits[is_first]
            all_words.append(WordTags(*getattr(text, "places", (starts, ends)), table))
        return all_words

    def measure(self, finetuned, documents, verbose):
        label_names = finetuned.label_names
        results, lengths = finetuned.judged(documents.texts, verbose)
        true, predicted, losses, rights = [], [], [], []
        for text, entry, words in zip(documents.texts, documents.labels, results, strict=True):
            tags, target_tags = words.tags(label_names), true_tags(text, entry, words)
            if isinstance(text, str):
                true.append({(kind, start, end) for start, end, kind in entry})
                predicted.append(
                    {(e["kind"], e["start"], e["end"]) for e in _entities(text, words, tags)}
                )
            else:
                true.append(entities(target_tags))
                predicted.append(entities(tags))
            seen = ~np.isnan(words.logits[:, 0])
            ids = np.array([label_names.index(tag) for tag in target_tags], int)[seen]
            losses.append(-log_softmax(words.logits[seen])[np.arange(len(ids)), ids])
            rights.append(np.array(target_tags) == np.array(tags))

        def scores(chosen):
            which = np.flatnonzero(chosen)
            scored = entity_scores([true[n] for n in which], [predicted[n] for n in which])
            right = np.concatenate([rights[n] for n in which])
            return {
                **{key: scored[key] for key in ("precision", "recall", "f1")},
                "accuracy": float(right.mean()) if len(right) else 0.0,
            }

        losses = np.concatenate(losses)
        return {
            **by_lengths(scores, lengths),
            "loss": float(losses.mean()) if len(losses) else 0.0,
            "classes": entity_scores(true, predicted)["classes"],
        }

    def predictions(self, texts, results, label_names):
        predictions = []
        for text, words in zip(texts, results, strict=True):
            tags = words.tags(label_names)
            whole = text if isinstance(text, str) else " ".join(map(str, text))
            tag_list = None if isinstance(text, str) else tags
            predictions.append(TagPrediction(_entities(whole, words, tags), tag_list))
        return predictions


def _places(text, rows):
    """Starts and ends of the words of a text; of a str, of its tokens."""
    if not isinstance(text, str):
        return word_places(0, text)
    tokens = np.concatenate([row.offsets for row in rows])
    tokens = np.unique(tokens[(tokens[:, 0] >= 0) & (tokens[:, 1] < tokens[:, 2]), 1:], axis=0)
    # Tokens of one character, as of its bytes, are one word.
    return tokens[np.r_[True, tokens[1:, 0] >= tokens[:-1, 1]][: len(tokens)]].T


def true_tags(text, entry, words):
    """The tags of words; of a str, from spans, those of the tokens."""
    if not isinstance(text, str):
        return entry
    tags = [OUTSIDE] * len(words.starts)
    for start, end, kind in entry:
        inside = np.flatnonzero((words.starts < end) & (words.ends > start))
        for place, token in enumerate(inside):
            tags[token] = f"{'I' if place else 'B'}-{kind}"
    return tags


def _entities(text, words, tags):
    """The entities of a text as dicts."""
    spans = [
        (int(words.starts[first]), int(words.ends[last - 1]), kind)
        for kind, first, last in sorted(entities(tags), key=lambda each: each[1:])
    ]
    return [
        {"kind": kind, "start": start, "end": end, "text": text[start:end]}
        for start, end, kind in spans
    ]
