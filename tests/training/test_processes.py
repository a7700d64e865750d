"""Several processes: what is refused, who writes, and which rows each of them reads."""

import json
import os
import pathlib
import socket
import sys

import keras
import numpy as np
import pytest
from forks import Fork

from keras_posenc import TextBatches, backend, finetune, pretrain, stretch
from keras_posenc.processes.together import by_first, together

TEXTS = ["w1 w2 w3 w4", "w5 w6 w7 w8"] * 4
CALLS = {
    "finetune": lambda *paths: finetune(paths[0], (TEXTS, list("ab") * 4), paths[1]),
    "pretrain": lambda *paths: pretrain(paths[0], TEXTS, paths[1]),
    "stretch": lambda *paths: stretch(paths[0], TEXTS, paths[1]),
}
REASONS = {
    "tensorflow": "with TensorFlow, Keras cannot",
    "torch": "with PyTorch, Keras",
    "jax": "DataParallel",
}


@pytest.mark.parametrize("name", CALLS)
def test_processes_that_would_not_train_one_model_are_refused(
    pretrained, tmp_path, monkeypatch, name
):
    monkeypatch.setattr(backend, "launched_processes", lambda: 2)
    message = f"{name} in 2 processes .*({REASONS[keras.backend.backend()]})"
    with pytest.raises(ValueError, match=message):
        CALLS[name](pretrained, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_several_processes_stretch_into_a_folder_that_all_see(pretrained, monkeypatch):
    module = sys.modules["keras_posenc.training.stretching.stretch"]  # not the function
    monkeypatch.setattr(module, "check_processes", id)
    monkeypatch.setattr(backend, "processes", lambda: (0, 2))
    with pytest.raises(ValueError, match="`output` must be a folder that all processes see"):
        stretch(pretrained, TEXTS)


def test_processes_are_those_of_the_launcher(monkeypatch):
    cluster = {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    monkeypatch.setenv("WORLD_SIZE", "3")
    expected = {"tensorflow": 3, "torch": 3, "jax": 1}
    assert backend.launched_processes() == expected[keras.backend.backend()]
    assert backend.processes() == (0, 1)
    assert backend.gather("x") == ["x"]


@pytest.mark.once
def test_two_processes_read_all_of_each_batch_and_restore_the_order(monkeypatch):
    def read(rank, count):
        monkeypatch.setattr(backend, "processes", lambda: (rank, count))
        texts = [[n + 1] * (1 + n % 9) for n in range(37)]
        return TextBatches(texts, list(range(37)), token_budget=64, seed=3, shuffle=False)

    monkeypatch.setattr(backend, "row_multiple", lambda: 4)
    whole, *shares = read(0, 1), read(0, 2), read(1, 2)
    assert len(whole) == len(shares[0]) == len(shares[1])
    for index in range(len(whole)):
        expected, parts = whole[index], [share[index] for share in shares]
        for place in range(3):
            either = lambda x, place=place: x["token_ids"] if place == 0 else x  # noqa: E731
            rows = [either(part[place]) for part in parts]
            assert len(rows[0]) == len(rows[1])
            np.testing.assert_array_equal(np.concatenate(rows), either(expected[place]))
    found = [np.concatenate([share[i][1] for i in range(len(share))]) for share in shares]
    monkeypatch.setattr(backend, "gather", lambda value: found)
    for share, values in zip(shares, found, strict=True):
        assert share.restore_order(values).tolist() == list(range(37))
        with pytest.raises(ValueError, match="rows of predictions for 37 texts"):
            share.restore_order(values[1:])


@pytest.mark.once
def test_an_error_of_one_process_is_raised_in_all(monkeypatch):
    def fail():
        raise ValueError("no room")

    rows = {}
    monkeypatch.setattr(backend, "gather", lambda value: rows["from"](value))
    monkeypatch.setattr(backend, "processes", lambda: (0, 2))
    rows["from"] = lambda value: [value, None]
    assert by_first(lambda: 5) == 5
    with pytest.raises(ValueError, match="no room"):
        by_first(fail)
    monkeypatch.setattr(backend, "processes", lambda: (1, 2))
    rows["from"] = lambda value: [(7, None), value]
    assert by_first(fail) == 7  # what the first one found, without a call of its own
    rows["from"] = lambda value: [OSError("elsewhere"), value]
    with pytest.raises(OSError, match="elsewhere"):
        together(lambda: 5)
    rows["from"] = lambda value: [None, value]
    assert together(lambda: 5) == 5
    with pytest.raises(ValueError, match="no room"):
        together(fail)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="the others are refused")
def test_two_processes_train_and_use_the_model_of_one(pretrained, tmp_path):
    program = pathlib.Path(__file__).parents[1] / "two_processes.py"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    addresses = f"127.0.0.1:{port},127.0.0.1:{port}"
    several = {"JOB_ADDRESSES": addresses, "NUM_PROCESSES": "2"}

    def start(folder, **env):
        env = {f"KERAS_DISTRIBUTION_{name}": value for name, value in env.items()}
        return Fork("file", program, [pretrained, tmp_path / folder], env={**os.environ, **env})

    both = [start("two", **several, PROCESS_ID=str(rank)) for rank in range(2)]
    found = [process.communicate() for process in (*both, start("one"))]
    assert all(output for output, _ in found), found
    first, second, one = (json.loads(output.splitlines()[-1]) for output, _ in found)
    np.testing.assert_allclose(first, one, rtol=1e-4, atol=1e-5)
    assert first == second
