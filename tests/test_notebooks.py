"""Runs every notebook, at a small size, from the notebooks' folder.

A reader sees the sizes of the full run only. What the tests put in their place stands in the
metadata of a cell: pairs (text of the cell, text to run instead).
"""

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
            source = cell.source
            for full, small in cell.metadata.get("small", ()):
                assert source.count(full) == 1, full
                source = source.replace(full, small)
            shell.run_cell(source, store_history=True).raise_error()
    """


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "benchmarks").symlink_to(FOLDER.parent / "benchmarks")
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = run_fork("code", RUN, [path], env=environment, cwd=tmp_path / "notebooks")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_a_tutorial(path):
    """Title, what one builds, result and run time first; then a hidden cell that sets up, and no
    switch between sizes; somewhere a figure."""
    notebook = nbformat.read(path, as_version=4)
    first, setup, *cells = notebook.cells
    assert re.match("# .+\n\n", first.source)
    for start in (
        r"\*\*You will build\*\* ",
        r"\*\*Result:\*\* ",
        "Run time: .*(minute|second)s? ",
    ):
        assert re.search(f"^{start}", first.source, re.MULTILINE), start
    assert "GPU" in first.source
    assert "%pip install" in setup.source
    assert 'find_spec("keras_posenc") is None' in setup.source
    assert setup.metadata["jupyter"]["source_hidden"] and "hide-input" in setup.metadata["tags"]
    assert not any("%pip" in cell.source or "SMALL" in cell.source for cell in cells)
    shown = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    assert any("image/png" in data or "image/svg+xml" in data for data in shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_committed_with_its_outputs(path):
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert all(cell.execution_count for cell in cells), "run it in full before committing it"
    assert any(cell.outputs for cell in cells)
    assert not any(o.output_type == "error" for cell in cells for o in cell.outputs)
    pictures = [o.get("data", {}).get("image/png") for cell in cells for o in cell.outputs]
    for picture in filter(None, pictures):
        assert base64.b64decode(picture, validate=False).startswith(b"\x89PNG")
