"""Where a run stands: what is printed, how often, and what a resumed run says."""

import dataclasses
import itertools
import re
import types

import keras
import pytest

from keras_posenc import backend
from keras_posenc.cli import main
from keras_posenc.retrieval import Reranker
from keras_posenc.training import finetune, progress, runs
from keras_posenc.training.finetuning import trainer
from keras_posenc.training.progress import BatchProgress

pytestmark = pytest.mark.once

SCORES = re.compile(r"epoch 2 of 2: loss [.\d]+, accuracy [.\d]+, val_accuracy [.\d]+, ")


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(progress, "time", clock := Clock())
    return clock


def take(progress, clock, steps, seconds):
    for _ in range(steps):
        progress.begin()
        clock.now += seconds
        progress.step(0.5)


def test_a_file_gets_a_line_per_minute(clock):
    lines = []
    take(progress.Progress(1000, 0, lines.append), clock, 1000, 0.5)  # 500 s
    assert lines[0] == "step 1 of 1,000, loss 0.5000, 0 s so far, about 8.3 min left"
    assert lines[1] == "step 121 of 1,000, loss 0.5000, 60 s so far, about 7.3 min left"
    assert len(lines) == 10 and lines[-1].endswith("8.3 min in all")


def test_the_first_step_compiles_and_so_counts_for_no_other(clock):
    lines = []
    run = progress.Progress(100, 0, lines.append)
    take(run, clock, 1, 600)
    take(run, clock, 60, 1)
    assert lines[-1] == "step 61 of 100, loss 0.5000, 11.0 min so far, about 39 s left"


def test_compiling_is_announced_and_left_out_of_the_forecast(clock, monkeypatch):
    """A later shape is compiled, too, and its minutes do not come again."""
    monkeypatch.setattr(backend, "TRAITS", dataclasses.replace(backend.TRAITS, eager=False))
    lines, sizes = [], [100, 100, 200, 200, 100, 100]
    run = progress.Progress(6, 0, lines.append, sizes=sizes)
    for seconds in (300, 10, 400, 20):
        take(run, clock, 1, seconds)
    assert lines == [
        "compiling the first step",
        "step 1 of 6, loss 0.5000, 5.0 min so far",
        "compiling for batches of 200 tokens",
        "step 3 of 6, loss 0.5000, 11.8 min so far, about 40 s left",
    ]
    assert run.times() == "12.2 min so far, about 20 s left"


def test_a_bar_is_not_broken_by_later_shapes(clock, monkeypatch):
    monkeypatch.setattr(backend, "TRAITS", dataclasses.replace(backend.TRAITS, eager=False))
    lines = []
    run = progress.Progress(2, 0, lines.append, reports_steps=False, sizes=[100, 200])
    take(run, clock, 2, 300)
    assert lines == ["compiling the first step"]


def test_what_runs_as_it_is_called_compiles_nothing(clock, monkeypatch):
    monkeypatch.setattr(backend, "TRAITS", dataclasses.replace(backend.TRAITS, eager=True))
    lines = []
    take(progress.Progress(2, 0, lines.append, sizes=[100, 200]), clock, 2, 1)
    assert [line.partition(",")[0] for line in lines] == ["step 1 of 2", "step 2 of 2"]


def test_a_resumed_run_counts_only_what_is_left(clock):
    lines = []
    run = progress.Progress(100, 80, lines.append, reports_steps=False)
    take(run, clock, 10, 2)
    run.epoch(9, 10, "val_accuracy 0.5000, ")
    assert lines == ["epoch 9 of 10: val_accuracy 0.5000, 20 s so far, about 20 s left"]


def test_a_short_run_reports_nothing_and_a_longer_one_its_last_step(clock):
    lines = []
    take(progress.Progress(9, 0, lines.append, after=10), clock, 9, 1)
    assert lines == []
    take(progress.Progress(12, 0, lines.append, unit="batch", after=10), clock, 12, 1)
    assert [line.partition(",")[0] for line in lines] == ["batch 10 of 12", "batch 12 of 12"]


def test_the_time_left_counts_long_batches_more(clock):
    lines = []
    run = progress.Progress(3, 0, lines.append, unit="batch", sizes=[100, 100, 10])
    take(run, clock, 2, 100)
    assert run.times() == "3.3 min so far, about 10 s left"


class Killed(Exception):
    pass


def stop(number):
    """A function that raises when it is called for the `number`-th time."""
    calls = []

    def save(*arguments):
        calls.append(arguments)
        saved(*arguments)
        if len(calls) == number:
            raise Killed

    saved = trainer.save_state
    return save


def test_finetune_says_where_it_stands_and_where_it_resumes(
    capsys, monkeypatch, tmp_path, pretrained, corpus
):
    arguments = (pretrained, corpus / "train.tsv", tmp_path / "out")
    settings = dict(max_length=16, epochs=2, validation=0.25, verbose=2)
    with monkeypatch.context() as patched:
        patched.setattr(trainer, "save_state", stop(1))
        with pytest.raises(Killed):
            finetune(*arguments, **settings)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("step 1 of 2, loss ") and "about" in line for line in lines)
    finetune(*arguments, **settings)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "resuming after epoch 1 of 2"
    (line,) = (line for line in lines if SCORES.match(line))
    assert line.endswith(" s since it was resumed")
    assert lines[1:] == [line, "evaluating 12 documents"]
    finetune(*arguments, **settings | {"verbose": 0})
    assert capsys.readouterr().out == ""


def slow(monkeypatch, clock):
    """Lets each batch that is predicted take a minute by the clock."""
    predicted = BatchProgress.__init__

    def begin(self, batches, verbose):
        predicted(self, batches, verbose)
        step = self.step

        def one_minute():
            clock.now += 60
            step()

        self.step = one_minute

    monkeypatch.setattr(BatchProgress, "__init__", begin)


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "TUNED", "TSV"),
        ("predict", "TUNED", "--file", "TSV"),
        ("predict", "TUNED", "--file", "TSV", "--part-size=20", "--output=OUT.jsonl"),
        ("embed", "BERT", "TSV", "--output=OUT.npy"),
        ("embed", "BERT", "TSV", "--output=OUT.npz", "--reading=late:4"),
        ("embed", "BERT", "TSV", "--output=OUT.npy", "--part-size=20"),
        ("rerank", "CROSS", "w1 w2", "TSV"),
        ("mine", "BERT", "PAIRS", "OUT.jsonl", "--num-negatives=1"),
    ],
    ids=" ".join,
)
def test_a_command_whose_output_is_a_file_reports_its_batches_on_stderr(
    arguments, capsys, monkeypatch, clock, tmp_path, pretrained, finetuned, corpus
):
    slow(monkeypatch, clock)
    pairs = [f"w{n} w{n + 1}\tw{n} w{n + 2}" for n in range(20)]
    (tmp_path / "pairs.tsv").write_text("\n".join(["anchor\tpositive", *pairs]) + "\n")
    Reranker(pretrained, label_names=["score"]).save(tmp_path / "cross")
    paths = {"TUNED": finetuned, "TSV": corpus / "test.tsv", "BERT": pretrained}
    paths |= {"CROSS": tmp_path / "cross", "PAIRS": tmp_path / "pairs.tsv", "OUT": tmp_path / "out"}
    for name, path in paths.items():
        arguments = [each.replace(name, str(path)) for each in arguments]
    if arguments[0] != "mine":  # which has no budget of tokens
        arguments.append("--token-budget=64")
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert re.search(
        r"^batch 1 of \d+, 60 s (so far, about .* left|in all)$", captured.err, re.MULTILINE
    )
    assert "batch 1" not in captured.out and "so far" not in captured.out


def test_of_tags_and_metrics_too(capsys, monkeypatch, clock, tmp_path, pretrained):
    slow(monkeypatch, clock)
    tagged = [([f"w{n}", f"w{n + 1}"], ["O", "B-X"]) for n in range(8)]
    words, tags = map(list, zip(*tagged, strict=True))
    arguments = (pretrained, (words, tags), tmp_path / "out")
    settings = {"task": "tag", "max_length": 8, "epochs": 1, "validation": (words, tags)}
    finetune(*arguments, **settings, verbose=2)
    assert re.search(r"^batch 1 of \d+, 60 s ", capsys.readouterr().err, re.MULTILINE)


def test_the_state_is_written_about_twice_a_minute(monkeypatch, tmp_path):
    """A step of this clock takes three seconds."""
    times, saves = itertools.count(), []
    clock = types.SimpleNamespace(perf_counter=lambda: next(times))
    monkeypatch.setattr(runs, "time", clock)
    monkeypatch.setattr(
        runs, "save_state", lambda state, model, record: saves.append(record["step"])
    )
    compiled = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    compiled.compile("sgd", "mse")
    record = runs.take_steps(compiled, 40, tmp_path / "absent", lambda step: 1.0, dict, print)
    seconds = next(times)
    assert record["step"] == saves[-1] == 40 and record["losses"] == [1.0] * 40
    assert seconds / runs.SAVE_EVERY - 1 <= len(saves) <= seconds / runs.SAVE_EVERY + 1
