"""Runs every notebook at a small size, as a reader would from the notebooks' folder."""

import base64
import os
import pathlib
import re

import nbclient
import nbformat
import pytest

pytestmark = pytest.mark.once

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_POSENC_SMALL", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    notebook = nbformat.read(path, as_version=4)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "benchmarks").symlink_to(FOLDER.parent / "benchmarks")
    resources = {"metadata": {"path": str(tmp_path / "notebooks")}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_says_what_it_needs(path):
    """A run time, and a first cell that installs the package where it is missing."""
    first, install, *_ = nbformat.read(path, as_version=4).cells
    assert re.search(r"^Run time: .*minutes", first.source, re.MULTILINE) and "GPU" in first.source
    assert "%pip install" in install.source
    assert 'find_spec("keras_posenc") is None' in install.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_committed_with_its_outputs(path):
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert all(cell.execution_count for cell in cells), "run it in full before committing it"
    assert any(cell.outputs for cell in cells)
    assert not any(o.output_type == "error" for cell in cells for o in cell.outputs)
    pictures = [o.get("data", {}).get("image/png") for cell in cells for o in cell.outputs]
    for picture in filter(None, pictures):
        assert base64.b64decode(picture, validate=False).startswith(b"\x89PNG")
    assert "KERAS_POSENC_SMALL" not in os.environ
