"""What the compiler of a TPU says of attention; nothing of it runs, and no TPU is needed."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import keras
import pytest

BENCHMARK = pathlib.Path(__file__).parents[1] / "benchmarks" / "aot.py"
REASON = "libtpu, 0.2 GB, is not installed: `make test-aot` installs it"
pytestmark = [
    pytest.mark.skipif(keras.backend.backend() != "jax", reason="TPUs are JAX's"),
    pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason=REASON),
]


def test_no_program_for_a_tpu_materialises_the_map(tmp_path):
    """The float32 map of 12 heads and 8,192 tokens is 3,072 MB."""
    results = tmp_path / "aot.json"
    options = ["--encodings", "none", "t5", "--modes", "forward", "train with dropout"]
    options += ["--dtypes", "bfloat16", "--results", results]
    command = [sys.executable, BENCHMARK, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(results.read_text())["rows"]
    assert all(row["fits"] for row in rows)
    assert max(row["temporary_mb"] for row in rows) < 3072 / 4
    kernels = {(row["encoding"], row["mode"]): row["kernels"] for row in rows}
    assert kernels == {
        ("none", "forward"): 1,
        ("none", "train with dropout"): 0,
        ("t5", "forward"): 0,
        ("t5", "train with dropout"): 0,
    }
