"""Texts read a part at a time: the same texts, and the same errors, as read whole."""

import tracemalloc

import numpy as np
import pytest

from keras_posenc.text import read_texts
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
}


def outcome(read):
    try:
        return read()
    except (ValueError, FileNotFoundError) as error:
        return str(error)


@pytest.mark.parametrize("name", FILES)
def test_a_stream_reads_what_read_texts_reads(tmp_path, name):
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
