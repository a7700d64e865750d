"""The benchmark of devices compares with one device, and tells a refusal from a failure."""

import json

import pytest
from benchmark_modules import imported

pytestmark = pytest.mark.once

(devices,) = imported("benchmarks.accelerators", "devices")


def test_each_combination_is_compared_with_one_device(devices, tmp_path):
    results = tmp_path / "devices.json"
    refused = {"refused": "pretrain in 2 processes is not supported: ..."}
    devices.add(results, "jax", 1, 1, {"embed": {"values": [1.0, 2.0]}})
    devices.add(results, "jax", 2, 2, {"embed": {"failed": "a process hung, or died"}})
    found = {"embed": {"values": [1.0, 2.5]}, "pretrain": refused}
    assert devices.cell(found["embed"], found["embed"]) == "0"
    devices.add(results, "jax", 2, 2, found)
    assert len(json.loads(results.read_text())["rows"]) == 3  # the second of `embed` replaced one
    assert results.with_suffix(".md").read_text().splitlines()[2:] == [
        "| jax | 2 | 2 | not run | not run | refused | not run | not run | not run | 5e-01 |"
    ]


def test_processes_have_to_agree(devices):
    one = {"values": [1.0]}
    assert devices.agreed([one, dict(one)]) == one
    assert devices.agreed([one, {"values": [1.1]}]) == {"failed": "they differ"}
    assert devices.agreed([one, None]) == {"failed": "a process hung, or died"}


def test_a_refusal_comes_before_anything_is_written(devices, tmp_path):
    def refuse():
        raise ValueError("finetune in 2 processes is not supported: Keras cannot")

    assert list(devices.attempt(refuse, tmp_path / "none")) == ["refused"]
    assert list(devices.attempt(refuse, tmp_path)) == ["failed"]
    assert devices.attempt(lambda: [1], tmp_path) == {"values": [1.0]}
    assert devices.attempt(lambda: [][0], tmp_path)["failed"].startswith("IndexError: list index")
