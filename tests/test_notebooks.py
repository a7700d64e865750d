"""Runs every notebook, at a small size, alone: in an empty folder, with the wheel of the library.

A reader sees the sizes of the full run only. What the tests put in their place stands in the
metadata of a cell: pairs (text of the cell, text to run instead).
"""

import base64
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import nbformat
import pytest
from forks import run_fork

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


# IPython without the kernel around it, which would import Keras again for each notebook.
RUN = """
    import sys
    notebook, wheel, root = sys.argv[1:]
    sys.path[:] = [wheel, *(path for path in sys.path if not path.startswith(root + "/tests"))]
    sys.path[:] = [path for path in sys.path if path not in ("", root)]
    for name in [name for name in sys.modules if name.startswith("keras_posenc")]:
        del sys.modules[name]
    import keras_posenc
    assert keras_posenc.__file__.startswith(wheel)

    import nbformat
    from IPython.core.interactiveshell import InteractiveShell

    class Shell(InteractiveShell):
        def enable_gui(self, gui=None):
            pass

    shell = Shell.instance()
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "code":
            source = cell.source
            for full, small in cell.metadata.get("small", ()):
                assert source.count(full) == 1, full
                source = source.replace(full, small)
            shell.run_cell(source, store_history=True).raise_error()
    """


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A folder with what the wheel installs, and nothing else of the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    source = folder / "source"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if name.startswith("keras_posenc") or "/" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([*build, "-w", folder, source], check=True)
    (path,) = folder.glob("*.whl")
    zipfile.ZipFile(path).extractall(folder / "installed")
    return folder / "installed"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs_alone(path, wheel, first_layer, tmp_path):
    (tmp_path / "minilm").symlink_to(first_layer, target_is_directory=True)
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = run_fork("code", RUN, [path, wheel, ROOT], env=environment, cwd=tmp_path)
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
    assert '\n    %pip install -q "{SOURCE}"\n' in setup.source
    assert 'find_spec("keras_posenc") is None' in setup.source
    # Nothing of a clone: neither files beside the notebook nor other packages of the repository.
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert not re.search(r"\.\./|\bbenchmarks\b", code)
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
