"""Runs every notebook at a small size, as a reader would from the notebooks' folder."""

import base64
import os
import pathlib
import re

import nbformat
import pytest
from forks import run_fork

pytestmark = pytest.mark.once

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


# IPython without the kernel around it, which would import Keras again for each notebook.
RUN = """
    import sys
    import nbformat
    from IPython.core.interactiveshell import InteractiveShell

    class Shell(InteractiveShell):
        def enable_gui(self, gui=None):
            pass

    shell = Shell.instance()
    for cell in nbformat.read(sys.argv[1], as_version=4).cells:
        if cell.cell_type == "code":
            shell.run_cell(cell.source, store_history=True).raise_error()
    """


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "benchmarks").symlink_to(FOLDER.parent / "benchmarks")
    small = {**os.environ, "KERAS_POSENC_SMALL": "1", "MPLBACKEND": "Agg"}
    done = run_fork("code", RUN, [path], env=small, cwd=tmp_path / "notebooks")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


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
