"""What users of `fit` know, in `finetune`: callbacks, class weights, metrics, optimizers."""

import csv
import json

import keras
import numpy as np
import pytest

from keras_posenc.training import Classify, Optimizer, finetune, load_finetuned, summary

SETTINGS = {"validation": 0.25, "max_length": 16, "token_budget": 256, "verbose": 0}


class OrbaxCheckpoint(keras.callbacks.Callback):
    """Has the name and the attribute of Keras' own, which needs a package."""

    def __init__(self, directory):
        super().__init__()
        self.directory = directory


def history(output):
    with open(output / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def weights(directory):
    return [keras.ops.convert_to_numpy(w) for w in load_finetuned(directory).model.weights]


def assert_same_weights(one, other):
    for a, b in zip(weights(one), weights(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


class Witness(keras.callbacks.Callback):
    """Writes down what it is called for, and dies when told to."""

    dies_in = None

    def __init__(self):
        super().__init__()
        self.calls, self.batches, self.scale = [], 0, np.ones(2)

    def on_train_begin(self, logs=None):
        self.calls.append("begin")

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        self.scale = self.scale * 2

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == Witness.dies_in:
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append([epoch, sorted(logs)])

    def on_train_end(self, logs=None):
        self.calls.append("end")


def test_the_best_epoch_is_what_is_saved(tmp_path, pretrained):
    """Of labels drawn at random there is nothing to learn but by heart, so that an early epoch is
    the best. An interrupted run knows its weights again."""
    settings = SETTINGS | {"optimizer": "adamw:0.02", "epochs": 9}
    drawn = np.random.default_rng(0)
    words = drawn.integers(0, 35, (48, 8))
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    data = (texts, drawn.choice(["a", "b"], 48).tolist())

    def run(name):
        stopping = keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True)
        callbacks = [stopping, Witness()]
        output = tmp_path / name
        metrics = finetune(pretrained, data, output, callbacks=callbacks, **settings)
        return metrics, *callbacks

    metrics, stopping, witness = run("whole")
    losses = history(tmp_path / "whole")["val_loss"]
    assert metrics["train"]["epochs"] == len(losses) == np.argmin(losses) + 3 < 9
    assert metrics["validation"]["loss"] == pytest.approx(min(losses), rel=1e-4) != losses[-1]
    assert witness.batches == metrics["train"]["steps"]

    Witness.dies_in = len(losses) - 1  # after the best epoch
    try:
        with pytest.raises(KeyboardInterrupt):
            run("parts")
    finally:
        Witness.dies_in = None
    again, other, resumed = run("parts")
    assert history(tmp_path / "parts")["val_loss"] == pytest.approx(losses, rel=1e-4)
    assert other.stopped_epoch == stopping.stopped_epoch and other.wait == stopping.wait
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")
    assert resumed.batches == witness.batches
    np.testing.assert_array_equal(resumed.scale, witness.scale)


@pytest.mark.once
def test_callbacks_see_one_training_of_all_stages(tmp_path, pretrained, corpus):
    witness = Witness()
    settings = SETTINGS | {"lengths": [(12, 1), (16, 2)], "max_length": None}
    finetune(pretrained, corpus / "train.tsv", tmp_path, callbacks=[witness], **settings)
    logs = ["accuracy", "loss", "val_accuracy", "val_loss", "val_macro_f1"]
    assert witness.calls == ["begin", *([epoch, logs] for epoch in range(3)), "end"]


@pytest.mark.once
def test_a_callback_may_end_the_training_within_an_epoch(tmp_path, pretrained, corpus):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = True

    settings = SETTINGS | {"epochs": 3}
    metrics = finetune(pretrained, corpus / "train.tsv", tmp_path, callbacks=[Stop()], **settings)
    assert metrics["train"]["epochs"] == 1


@pytest.mark.once
def test_a_run_that_a_callback_has_ended_is_trained_no_further(tmp_path, pretrained, corpus):
    """It is interrupted after its last epoch, and before its results are written."""

    class Ends(keras.callbacks.Callback):
        dies = True

        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

        def on_train_end(self, logs=None):
            if Ends.dies:
                raise KeyboardInterrupt

    def run():
        settings = SETTINGS | {"epochs": 3, "callbacks": [Ends()]}
        return finetune(pretrained, corpus / "train.tsv", tmp_path, **settings)

    with pytest.raises(KeyboardInterrupt):
        run()
    Ends.dies = False
    assert run()["train"]["epochs"] == 1


@pytest.mark.once
def test_another_callback_is_another_run(tmp_path, pretrained, corpus):
    def run(patience):
        callbacks = [keras.callbacks.EarlyStopping(patience=patience, min_delta=0.01)]
        settings = SETTINGS | {"epochs": 1}
        finetune(pretrained, corpus / "train.tsv", tmp_path, callbacks=callbacks, **settings)
        return callbacks

    (callback,) = run(patience=3)
    run(patience=3)
    assert callback.min_delta == -0.01  # turned around: the record does not depend on it
    finetune(pretrained, corpus / "train.tsv", tmp_path, callbacks=[callback], **SETTINGS, epochs=1)
    with pytest.raises(ValueError, match=r"settings: callbacks\[0\].patience was 3 and is now 1\."):
        run(patience=1)


def weighted(weights):
    return {"task": Classify(class_weight=weights)}


@pytest.mark.once
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"callbacks": 3}, TypeError, "`callbacks` must be a list of .* Received: 3"),
        ({"callbacks": ["early"]}, TypeError, "`callbacks` must be a list of .*'early'"),
        (
            {"callbacks": [keras.callbacks.EarlyStopping("val_f1")]},
            ValueError,
            r"EarlyStopping\(monitor='val_f1'\), which is not among .*: loss, accuracy, val_loss",
        ),
        (
            {"callbacks": [keras.callbacks.EarlyStopping()], "validation": None},
            ValueError,
            r"EarlyStopping\(monitor='val_loss'\), .*: loss, accuracy. Give validation",
        ),
        (
            {"callbacks": [keras.callbacks.EarlyStopping("val_macro_f1")]},
            ValueError,
            'Keras does not know whether more of it is better: give it mode="max" or mode="min"',
        ),
        (
            {"callbacks": [keras.callbacks.ReduceLROnPlateau()]},
            ValueError,
            "ReduceLROnPlateau, which cannot set a learning rate that follows a schedule: give an",
        ),
        (
            {"callbacks": [keras.callbacks.BackupAndRestore("backup")]},
            ValueError,
            "must not hold BackupAndRestore: a run resumes by itself",
        ),
        (
            {"callbacks": [keras.callbacks.SwapEMAWeights()]},
            ValueError,
            "must not hold SwapEMAWeights: .*use_ema=True",
        ),
        ({"metrics": "accuracy"}, TypeError, "`metrics` must be a list .* Received: 'accuracy'"),
        ({"metrics": ["accuracy"]}, ValueError, "has 'accuracy', which task='classify' measures"),
        (
            {"optimizer": 3},
            TypeError,
            "`optimizer` must be an Optimizer, .*: 3",
        ),
        ({"optimizer": "adamm"}, ValueError, "the name of an optimizer .* Received: 'adamm'"),
        (
            {"task": Classify(class_weight=[1, 2])},
            TypeError,
            "`class_weight` must be a dict .* Received",
        ),
        (weighted("even"), TypeError, "or 'balanced'. Received: 'even'"),
        (
            weighted({"d": 1}),
            ValueError,
            "has 'd', which is none of the 3 classes: 'a', 'b', 'c'. Give .* 0 to 2",
        ),
        (
            {"task": Classify(class_weight={3: 1})},
            ValueError,
            "has 3, which is none of the 3 classes",
        ),
        (
            {"task": Classify(class_weight={"a": 1, 0: 2})},
            ValueError,
            "has the class 0 by its name and its id",
        ),
        (
            weighted(dict.fromkeys("abc", 0)),
            ValueError,
            "a weight above 0 for a class that",
        ),
        ({"seed": -1}, ValueError, "`seed` must be an integer from 0 to 4294967295. Received: -1"),
        (
            {"callbacks": [OrbaxCheckpoint("saved")]},
            ValueError,
            r"has OrbaxCheckpoint\(directory='saved'\), which does not end .*: give '/.*saved'",
        ),
        (
            {"task": Classify(class_weight={"a": -1})},
            ValueError,
            "must be a number of at least 0. Received: -1",
        ),
    ],
)
def test_what_fit_would_not_do_is_refused(tmp_path, pretrained, corpus, settings, error, message):
    with pytest.raises(error, match=message):
        finetune(pretrained, corpus / "train.tsv", tmp_path / "out", **SETTINGS | settings)
    assert not (tmp_path / "out" / "recipe.json").exists()


MEASURED = "task='classify' measures accuracy, macro_f1 and loss without `metrics`"
FOREIGN = [
    ("f1", f"`metrics` has 'f1', which is no metric of Keras. .*{MEASURED}"),
    ("F1", f"`metrics` has 'F1', .*{MEASURED}"),
    ("roc_auc", f"`metrics` has 'roc_auc', which is no metric of Keras.* {MEASURED}"),
    ("f1_macro", f"`metrics` has 'f1_macro', .*{MEASURED}"),
    ("Accuracy", "`metrics` has 'Accuracy', which task='classify' measures already"),
    ("MACRO_F1", "`metrics` has 'MACRO_F1', which task='classify' measures already"),
    ("SparseTopKCategoricalAcuracy", "Did you mean 'SparseTopKCategoricalAccuracy'[?]"),
    *(
        (name, rf"take labels of the shape \(None,\) and .* \(None, 3\). .*'{name}'.*{MEASURED}")
        for name in ("AUC", "auc", "Precision", "precision", "recall", "F1Score")
    ),
]


@pytest.mark.parametrize(("name", "message"), FOREIGN, ids=range(len(FOREIGN)))
def test_metrics_that_do_not_fit_are_answered_by_what_is_measured(
    tmp_path, pretrained, corpus, name, message
):
    settings = SETTINGS | {"metrics": [name]}
    with pytest.raises(ValueError, match=message):
        finetune(pretrained, corpus / "train.tsv", tmp_path / "out", **settings)
    assert not (tmp_path / "out" / "recipe.json").exists()


@pytest.mark.once
def test_class_weights_weigh_the_loss(tmp_path, pretrained):
    """Of texts of one word the model can learn nothing but the share of each class."""
    data = (["w1"] * 40, ["a"] * 30 + ["b"] * 10)
    settings = {"epochs": 12, "optimizer": "adamw:0.02", "verbose": 0, "max_length": 8}
    finetune(
        pretrained, data, tmp_path, task=Classify(class_weight={"b": 9}), **settings
    )  # 90 to 30
    logits = load_finetuned(tmp_path).predict(["w1"], verbose=0)[0]
    assert 1 / (1 + np.exp(logits[0] - logits[1])) == pytest.approx(0.75, abs=0.08)


@pytest.mark.once
def test_metrics_are_in_the_history_and_in_the_results(tmp_path, pretrained, corpus):
    entropy = keras.metrics.SparseCategoricalCrossentropy("entropy", from_logits=True)

    class Counts(keras.metrics.Metric):
        """A metric of several numbers, with a config of nothing."""

        def __init__(self):
            super().__init__(name="counts")
            self.counts = self.add_weight(shape=(3,), initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.counts.assign_add(keras.ops.sum(keras.ops.one_hot(y_true, 3), axis=0))

        def result(self):
            return self.counts + 0

    metrics = [entropy, keras.metrics.SparseTopKCategoricalAccuracy(2), Counts()]
    settings = SETTINGS | {"epochs": 2, "metrics": metrics, "test": corpus / "test.tsv"}
    found = finetune(pretrained, corpus / "train.tsv", tmp_path, **settings)
    with open(tmp_path / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    rows = {name: [float(row[name]) for row in rows] for name in rows[0] if "counts" not in name}
    for name in ("entropy", "sparse_top_k_categorical_accuracy"):
        assert rows[f"val_{name}"][-1] == pytest.approx(found["validation"][name], rel=1e-5)
        assert len(rows[name]) == 2
    for role in ("validation", "test"):
        assert found[role]["entropy"] == pytest.approx(found[role]["loss"], rel=1e-4)
        share = found[role]["sparse_top_k_categorical_accuracy"]
        assert found[role]["accuracy"] <= share <= 1
        assert sum(found[role]["counts"]) == found[role]["documents"]
    assert "entropy" in summary(found) and "counts" not in summary(found)
    settings["metrics"] = metrics[1:]
    with pytest.raises(ValueError, match="other settings: metrics was .*'SparseCategoricalCross"):
        finetune(pretrained, corpus / "train.tsv", tmp_path, **settings)


@pytest.mark.once
def test_a_learning_rate_that_a_callback_lowers_outlives_an_interruption(
    tmp_path, pretrained, corpus
):
    def run(name):
        optimizer = keras.optimizers.Adam(0.05, global_clipnorm=1.0)
        plateau = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=9.0)
        callbacks = [plateau, Witness()]
        settings = SETTINGS | {"epochs": 4, "optimizer": optimizer, "callbacks": callbacks}
        finetune(pretrained, corpus / "train.tsv", tmp_path / name, **settings)
        assert float(optimizer.learning_rate) == pytest.approx(0.05)  # it is another's
        return callbacks

    run("whole")
    Witness.dies_in = 2
    try:
        with pytest.raises(KeyboardInterrupt):
            run("parts")
    finally:
        Witness.dies_in = None
    run("parts")
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.once
def test_an_optimizer_by_name_follows_the_schedule(tmp_path, pretrained, corpus):
    settings = SETTINGS | {"epochs": 1, "optimizer": "adamw:1e-3"}
    finetune(pretrained, corpus / "train.tsv", tmp_path, **settings | {"optimizer": "lion:1e-3"})
    assert json.loads((tmp_path / "recipe.json").read_text())["optimizer"] == "lion"
    with pytest.raises(ValueError, match="optimizer was 'lion' and is now None"):
        finetune(pretrained, corpus / "train.tsv", tmp_path, **settings)


def test_averages_are_saved_and_training_goes_on_with_the_weights(tmp_path, pretrained, corpus):
    """The averages of a hand-written loop over the weights of each step."""
    seen = []

    class Steps(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(self.model.get_weights()[:3])

    settings = SETTINGS | {"epochs": 3, "optimizer": "adamw:1e-2", "callbacks": [Steps()]}
    finetune(pretrained, corpus / "train.tsv", tmp_path / "plain", **settings)
    plain, mean = list(seen), None
    for step in plain:
        pairs = zip(mean or step, step, strict=True)
        mean = [0.99 * average + 0.01 * weight for average, weight in pairs]
    seen.clear()
    finetune(
        pretrained,
        corpus / "train.tsv",
        tmp_path / "mean",
        **settings | {"optimizer": Optimizer(learning_rate=1e-2, use_ema=True)},
    )
    for step, other in zip(plain, seen, strict=True):
        np.testing.assert_allclose(step[0], other[0], rtol=1e-4, atol=1e-5)
    saved = load_finetuned(tmp_path / "mean").model.get_weights()[:3]
    for expected, weight, last in zip(mean, saved, plain[-1], strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-4, atol=1e-5)
        assert not np.allclose(weight, last, atol=1e-4)


@pytest.mark.once
def test_callbacks_see_the_averages_that_were_measured(tmp_path, pretrained, corpus):
    """So the best weights that a callback takes back are those with the best measure."""

    class Keeps(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.kept = self.model.get_weights()

    optimizer, keeps = Optimizer(learning_rate=1e-2, use_ema=True), Keeps()
    settings = SETTINGS | {"epochs": 1, "optimizer": optimizer, "callbacks": [keeps]}
    finetune(pretrained, corpus / "train.tsv", tmp_path, **settings)
    for kept, saved in zip(keeps.kept, weights(tmp_path), strict=True):
        np.testing.assert_allclose(kept, saved, rtol=1e-6, atol=1e-7)


@pytest.mark.once
def test_steps_of_an_epoch_that_a_callback_ends_are_those_it_took(tmp_path, pretrained, corpus):
    class Stops(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = True

    settings = SETTINGS | {"callbacks": [Stops()], "token_budget": 64}
    metrics = finetune(pretrained, corpus / "train.tsv", tmp_path / "out", **settings)
    assert (metrics["train"]["epochs"], metrics["train"]["steps"]) == (1, 1)
