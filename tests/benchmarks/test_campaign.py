import json
import pathlib
import signal
import time

import pytest
from forks import Fork

from benchmarks.extrapolation.campaign import FIRST_TRIAL, _contender, _planned, bench, runs_of
from benchmarks.extrapolation.run import Contender
from benchmarks.extrapolation.settings import Settings
from benchmarks.extrapolation.shell_command import commands_of
from benchmarks.extrapolation.table import read_results, to_table
from benchmarks.extrapolation.task_batches import TRIAL_TEST

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[2]

TINY = dict(
    layers=1,
    size=8,
    heads=2,
    batch_size=4,
    train_lengths=[3],
    test_lengths=[4, 6],
    test_samples=8,
    test_scored=1,
)


def run(output, **arguments):
    arguments = {"steps": 2, "seeds": [0], "verbose": False, **TINY, **arguments}
    return bench(["bucket_sort"], output=output, **arguments)


def test_a_killed_run_goes_on_to_the_same_end(tmp_path):
    """The kill comes after the first hundred steps are saved, in the middle of the others."""
    program = (
        "from benchmarks.extrapolation.campaign import bench\n"
        f"bench(['bucket_sort'], seeds=[1], steps=110, output={str(tmp_path / 'killed')!r}, "
        f"encodings=['rotary'], positions=['sorted'], learning_rate=0.01, **{TINY!r})\n"
    )
    # The rest of the steps would take seconds: the state is looked for far more often.
    state = tmp_path / "killed" / "states" / "bucket_sort--transformer--rotary--sorted--1.zip"
    process = Fork("code", program)
    while not state.exists():
        assert process.poll() is None, "The run ended before it saved a state."
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "results.json").exists()
    arguments = dict(seeds=[1], steps=110, encodings=["rotary"], positions=["sorted"])
    arguments["learning_rate"] = 0.01
    (resumed,), (alone,) = (run(tmp_path / name, **arguments) for name in ("killed", "alone"))
    assert len(alone["losses"]) == 2
    assert resumed["losses"] == pytest.approx(alone["losses"], abs=1e-5)
    assert resumed["accuracy"] == alone["accuracy"]
    assert not state.exists()


def test_a_state_of_other_settings_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Contender, "test", lambda *_: pytest.exit("stopped"))
        with pytest.raises(pytest.exit.Exception):
            run(tmp_path, steps=100, learning_rate=1e-3)
    with pytest.raises(ValueError, match="trained with other settings: delete it"):
        run(tmp_path, steps=100, learning_rate=1e-1)


def test_what_is_done_is_not_repeated(tmp_path):
    (first,) = run(tmp_path)
    changed = {**first, "accuracy": {"test": {"4": 0.5, "6": 0.25}}}
    (tmp_path / "results.json").write_text(json.dumps([changed]))
    assert run(tmp_path) == [changed]
    both = run(tmp_path, seeds=[0, 1])
    assert [result["seed"] for result in both] == [0, 1]
    assert json.loads((tmp_path / "results.json").read_text()) == both
    assert (tmp_path / "table.md").read_text() == f"{to_table(both)}\n"
    with pytest.raises(ValueError, match="made with steps=2, not 3: give another output"):
        run(tmp_path, steps=3)


def test_trained_lengths_are_tested_with_the_longer_ones(tmp_path):
    (result,) = run(tmp_path, train_lengths=[1, 2, 3], test_scored=50)
    accuracy, scored = result["accuracy"]["test"], result["scored"]["test"]
    assert list(accuracy) == list(scored) == ["1", "2", "3", "4", "6"]
    # Full batches of 25 rows.
    assert list(scored.values()) == [50, 50, 75, 100, 150]
    assert result["steps"] == 2 and len(result["validation"]) == 1
    assert result["versions"].keys() >= {"keras", "backend", "python"}
    assert commands_of([result]).startswith(f"KERAS_BACKEND={result['versions']['backend']} python")


def test_trials_have_different_seeds_and_test_samples(tmp_path):
    words = "seeds 0 and 1000: those from 1000 on are trials, by which settings are chosen"
    with pytest.raises(ValueError, match=words):
        run(tmp_path / "mixed", seeds=[0, 1000])
    assert not (tmp_path / "mixed").exists()
    (trial,) = run(tmp_path / "trial", seeds=[1000], test_scored=300)
    contender = _contender(
        runs_of(["bucket_sort"], ["transformer"], ["none"], ["consecutive"], [1000])[0],
        Settings(steps=2, **{**TINY, "test_scored": 300}),
    )
    contender.train(1000, tmp_path / "state.zip", _nothing)
    assert trial["accuracy"] == contender.test(TRIAL_TEST)["accuracy"]
    assert trial["accuracy"] != contender.test()["accuracy"]


def test_the_table_has_no_trials():
    paths = sorted((ROOT / "benchmarks" / "results" / "bench").glob("*.json"))
    assert paths
    for path in paths:
        assert all(result["seed"] < FIRST_TRIAL for result in read_results(path)), path


def test_runs_of_one_contender_are_side_by_side():
    runs = runs_of(["even_pairs"], ["gau", "lstm"], ["none", "t5"], ["consecutive"], [0, 1])
    assert [(r.model, r.encodings, r.seed) for r in runs] == [
        *[("gau", "none", 0), ("gau", "none", 1), ("gau", "t5", 0), ("gau", "t5", 1)],
        *[("lstm", "none", 0), ("lstm", "none", 1)],
    ]
    with pytest.raises(ValueError, match="Unknown model 'gru': there are cnn, gau, lstm"):
        runs_of(["even_pairs"], ["gru"], [], [], [])
    with pytest.raises(ValueError, match="Unknown task 'sorting': there are "):
        runs_of(["sorting"], ["gau"], [], [], [])


def test_a_mistake_in_the_last_run_is_found_before_the_first():
    words = "xpos is for causal attention, and even_pairs looks both ways: take a task such as"
    with pytest.raises(ValueError, match=words):
        runs_of(["flip_flop", "even_pairs"], ["transformer"], ["none", "xpos"], ["pose"], [0])
    assert len(runs_of(["flip_flop"], ["transformer"], ["none", "xpos"], ["pose"], [0])) == 2
    with pytest.raises(ValueError, match="Unknown encoding 'xpoz'"):
        runs_of(["flip_flop"], ["transformer"], ["none", "xpoz"], ["pose"], [0])


@pytest.mark.parametrize("ids", [{"positions": ["sorted"]}, {"encodings": ["learned"]}])
def test_texts_without_ids_are_found_before_the_first_run(tmp_path, ids):
    words = (
        "bucket_sort at length 20: 48 places with padding. Position 47 does not exist: .* 0 to 39"
    )
    with pytest.raises(ValueError, match=words):
        run(tmp_path / "out", **ids, max_position=40, test_lengths=[20])
    assert not (tmp_path / "out").exists()


def test_a_result_tells_the_corpus_and_not_where_it_lies(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("to be or not to be " * 30)
    arguments = {**TINY, "models": ["gau"], "encodings": ["cope"], "corpus": str(path)}
    arguments |= {"output": tmp_path / "out", "steps": 1, "seeds": [0], "verbose": False}
    (result,) = bench(["masked_language_model"], **arguments)
    assert result["settings"]["corpus"] == "text.txt"
    assert bench(["masked_language_model"], **arguments) == [result]


def test_answers_in_texts_are_counted_by_place(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("to be or not to be " * 30)
    arguments = {**TINY, "encodings": ["rotary"], "corpus": str(path), "test_lengths": [3, 8]}
    arguments |= {"output": tmp_path / "out", "steps": 1, "seeds": [0], "verbose": False}
    (result,) = bench(["language_model"], **arguments)
    short, long = result["by_place"]["test"].values()
    assert short["scored"] == [24] and long["scored"] == [24, 24, 16]
    assert sum(long["right"]) / 64 == result["accuracy"]["test"]["8"]
    assert list(result["by_context"]["test"]) == ["3", "8"]
    table = (tmp_path / "out" / "table.md").read_text()
    assert " far " in table and "| 3 | 8 | longest against trained |" in table


def test_a_budget_becomes_steps_once(tmp_path):
    runs = runs_of(["bucket_sort"], ["transformer"], ["none"], ["consecutive"], [0, 1])
    settings = {**TINY, "train_lengths": (3,), "test_lengths": (4,)}
    with pytest.raises(ValueError, match="compiling and testing 2 runs alone take"):
        _planned(tmp_path, runs, settings, 1e-6, _nothing)
    steps = _planned(tmp_path, runs, settings, 60, _nothing)
    assert steps > 100
    assert _planned(tmp_path, runs, settings, 60, _nothing) == steps
    with pytest.raises(ValueError, match="made for a budget of 60 minutes, not 50"):
        _planned(tmp_path, runs, settings, 50, _nothing)


def test_steps_or_a_budget():
    for arguments in ({"steps": None}, {"budget": 1}):
        with pytest.raises(ValueError, match="Give either steps or budget"):
            run("unused", **arguments)
    for budget in (float("nan"), float("inf"), 0, "5"):
        with pytest.raises(ValueError, match="`budget` must be a positive number: it is in min"):
            run("unused", steps=None, budget=budget)


def _nothing(*words, **options):
    pass
