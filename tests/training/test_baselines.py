"""Reports stand beside what takes no training: the most frequent label, and token counts."""

import json

import numpy as np
import pytest

from keras_posenc.text import Texts
from keras_posenc.training import evaluate, finetune, load_finetuned, summary
from keras_posenc.training.finetuning import baselines
from keras_posenc.training.finetuning.baselines import COUNTS, FREQUENT, MEAN, Baselines

pytestmark = pytest.mark.once

TEXTS = ["w1 w2", "w1 w1 w3", "w4 w5", "w1 w6"] * 3
TEST = ["w1 w9", "w4 w4", "w5", "w1 w2"]
LABELS = {
    "classify": (["a", "a", "b", "a"] * 3, ["a", "b", "b", "b"]),
    "multilabel": ([["a"], ["a", "c"], ["b"], ["a"]] * 3, [["a"], ["b"], ["b"], ["a", "b"]]),
    "regress": ([1.0, 1.0, 5.0, 1.0] * 3, [1.0, 5.0, 5.0, 1.0]),
}


@pytest.fixture(scope="module")
def trained(pretrained, tmp_path_factory):
    def run(task):
        train, test = LABELS[task]
        output = tmp_path_factory.mktemp("baselines") / task
        options = {"task": task, "max_length": 8, "epochs": 1, "verbose": 0}
        return output, finetune(pretrained, (TEXTS, train), output, test=(TEST, test), **options)

    return {task: run(task) for task in LABELS}


def naive_bayes(train, labels, test, size):
    """By the formula, with 0.1 pseudo-counts of each token that was seen."""
    names = sorted({*labels})
    found = []
    seen = sorted({t for row in train for t in row})
    for text in test:
        scores = []
        for name in names:
            rows = [row for row, label in zip(train, labels, strict=True) if label == name]
            counts = {t: 0.1 + sum(row.count(t) for row in rows) for t in seen}
            score = np.log((len(rows) + 1) / (len(train) + len(names)))
            score += sum(np.log(counts[t] / sum(counts.values())) for t in text if t in counts)
            scores.append(score)
        found.append(names[int(np.argmax(scores))])
    return found


def test_classes_stand_beside_the_most_frequent_and_counts(trained):
    output, metrics = trained["classify"]
    found = metrics["test"]["baselines"]
    assert set(found) == {FREQUENT, COUNTS}
    assert found[FREQUENT]["accuracy"] == 0.25
    tokenizer = load_finetuned(output).tokenizer
    rows = [[tokenizer.encode(text)[0] for text in texts] for texts in (TEXTS, TEST)]
    train, test = LABELS["classify"]
    expected = naive_bayes(rows[0], train, rows[1], tokenizer.vocab_size)
    assert found[COUNTS]["accuracy"] == np.mean(
        [a == b for a, b in zip(expected, test, strict=True)]
    )
    again = evaluate(output, (TEST, test), verbose=0)
    for title, scores in again["test"]["baselines"].items():
        assert scores == pytest.approx(found[title])


def test_several_labels_and_numbers_have_theirs(trained):
    found = trained["multilabel"][1]["test"]["baselines"]
    assert found[FREQUENT]["micro_f1"] == pytest.approx(2 * 2 / (4 + 5))  # a, for all four
    assert found[COUNTS]["micro_f1"] > found[FREQUENT]["micro_f1"]
    found = trained["regress"][1]["test"]["baselines"]
    assert set(found) == {MEAN} and "spearman" not in found[MEAN]
    assert found[MEAN]["mean_absolute_error"] == pytest.approx((1 + 3 + 3 + 1) / 4)


def test_a_line_says_whether_training_paid(trained):
    for task, line in (
        ("classify", "paid|did not pay|uncertain: accuracy on test"),
        ("multilabel", "paid|did not pay: micro F1 on test"),
        ("regress", "paid|did not pay: mean error on test"),
    ):
        text = summary(trained[task][1])
        assert "most frequent label" in text or "mean of training" in text
        (verdict,) = [each for each in text.splitlines() if "training" in each and ":" in each]
        assert any(part in verdict for part in line.split("|")), verdict
    part = {"documents": 4, "accuracy": 0.9, "interval": [0.8, 0.95], "by_length": [], "loss": 1.0}
    metrics = {"scores": {"accuracy": "accuracy"}, "test": part}
    for best, verdict in (
        (0.7, "The training paid: accuracy on test 0.900, counts 0.700."),
        (0.85, "Whether the training paid is uncertain"),
        (0.9, "The training did not pay"),
    ):
        part["baselines"] = {"counts": {"accuracy": best}, "none": {"accuracy": 0.1}}
        part["by_length"] = [{"more_than": 0, "up_to": 128, **part, "by_length": None}]
        assert verdict in summary(metrics)


def test_a_damaged_file_is_an_error(trained):
    output, _ = trained["classify"]
    path = output / "baselines.json"
    record = json.loads(path.read_text())
    try:
        for change in ({"tokens": [1]}, {"documents": 0}, {"counts": "x"}):
            path.write_text(json.dumps(record | change))
            with pytest.raises(ValueError, match="baselines.json"):
                evaluate(output, (TEST, LABELS["classify"][1]), verbose=0)
        path.write_text(json.dumps({key: record[key] for key in record if key != "counts"}))
        with pytest.raises(ValueError, match="it lacks counts"):
            evaluate(output, (TEST, LABELS["classify"][1]), verbose=0)
    finally:
        path.write_text(json.dumps(record))


def test_those_of_an_earlier_run_in_the_directory_do_not_count(pretrained, tmp_path):
    train, test = LABELS["classify"]
    other = [{"a": "x", "b": "y"}[label] for label in test]
    options = {"max_length": 8, "epochs": 1, "verbose": 0}
    finetune(pretrained, (TEXTS, train), tmp_path / "run", **options)
    model = load_finetuned(tmp_path / "run")
    model.label_names = ["x", "y"]
    model.save(tmp_path / "run")  # beside the baselines of a and b
    assert "baselines" not in evaluate(tmp_path / "run", (TEST, other), verbose=0)["test"]
    words = [text.split() for text in TEXTS]
    tagged = words, [["B", *["O"] * (len(each) - 1)] for each in words]
    options |= {"task": "tag", "overwrite": True}
    finetune(pretrained, tagged, tmp_path / "run", **options)
    assert not (tmp_path / "run" / "baselines.json").exists()
    assert "baselines" not in evaluate(tmp_path / "run", tagged, verbose=0)["test"]


@pytest.mark.parametrize("most", [6, 1])
def test_tokens_are_counted_for_the_most_frequent_alone(most, trained, monkeypatch):
    documents = Texts(TEXTS, LABELS["classify"][0], list(range(len(TEXTS))))
    model = load_finetuned(trained["classify"][0])
    everything = Baselines.of(model, documents)
    monkeypatch.setattr(baselines, "MOST", most)
    found = Baselines.of(model, documents)
    assert len(found.tokens) == max(most // 2, 1)
    kept = np.isin(everything.tokens, found.tokens)
    np.testing.assert_array_equal(found.counts, everything.counts[:, kept])
    np.testing.assert_array_equal(found.total, everything.total[kept])
    assert found.total.min() >= everything.total[~kept].max()


def test_a_text_without_tokens_has_the_most_frequent_label(trained):
    model = load_finetuned(trained["classify"][0])
    found = Baselines.of(model, Texts(TEXTS, LABELS["classify"][0], list(range(len(TEXTS)))))
    none = [np.zeros(0, int), np.array([5])]
    scores = found._results("single_label_classification", none)
    np.testing.assert_allclose(scores[COUNTS][0], scores[FREQUENT][0])
