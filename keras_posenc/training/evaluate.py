"""Evaluation and predictions of a saved model."""

import os

from keras_posenc.training.saved_models import load_finetuned


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
    """Evaluates a fine-tuned model by the metrics of its task, also by document length.

    Args:
        directory: str or path. Directory that `finetune` wrote.
        data: documents of the model's task, as in `finetune`.
        text: str. Name of the column of texts; by default one with a usual name, see `read_texts`.
        label: str. Name of the column of labels; by default one with a usual name.
        max_length: int or None. Tokens after which documents are truncated; by default as in
            training.
        token_budget: int or None. Maximum number of tokens in a batch; by default as in training.
        chunks: int or None. Read each document whole, in chunks of this many tokens.
        pool: str. How the probabilities of the chunks are combined; the mean is weighted by tokens.
            One of "mean" or "max".
        verbose: as in `keras.Model.predict`.

    Returns:
        dict with `task`, `labels`, `scores` (the keys of the task's metrics with their titles, most
            important first) and `test`, the metrics.

    Raises:
        FileNotFoundError: if the directory or the file is missing.
        TypeError: if a document or a label is not a str.
        ValueError: if a document is empty, or has a label that the model does not have.

    Example:

    >>> metrics = evaluate("out", "test.tsv", verbose=0)
    >>> metrics["labels"], metrics["test"]["documents"]
    (['a', 'b', 'c'], 24)
    """
    finetuned = load_finetuned(directory, max_length, token_budget, chunks, pool)
    documents = finetuned.kind.read(data, "data", text, label)
    finetuned.kind.check_names(documents, finetuned.labels, "data")
    return {
        "task": finetuned.task,
        "labels": finetuned.labels,
        "scores": finetuned.kind.scores,
        "test": finetuned.kind.measure(finetuned, documents, verbose),
    }


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
    """Predicts labels, numbers, entities, answers or vectors for texts, by the model's task.

    Args:
        directory: directory that `finetune` wrote.
        texts: list of str, or a path for `read_texts` (labels in the file are ignored). With task
            "tag" lists of words too; with "qa" pairs (question, passage), or a path of such.
        text: name of the column of texts; by default one with a usual name, see `read_texts`.
        max_length: int or None. Tokens after which documents are truncated; by default as in
            training.
        token_budget: int or None. Maximum number of tokens in a batch; by default as in training.
        chunks: int or None. Read each document whole, in chunks of this many tokens.
        pool: how the probabilities of the chunks are combined; their mean is weighted by tokens.
            One of "mean" or "max".
        verbose: as in `keras.Model.predict`.

    Returns:
        list of named tuples, in the order of the texts: `Prediction` of a classifier; see the
            guide for those of other tasks.

    Raises:
        FileNotFoundError: if the directory or the file is missing.
        ValueError: if a text is empty, or not what the task takes.

    Example:

    >>> (prediction,) = predict("out", ["w1 w4 w7 w10"], verbose=0)
    >>> prediction.label
    'b'
    """
    finetuned = load_finetuned(directory, max_length, token_budget, chunks, pool)
    if isinstance(texts, (str, os.PathLike)):
        texts = finetuned.kind.read_unlabelled(texts, text).texts
    finetuned.kind.check_texts(texts)
    results, _ = finetuned.judged(texts, verbose)
    return finetuned.kind.predictions(texts, results, finetuned.labels)
