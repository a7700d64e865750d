"""The first loss of a new head is near that of guessing, for every task and loss of `finetune`."""

import csv
import dataclasses
import json

import keras
import numpy as np
import pytest
from task_data import numbered, paired, seeded, several, tagged, words

from keras_posenc import Tokenizer, build_transformer_model, save_checkpoint
from keras_posenc.training import Embed, finetune
from keras_posenc.training.finetuning.embedding_losses import LOSSES
from keras_posenc.training.finetuning.tasks import TASKS

pytestmark = pytest.mark.once

COUNT = 24  # texts, which are one batch
PLAIN = {"max_length": 24, "epochs": 1, "token_budget": 4096}
PLAIN |= {"dropout_rate": 0.0, "attention_dropout_rate": 0.0, "verbose": 0}


@pytest.fixture(scope="module")
def bert(tmp_path_factory, pretrained):
    """Its features are small, so the outputs of a new head are nearly alike."""
    folder = tmp_path_factory.mktemp("bert")
    keras.utils.set_random_seed(0)
    model = build_transformer_model(json.loads((pretrained / "config.json").read_text()))
    scale = [v for v in model.weights if v.path.endswith("FeedForward-Norm/gamma")][-1]
    scale.assign(0.002 * scale)
    save_checkpoint(model, folder)
    Tokenizer(pretrained).save(folder)
    return folder


def classed(rng, count):
    return [" ".join(words(rng, 6)) for _ in range(count)], [f"c{n % 5}" for n in range(count)]


def asked(rng, count):
    """Passages of eight tokens: ten places of an answer, with [CLS] and [SEP]."""
    passages = [" ".join(words(rng, 8)) for _ in range(count)]
    spans = [[(0, passage.index(" "))] for passage in passages]
    return [("w33 w34", passage) for passage in passages], spans


def scored(rng, count):
    groups, scores = paired(rng, count), [n / count for n in range(count)]
    return [group[:2] for group in groups], scores


def taught(rng, count):
    """A teacher's scores of two documents, which differ by 2 or by -2."""
    return paired(rng, count), [(1.0, 3.0) if n % 2 else (3.0, 1.0) for n in range(count)]


def quoted(rng, count):
    """Documents of eight different tokens: the passage, and three others of its length."""
    groups = []
    for _ in range(count):
        each = [f"w{n}" for n in rng.permutation(30)[:8]]
        groups.append((" ".join(words(rng, 3)), " ".join(each), " ".join(each[2:4])))
    return groups, None


def within_and_across(source):
    return 0.2 * np.log(4) + 0.8 * np.log(COUNT)


def squares(source):
    return np.mean(np.square(source[1]))


def log_of(count):
    return lambda source: np.log(count)


def divergence(source):
    p = np.exp([1.0, 3.0]) / np.exp([1.0, 3.0]).sum()
    return np.log(2) + (p * np.log(p)).sum()


# Documents, and the loss of outputs that are all alike. The vectors of an embedder are
# not: at a scale of 0.01 they count as if they were.
CASES = {
    "classify": (classed, log_of(5)),
    "multilabel": (several, log_of(2)),
    "regress": (numbered, squares),
    "tag": (tagged, lambda source: np.log(len({tag for tags in source[1] for tag in tags}))),
    "qa": (asked, log_of(10)),
    "multiple_negatives_ranking:0.01": (paired, log_of(2 * COUNT)),
    "passage_ranking:0.01": (quoted, within_and_across),
    "cosent:0.01": (scored, log_of(1 + COUNT * (COUNT - 1) / 2)),
    "margin_mse:0.01": (taught, lambda source: 4.0),
    "listwise_kl:0.01": (taught, divergence),
}


def first_loss(bert, output, case):
    kind, guessed = CASES[case]
    source = seeded(kind, 0, COUNT)
    weight = 0.2 if case.startswith("passage_ranking") else None
    task = TASKS[case] if case in TASKS else Embed(loss=case, document_weight=weight)
    if hasattr(task, "head_dropout"):
        task = dataclasses.replace(task, head_dropout=0.0)
    finetune(bert, source, output, task=task, **PLAIN)
    with open(output / "steps.csv") as file:
        (row,) = csv.DictReader(file)
    return float(row["loss"]), guessed(source)


@pytest.mark.parametrize("case", CASES)
def test_the_first_loss_is_near_that_of_guessing(bert, tmp_path, case):
    found, guessed = first_loss(bert, tmp_path / "out", case)
    assert found == pytest.approx(guessed, rel=0.01)


@pytest.mark.parametrize("case", CASES)
def test_half_precision_begins_with_the_same_loss(bert, tmp_path, case):
    exact, _ = first_loss(bert, tmp_path / "exact", case)
    keras.config.set_dtype_policy("mixed_float16")
    try:
        half, _ = first_loss(bert, tmp_path / "half", case)
    finally:
        keras.config.set_dtype_policy("float32")
    assert half == pytest.approx(exact, rel=0.01)


def test_every_task_and_loss_has_a_case():
    names = {case.partition(":")[0] for case in CASES}
    # The cosines of a new embedder decide what this one begins with.
    assert names == {*TASKS, *LOSSES} - {"embed", "cosine_regression"}
