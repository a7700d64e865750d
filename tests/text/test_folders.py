"""Folders of documents: a row per file, with the headings above each place of its text."""

import json
import pathlib

import pytest

from keras_posenc.cli.guards import check_files
from keras_posenc.text import offsets, read_texts
from keras_posenc.text.file_parts import paths_of
from keras_posenc.text.files import read_long_texts
from keras_posenc.text.ids import read_ids, read_titles
from keras_posenc.text.structure import read_structure, title_at
from keras_posenc.text.text_stream import TextStream

pytestmark = pytest.mark.once
HTML = """<html><head><title>Cars</title><style>p {}</style></head><body>
<h1>The car <i>manual</i></h1><h2>Starting</h2>
<p>Push the   button &amp; wait.</p><ul><li>one<li>two</ul><pre>a
  b</pre><script>x = 1</script><h2>Doors</h2><table><tr><td>1<td>2</table></body></html>"""
PYTHON = '''"""Mail."""


class Box:
    """A box."""

    @property
    def close(self):
        return self.f

    size = 1


def close():
    return 1
'''
MARKDOWN = """# The *boat* manual

It is [red](http://x.y).

## Engine

### Starting

Turn the key.

```
# no heading
```

## Hull

Wood.
"""
TABLES = """Manual
======

Text.

.. table:: Caption

   == ==
   a  b
   == ==

Part
----

Text.
"""
RST = """
======
Manual
======

First :ref:`x`.

.. versionadded:: 5.0

Part
----

Text.
"""


def parts(found):
    """The path of headings above each part, and the part."""
    starts = [start for start, _ in found.headings]
    ends = [*starts[1:], len(found.text)]
    return [
        (path, found.text[start:end].strip())
        for (start, path), end in zip(found.headings, ends, strict=True)
    ]


def test_html():
    found = read_structure("car", ".html", HTML)
    assert found.title == "The car manual"
    assert parts(found) == [
        (
            "The car manual > Starting",
            "The car manual\n\nStarting\n\nPush the button & wait.\n\none\ntwo\n\na\n  b",
        ),
        ("The car manual > Doors", "Doors\n\n1 2"),
    ]
    assert parts(read_structure("car", ".htm", "<title>Cars</title>only <b>text</b>")) == [
        ("Cars", "only text")
    ]
    assert title_at(found.headings, found.text.index("1 2")) == "The car manual > Doors"
    # Ends of the head and of paragraphs are optional, and a picture has a title that is not shown.
    lazy = "<html><head><svg><title>x</title></svg><title>Cars</title><body><p>One<p>Two"
    assert parts(read_structure("car", ".html", lazy)) == [("Cars", "One\n\nTwo")]


def test_python():
    assert parts(read_structure("mail", ".py", PYTHON)) == [
        ("mail", '"""Mail."""'),
        ("mail > Box", 'class Box:\n    """A box."""'),
        ("mail > Box > close", "@property\n    def close(self):\n        return self.f"),
        ("mail > Box", "size = 1"),
        ("mail > close", "def close():\n    return 1"),
    ]
    assert read_structure("mail", ".py", PYTHON).text == PYTHON
    assert parts(read_structure("bad", ".py", "def (")) == [("bad", "def (")]
    old = "def f():\r  return 1\r\r\rdef g():\r  return 2\r"
    assert parts(read_structure("mail", ".py", old)) == [
        ("mail > f", "def f():\r  return 1"),
        ("mail > g", "def g():\r  return 2"),
    ]


def test_markdown():
    pytest.importorskip("markdown_it")
    assert parts(read_structure("boat", ".md", MARKDOWN)) == [
        ("The boat manual", "The boat manual\n\nIt is red."),
        (
            "The boat manual > Engine > Starting",
            "Engine\n\nStarting\n\nTurn the key.\n\n# no heading",
        ),
        ("The boat manual > Hull", "Hull\n\nWood."),
    ]


def test_metadata_before_markdown_is_no_text():
    """As Jekyll, Hugo, MkDocs and Docusaurus read it; a rule at the start of a text is none."""
    pytest.importorskip("markdown_it")
    for front, title in {
        '---\nlayout: doc\ntitle: "A & <b>"\ntags: [a]\n---\n': "A & <b>",
        "+++\ntitle = 'A'\n\n[menu]\nx = 1\n+++\n": "A",
        "---\ntitle: >-\n  A\n---\n": "page",
        "---\nkey: 1\n---": "page",
    }.items():
        above = [] if title == "page" else [title]
        found = read_structure("page", ".md", f"{front}\nText.\n\n## Part\n\nMore.")
        assert found.text == "\n\n".join([*above, "Text.", "Part", "More."])
        title = title if above else "Part"
        path = " > ".join([*above, "Part"])
        assert [each for each, _ in parts(found)] == [title, path]
    assert read_structure("page", ".md", "---\n\nText: a\n\n---\n\nb").text == "Text: a\n\nb"


@pytest.mark.parametrize("depth", [12, 60, 2000])
def test_text_after_deep_lists_and_quotes_stays(depth):
    """Where a parser would stop, the Markdown is the text."""
    pytest.importorskip("markdown_it")
    for nested in (
        "".join(f"{'  ' * level}- item{level}\n" for level in range(min(depth, 200))),
        "\n".join(f"{'>' * level} item{level}" for level in range(min(depth, 200))),
        "- " * depth + "item0",
        "[" * depth + "item0",
    ):
        text = read_structure("page", ".md", f"# A\n\n{nested}\n\n# End\n\nText").text
        assert text.endswith("Text") and all(
            f"item{level}" in text for level in range(nested.count("item"))
        )


def test_a_tag_that_does_not_end_hides_nothing():
    pytest.importorskip("markdown_it")
    for tag in ("script", "STYLE", "template", "noscript", "svg width=1", "title", "textarea"):
        found = read_structure("page", ".md", f"Use <{tag}> in pages.\n\n# More\n\nText.")
        assert found.text == f"Use <{tag}> in pages.\n\nMore\n\nText."
        page = f"<p>a<{tag}>b</{tag.split()[0]}> c <{tag}> d<p>e"
        shown = "ab" if tag == "textarea" else "a"
        assert read_structure("page", ".html", page).text == f"{shown} c <{tag}> d\n\ne"
    drawing = "<p>a<svg/><script src=x /><style-guide>b</style-guide>c"
    assert read_structure("page", ".html", drawing).text == "abc"


@pytest.mark.parametrize("mark", ["<![x[y]>", "<![ x>", "<![if !vml]>", "<!x>", "<?php 1?>", "<!>"])
def test_declarations_of_any_kind_are_left_out(mark):
    assert read_structure("page", ".html", f"<p>a {mark}b").text == "a b"
    assert read_structure("page", ".html", f"<p>a {mark[:-1]}").text.startswith("a")


def test_what_is_nested_too_deeply_is_text():
    pytest.importorskip("docutils")
    content = "".join(f"{' ' * level}item{level}\n\n" for level in range(400))
    assert parts(read_structure("page", ".rst", content)) == [("page", content.strip())]


def test_a_heading_is_one_line():
    found = read_structure("page", ".html", "<h1>The<br>car<div>manual</div></h1>Text")
    assert parts(found) == [("The car manual", "The\ncar\nmanual\n\nText")]


def test_headings_of_the_first_level_stand_below_the_title():
    found = read_structure("page", ".html", "<h1>A</h1>a<h2>B</h2>b<h1>Z</h1>z<h2>B</h2>b")
    assert [path for path, _ in parts(found)] == ["A", "A > B", "A > Z", "A > Z > B"]


def test_restructured_text():
    pytest.importorskip("docutils")
    found = read_structure("manual", ".rst", RST)
    assert [path for path, _ in parts(found)] == ["Manual", "Manual > Part"]
    assert found.text == RST and parts(found)[1][1] == "Part\n----\n\nText."


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\u2028", "\x85", "\x1c"])
def test_titles_of_tables_are_no_headings_and_lines_end_as_they_do_to_the_parser(end):
    pytest.importorskip("docutils")
    found = read_structure("manual", ".rst", TABLES.replace("\n", end))
    assert [path for path, _ in parts(found)] == ["Manual", "Manual > Part"]
    assert parts(found)[1][1].splitlines() == ["Part", "----", "", "Text."]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "manual"
    (folder / "sub").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "plain.txt").write_text("One.\nTwo.\n\nThree.\n")
    (folder / "sub" / "car.html").write_text(HTML)
    (folder / "mail.py").write_text(PYTHON)
    (folder / ".git" / "hidden.txt").write_text("hidden")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


def test_a_folder_is_a_table(folder):
    assert read_ids(folder) == ("id", ["mail.py", "plain.txt", "sub/car.html"])
    texts = read_texts(folder, label=False).texts
    assert texts[1] == "One.\nTwo.\n\nThree.\n" and texts[0] == PYTHON
    assert read_long_texts(folder).texts == texts
    assert TextStream(str(folder)).check() is None and list(TextStream(folder).parts(2))[1:] == [
        texts[2:]
    ]
    assert read_texts(folder, text="title").texts == ["mail", "plain", "The car manual"]
    assert read_titles(folder, "title") == ["mail", "plain", "The car manual"]
    assert read_titles(folder, "auto")[1] == [(0, "plain")]
    # A pattern, and a single file.
    assert read_ids(folder / "**" / "*.html")[1] == ["sub/car.html"]
    assert read_ids(f"{folder}/*.txt")[1] == ["plain.txt"]
    assert read_texts(folder / "mail.py").texts == [PYTHON]
    # A .txt that is given by itself is a text per line.
    with pytest.raises(ValueError, match="plain.txt, line 3: the text is empty"):
        read_texts(folder / "plain.txt")


def test_a_name_that_is_no_unicode_is_a_title(tmp_path):
    try:
        (tmp_path / "a\udcff.txt").write_text("One.")
    except (OSError, UnicodeError):
        pytest.skip("this file system takes only Unicode")
    assert read_ids(tmp_path) == ("id", ["a\udcff.txt"])
    assert read_titles(tmp_path, "title") == ["a\ufffd"]
    assert read_titles(tmp_path, "auto") == [[(0, "a\ufffd")]]


def test_folders_without_documents(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty must have a file of .txt, .md"):
        read_texts(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match=r"No file .*\*.doc"):
        read_texts(tmp_path / "*.doc")
    (folder / "none.html").write_text("<script>x</script>")
    with pytest.raises(ValueError, match="none.html has no text: leave it out"):
        read_texts(folder / "none.html")
    (folder / "none.html").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="none.html, line 1: this is UTF-16; convert"):
        read_texts(folder)


@pytest.mark.parametrize("mark", ["config.json", "tokenizer_config.json", "recipe.json"])
def test_the_vocabulary_of_a_model_is_no_document(folder, mark):
    for name in ("vocab.txt", "merges.txt"):
        for place in (folder, folder / "sub"):
            (place / name).write_text("word\n")
    (folder / "sub" / mark).write_text("{}")
    names = ["mail.py", "merges.txt", "plain.txt", "sub/car.html", "vocab.txt"]
    assert read_ids(folder)[1] == names
    assert read_ids(f"{folder}/**/*.txt")[1] == ["merges.txt", "plain.txt", "vocab.txt"]


def test_folders_of_a_pattern_may_have_its_marks_in_their_names(folder):
    folder = folder.rename(folder.with_name("manual [new]*"))
    assert read_ids(f"{folder}/*.txt")[1] == ["plain.txt"]
    assert read_ids(f"{folder}/[s]ub/*.html")[1] == ["sub/car.html"]
    check_files({"texts": f"{folder}/*.txt"})
    with pytest.raises(FileNotFoundError):
        read_ids(f"{folder}/*.rst")
    with pytest.raises(FileNotFoundError):
        read_ids(folder / "none.txt")
    (folder / "a.jsonl").write_text('{"text": "a"}\n')
    assert paths_of(f"{folder}/*.jsonl") == [folder / "a.jsonl"]


def test_empty_files_beside_others_are_left_out(folder, tmp_path, monkeypatch):
    """Such as the __init__.py of packages, and pages that lead to others; each is read once."""
    (folder / "__init__.py").write_text("")
    (folder / "a.html").write_text(
        "<meta http-equiv=refresh content='0; car.html'><script>x</script>"
    )
    (folder / "sub" / "blank.txt").write_text(" \r\n\n")
    assert read_ids(folder) == ("id", ["mail.py", "plain.txt", "sub/car.html"])
    assert len(read_texts(folder).texts) == len(read_titles(folder, "auto")) == 3
    assert len(TextStream(folder)) == 3
    read, read_bytes = [], pathlib.Path.read_bytes
    monkeypatch.setattr(
        pathlib.Path, "read_bytes", lambda path: read.append(path) or read_bytes(path)
    )
    read_texts(folder)
    assert len(read) == len(set(read)) == 6
    with pytest.raises(ValueError, match="__init__.py has no text: leave it out"):
        read_texts(folder / "__init__.py")
    (tmp_path / "none").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "none" / name).write_text("\n")
    with pytest.raises(ValueError, match="none has no text: leave it out"):
        read_texts(tmp_path / "none")
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a", "words": 1}) + "\n")
    assert read_ids(tmp_path / "a.jsonl") == ("row", range(1, 2))
    with pytest.raises(ValueError, match="must have a column of titles, such as title, or be a fo"):
        read_titles(tmp_path / "a.jsonl", "auto")
    with pytest.raises(
        ValueError, match="has no column 'name'; there are .*give one of them as ti"
    ):
        read_titles(tmp_path / "a.jsonl", "name")


@pytest.mark.parametrize("suffix, module", [(".md", "markdown_it"), (".rst", "docutils")])
def test_a_missing_parser_is_named(monkeypatch, suffix, module):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'keras_posenc\[documents\]'"):
        read_structure("a", suffix, "text")


def test_marks_of_files_that_were_joined_are_no_text(tmp_path):
    (tmp_path / "a.md.txt").write_text("\ufeff\ufeffOne.\r\n\ufeff\ufeffTwo\ufeff.")
    (tmp_path / "b.txt").write_text("\ufeff\n\ufeff\ufeff")
    assert read_texts(tmp_path).texts == ["One.\nTwo\ufeff."]


def test_a_text_that_is_too_long_is_named_by_its_file(folder, tmp_path, monkeypatch):
    """As every tokenizer would refuse it, by a number."""
    monkeypatch.setattr(offsets, "MOST_CHARACTERS", 3000)
    (folder / "novels").mkdir()
    (folder / "novels" / "long.md").write_text("word " * 700)
    message = r"{}: 'text' has 3\d\d\d characters, and one text may have 3000, .*: split it"
    for given, place in ((folder, "novels/long.md"), (folder / "novels" / "*.md", "long.md")):
        with pytest.raises(ValueError, match=message.format(place)):
            read_texts(given)
    table = tmp_path / "table.jsonl"
    table.write_text('{"text": "short"}\n' + json.dumps({"text": "word " * 700}))
    for read in (read_texts, read_long_texts, TextStream):
        with pytest.raises(ValueError, match=message.format("table.jsonl, line 2")):
            read(table)
