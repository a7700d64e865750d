"""What compilers for accelerators say of attention; nothing of it runs, and none is needed."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import keras
import pytest

ROOT = pathlib.Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="TPUs are JAX's")


def needs(package, size):
    reason = f"{package}, {size}, is not installed: `make test-aot` installs it"
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=reason)


def run(benchmark, *options):
    command = [sys.executable, "-m", f"benchmarks.accelerators.{benchmark}", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiled(path, *options):
    """(encoding, mode, dtype) -> row."""
    run("aot", *options, "--results", path)
    rows = json.loads(path.read_text())["rows"]
    assert "--trace-only" in options or all(row["fits"] for row in rows)
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
    # A map of T5 that is filled by reshaping costs 3.1 times plain attention, by slices 2.1.
    t5, plain = (rows[name, "train with dropout", "bfloat16"] for name in ("t5", "none"))
    assert t5["temporary_mb"] < 2.5 * plain["temporary_mb"]


@needs("libtpu", "0.2 GB")
def test_no_look_up_on_a_tpu_compares_cells_with_all_columns(tmp_path):
    """DeBERTa's table has 1,024: by cells, a step selected 2,310 numbers per cell."""
    options = ["--encodings", "deberta", "content_bias", "--modes", "train with dropout"]
    options += ["--dtypes", "bfloat16", "--trace-only"]
    rows = compiled(tmp_path / "aot.json", *options)
    assert max(row["selections"] for row in rows.values()) < 16
    assert len(rows) == 2


@needs("libtpu", "0.2 GB")
def test_whole_programs_for_a_tpu_keep_what_they_need():
    """Attention in blocks, late interaction's products in blocks, two heads of keys instead of
    eight in a cache, and no communication between chips from block to block."""
    rows = json.loads(run("aot_programs").splitlines()[-1])
    assert rows["finetune"]["largest_mb"] < 4 * 4 * 2048**2 * 4 / 2**20 / 4
    assert rows["late interaction"]["largest_mb"] < 64 * 32 * 64 * 256 * 4 / 2**20 / 1.5
    cache = 2 * 4 * 2 * (2048 + 64) * 64 * 4 / 2**20
    assert cache < rows["decoder"]["carried_mb"] < 1.5 * cache
    assert (
        rows["texts over chips"]["loops"] and not rows["texts over chips"]["collectives in loops"]
    )


@needs("jax_cuda12_plugin", "0.2 GB")
def test_no_program_for_a_t4_materialises_the_map(tmp_path):
    """It has no flash attention. The map is 1,536 MB in float16."""
    options = ["--chips", "t4", "--encodings", "none", "t5", "--modes", "forward"]
    rows = compiled(tmp_path / "aot.json", *options, "--dtypes", "float16", "float32")
    assert max(row["largest_mb"] for row in rows.values()) < 1536 / 4
    assert len(rows) == 4


@needs("jax_cuda12_plugin", "0.2 GB")
def test_whole_models_for_an_h100_have_the_kernel_of_cudnn(tmp_path):
    """One per layer; with attention dropout three of Triton, which read and write no map."""
    forward, train = "forward minilm 4x128 0", "train minilm 4x512 0.1"
    options = ["--rows", "posenc-jax", "--results", tmp_path / "aot_gpu.json", "--cases"]
    run("aot_gpu", *options, forward, train)
    programs = json.loads((tmp_path / "aot_gpu.json").read_text())["programs"]
    found = {(program["case"], program["layers"]): program for program in programs}
    assert [found[forward, layers]["fused"] for layers in (1, 2)] == [1, 2]
    assert [found[train, layers]["fused"] for layers in (1, 2)] == [3, 6]
    layer = {key: found[train, 2][key] - found[train, 1][key] for key in ("gb", "kernels")}
    assert layer["gb"] < 4 * 12 * 512**2 * 2 / 1e9 + 0.3
