"""`devices=`: the same numbers on several devices, and what is refused."""

import contextlib
import json
import os
import pathlib
import pickle
import sys
import threading

import keras
import numpy as np
import pytest
from forks import run_fork

from keras_posenc import backend, embed, finetune, predict, pretrain
from keras_posenc.cli import _divide_processor
from keras_posenc.processes import devices as device_pool
from keras_posenc.processes.devices import count_of
from keras_posenc.training import evaluate

TEXTS = ["w1 w2 w3 w4", "w5 w6", "w7 w8 w9"]
on_torch = keras.backend.backend() == "torch"


@pytest.mark.once
@pytest.mark.parametrize("devices", [0, True, 2.0, "two", "All"])
def test_devices_are_a_number_or_all(devices):
    with pytest.raises(ValueError, match=r"`devices` must be .*Received: "):
        count_of(devices)


@pytest.mark.once
def test_one_device_is_the_default(monkeypatch):
    monkeypatch.setattr(backend, "device_count", lambda: 8)
    assert [count_of(devices) for devices in (None, 1, np.int64(3), "all")] == [1, 1, 3, 8]


@pytest.mark.skipif(not on_torch, reason="the others train on several devices")
def test_training_on_devices_is_refused_by_name(pretrained, finetuned, tmp_path):
    for call in (
        lambda: finetune(pretrained, (TEXTS, list("aba")), tmp_path / "out", devices=2),
        lambda: pretrain(pretrained, TEXTS, tmp_path / "out", devices=2),
        lambda: evaluate(finetuned, (TEXTS, list("aba")), devices=2),
    ):
        with pytest.raises(ValueError, match=r"\w+\(devices=2\) is not supported: with PyTorch, "):
            call()
    with pytest.raises(ValueError, match=r"embed\(devices=2\) on PyTorch is for one vector per te"):
        embed(pretrained, TEXTS, reading="late:5", devices=2)
    assert not (tmp_path / "out").exists()


def test_devices_and_a_distribution_or_processes_are_refused(pretrained, monkeypatch):
    monkeypatch.setattr(backend, "row_multiple", lambda: 2)
    with pytest.raises(ValueError, match="a distribution over devices is set already"):
        embed(pretrained, TEXTS, devices=2)
    monkeypatch.setattr(backend, "launched_processes", lambda: 4)
    with pytest.raises(ValueError, match=r"embed\(devices=2\) is for one process, and 4 were laun"):
        embed(pretrained, TEXTS, devices=2)


@pytest.mark.skipif(on_torch, reason="any number of processes can be started")
def test_more_devices_than_there_are_is_refused(pretrained):
    keras.ops.convert_to_numpy(keras.ops.ones(2) + 1)  # TensorFlow has begun
    with pytest.raises(ValueError, match=r"`devices` must be .*Received: 99; "):
        embed(pretrained, TEXTS, devices=99)


class Thread:
    """A process of `DevicePool` as a thread, since one that imports Keras takes seconds."""

    def __init__(self, command, env, **options):
        ends = os.pipe(), os.pipe()
        requests, self.stdin = os.fdopen(ends[0][0], "rb"), os.fdopen(ends[0][1], "wb")
        self.stdout, answers = os.fdopen(ends[1][0], "rb"), os.fdopen(ends[1][1], "wb")
        self._thread = threading.Thread(target=self._serve, args=(requests, answers))
        self._thread.start()

    def _serve(self, requests, answers):
        with requests, answers, contextlib.suppress(Ends):
            assert pickle.load(requests) == sys.path
            device_pool.serve(requests, answers)

    def kill(self):
        self.stdin.close()

    def communicate(self):
        self._thread.join(60)
        self.stdout.close()

    def wait(self):
        return 3


@pytest.fixture
def threads(monkeypatch):
    monkeypatch.setattr(device_pool.subprocess, "Popen", Thread)


@pytest.mark.skipif(not on_torch, reason="others have several devices in a process")
def test_processes_predict_what_one_does(pretrained, finetuned, tmp_path, threads):
    texts = [*TEXTS, "w3 w9"]
    options = {"max_length": 12, "verbose": 0}
    one = embed(pretrained, texts, **options)
    path = tmp_path / "all.npy"
    written = embed(pretrained, texts, path, part_size=3, devices=2, **options)
    np.testing.assert_allclose(written, one, atol=1e-6)
    expected = predict(finetuned, texts, verbose=0)
    found = predict(finetuned, texts, devices=2, verbose=0)
    assert [each.label for each in found] == [each.label for each in expected]
    scores = [[each.probability for each in results] for results in (found, expected)]
    np.testing.assert_allclose(*scores, atol=1e-6)
    with pytest.raises(ValueError, match="Text 2 is empty"):
        predict(finetuned, ["w1", "w2", ""], devices=2)
    for number in range(4):
        texts[number] += " \ud800"
        with pytest.raises(ValueError, match=f"^Text {number} has half a surrogate"):
            predict(finetuned, texts, verbose=0, devices=2)
        texts[number] = "w1"


class Ends(BaseException):
    """The end of a process."""


class Unpicklable(ValueError):
    def __init__(self, text, more):
        super().__init__(text)
        self.more = more


def failing(how):
    """What a process computes: an error, or its end."""

    def compute(texts, verbose):
        raise Ends if how == "ends" else Unpicklable("no room", lambda: 0)

    return compute


@pytest.mark.once
@pytest.mark.parametrize(
    "how, message",
    [("ends", "process of device 0 ended with status 3"), ("fails", "Unpicklable: no room")],
)
def test_an_error_and_the_end_of_a_process_are_one_error(threads, how, message):
    with device_pool.DevicePool(2, failing, {"how": how}, list) as pool:
        with pytest.raises(RuntimeError, match=message):
            pool(["w1"], 0)


@pytest.mark.once
def test_a_process_sees_one_gpu(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert device_pool._visible(1) == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-7")
    assert [device_pool._visible(n) for n in range(3)] == ["4", "GPU-7", ""]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # none, on purpose
    assert device_pool._visible(1) == ""


@pytest.mark.once
def test_the_command_divides_the_processor(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    for devices in (None, 1, "all"):
        _divide_processor(devices)
        assert os.environ["XLA_FLAGS"] == "--xla_a=1"
    for devices in (4, 8):
        _divide_processor(devices)
        assert os.environ["XLA_FLAGS"] == "--xla_a=1 --xla_force_host_platform_device_count=4"


@pytest.mark.skipif(on_torch, reason="refused")
def test_two_devices_find_what_one_does(pretrained):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    program = pathlib.Path(__file__).parents[1] / "two_devices.py"
    done = run_fork("file", program, [pretrained], env={**os.environ, "XLA_FLAGS": flags})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(*found["vectors"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["losses"], [found["expected"]] * 2, rtol=1e-5)
    two, one = found["in_batch"]
    for name, numbers in one.items():
        np.testing.assert_allclose(two[name], numbers, rtol=1e-4, atol=1e-6, err_msg=name)
    two, one, again = found["weighted"]
    np.testing.assert_allclose([two, again], [one] * 2, rtol=1e-5)
