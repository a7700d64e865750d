"""Evaluation and predictions of a saved model."""

import os

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import json_line
from keras_posenc.processes.devices import computing, on_devices
from keras_posenc.processes.together import counted_from, read_shard
from keras_posenc.text.documents import kind_of_all
from keras_posenc.text.json_lines import check_jsonl
from keras_posenc.text.text_stream import TextStream
from keras_posenc.training.finetuning.baselines import Baselines
from keras_posenc.training.part_file import write_parts
from keras_posenc.training.saved_models import load_finetuned, task_of


@on_devices
def evaluate(
    directory,
    data,
    *,
    text=None,
    label=None,
    max_length=None,
    token_budget=None,
    chunks=None,
    pool=None,
    devices=None,
    verbose="auto",
):
    """Evaluates a fine-tuned model by the metrics of its task, also by document length.

    Args:
        directory: str or path. Directory that `finetune` wrote.
        data: documents of the model's task, as in `finetune`.
        text, label, devices: as in `finetune`.
        max_length: int or None. Tokens after which documents are truncated; by default as in
            training.
        token_budget: int or None. Maximum number of tokens in a batch, on a CPU at most 1,024; by
            default as in training.
        chunks: int or None. Read each document whole, in chunks of this many tokens.
        pool: str or None. How the probabilities of the chunks are combined, "mean" (weighted by
            tokens) or "max"; by default as saved, or "mean".
        verbose: as in `TextModel.predict`.

    Returns:
        dict with `task`, `labels`, `scores` (the keys of the task's metrics with their titles, most
            important first) and `test`, the metrics.

    Raises:
        FileNotFoundError: if the directory or the file is missing.

    Example:

    >>> metrics = evaluate("out", "test.tsv", verbose=0)
    >>> metrics["labels"], metrics["test"]["documents"]
    (['a', 'b', 'c'], 24)
    """
    finetuned = load_finetuned(directory, max_length, token_budget, chunks, pool)
    kind = finetuned.kind.of_names(finetuned.label_names)
    documents = kind.read(data, "data", text, label)
    kind.check_label_names(documents, finetuned.label_names, "data")
    test = finetuned.kind.measure(finetuned, documents, verbose)
    if baselines := Baselines.load(directory, finetuned):
        test["baselines"] = baselines.measure(finetuned, documents)
    return {
        "task": finetuned.task,
        "labels": finetuned.label_names,
        "scores": finetuned.kind.scores,
        "test": test,
    }


@on_devices(by_processes=True)
def predict(
    directory,
    texts,
    *,
    text=None,
    max_length=None,
    token_budget=None,
    chunks=None,
    pool=None,
    output=None,
    part_size=None,
    shard=None,
    devices=None,
    verbose="auto",
):
    """Predicts labels, numbers, entities, answers or vectors for texts, by the model's task.

    Args:
        directory: directory that `finetune` wrote.
        texts: list of str, or a path for `read_texts` (labels in the file are ignored). Task "tag"
            also takes lists of words. Task "qa" takes pairs (question, passage), or a path of such.
        text: name of the column of texts; by default one with a usual name, such as text or content
            (see `read_texts`).
        max_length, token_budget, chunks, pool: as in `evaluate`.
        output: path of a .jsonl file for the predictions, with `part_size`; without it,
            `write_predictions` writes what is returned.
        part_size: int. Number of texts to read, predict and write at a time, such as 100,000, for
            more texts than memory holds. An interrupted call continues after its last complete
            part. Files of texts are read in parts as well, except .tab. Each part prints a line
            with the time left.
        shard: str. From "1/n" to "n/n". "i/n" predicts only the i-th of n equal parts of the
            texts, in their order. So n processes or machines share the work.
        devices: int or "all". Number of devices of this machine that share the texts; on PyTorch,
            a process for each. Default: one, or those of a distribution that is set.
        verbose: as in `TextModel.predict`.

    Returns:
        list of named tuples, in the order of the texts: `Prediction` of a classifier; see the
            guide for those of other tasks. With `part_size` the number of predictions written: a
            JSON object per line, with `row`, the number of the text from 1.

    Raises:
        BlockingIOError: if another call writes the parts of `output`.
        FileNotFoundError: if the directory or the file is missing.
        NotADirectoryError: if a file is in the place of the folder of `output`.

    Example:

    >>> (prediction,) = predict("out", ["w1 w4 w7 w10"], verbose=0)
    >>> prediction.label
    'b'
    """
    part = read_shard(shard)
    _check_parts(output, part_size, texts)
    kind = task_of(directory)
    if isinstance(texts, (str, os.PathLike)) and not (part_size and kind.reads_plain_texts):
        texts = kind.read_unlabelled(texts, text).texts
    model = {"directory": directory, "max_length": max_length, "token_budget": token_budget}
    model |= {"chunks": chunks, "pool": pool}
    if part_size is None:
        first, texts = 0 if shard is None else part(range(len(texts))).start, part(texts)
        with counted_from(first):
            kind.check_texts(texts)
            with computing(predictor, model, devices, kind_of_all) as predictions_of:
                return predictions_of(texts, verbose)
    stream = TextStream(texts, text)
    stream.check()
    rows = part(range(len(stream)))
    settings = {name: model[name] for name in ("max_length", "token_budget", "chunks")}
    settings["pool"] = pool or "mean"  # as it was recorded before there was a saved one
    with computing(predictor, model, devices, kind_of_all) as predictions_of:

        def compute(texts, before):
            with counted_from(rows.start + before):
                kind.check_texts(texts)
                found = predictions_of(texts, 2 if verbose else 0)
            numbered = enumerate(found, rows.start + before + 1)
            lines = [{"row": number, **each._asdict()} for number, each in numbered]
            return "".join(f"{json_line(line)}\n" for line in lines).encode()

        write_parts(
            output, settings | {"text": text}, directory, stream, part_size, rows, compute, verbose
        )
    return len(rows)


def predictor(**model):
    """A function from texts to their predictions by a model of `load_finetuned`."""
    finetuned = load_finetuned(**model)

    def predictions_of(texts, verbose):
        results, _ = finetuned.judged(texts, verbose)
        return finetuned.kind.predictions(texts, results, finetuned.label_names)

    return predictions_of


def _check_parts(output, part_size, texts):
    if part_size is not None:
        checks.whole("part_size", part_size)
    if (output is None) != (part_size is None):
        raise ValueError(
            "`output` and `part_size` go together: predictions are written a part at a time. "
            f"Received: output={output!r}, part_size={part_size!r}"
        )
    check_jsonl(output, [texts])
