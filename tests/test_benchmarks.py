"""The benchmark of the peers measures, merges row by row, and judges by the rows it has."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.once

BENCHMARKS = pathlib.Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def targets(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import targets

    return targets


def line(row, mode, batch, length, seconds, peak_mb, others=0.0):
    place = {"row": row, "mode": mode, "model": "minilm", "batch": batch, "length": length}
    return {**place, "seconds": seconds, "peak_mb": peak_mb, "others": others}


def test_the_small_edition_adds_to_the_results_and_writes_the_page(tmp_path):
    results = tmp_path / "peers.json"
    kept = line("kerashub-jax", "forward", 2, 32, 0.5, 900, others=0.3)
    replaced = line("posenc-torch", "forward", 2, 32, 99.0, 1)
    results.write_text(json.dumps({"rows": [kept, replaced]}))
    options = ["--small", "--rows", "posenc-torch", "matmul-numpy", "--shapes", "2x32"]
    subprocess.run(
        [sys.executable, BENCHMARKS / "peers.py", *options, "--modes", "limit", "forward"]
        + ["--results", results],
        check=True,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    rows = {r["row"]: r for r in json.loads(results.read_text())["rows"]}
    assert set(rows) == {"kerashub-jax", "posenc-torch", "matmul-numpy"}
    assert rows["kerashub-jax"] == kept
    assert rows["matmul-numpy"]["gflops"] > 1
    mine = rows["posenc-torch"]
    assert 0 < mine["seconds"] < 60 and mine["peak_mb"] > 100 and mine["turns"] == 1
    page = results.with_suffix(".md").read_text()
    assert "| kerashub-jax | 0.500* " in page and "2 x 32" in page
    assert results.with_suffix(".png").stat().st_size > 10_000


def test_a_target_is_judged_by_the_ratio_of_its_rows(targets):
    lines = [
        line("posenc-jax", "forward", 4, 512, 0.25, 900),
        line("posenc-tf", "forward", 4, 512, 0.15, 900),
        line("onnxruntime", "forward", 4, 512, 0.20, 900),
        line("posenc-jax", "forward", 9, 512, 0.01, 900),  # another batch
    ]
    text = targets.section(lines)
    assert "| forward as fast as onnxruntime, JAX | 512 | 1.00x | 0.80x | missed |" in text
    assert "| forward as fast as onnxruntime, TF | 512 | 1.00x | 1.33x | met |" in text
    assert "KerasHub" not in text
    assert targets.section(lines[2:]) == ""


@pytest.mark.parametrize(("last", "verdict"), [(4000, "met"), (16000, "missed")])
def test_memory_is_linear_or_not(targets, last, verdict):
    peaks = [(2048, 1000), (4096, 2000), (8192, last)]
    text = targets.section([line("posenc-jax", "train", 1, t, 1.0, mb) for t, mb in peaks])
    assert text.endswith(f" {verdict} |")
