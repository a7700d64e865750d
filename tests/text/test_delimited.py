"""Delimited text is read as Python's csv reads it, without its bound on the length of a field."""

import csv
import io
import random

import pytest

from keras_posenc.text import read_texts
from keras_posenc.text.tables import csv_rows

pytestmark = pytest.mark.once


def reference(content, delimiter):
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    found, start = [], 1
    for fields in reader:
        found.append((start, fields))
        start = reader.line_num + 1
    return found


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_equals_csv(delimiter):
    rng, counts = random.Random(0), {True: 0, False: 0}
    for _ in range(5000):
        letters = ['"', '""', delimiter, "\n", "\r\n", "\r", "a", " ", "é"]
        content = "".join(rng.choices(letters, [4, 2, 4, 1, 1, 0.5, 3, 1, 1], k=rng.randrange(12)))
        try:
            expected = reference(content, delimiter)
        except csv.Error as error:
            counts[False] += 1
            with pytest.raises(ValueError, match="line .*: not CSV") as caught:
                list(csv_rows(content, delimiter))
            assert str(error).replace("'\t'", r"'\t'") in str(caught.value)
        else:
            counts[True] += 1
            assert [row[:2] for row in csv_rows(content, delimiter)] == expected, repr(content)
    assert min(counts.values()) > 1000


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_the_limit_of_csv_is_not_touched(tmp_path, monkeypatch, suffix):
    """It belongs to the whole process: another thread may read with it at that moment."""
    path = tmp_path / f"x.{suffix}"
    content = f'text,label\n"{"x" * 200_000}""",a\n'
    path.write_text(content.replace(",", "\t") if suffix == "tsv" else content)

    def refuse(*limit):
        assert not limit
        return 10

    monkeypatch.setattr(csv, "field_size_limit", refuse)
    assert read_texts(path).texts == ["x" * 200_000 + '"']
