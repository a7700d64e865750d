"""Evaluation and predictions of a saved classifier."""

import os
import typing

from keras_posenc.text import read_texts
from keras_posenc.training.data import check_labels, read_labelled
from keras_posenc.training.metrics import classification, softmax
from keras_posenc.training.saved import load_finetuned


class Prediction(typing.NamedTuple):
    """The predicted label of a document, with probabilities.

    Attributes:
        label: str. The most probable label.
        probability: float. Its probability.
        probabilities: dict, label -> probability, for all labels.

    Example:

    >>> Prediction("b", 0.75, {"a": 0.25, "b": 0.75}).label
    'b'
    """

    label: str
    probability: float
    probabilities: dict


def evaluate(
    directory,
    data,
    *,
    text=None,
    label=None,
    max_length=None,
    token_budget=None,
    chunks=None,
    pool="mean",
    verbose="auto",
):
    """Evaluates a fine-tuned model: accuracy, macro F1, confusion matrix, accuracy by length.

    Args:
        directory: str or path, the `output` of `finetune`.
        data: a path for `read_texts`, a `Texts`, or a pair (texts, labels).
        text: name of the text column; default one with a usual name, see `read_texts`.
        label: name of the label column; likewise.
        max_length: int or None. Tokens after which documents are truncated; default as in training.
        token_budget: int or None. Maximum tokens in a batch; default as in training.
        chunks: int or None. Read all of a document, in chunks of so many tokens.
        pool: "mean" of the chunks' probabilities, each counted by its tokens, or "max".
        verbose: as in `keras.Model.predict`.

    Returns:
        dict `{"labels": [...], "test": metrics}`, with the metrics of `classification`.

    Raises:
        FileNotFoundError: if the directory or the file is missing.
        TypeError: if a document is not a str, or a label is not.
        ValueError: if a document is empty, or has a label that the model does not know.

    Example:

    >>> metrics = evaluate("out", "test.tsv", verbose=0)
    >>> metrics["labels"], metrics["test"]["documents"]
    (['a', 'b', 'c'], 24)
    """
    finetuned = load_finetuned(directory, max_length, token_budget, chunks, pool)
    documents = read_labelled(data, "data", text, label)
    check_labels(documents, finetuned.labels, "data")
    return {"labels": finetuned.labels, "test": measure(finetuned, documents, verbose)}


def measure(finetuned, documents, verbose="auto"):
    """Computes the metrics of a `FineTuned` on labelled `Texts`: see `classification`."""
    order = {name: index for index, name in enumerate(finetuned.labels)}
    labels = [order[name] for name in documents.labels]
    logits, lengths = finetuned.judged(documents.texts, verbose)
    return classification(logits, labels, lengths, len(order))


def predict(
    directory,
    texts,
    *,
    text=None,
    max_length=None,
    token_budget=None,
    chunks=None,
    pool="mean",
    verbose="auto",
):
    """Predicts the labels of raw texts.

    Args:
        directory: str or path, the `output` of `finetune`.
        texts: list of str, or a path for `read_texts` (labels in the file are ignored).
        text: name of the text column; default one with a usual name, see `read_texts`.
        max_length: int or None. Tokens after which documents are truncated; default as in training.
        token_budget: int or None. Maximum tokens in a batch; default as in training.
        chunks: int or None. Read all of a document, in chunks of so many tokens.
        pool: "mean" of the chunks' probabilities, each counted by its tokens, or "max".
        verbose: as in `keras.Model.predict`.

    Returns:
        list of `Prediction`, in the order of the texts.

    Raises:
        FileNotFoundError: if the directory or the file is missing.
        ValueError: if a text is empty.

    Example:

    >>> (prediction,) = predict("out", ["w1 w4 w7 w10"], verbose=0)
    >>> prediction.label
    'b'
    """
    finetuned = load_finetuned(directory, max_length, token_budget, chunks, pool)
    if isinstance(texts, (str, os.PathLike)):
        texts = read_texts(texts, text=text, label=False).texts
    logits, _ = finetuned.judged(texts, verbose)
    rows = [dict(zip(finetuned.labels, row, strict=True)) for row in softmax(logits).tolist()]
    return [Prediction(best := max(row, key=row.get), row[best], row) for row in rows]
