"""Every Python snippet of the README and of the site runs, in the order of its page."""

import contextlib
import io
import pathlib
import re
from importlib.util import find_spec

import keras
import pytest

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[1]
FENCE = re.compile(
    r"^((?:<!-- (?:not run|needs|smaller): [^\n]+ -->\n)*)```python\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
# Readers see the sizes of a real model; what a test runs instead is in a comment above.
SMALLER = re.compile(r"<!-- smaller: (.+?) -> (.+?) -->")
# Packages without which a snippet is left out: `make test-libraries` installs most.
NEEDS = re.compile(r"<!-- needs: (.+?) -->")
# What the README shows of the output: behind a print, or in lines below.
PRINTED = re.compile(r"^(?:print\(.*\)  )?# (.*)$", re.MULTILINE)
PERCENT = re.compile(r"([\d.]+)%")


def snippets(path):
    """The Python of a page that is to run.

    What is marked `<!-- not run: why -->` is not, nor is `<!-- needs: a, b -->` without a package.
    """
    found = []
    for marks, code in FENCE.findall(path.read_text("utf-8")):
        for full, small in SMALLER.findall(marks):
            assert code.count(full) == 1, f"{path.name}: {full!r} must be once in the code below"
            code = code.replace(full, small)
        needed = ", ".join(NEEDS.findall(marks)).split(", ")
        if "not run" not in marks and all(find_spec(each) for each in needed if each):
            found.append(code)
    return found


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [path for path in PAGES if snippets(path)]


def test_the_readme_has_snippets_with_their_output():
    assert PAGES[0].name == "README.md"
    assert all(PRINTED.search(code) for code in snippets(PAGES[0]))


# What Keras warns of, as when it quantizes, is no error for a reader.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_snippets_run(path, tmp_path, monkeypatch, request, minilm, pretrained, corpus):
    """As a reader would run them, with a checkpoint at path/to/bert, or a real one at minilm."""
    (tmp_path / "path" / "to").mkdir(parents=True)
    folders = {"path/to/bert": pretrained, "minilm": minilm}
    if path.stem == "swap-an-encoding":
        folders["path/to/eurobert"] = request.getfixturevalue("rotating")
    if path.stem == "retrieval":
        folders["path/to/colbert"] = request.getfixturevalue("colberts") / "pylate"
        folders["path/to/splade"] = request.getfixturevalue("splade")
    for name, folder in folders.items():
        (tmp_path / name).symlink_to(folder, target_is_directory=True)
    for name in ("train.tsv", "test.tsv"):
        (tmp_path / name).symlink_to(corpus / name)
    (tmp_path / "documents").mkdir()
    for name, text in (("ada", "Ada is a chemist."), ("bruno", "Bruno is a painter.")):
        (tmp_path / "documents" / f"{name}.txt").write_text(text)
    monkeypatch.chdir(tmp_path)
    namespace, policy = {"__name__": "__main__"}, keras.config.dtype_policy()
    try:
        for number, code in enumerate(snippets(path)):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(code, f"{path.name}, snippet {number}", "exec"), namespace)
            if path.stem in ("README", "retrieval"):
                check_what_is_printed(code, output.getvalue().splitlines())
    finally:
        keras.config.set_dtype_policy(policy)


def check_what_is_printed(code, lines):
    """Each line that the page shows was printed; a percentage may be 0.3 off."""
    for shown in PRINTED.findall(code):
        alike = [line for line in lines if PERCENT.sub("%", line) == PERCENT.sub("%", shown)]
        assert alike, f"{shown!r} was not printed, but {lines[-4:]}"
        for claimed, found in zip(PERCENT.findall(shown), PERCENT.findall(alike[0]), strict=True):
            assert float(found) == pytest.approx(float(claimed), abs=0.3)
