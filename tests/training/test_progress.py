"""Where a run stands: what is printed, how often, and what a resumed run says."""

import pytest

from keras_posenc.training import finetune, progress, trainer

pytestmark = pytest.mark.once


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
        clock.now += seconds
        progress.step(0.5)


def test_a_file_gets_a_line_per_minute(clock):
    lines = []
    take(progress.Progress(1000, 0, lines.append), clock, 1000, 0.5)  # 500 s
    assert lines[0] == "step 1 of 1,000, loss 0.5000, 0 s so far, about 8.3 min left"
    assert lines[1] == "step 121 of 1,000, loss 0.5000, 60 s so far, about 7.3 min left"
    assert len(lines) == 10 and lines[-1].endswith("8.3 min so far, about 0 s left")


def test_the_first_step_compiles_and_so_counts_for_no_other(clock):
    lines = []
    run = progress.Progress(100, 0, lines.append)
    take(run, clock, 1, 600)
    take(run, clock, 60, 1)
    assert lines[-1] == "step 61 of 100, loss 0.5000, 11.0 min so far, about 39 s left"


def test_a_resumed_run_counts_only_what_is_left(clock):
    lines = []
    run = progress.Progress(100, 80, lines.append, reports_steps=False)
    take(run, clock, 10, 2)
    run.epoch(9, 10, "val_accuracy 0.5000, ")
    assert lines == ["epoch 9 of 10: val_accuracy 0.5000, 20 s so far, about 20 s left"]


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
    (line,) = (line for line in lines if line.startswith("epoch 2 of 2: val_accuracy "))
    assert line.endswith("about 0 s left")
    assert lines[lines.index(line) + 1] == "evaluating 12 documents"
    finetune(*arguments, **settings | {"verbose": 0})
    assert capsys.readouterr().out == ""
