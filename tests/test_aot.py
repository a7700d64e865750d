"""What compilers for accelerators say of attention; nothing of it runs, and none is needed."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import keras
import pytest

BENCHMARK = pathlib.Path(__file__).parents[1] / "benchmarks" / "aot.py"
pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="TPUs are JAX's")


def needs(package, size):
    reason = f"{package}, {size}, is not installed: `make test-aot` installs it"
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=reason)


def compiled(path, *options):
    """(encoding, mode, dtype) -> row."""
    command = [sys.executable, BENCHMARK, *options, "--results", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["rows"]
    assert all(row["fits"] for row in rows)
    return {(row["encoding"], row["mode"], row["dtype"]): row for row in rows}


@needs("libtpu", "0.2 GB")
def test_no_program_for_a_tpu_materialises_the_map(tmp_path):
    """The float32 map of 12 heads and 8,192 tokens is 3,072 MB."""
    options = ["--encodings", "none", "t5", "--modes", "forward", "train with dropout"]
    rows = compiled(tmp_path / "aot.json", *options, "--dtypes", "bfloat16")
    assert max(row["temporary_mb"] for row in rows.values()) < 3072 / 4
    assert max(row["largest_mb"] for row in rows.values()) < 3072 / 16
    for (encoding, mode, _), row in rows.items():
        assert row["kernels"] == (encoding == "none" and mode == "forward")


@needs("jax_cuda12_plugin", "0.2 GB")
def test_no_program_for_a_t4_materialises_the_map(tmp_path):
    """It has no flash attention. The map is 1,536 MB in float16."""
    options = ["--chips", "t4", "--encodings", "none", "t5", "--modes", "forward"]
    rows = compiled(tmp_path / "aot.json", *options, "--dtypes", "float16", "float32")
    assert max(row["largest_mb"] for row in rows.values()) < 1536 / 4
    assert len(rows) == 4
