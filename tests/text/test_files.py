"""Reading labelled texts: every format, the real corpora, and errors that name the line."""

import bz2
import gzip
import json
import lzma

import pytest

from keras_posenc.text import Texts, ids, labels_of, read_texts
from keras_posenc.text.file_parts import file_parts
from keras_posenc.text.files import read_rows
from keras_posenc.text.ids import read_ids, read_titles
from keras_posenc.text.tagged import read_tagged

pytestmark = pytest.mark.once

ORANGE = "Category\tText\nd\tstring\nclass\tinclude=True\n"


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write


def test_book_excerpts(book_excerpts):
    data = read_texts(book_excerpts)
    assert len(data) == 140
    assert labels_of(data) == ["adult", "children"]
    assert data.lines == list(range(5, 145))  # three header lines and a blank one
    lines = book_excerpts.read_text("utf-8").split("\n")
    assert [f"{a}\t{b}" for a, b in zip(data.labels, data.texts, strict=True)] == lines[4:144]


def test_newsgroups(newsgroups_train, newsgroups_test):
    train, test = read_texts(newsgroups_train), read_texts(newsgroups_test)
    assert (len(train), len(test)) == (11293, 7528)
    assert labels_of(train) == labels_of(test)
    assert len(labels_of(train)) == 20
    assert max(map(len, train.texts)) == 66536


@pytest.mark.parametrize(
    ("name", "count", "classes", "start"),
    [
        ("grimm-tales.tab", 54, 5, "A certain father had two sons"),
        ("election-tweets-2016.tab", 6444, 2, "The question in this election"),
        ("slo-opinion-corpus.tab", 1740, 4, "Ze vceraj sem napisal"),
        ("andersen.tab", 3, 0, "It was terribly cold"),
    ],
)
def test_other_orange_files_with_many_columns_and_quotes(
    book_excerpts, name, count, classes, start
):
    data = read_texts(book_excerpts.parent / name)
    assert len(data) == count
    assert len(set(data.labels or [])) == classes
    assert data.texts[0].startswith(start)


def test_an_empty_text_in_a_real_file(book_excerpts):
    with pytest.raises(ValueError, match="friends-transcripts.tab, line 1671: the text is empty"):
        read_texts(book_excerpts.parent / "friends-transcripts.tab")


SAME = [
    ("a.tsv", 'label\ttext\nx\tone, two\ny\tsay "hi"\n'),
    ("a.tsv", '\ufefflabel\ttext\r\nx\tone, two\r\n\r\ny\tsay "hi"\r\n'),
    ("a.TSV", 'text\tlabel\none, two\tx\n"say ""hi"""\ty'),
    ("a.csv", 'label,text\nx,"one, two"\ny,"say ""hi"""\n'),
    ("a.csv", 'id,Sentence,Class\n7,"one, two",x\n\n8,"say ""hi""", y \n'),
    ("a.jsonl", '{"label": "x", "text": "one, two"}\n\n{"text": "say \\"hi\\"", "label": "y"}'),
    ("a.tab", ORANGE + 'x\tone, two\n\ny\tsay "hi"\n'),
    ("a.tab", 'A\tB\tC\ns\ts\td\nmeta\tinclude=True\tclass\n\tone, two\tx\n\tsay "hi"\ty\n'),
]


@pytest.mark.parametrize(("name", "content"), SAME)
@pytest.mark.parametrize("newline", ["\r", "\r\n", "\n\ufeff"])
def test_other_line_ends_change_nothing(write, name, content, newline):
    """Of old Macs, of Windows, and of files that were joined, each with its byte order mark."""
    data = read_texts(write(name, content.replace("\r\n", "\n").replace("\n", newline)))
    assert (data.texts, data.labels) == (["one, two", 'say "hi"'], ["x", "y"])


@pytest.mark.parametrize("space", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\u00a0"])
def test_a_line_ends_at_newlines_only(write, space):
    text = f"one{space}two"
    assert read_texts(write("a.tsv", f"text\tlabel\n{text}\tx\n")).texts == [text]
    assert read_texts(write("a.tab", ORANGE + f"x\t{text}\n")).texts == [text]
    assert read_texts(write("a.txt", text + "\nthree\n")).texts == [text, "three"]
    quoted = write("a.csv", f'text,label\n"{text}",x\n')
    assert read_texts(quoted).texts == [text]
    if space >= "\x85":  # JSON escapes the others
        assert read_texts(write("a.jsonl", f'{{"text": "{text}"}}\n')).texts == [text]


@pytest.mark.parametrize(("name", "content"), SAME)
def test_formats_agree(write, name, content):
    data = read_texts(write(name, content))
    assert data.texts == ["one, two", 'say "hi"']
    assert data.labels == ["x", "y"]


def test_txt(write):
    data = read_texts(write("a.txt", "one\r\n two\u2028three \x0c\n"))
    assert data == Texts(["one", " two\u2028three \x0c"], None, [1, 2])


def test_a_quote_is_an_ordinary_character_in_tab_separated_files(write):
    texts = ['"whole"', '"begin', 'end"', '"a" and "b"', '""', 'in "the" middle', '"x""']
    rows = "".join(f"c\t{text}\n" for text in texts)
    assert read_texts(write("a.tab", ORANGE + rows)).texts == texts
    assert read_texts(write("a.tsv", "label\ttext\n" + rows)).texts == texts


def test_a_line_as_csv_writes_it_is_read_so(write):
    rows = 'c\t"a\tb ""c"""\n"c"\t"all quoted"\n'
    assert read_texts(write("a.tab", ORANGE + rows)).texts == ['a\tb "c"', "all quoted"]


def test_long_fields_and_fields_of_many_lines(write):
    import csv

    limit = csv.field_size_limit()
    long = "word " * 60_000
    data = read_texts(write("a.csv", f'text,label\n"{long}",x\n"two\nlines",y\nlast,z\n'))
    assert data.texts == [long, "two\nlines", "last"]
    assert data.lines == [2, 3, 5]
    assert read_texts(write("a.tsv", f'text\tlabel\n{long}"\tx\n')).texts == [long + '"']
    assert csv.field_size_limit() == limit


def test_named_columns(write):
    path = write("a.csv", "id,question,answer,label\n1,why,so,x\n2,how,thus,y\n")
    assert read_texts(path, text="answer").texts == ["so", "thus"]
    assert read_texts(path, text="question", label="id").labels == ["1", "2"]
    assert read_texts(path, text=("question", "answer")).texts == [("why", "so"), ("how", "thus")]
    assert read_texts(path, text="label", label=False) == Texts(["x", "y"], None, [2, 3])
    assert read_texts(path, text="label").labels is None
    path = write("b.tsv", "utterance\tlabel\nhi\tx\n")
    assert read_texts(path).texts == ["hi"]


def test_labels_that_are_not_strings(write):
    rows = [{"text": "t", "label": label} for label in (1, 0, True, 2.5, " x ")]
    data = read_texts(write("a.jsonl", "\n".join(map(json.dumps, rows))))
    assert data.labels == ["1", "0", "true", "2.5", "x"]
    assert labels_of(data) == ["0", "1", "2.5", "true", "x"]


def test_no_labels(write):
    path = write("a.txt", "one\n")
    with pytest.raises(ValueError, match=r"These texts have no labels.*read_texts\(label=\)"):
        labels_of(read_texts(path))
    with pytest.raises(ValueError, match=r"a.txt has no column 'label'; there are \['text'\]"):
        read_texts(path, label="label")


TSV = "text\tlabel\n"
JSON = '{"text": "a", "label": "x"}\n'
BROKEN = [
    ("a.tsv", "", "a.tsv is empty"),
    ("a.tsv", " \n\n", "a.tsv is empty"),
    ("a.tsv", TSV, "a.tsv has column names but no rows"),
    ("a.tab", ORANGE, "a.tab has column names but no rows"),
    ("a.tsv", TSV + "one\tx\n \ty\n", "a.tsv, line 3: the text is empty"),
    (
        "a.tsv",
        TSV + "one\tx\n\ntwo\t\n",
        "a.tsv, line 4: the label is missing in the column 'label'; delete the line or fill it, or "
        r"name another column of labels as label= \(--label-column\), one of \['text', 'label'\]",
    ),
    ("a.tsv", TSV + "one\tx\ntwo\ty\tz\n", r"line 3: 3 fields where .* 2 columns \(text, label\)"),
    ("a.tsv", TSV + "one\n", "line 2: 1 fields where there are 2 columns"),
    (
        "a.tsv",
        TSV + '"one\ntwo"\tx\n',
        r"line 2: 1 fields .* in .tsv a row is one line. Write a file with .* as .csv, .*jsonl\.",
    ),
    ("a.tab", ORANGE + "x\tone\n\nx\ttwo\tthree\n", "line 6: 3 fields where there are 2"),
    ("a.tab", "label\ttext\nx\tone two\ny\tthree four\n", "line 3: a .tab file has three lines"),
    ("a.tab", "label\ttext\nd\tstring", "line 2: a .tab file has three lines"),
    ("a.csv", "text,label\none,x\n,y\n", "a.csv, line 3: the text is empty"),
    ("a.csv", 'text,label\n"a\nb",x\n"two,y\n', "a.csv, line 4: not CSV .unexpected end of data"),
    ("a.csv", 'text,label\n"a" b,x\n', "a.csv, line 2: not CSV .',' expected .*, not ' '"),
    ("a.csv", 'text;label\n"a, b";x\n', "a.csv, line 1: one column, 'text;label'; .csv is separ"),
    ("a.csv", 'text,label\n"a\nb",x\none\n', "a.csv, line 4: 1 fields where there are 2"),
    ("a.csv", "text;label\na;b\n", "line 1: one column, 'text;label'; .csv is separated by commas"),
    ("a.csv", "text,text\na,b\n", "line 1: two columns are named 'text'; rename one"),
    (
        "a.csv",
        "id,note\n1,a\n",
        r"which column has the texts\? Give text= \(--text-column\), one of \['id', 'note'\]",
    ),
    (
        "a.csv",
        "label\nx\n",
        r"which column has the texts\? Give text= \(--text-column\), one of \[\]",
    ),
    ("a.jsonl", JSON + "{'text': 'a'}\n", "a.jsonl, line 2: not JSON .Expecting property name"),
    ("a.jsonl", JSON + '{"text": "a"\n', "a.jsonl, line 2: not JSON"),
    ("a.jsonl", JSON + '\n["a", "x"]\n', "a.jsonl, line 3: a list, not a JSON object"),
    ("a.jsonl", JSON + '{"text": "b"}\n', r"line 2: no 'label', only \['text'\]"),
    ("a.jsonl", JSON + '{"label": "b"}\n', r"line 2: no 'text', only \['label'\]"),
    ("a.jsonl", JSON + '{"text": 3, "label": "x"}', "line 2: 'text' should be a text, not a int"),
    ("a.jsonl", JSON + '{"text": "", "label": "x"}', "line 2: the text is empty"),
    ("a.jsonl", JSON + '{"text": "b", "label": null}', "line 2: the label is missing"),
    ("a.jsonl", JSON + '{"text": "b", "label": NaN}', "line 2: the label is missing"),
    ("a.jsonl", JSON + '{"text": "b", "label": ["x"]}', "'label' should be one label, not a list"),
    ("a.jsonl", '{"text": "a\\ud800"}', r"line 1: 'text' has half a surrogate pair"),
    ("a.txt", "one\n\ntwo\n", "a.txt, line 2: the text is empty"),
    (
        "a.txt",
        b"one\ncaf\xe9 au lait\n",
        "a.txt, line 2, byte 4: 0xe9 is not UTF-8; convert .*iconv -f lat",
    ),
    ("a.txt", b"one\rcaf\xe9 au lait\r", "a.txt, line 2, byte 4: 0xe9 is not UTF-8; convert"),
    ("a.txt", b"\xef\xbb\xbfok\nab\xff", "a.txt, line 2, byte 3: 0xff is not UTF-8"),
    ("a.csv", "text\na\n".encode("utf-16"), "a.csv, line 1: this is UTF-16; .*iconv -f utf-16"),
    ("a.json", "[]", r"a.json: '.json' is not one of .tsv, .csv, .*txt. Write the texts to one of"),
]


PACKED = [
    (
        "a.csv",
        gzip.compress(b"text\na\n"),
        r"is compressed by gzip, .*: unpack it .gzip -dc a.csv >",
    ),
    ("a.csv.gz", gzip.compress(b"text\na\n"), "gzip -dc a.csv.gz > a-unpacked.csv"),
    ("a.tsv", bz2.compress(b"text\na\n"), "is compressed by bzip2"),
    ("a.jsonl", lzma.compress(b"{}"), "is compressed by xz"),
    ("a.txt", b"\x28\xb5\x2f\xfd\x04\x00\x11", "is compressed by zstd"),
    ("a.csv", b"PK\x03\x04\x14\x00", r"is a zip archive or a spreadsheet \(.xlsx\), and no text"),
    ("a.csv", b"PAR1\x15\x04\x15", "is a Parquet file, and no text: rename it to a.parquet"),
    ("a.txt", b"%PDF-1.7\n", "is a PDF file, and no text: extract its text"),
    ("a.txt", b"\x89HDF\r\n\x1a\n\0\0\0\0\0\0", "a.txt is a binary file, and no text"),
]


@pytest.mark.parametrize(("name", "content", "message"), PACKED, ids=range(len(PACKED)))
def test_files_that_are_no_text_are_named_as_what_they_are(write, name, content, message):
    path = write(name, content)
    with pytest.raises(ValueError, match=message):
        read_texts(path)
    for read in (lambda: list(file_parts(path, 2)), lambda: read_tagged(path)):
        with pytest.raises(ValueError, match=message):
            read()


@pytest.mark.parametrize(
    "start", [b"BZhang\n", b"PAR1\n", b"PKW\n", b"a\0b\n", "a\0\u00e9\n".encode()]
)
def test_texts_that_begin_like_other_files_are_read(write, start):
    assert read_texts(write("a.txt", start)).texts == [start.decode().rstrip()]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN)
def test_broken_files_name_the_line(write, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_texts(write(name, content))


def test_missing_files_and_columns(write, tmp_path):
    with pytest.raises(ValueError, match="must have a file of .txt, .md, .*: a table of texts"):
        read_texts(tmp_path)
    (tmp_path / "one.txt").write_text("two\nlines")
    assert read_texts(tmp_path).texts == ["two\nlines"]
    with pytest.raises(FileNotFoundError, match="No file .*nowhere.tsv"):
        read_texts(tmp_path / "nowhere.tsv")
    with pytest.raises(FileNotFoundError, match=r"A text is given in a list: \['hello world'\]"):
        read_texts("hello world")
    path = write("a.tsv", TSV + "one\tx\n")
    with pytest.raises(ValueError, match=r"no column 'body'; .* one of them as text= \(--text-c"):
        read_texts(path, text="body")
    with pytest.raises(ValueError, match="the column 'text' cannot have both the texts and the la"):
        read_texts(path, text="text", label="text")
    with pytest.raises(
        ValueError, match=r"no column 'kind'; there are \['text', 'label'\]: .*label="
    ):
        read_texts(path, label="kind")
    with pytest.raises(ValueError, match="has no column 'second'"):
        read_texts(path, text=("text", "second"))


def test_columns_that_begin_in_a_later_row(tmp_path, monkeypatch):
    """They are columns as those of the first row are, in every reader and in files of any size."""
    path = tmp_path / "a.jsonl"
    rows = [{"text": "a"}, {"text": "b", "label": "x", "id": "n"}, {"text": "c", "title": "t"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match=r"line 1: no 'label', only \['text'\]"):
        read_texts(path)
    assert read_texts(path, label=False).texts == ["a", "b", "c"]
    assert read_rows(path)[0] == ["text", "label", "id", "title"]
    assert read_titles(path, "title") == read_titles(path, "auto") == [None, None, "t"]
    with pytest.raises(ValueError, match="line 1: the 'id' is empty"):
        read_ids(path)
    monkeypatch.setattr(ids, "ROWS", 1)
    with pytest.raises(ValueError, match="line 2: the column 'id' begins where 1 rows are without"):
        read_ids(path)
