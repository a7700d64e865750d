import csv
import json
import shutil
import signal
import time
import zipfile

import keras
import numpy as np
import pytest
from forks import Fork

from keras_posenc.text import read_texts
from keras_posenc.training import evaluate, finetune, load_finetuned

SETTINGS = {
    "validation": 0.25,
    "lengths": [(16, 5), (48, 2)],
    "optimizer": "adamw:1e-2",
    "token_budget": 1024,
    "verbose": 0,
}
FILES = {
    "config.json",
    "history.csv",
    "labels.json",
    "metrics.json",
    "model.keras",
    "recipe.json",
    "steps.csv",
    "tokenizer.json",
}


def weights(directory):
    model = load_finetuned(directory).model
    return [keras.ops.convert_to_numpy(weight) for weight in model.weights]


def read_metrics(directory):
    return json.loads((directory / "metrics.json").read_text("utf-8"))


def assert_same_run(one, other):
    for a, b in zip(weights(one), weights(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    for role in ("validation", "test"):
        a, b = read_metrics(one)[role], read_metrics(other)[role]
        assert a["confusion"] == b["confusion"]
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)


def assert_complete(output):
    names = {path.name for path in output.iterdir()}
    assert names >= FILES
    assert not [name for name in names if "state" in name or "partial" in name]


def test_a_run_leaves_its_files_and_no_scaffold(finetuned):
    assert_complete(finetuned)


def test_it_learns(finetuned):
    metrics = read_metrics(finetuned)
    assert metrics["validation"]["accuracy"] >= 0.75
    assert metrics["test"]["accuracy"] >= 0.75
    assert metrics["labels"] == ["a", "b", "c"]


def test_the_history_has_a_row_an_epoch_and_one_schedule_over_all_stages(finetuned):
    with open(finetuned / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["max_length"] for row in rows] == ["16"] * 5 + ["48"] * 2
    assert [row["epoch"] for row in rows] == list("1234567")
    metrics = read_metrics(finetuned)
    assert float(rows[-1]["val_loss"]) == pytest.approx(metrics["validation"]["loss"], rel=1e-6)
    with open(finetuned / "steps.csv", newline="") as file:
        steps = list(csv.DictReader(file))
    assert len(steps) == metrics["train"]["steps"] == sum(int(row["steps"]) for row in rows)
    assert float(steps[-1]["epoch"]) == 7
    assert float(steps[-1]["loss"]) == pytest.approx(float(rows[-1]["loss"]), rel=1e-5)


def test_a_saved_model_gives_the_metrics_of_the_trained_one(finetuned, corpus):
    again = evaluate(finetuned, corpus / "test.tsv", verbose=0)
    expected = read_metrics(finetuned)["test"]
    assert again["labels"] == ["a", "b", "c"]
    assert again["test"]["confusion"] == expected["confusion"]
    assert again["test"]["loss"] == pytest.approx(expected["loss"], rel=1e-4)


def test_a_finished_run_is_not_run_again(finetuned, pretrained, corpus, capsys):
    before = (finetuned / "model.keras").stat().st_mtime_ns
    for verbose in (0, 2):
        settings = {**SETTINGS, "verbose": verbose}
        metrics = finetune(
            pretrained, corpus / "train.tsv", finetuned, test=corpus / "test.tsv", **settings
        )
        assert metrics == read_metrics(finetuned)
        printed = capsys.readouterr().out
        finished = f"{finetuned} holds this run, finished at {metrics['finished']}: nothing is tr"
        assert printed.startswith(finished) if verbose else not printed
    assert (finetuned / "model.keras").stat().st_mtime_ns == before


@pytest.mark.once
def test_a_killed_run_goes_on_to_the_same_end(tmp_path, finetuned, pretrained, corpus):
    output, state = tmp_path / "run", tmp_path / "run" / "state.zip"
    call = f"""
        from keras_posenc.training import finetune
        finetune(
            {str(pretrained)!r}, {str(corpus / "train.tsv")!r}, {str(output)!r},
            test={str(corpus / "test.tsv")!r}, **{SETTINGS!r},
        )
        """
    process = Fork("code", call)
    deadline = time.time() + 240
    while not state.exists() and process.poll() is None and time.time() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with zipfile.ZipFile(state) as archive:
        done = len(json.loads(archive.read("record.json"))["history"])
    assert 1 <= done < 7 and not (output / "metrics.json").exists()
    (output / ".partial-abcd_123").mkdir()
    (output / ".partial-abcd_123" / "state.zip").write_bytes(b"what a kill while writing leaves")

    metrics = finetune(
        pretrained, corpus / "train.tsv", output, test=corpus / "test.tsv", **SETTINGS
    )
    assert metrics["train"]["epochs"] == 7
    assert_same_run(output, finetuned)
    assert_complete(output)


@pytest.mark.once
def test_another_seed_is_another_run(tmp_path, finetuned, pretrained, corpus):
    settings = {**SETTINGS, "lengths": [(16, 1)]}
    for seed in (0, 1):
        finetune(pretrained, corpus / "train.tsv", tmp_path / str(seed), seed=seed, **settings)
    one, other = weights(tmp_path / "0"), weights(tmp_path / "1")
    assert not np.allclose(one[-2], other[-2])


@pytest.mark.once
def test_other_settings_in_the_same_directory_are_refused(finetuned, pretrained, corpus):
    with pytest.raises(
        ValueError,
        match=r"run with other settings: learning_rate was 0.01 and is now 0.1. .*overwrite=True",
    ):
        finetune(
            pretrained,
            corpus / "train.tsv",
            finetuned,
            test=corpus / "test.tsv",
            **{**SETTINGS, "optimizer": "adamw:0.1"},
        )


@pytest.mark.once
def test_other_documents_in_the_same_directory_are_refused(finetuned, pretrained, corpus):
    words = "other settings: test was content with the digest [0-9a-f]{16} and is now None"
    with pytest.raises(ValueError, match=words):
        finetune(pretrained, corpus / "train.tsv", finetuned, **SETTINGS)


SPLITS = [
    ({"validation": 0.5}, "validation was 0.25 and is now 0.5. Give"),
    ({"validation": None}, "validation was 0.25 and is now None. Give"),
    ({"validation": "test"}, "validation was 0.25 and is now content with the digest"),
    ({"seed": 7}, "seed was 0 and is now 7. Give"),
    ({"seed": 7, "validation": 0.5}, "seed was 0 and is now 7; validation was 0.25 and is now 0.5"),
    ({"train": "test"}, "train was content .*; validation was content with the digest"),
]


@pytest.mark.once
@pytest.mark.parametrize(("changes", "words"), SPLITS, ids=range(len(SPLITS)))
def test_another_split_is_named_by_what_splits(finetuned, pretrained, corpus, changes, words):
    changes = {name: corpus / "test.tsv" if x == "test" else x for name, x in changes.items()}
    arguments = {"train": corpus / "train.tsv", "output": finetuned, **SETTINGS, **changes}
    with pytest.raises(ValueError, match=f"other settings: {words}"):
        finetune(pretrained, test=corpus / "test.tsv", **arguments)


@pytest.mark.once
def test_a_record_without_the_fraction_that_is_held_out(tmp_path, finetuned, pretrained, corpus):
    """As version 0.5.0 wrote it."""
    record = json.loads((finetuned / "recipe.json").read_text())
    record.pop("held_out")
    (tmp_path / "recipe.json").write_text(json.dumps(record))
    for name in FILES - {"recipe.json"}:
        (tmp_path / name).write_bytes((finetuned / name).read_bytes())
    arguments = {"train": corpus / "train.tsv", "output": tmp_path, "test": corpus / "test.tsv"}
    assert finetune(pretrained, **arguments, **SETTINGS) == read_metrics(tmp_path)
    with pytest.raises(ValueError, match="other settings: train was content .*; validation was co"):
        finetune(pretrained, **arguments, **{**SETTINGS, "validation": 0.5})


@pytest.mark.once
def test_overwrite_starts_anew(tmp_path, pretrained, corpus):
    data = read_texts(corpus / "train.tsv")
    settings = {**SETTINGS, "lengths": [(16, 1)]}
    first = finetune(pretrained, data, tmp_path, **settings)
    settings["optimizer"] = "adamw:1e-3"
    second = finetune(pretrained, data, tmp_path, overwrite=True, **settings)
    assert first["validation"]["loss"] != second["validation"]["loss"]
    assert read_metrics(tmp_path) == second


@pytest.mark.once
def test_positions_that_a_stretch_adds_are_saved(tmp_path, pretrained, corpus):
    settings = {**SETTINGS, "lengths": [(24, 1)], "extension": "fresh"}
    metrics = finetune(pretrained, corpus / "train.tsv", tmp_path, **settings)
    again = evaluate(tmp_path, corpus / "train.tsv", verbose=0)
    assert metrics["validation"]["documents"] + metrics["train"]["documents"] == 48
    assert again["test"]["documents"] == 48
    paths = [weight.path for weight in load_finetuned(tmp_path).model.weights]
    assert any(path.endswith("Embedding-Position/fresh") for path in paths)


@pytest.mark.once
def test_documents_longer_than_a_stage_are_left_to_later_ones(tmp_path, pretrained):
    """With a document a batch, a stage has as many steps as documents that it reads."""
    texts = [" ".join(["w1"] * words) for words in (5, 14, 15, 40)] * 2
    data = (texts, ["a"] * 4 + ["b"] * 4)
    settings = dict(lengths=[(16, 1), (20, 1), (42, 1)], longer="skip", token_budget=1, verbose=0)
    finetune(pretrained, data, tmp_path / "run", **settings)
    with open(tmp_path / "run" / "history.csv", newline="") as file:
        assert [row["steps"] for row in csv.DictReader(file)] == ["4", "6", "8"]
    with pytest.raises(ValueError, match="No document of train fits in 6 tokens, the shortest has"):
        finetune(pretrained, data, tmp_path / "none", lengths=[(6, 1)], longer="skip")


@pytest.mark.once
def test_what_a_later_stage_reads_is_not_reported_as_cut_off(tmp_path, pretrained, caplog):
    texts = [" ".join(["w2"] * words) for words in (5, 14, 15, 41)] * 2
    data = (texts, ["a"] * 4 + ["b"] * 4)
    finetune(pretrained, data, tmp_path / "all", lengths=[(16, 1), (43, 1)], verbose=0)
    assert "cut off" not in caplog.text
    finetune(pretrained, data, tmp_path / "cut", lengths=[(16, 1), (42, 1)], verbose=0)
    (line,) = [line for line in caplog.messages if "cut off" in line]
    assert line.startswith("2 of 8 texts are longer than max_length=42")


@pytest.mark.once
def test_a_file_as_output_is_refused(tmp_path, pretrained, corpus):
    (tmp_path / "out").write_text("")
    with pytest.raises(NotADirectoryError, match="out' is a file; give a directory"):
        finetune(pretrained, corpus / "train.tsv", tmp_path / "out", **SETTINGS)


@pytest.mark.once
def test_one_label_is_refused(tmp_path, pretrained):
    with pytest.raises(ValueError, match="train has one label only, 'a'"):
        finetune(pretrained, (["w1", "w2"], ["a", "a"]), tmp_path / "out")


@pytest.mark.once
def test_a_label_that_the_training_lacks_is_named_with_its_line(tmp_path, pretrained, corpus):
    (tmp_path / "test.tsv").write_text("text\tlabel\nw1 w2\ta\nw1 w2\tz\n")
    with pytest.raises(ValueError, match="test, line 3: the label 'z' is none of the training's 3"):
        finetune(pretrained, corpus / "train.tsv", tmp_path / "out", test=tmp_path / "test.tsv")


@pytest.mark.once
def test_a_damaged_file_of_a_finished_run_is_named(tmp_path, finetuned):
    shutil.copytree(finetuned, tmp_path / "run")
    for name, text, message in (
        ("labels.json", "[]", "it holds a list"),
        ("labels.json", "{}", "it lacks labels"),
        (
            "labels.json",
            '{"labels": 3, "max_length": 1, "token_budget": 1}',
            "should be a list, not 3",
        ),
        (
            "labels.json",
            '{"labels": "ab", "max_length": 1, "token_budget": 1}',
            "should be a list, not 'ab'",
        ),
    ):
        (tmp_path / "run" / name).write_text(text)
        with pytest.raises(ValueError, match=rf"labels\.json is damaged \(.*{message}"):
            load_finetuned(tmp_path / "run")
    for labels in (["a"], ["a", "a", "b"], ["a", "b", "c", "d"]):
        settings = {"labels": labels, "max_length": 1, "token_budget": 1}
        (tmp_path / "run" / "labels.json").write_text(json.dumps(settings))
        with pytest.raises(ValueError, match=r"run: `label_names` must list 3 names, each once"):
            load_finetuned(tmp_path / "run")


@pytest.mark.once
def test_a_checkpoint_is_stretched_first(tmp_path, pretrained, corpus):
    """Without labels, on long texts; then the positions are those of the stretched checkpoint."""
    texts = [" ".join(f"w{n % 35}" for n in range(i, i + 300)) for i in range(3)]
    settings = dict(lengths=[(48, 1)], optimizer="adamw:1e-3", token_budget=1024, verbose=0)
    train = corpus / "train.tsv"
    metrics = finetune(pretrained, train, tmp_path / "run", stretch_first=texts, **settings)
    assert metrics["stretched"]["length"] == 48 and len(metrics["stretched"]["losses"]) == 64
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["max_position_embeddings"] == 48
    again = finetune(pretrained, train, tmp_path / "run", stretch_first=texts, **settings)
    assert again == metrics
    with pytest.raises(
        ValueError, match="other settings: stretch_first was content with the digest"
    ):
        finetune(pretrained, train, tmp_path / "run", stretch_first=texts[:2], **settings)


@pytest.mark.once
def test_an_error_comes_before_the_stretching(tmp_path, pretrained, corpus):
    given = dict(stretch_first=["w1 w2 " * 150] * 3, lengths=[(3, 1), (48, 1)], verbose=0)
    for change, message in (
        ({"freeze": "nothing.*"}, "'nothing.*', which matches none"),
        ({"longer": "skip"}, "No document of train fits in 3 tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            finetune(pretrained, corpus / "train.tsv", tmp_path / "run", **given, **change)
        assert not (tmp_path / "run" / "stretched").exists()
