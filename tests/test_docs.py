"""README and site say what the code and the files of results say."""

import ast
import html.parser
import importlib.util
import inspect
import json
import pathlib
import re

import pytest

import keras_posenc
from keras_posenc.cli.arguments import parser
from keras_posenc.encodings import ENCODINGS
from keras_posenc.models.families import FAMILIES

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "notes" not in path.parts)
TOP = (ROOT / "README.md", ROOT / "CONTRIBUTING.md")


@pytest.fixture
def generate(monkeypatch):
    """A function that imports a module of docs/generate."""
    monkeypatch.syspath_prepend(str(DOCS / "generate"))
    return importlib.import_module


def test_the_readme_is_read_in_minutes():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 200


def test_the_site_can_be_built_of_every_page():
    """MkDocs looks for headings with Python's parser of HTML, which some characters stop."""
    for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")):
        html.parser.HTMLParser().feed(path.read_text("utf-8"))


def test_the_readme_counts_encodings_and_families():
    text = (ROOT / "README.md").read_text("utf-8")
    for what, count in (("encodings", len(ENCODINGS)), ("families", len(FAMILIES))):
        found = re.findall(rf"(\d+) (?:position )?\[?{what}\b", text)
        remedy = f"README.md has {found} {what}, and there are {count}: write that number"
        assert found and set(found) == {str(count)}, remedy


def test_every_file_of_results_is_on_a_page(generate):
    blocks = generate("blocks")
    asked = {m.groups() for p in PAGES for m in blocks.MARKER.finditer(p.read_text("utf-8"))}
    asked = {(name, *arguments.split()) for name, arguments in asked}
    bench = {("bench", path.stem) for path in blocks.BENCH.glob("*.json")}
    found = {path.name for path in blocks.RESULTS.glob("*.md")}
    pages = {("page", name) for name in found if not name.startswith("compare-")}
    rest = {("recovery", "small"), ("recovery", "minilm"), ("context_tools",), ("precision",)}
    rest |= {("encodings_2026",), ("encoding_figures",), ("mteb",), ("many_texts",)}
    rest |= {("quantized",), ("growth",), ("natural",), ("natural", "overview")}
    rest |= {("words_and_vectors",), ("cost",), ("few_texts",)}
    rest |= {("loading",), ("newsgroups",), ("encodings",), ("verdicts",), ("comparisons",)}
    rest |= {
        ("stretch",),
        ("retrieval", "passkey"),
        ("retrieval", "needle"),
        ("fine_tuned", "digests"),
        ("fine_tuned", "seasons"),
        ("fine_tuned", "speakers"),
        ("families",),
        ("distant_facts", "1536"),
        ("distant_facts", "4096"),
        ("distant_facts", "1536", "mpnet"),
        ("distant_context",),
        ("distant_context_mpnet",),
        ("by_position",),
        ("translation",),
    }
    rest |= {("text_retrieval", "TOOL_READINGS"), ("text_retrieval", "ENCODINGS_2026")}
    rest |= {
        ("summary_2026",),
        ("back_to_level",),
        ("grid", "reduced_table"),
        ("grid", "harder_tasks"),
    }
    rest |= {("ranges", "counting_variables"), ("ranges", "counting_gates")}
    rest |= {("ranges", "length_500"), ("ranges", "even_pairs_local")}
    rest |= {("rotary_collapse",), ("stretched_mlm",), ("stretch_base",), ("tpu_batches",)}
    rest |= {("stretched_reactions",), ("gates",), ("lookup",)}
    rest |= {("tpu_sequence",), ("tpu_layers",), ("gpu_layers",), ("gpu_models",)}
    rest |= {("gpu_programs",), ("by_length",)}
    rest |= {("readings", task) for task in ("digests", "seasons", "speakers", "lines")}
    assert asked == bench | pages | rest


def test_pages_have_the_tables_of_the_results(generate):
    blocks = generate("blocks")
    texts = {str(path): path.read_text("utf-8") for path in PAGES}
    remedy = "run `python docs/generate/blocks.py`"
    assert {name: blocks.filled(text) for name, text in texts.items()} == texts, remedy
    shown = "\n".join(texts.values())
    row = "| rotary sorted ids | 92.6 | 96.3 | 96.1 | 95.8 | learned, kept | rotary +63.3 |"
    assert row in shown
    assert "Seeds 0, 1, 2; Keras 3.15.1 on jax; [bucket_sort.json]" in shown
    assert "benchmarks.extrapolation bucket_sort \\\n    --encodings rotary rotary+log_n" in shown
    assert "| hierarchical, alpha 0.4 | 28.0 (24.5 to 30.7) |" in shown
    assert "| counting:variables=3, train | 256 | 19 to 22 | 28 to 30 | 35 to 44 |" in shown
    assert "| 512 | 86.3 | 85.5 | 86.5 | 85.6 |" in shown


def test_links_between_pages_lead_somewhere():
    """What strict mkdocs would say, without mkdocs; pages that it generates are left to it."""
    made = [DOCS / name for name in ("results", "notebooks", "contributing.md")]
    lost = []
    texts = {path: path.read_text("utf-8") for path in (*PAGES, *TOP)}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        texts[path] = "".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    for path, text in texts.items():
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            goal = (path.parent / target).resolve()
            if "://" in target or goal.exists() or any(goal.is_relative_to(m) for m in made):
                continue
            lost.append(f"{path.relative_to(ROOT)}: {target}")
    assert lost == []


def test_every_guide_leads_to_the_api_reference():
    guides = [path for path in (DOCS / "guides").glob("*.md") if path.stem != "index"]
    lacking = [p.name for p in guides if "\nAPI reference: [`" not in p.read_text("utf-8")]
    assert len(guides) > 20 and lacking == []


def test_the_benchmarks_that_pages_name_exist():
    """Their commands and files; and the list of the subpackages says what these say."""
    text = "\n".join(path.read_text("utf-8") for path in (*PAGES, *TOP))
    modules = {m.rstrip(".") for m in re.findall(r"-m (benchmarks\.[a-z][\w.]+)", text)}
    found = [importlib.util.find_spec(name) for name in sorted(modules)]
    assert len(modules) > 30 and None not in found
    packages = [spec for spec in found if spec.submodule_search_locations]
    assert all(importlib.util.find_spec(f"{spec.name}.__main__") for spec in packages)
    named = set(re.findall(r"\bbenchmarks/\w[\w/]*\.py", text))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    for path in (ROOT / "benchmarks").glob("*/__init__.py"):
        row = f"| `{path.parent.name}` | {ast.get_docstring(ast.parse(path.read_text('utf-8')))} |"
        assert row in text, f"docs/guides/benchmark.md needs {row}"


def test_the_commands_that_pages_name_exist():
    """In blocks and in text; the log and the changelog have former ones."""
    known = set(parser().commands.choices)
    for path in (*PAGES, *TOP):
        if path.name not in ("LOG.md", "CHANGELOG.md"):
            text = path.read_text("utf-8")
            named = set(re.findall(r"(?:^|`)keras-posenc (\w+)", text, re.MULTILINE))
            assert named <= known, path


def test_every_encoding_has_a_page(generate):
    gallery = generate("gallery")
    assert list(gallery.PAGES) == list(ENCODINGS)
    text = gallery.page("t5")
    assert "| torch | jax | tensorflow |" in text and "`keras_posenc.encodings.T5Bias`" in text
    assert "- `num_buckets`: " in text
    assert (
        "| 2,048, 0.1 | 1.21 x, 1.0 matrices | 1.14 x, 1.9 matrices | 1.23 x, 3.4 matrices |"
        in text
    )
    pictures = gallery.pictures("t5")
    assert list(pictures) == ["t5-decay.svg", "t5-map.svg"]
    assert all(svg.startswith("<?xml") for svg in pictures.values())


def test_pages_of_the_gallery_and_of_families_are_in_step(generate):
    """With their figures, so that a code host shows them; the figures' bytes depend on fonts."""
    made, remedy = generate("pages").pages(), "run `python docs/generate/pages.py`"
    kept = {"gallery/index.md"}
    found = {
        p.relative_to(DOCS).as_posix()
        for f in ("gallery", "families")
        for p in (DOCS / f).glob("*.md")
    }
    assert found - kept == set(made), remedy
    assert {place: (DOCS / place).read_text("utf-8") for place in made} == made, remedy
    for name in ENCODINGS:
        for what in ("decay", "map"):
            assert (DOCS / "gallery" / f"{name}-{what}.svg").read_bytes().startswith(b"<?xml"), (
                remedy
            )


def test_every_family_has_a_page(generate):
    families = generate("families")
    pages = {name: families.page(name) for name in families.names()}
    assert list(pages) == list(FAMILIES)
    assert (
        "| `Transformer-{i}-FeedForward/intermediate` | `@layers.{i}.mlp.Wi`, part 1 of 2 |"
        in (pages["modernbert"])
    )
    assert re.search(r"largest difference \| \d\.\de-0[67] on jax", pages["modernbert"])
    assert '| longer texts | `extension="yarn:4"` |' in pages["modernbert"]
    assert "| longer texts | `hierarchical_position=True`" in pages["bert"]
    assert "`ForQuestionAnswering`" in pages["bert"]


def test_intervals_and_options_stay_on_one_line(generate):
    found = generate("hooks").kept_together("<td>83 ± 14</td><code>--file a.txt</code>")
    assert "83&nbsp;±&nbsp;14" in found
    assert '<code><span class="option">--file</span> a.txt</code>' in found


def test_every_public_name_is_in_the_reference(generate):
    api = generate("api")
    listed = {name for page in api.PAGES for name in api.members(page)}
    names = {
        each for each in keras_posenc.__all__ if not inspect.ismodule(getattr(keras_posenc, each))
    }
    assert names and names <= listed
    # What a module offers is there, too, except the mapping of all encodings.
    rooms = [getattr(keras_posenc, name) for name in ("losses", "metrics", "heads", "encodings")]
    assert {name for room in rooms for name in room.__all__} - listed <= {"ENCODINGS", "get"}


DOCSTRING = """Turns pages; `a_b` and a*b.

Formula:

    q_t = x * 2

- one *star*
- two

Args:
    pages, x: int. How many,
        in words: (B, T).
    kind: str.

What follows.

Raises:
    ValueError: if there are none.

Example:

>>> turn(3)
3
"""
AS_MARKDOWN = r"""Turns pages; `a_b` and a\*b.

Formula:

```text
q_t = x * 2
```

- one \*star\*
- two

**Arguments**

- `pages, x`: int. How many, in words: (B, T).
- `kind`: str.

What follows.

**Raises**

- `ValueError`: if there are none.

**Example**

```pycon
>>> turn(3)
3
```"""


def test_docstrings_become_markdown(generate):
    assert generate("docstrings").markdown(DOCSTRING) == AS_MARKDOWN


def test_the_reference_shows_signatures_and_constants(generate):
    made = generate("api").pages()
    assert "```py\nkeras_posenc.layout_map(" in made["api/models.md"]
    assert "### Generator.predict\n" in made["api/models.md"]
    # Of a class whose base may not be installed, what is written in its file.
    found = made["api/adapters.md"]
    signature = "LlamaIndexEmbedding(model, *, model_name=None, **opening)"
    assert f"```py\nkeras_posenc.adapters.{signature}\n```" in found
    assert "```py\nembeddings = LangChainEmbeddings(" in found
    assert not any(" at 0x" in text or "<class" in text for text in made.values())


def test_the_reference_is_in_step(generate):
    remedy = "run `python docs/generate/api.py`"
    made = generate("api").pages()
    found = {p.relative_to(DOCS).as_posix() for p in (DOCS / "api").glob("*.md")}
    assert found == set(made), remedy
    assert {place: (DOCS / place).read_text("utf-8") for place in made} == made, remedy


def test_the_repository_has_one_address(generate):
    """Every badge, link and command follows from it, and no other file invents one."""
    repository = generate("repository")
    remedy = "run `python docs/generate/repository.py`"
    names, address = [], "https://github.com/some-owner/some-name"
    for path, way in repository.FILES.items():
        text = path.read_text("utf-8")
        assert way(text, repository.ADDRESS) == text, f"{path.name}: {remedy}"
        assert "some-owner/some-name" in way(text, address), path.name
        assert way(way(text, address), "") == way(text, ""), path.name
    invented = r"(github(\.com)?|gitlab\.com|readthedocs\.io)/[\w-]*keras[_-]posenc"
    for path in [*repository.FILES, *PAGES, *sorted((ROOT / "keras_posenc").rglob("*.py"))]:
        names += [path.name] * bool(re.search(invented, path.read_text("utf-8")))
    assert repository.ADDRESS or names == []


def code_of(page, anchor):
    """The lines of Python in a section of a guide, or before the first; no blanks, no comments."""
    sections = re.split(r"^## (.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    slugs = [
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in sections[1::2]
    ]
    section = dict(zip(["", *slugs], sections[::2], strict=True))[anchor]
    lines = "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL)).splitlines()
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


def test_lines_compared_with_bert4keras_are_counted():
    page = DOCS / "guides" / "coming-from-bert4keras.md"
    table = page.read_text("utf-8").split("## Example by example")[1].split("\n## ")[0]
    rows = re.findall(r"^\| .* \| (\d+|–) \| (.*) ?\|$", table, re.MULTILINE)
    assert len(rows) > 20
    for lines, where in rows:
        sections = re.findall(r"\]\(([a-z0-9-]+\.md)#?([a-z0-9-]*)\)", where)
        counted = sum(code_of(page.parent / name, anchor) for name, anchor in sections)
        assert lines == (str(counted) if sections else "–"), where


def test_diagrams_are_in_step(generate):
    remedy = "run `python docs/generate/diagrams.py`"
    for name, svg in generate("diagrams").pictures().items():
        assert (DOCS / "assets" / name).read_text("utf-8") == svg, f"{name}: {remedy}"
