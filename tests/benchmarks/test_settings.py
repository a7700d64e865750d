import pytest

from benchmarks.extrapolation import settings
from benchmarks.extrapolation.settings import (
    Settings,
    encodings_of,
    lengths_of,
    positions_of,
    task_of,
)

pytestmark = pytest.mark.once


def test_encodings_know_what_the_task_is():
    absolute, specs = encodings_of("learned+alibi+log_n", causal=False, train_length=80)
    assert absolute == [("learned", {})]
    assert specs == [
        {"name": "alibi", "direction": "symmetric"},
        {"name": "log_n", "train_length": 80},
    ]
    _, specs = encodings_of("cope:npos_max=16,gate=values+log_n:train_length=9", True, 80)
    assert specs[0] == {
        "name": "cope",
        "bidirectional": False,
        "npos_max": 16,
        "gate": "values",
    }
    assert specs[1]["train_length"] == 9
    assert encodings_of("none", True, 80) == ([], [])


def test_positions():
    assert positions_of("consecutive", 512, 80) is None
    sampled = {"method": "sorted", "max_position": 512, "inference": "sampled"}
    assert positions_of("sorted", 512, 80) == sampled
    spread = positions_of("sorted:inference=spread,max_position=99", 512, 80)
    assert spread == {"method": "sorted", "max_position": 99, "inference": "spread"}
    assert positions_of("beta", 512, 80)["train_length"] == 80


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: encodings_of("alibbi", True, 8), "Unknown encoding 'alibbi': there are alibi, "),
        (lambda: encodings_of("alibi:causal", True, 8), "'alibi:causal': write an argument as"),
        (
            lambda: positions_of("random", 9, 8),
            "Unknown kind of positions .random.: there",
        ),
        (lambda: positions_of("sorted+beta", 9, 8), "'sorted.beta' is 2 parts: give one kind of"),
        (lambda: task_of("counting:names=1"), "counting has no 'names'; there are split, variab"),
        (lambda: task_of("language_model"), "language_model needs a text file: give corpus"),
        (lambda: Settings(steps=0), "`steps` must be a positive integer. Received: 0"),
        (lambda: Settings(steps=1, size=24, heads=8), "a multiple of twice the heads"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_lengths_are_the_published_ones_unless_given():
    task = task_of("even_pairs")
    train, test = lengths_of(task, Settings(steps=1))
    assert (min(train), max(train), test) == (1, 40, (41, 50, 100, 200, 300, 500))
    assert lengths_of(task, Settings(steps=1, test_lengths=(60,)))[1] == (60,)
    assert lengths_of(task_of("counting"), Settings(steps=1))[0] == (64,)


def test_a_task_is_written_with_its_arguments():
    assert task_of("counting:variables=1").variables == 1
    splits = settings.splits_of("counting:variables=5,split=dense")
    assert [(task.split, task.variables) for task in splits.values()] == [
        *[("train", 5), ("sparse", 5), ("dense", 5)],
    ]
    assert settings.file_name("counting:variables=5") == "counting-variables=5"


def test_splits(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abcdefgh" * 50)
    assert list(settings.splits_of("even_pairs")) == ["test"]
    assert list(settings.splits_of("flip_flop")) == ["train", "sparse", "dense"]
    ((split, task),) = settings.splits_of("language_model", str(path)).items()
    assert (split, task.split) == ("test", "test")
