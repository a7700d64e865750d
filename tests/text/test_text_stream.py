"""Texts read a part at a time: the same texts, and the same errors, as read whole."""

import sys
import tracemalloc

import numpy as np
import pytest

from keras_posenc.text import Texts, file_parts, read_texts, text_stream
from keras_posenc.text.text_stream import TextStream

pytestmark = pytest.mark.once

FILES = {
    "lines.txt": b"one\ntwo words\nthree\n",
    "windows.txt": b"\xef\xbb\xbfone\r\ntwo\r\n\r\n\r\n",
    "joined.txt": b"\xef\xbb\xbfone\n\xef\xbb\xbftwo",
    "old.txt": b"one\rtwo\rthree",
    "gap.txt": b"one\n\n\ntwo\n",
    "spaces.txt": b"one\n  \n",
    "none.txt": b"",
    "blank.txt": b"\n\n",
    "latin.txt": b"one\ncaf\xe9\n",
    "wide.txt": "one".encode("utf-16"),
    "pointer.txt": b"version https://git-lfs.github.com/spec/v1\n",
    "rows.jsonl": b'{"label": "a", "text": "one"}\n\n{"text": "two", "label": "b"}\n',
    "only.jsonl": b'{"words": "one"}\n{"words": "two", "more": 1}',
    "which.jsonl": b'{"a": "one", "b": "two"}\n',
    "lacks.jsonl": b'{"text": "one"}\n{"txt": "two"}\n',
    "number.jsonl": b'{"text": 1}\n',
    "half.jsonl": b'{"text": "one"}\n{"text": \n',
    "list.jsonl": b'["one"]\n',
    "pair.jsonl": b'{"a": "one", "b": "two"}\n{"a": "three", "b": "four"}\n',
    "table.tsv": b"text\tlabel\none\ta\ntwo\tb\n",
    "quoted.tsv": b'text\tlabel\n"one "" 1"\ta\n\n"two\tb\n',
    "more.tsv": b"text\tlabel\none\ta\ntwo\n",
    "table.csv": b'label,text\r\na,"one\r\nline, ""two"""\r\n\r\nb,x"y\r\nb,"\n\n\n"\nc,last',
    "unended.csv": b'text\none\n"two\nthree\n\n',
    "after.csv": b'text\none\n"two"x\nthree\n',
    "more.csv": b"text,label\none,a\ntwo,b,c\n",
    "header.csv": b"text,label\n",
    "header.tsv": b"text\n\n",
    "old.csv": b"text,label\rone,a\rtwo,b\r",
    "separated.csv": b"text\tlabel\none\ta\n",
    "rows.tab": b"text\tlabel\nstring\td\nmeta\tclass\none\ta\n",
}


def outcome(read):
    try:
        return read()
    except (ValueError, FileNotFoundError) as error:
        return str(error)


@pytest.mark.parametrize("name", FILES)
def test_a_stream_reads_what_read_texts_reads(tmp_path, name, monkeypatch):
    monkeypatch.setattr(file_parts, "BLOCK", 1)
    monkeypatch.setattr(text_stream, "ROWS", 1)
    path = tmp_path / name
    path.write_bytes(FILES[name])
    text = ("a", "b") if name.startswith("pair") else None
    expected = outcome(lambda: read_texts(path, text=text, label=False).texts)

    def streamed():
        stream = TextStream(path, text)
        parts = list(stream.parts(2))
        assert [len(part) for part in parts[:-1]] == [2] * (len(parts) - 1)
        found = [text for part in parts for text in part]
        assert len(stream) == len(found)
        return found

    assert outcome(streamed) == expected


def test_parquet_is_read_as_the_same_table_in_another_format(tmp_path):
    """Where pyarrow is installed, as by the extra `dev`."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"text": [f"text {n}" for n in range(5)], "label": ["a", "b", "a", "b", "c"]}
    parquet.write_table(arrow.table(columns), tmp_path / "table.parquet", row_group_size=2)
    expected = Texts(columns["text"], columns["label"], [1, 2, 3, 4, 5])
    assert read_texts(tmp_path / "table.parquet") == expected
    parts = [read_texts(each) for each in file_parts.file_parts(tmp_path / "table.parquet", 2)]
    assert [text for part in parts for text in part.texts] == expected.texts
    assert [line for part in parts for line in part.lines] == expected.lines
    assert len(TextStream(tmp_path / "table.parquet")) == 5
    (tmp_path / "wrong.parquet").write_bytes(b"no table")
    with pytest.raises(ValueError, match="wrong.parquet is not a Parquet file: "):
        read_texts(tmp_path / "wrong.parquet")
    parquet.write_table(arrow.table({"text": arrow.array([], "string")}), tmp_path / "no.parquet")
    with pytest.raises(ValueError, match="no.parquet has column names but no rows"):
        list(file_parts.file_parts(tmp_path / "no.parquet", 2))


def test_cells_of_parquet_that_are_no_plain_texts(tmp_path):
    """Bytes are texts without their type; a label of NaN is none, and no column is another's."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"

    def read(texts, labels, names=("text", "label")):
        columns = [arrow.array(texts), arrow.array(labels)]
        parquet.write_table(arrow.Table.from_arrays(columns, names), path)
        return read_texts(path)

    found = read(["Été".encode(), b"b"], [b"x", b"y"])
    assert (found.texts, found.labels) == (["Été", "b"], ["x", "y"])
    with pytest.raises(ValueError, match="line 2: a cell of bytes is not UTF-8. Received: b'.xff'"):
        read([b"a", b"\xff"], ["x", "y"])
    with pytest.raises(ValueError, match="a.parquet, line 2: the label is missing"):
        read(["a", "b"], [1.0, float("nan")])
    with pytest.raises(ValueError, match="a.parquet: two columns are named 'text'; rename one."):
        read(["a", "b"], ["c", "d"], ["text", "text"])


def test_parquet_without_pyarrow_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match="table.parquet needs pyarrow: pip install pyarrow, or"):
        read_texts(tmp_path / "table.parquet")


def test_a_stream_may_begin_and_end_anywhere(tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"w{n}\n" for n in range(10)))
    expected = [["w3", "w4", "w5"], ["w6", "w7"]]
    for source in (tmp_path / "texts.txt", [f"w{n}" for n in range(10)]):
        assert list(TextStream(source).parts(3, 3, 8)) == expected
    assert list(TextStream(np.array(["a", "b"])).parts(2)) == [["a", "b"]]
    with pytest.raises(TypeError, match="sequence that can be sliced: .* Received: generator"):
        TextStream(text for text in ["one"])


def test_a_part_of_the_file_is_in_memory_at_a_time(tmp_path):
    with open(tmp_path / "texts.txt", "w") as file:
        file.writelines(f"{n} {'word ' * 200}\n" for n in range(4000))  # 4 MB
    tracemalloc.start()
    count = sum(len(part) for part in TextStream(tmp_path / "texts.txt").parts(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 4000 and peak < 1e6


@pytest.mark.parametrize("end", ["", '",b\nlast,c\n'])
def test_a_field_over_many_blocks_is_parsed_in_linear_time(tmp_path, monkeypatch, end):
    """Each block that does not end the field doubles the next: few characters are read again."""
    parsed, csv_rows = [], file_parts.csv_rows

    def count(content, *more):
        parsed.append(len(content))
        return csv_rows(content, *more)

    monkeypatch.setattr(file_parts, "BLOCK", 4)
    monkeypatch.setattr(file_parts, "csv_rows", count)
    path = tmp_path / "a.csv"
    path.write_text('text,label\none,a\n"two,b\n' + "more words,b\n" * 4000 + end)
    parts = file_parts.file_parts(path, 2)
    if end:
        assert [len(part.rows) for part in parts] == [2, 1]
    else:
        with pytest.raises(ValueError, match=r"a.csv, line 3: not CSV \(unexpected end of data\)"):
            list(parts)
    assert sum(parsed) < 4 * path.stat().st_size
