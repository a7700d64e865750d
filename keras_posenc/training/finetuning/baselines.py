"""What a training is compared with: the most frequent label always, and token counts."""

import dataclasses
import json
import typing

import numpy as np

from keras_posenc.files import saved_records as e
from keras_posenc.files.untrusted import read_json
from keras_posenc.files.writing import write_text
from keras_posenc.folders.finetuned import BASELINES
from keras_posenc.folders.folder import Folder
from keras_posenc.text import Texts
from keras_posenc.text.disk_list import DiskList
from keras_posenc.text.documents import encode_rows

MOST = 400_000  # counts that are saved
MOST_TEXTS = 20_000  # to count in
SMOOTHING = 0.1  # pseudo-counts of a token
FREQUENT, COUNTS, MEAN = "most frequent label", "naive Bayes on words", "mean of training"
NUMBERS = e.every(e.number)
COUNTED = {"tokens": e.every(e.count), "counts": e.every(NUMBERS), "total": NUMBERS}
NAMED = {"task": e.string, "labels": e.every(e.string)}
EXPECTED = e.keys({**NAMED, "documents": e.positive, "by_label": NUMBERS, **COUNTED})


class _Answers(typing.NamedTuple):
    """Results in the place of those of a `TextModel`, which a task measures."""

    label_names: list
    results: np.ndarray
    lengths: np.ndarray

    def judged(self, texts, verbose):
        return self.results, self.lengths


@dataclasses.dataclass(frozen=True)
class Baselines:
    """Baselines that take no training, for classes and numbers of a text.

    Naive Bayes counts the tokens of the model's tokenizer in whole texts.
    """

    task: str  # the name of the task
    labels: list  # the names of its outputs
    documents: int  # texts to train on
    by_label: np.ndarray  # (C,) array: texts with each label, or the mean of each number
    tokens: np.ndarray  # (V,) array of ids that are counted
    counts: np.ndarray  # (C, V) array: how often texts of a label have a token
    total: np.ndarray  # (V,) array: how often all texts have it

    @classmethod
    def of(cls, finetuned, documents):
        """The baselines of texts to train on; None for other tasks, and for texts on disk."""
        task, names = finetuned.kind, finetuned.label_names
        if task.problem_type is None or isinstance(documents.texts, DiskList):
            return None
        step = -(-len(documents) // MOST_TEXTS)
        columns = (documents.texts, documents.labels, documents.lines)
        documents = Texts(*(column[::step] for column in columns))
        if task.problem_type == "regression":
            none = np.zeros((len(names), 0))
            means = np.mean(documents.labels, axis=0)
            return cls(task.name, names, len(documents), means, np.zeros(0, int), none, none[0])
        order = {name: number for number, name in enumerate(names)}
        total, by_label = np.zeros(finetuned.tokenizer.vocab_size), np.zeros(len(names))
        rows = [np.unique(ids, return_counts=True) for ids in _ids(finetuned, documents.texts)]
        for tokens, times in rows:
            total[tokens] += times
        frequent = np.argsort(-total, kind="stable")[: max(MOST // len(names), 1)]
        tokens = np.sort(frequent[total[frequent] > 0])
        # Not of all tokens: thousands of labels times a large vocabulary may not fit in memory.
        counts, place = np.zeros((len(names), len(tokens))), np.full(len(total), -1)
        place[tokens] = np.arange(len(tokens))
        for (seen, times), label in zip(rows, documents.labels, strict=True):
            counted = place[seen] >= 0
            for number in {order[name] for name in task.names_in(label)}:
                counts[number, place[seen[counted]]] += times[counted]
                by_label[number] += 1
        return cls(task.name, names, len(documents), by_label, tokens, counts, total[tokens])

    def measure(self, finetuned, documents):
        """{title: {score: number}} of labelled documents, of the scores of the task."""
        task, rows = finetuned.kind, _ids(finetuned, documents.texts)
        lengths = np.array([len(ids) for ids in rows])
        found = {}
        for title, results in self._results(task.problem_type, rows).items():
            answers = _Answers(finetuned.label_names, results, lengths)
            measured = task.measure(answers, documents, 0)
            names = [name for name in task.scores if name in measured]
            if title == MEAN:  # a constant correlates with nothing
                names = [name for name in names if name not in ("spearman", "pearson")]
            found[title] = {name: measured[name] for name in names}
        return found

    def _results(self, problem_type, rows):
        same = np.ones((len(rows), 1))
        if problem_type == "regression":
            return {MEAN: same * self.by_label}
        place = np.full(max(ids.max(initial=0) for ids in (self.tokens, *rows)) + 1, -1)
        place[self.tokens] = np.arange(len(self.tokens))
        rows = [places[places >= 0] for places in (place[ids] for ids in rows)]
        if problem_type == "single_label_classification":
            prior = np.log((self.by_label + 1) / (self.documents + len(self.by_label)))
            evidence = _log_shares(self.counts)
            return {FREQUENT: same * prior, COUNTS: prior + _sums(evidence, rows)}
        others = self.documents - self.by_label
        odds = np.log((self.by_label + 1) / (others + 1))
        evidence = _log_shares(self.counts) - _log_shares(self.total - self.counts)
        logits = np.clip(odds + _sums(evidence, rows), -30, 30)
        return {FREQUENT: same / (1 + np.exp(-odds)), COUNTS: 1 / (1 + np.exp(-logits))}

    def save(self, folder):
        """Writes baselines.json, by which `evaluate` compares."""
        record = {name: np.asarray(value).tolist() for name, value in vars(self).items()}
        write_text(folder / BASELINES, json.dumps(record))

    @classmethod
    def load(cls, directory, finetuned):
        """Those of the model in a directory, or None if it has none or those of another model."""
        folder = Folder.of(directory)
        name, path = folder.newest(BASELINES), folder.path / BASELINES
        if not folder.has(name):
            return None
        record = e.checked(path, read_json(folder.place(name)), EXPECTED)
        if (record["task"], record["labels"]) != (finetuned.task, finetuned.label_names):
            return None
        counts = np.array(record["counts"], "float64").reshape(len(record["by_label"]), -1)
        tokens, total = np.array(record["tokens"], int), np.array(record["total"], "float64")
        if not counts.shape[1] == len(tokens) == len(total):
            raise ValueError(
                f"{path} is damaged: it has {len(tokens)} tokens, {counts.shape} counts"
            )
        first = [record[name] for name in (*NAMED, "documents")]
        return cls(*first, np.array(record["by_label"]), tokens, counts, total)


def _ids(finetuned, texts):
    """The token ids of each text, of all of it."""
    rows, _ = encode_rows(list(texts), finetuned.tokenizer, None)
    return [np.asarray(row.token_ids) for row in rows]


def _log_shares(counts):
    smoothed = counts + SMOOTHING
    return np.log(smoothed / smoothed.sum(-1, keepdims=True))


def _sums(evidence, rows):
    return np.array([evidence[:, places].sum(-1) for places in rows])
