"""Every Python snippet of the README and of the site runs, in the order of its page."""

import pathlib
import re

import keras
import pytest

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[1]
FENCE = re.compile(r"(<!-- not run: .+ -->\n)?^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def snippets(path):
    """The Python of a page that is to run: what is marked `<!-- not run: why -->` is not."""
    return [code for skipped, code in FENCE.findall(path.read_text("utf-8")) if not skipped]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [path for path in PAGES if snippets(path)]


def test_the_readme_has_snippets():
    assert PAGES[0].name == "README.md" and len(snippets(PAGES[0])) >= 2


# What Keras warns of, as when it quantizes, is no error for a reader.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_snippets_run(path, tmp_path, monkeypatch, minilm, pretrained, corpus):
    """As a reader would run them, with a checkpoint at path/to/bert: a real one for the README."""
    (tmp_path / "path" / "to").mkdir(parents=True)
    bert = minilm if path.name == "README.md" else pretrained
    (tmp_path / "path" / "to" / "bert").symlink_to(bert, target_is_directory=True)
    for name in ("train.tsv", "test.tsv"):
        (tmp_path / name).symlink_to(corpus / name)
    monkeypatch.chdir(tmp_path)
    namespace, policy = {"__name__": "__main__"}, keras.config.dtype_policy()
    try:
        for number, code in enumerate(snippets(path)):
            exec(compile(code, f"{path.name}, snippet {number}", "exec"), namespace)
            if path.name == "README.md" and number == 0:
                check_what_is_claimed(code, namespace)
    finally:
        keras.config.set_dtype_policy(policy)


def check_what_is_claimed(code, namespace):
    """The comment beside the first example is true."""
    claimed = float(re.search(r"# ([\d.]+)% right", code).group(1))
    _, accuracy = namespace["model"].evaluate(*namespace["echo"](16, 1024), verbose=0)
    assert 100 * accuracy == pytest.approx(claimed, abs=0.3)
