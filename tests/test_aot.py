"""What the compiler of a TPU says of attention; nothing of it runs, and no TPU is needed."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import keras
import pytest

from keras_posenc.encodings import ENCODINGS

BENCHMARK = pathlib.Path(__file__).parents[1] / "benchmarks" / "aot.py"
REASON = "libtpu, 0.2 GB, is not installed: `make test-aot` installs it"
pytestmark = [
    pytest.mark.skipif(keras.backend.backend() != "jax", reason="TPUs are JAX's"),
    pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason=REASON),
]


def compiled(results, *options):
    """The rows of the benchmark."""
    command = [sys.executable, BENCHMARK, *options, "--dtypes", "bfloat16", "--results", results]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(results.read_text())["rows"]


def test_no_program_for_a_tpu_materialises_the_map(tmp_path):
    """The float32 map of 12 heads and 8,192 tokens is 3,072 MB."""
    options = ["--encodings", "none", "t5", "--modes", "forward", "train with dropout"]
    rows = compiled(tmp_path / "aot.json", *options)
    assert all(row["fits"] for row in rows)
    assert max(row["temporary_mb"] for row in rows) < 3072 / 4
    kernels = {(row["encoding"], row["mode"]): row["kernels"] for row in rows}
    assert kernels == {
        ("none", "forward"): 1,
        ("none", "train with dropout"): 0,
        ("t5", "forward"): 0,
        ("t5", "train with dropout"): 0,
    }


def test_every_encoding_trains_on_a_tpu(tmp_path):
    options = ["--encodings", "all", "--lengths", "256", "--modes", "train"]
    rows = compiled(tmp_path / "aot.json", *options)
    assert [row["encoding"] for row in rows] == list(ENCODINGS)
    assert all(row["fits"] for row in rows)
