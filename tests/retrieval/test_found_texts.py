"""The texts of hits, from lists and from files of more rows than are read at a time."""

import json

import pytest

from keras_posenc.retrieval.passages import found_texts

pytestmark = pytest.mark.once
COUNT = 2500


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".jsonl"])
def test_rows_are_numbered_through_a_file(tmp_path, suffix):
    path = tmp_path / f"texts{suffix}"
    texts = [f"text {number}" for number in range(1, COUNT + 1)]
    lines = {
        ".txt": texts,
        ".csv": ["text", *texts],
        ".jsonl": [json.dumps({"text": text}) for text in texts],
    }
    path.write_text("\n".join(lines[suffix]) + "\n")
    wanted = {"1", "1024", "1025", "1026", "2049", str(COUNT)}
    found = found_texts(str(path), None, True, wanted)
    assert found.keys() == wanted
    for key, (number, text, *_) in found.items():
        # The number is that of the row in the file, whatever part of it was read.
        assert text == f"text {key}" and number == int(key)
    others = found_texts(texts, None, True, wanted)
    assert {key: value[:2] for key, value in found.items()} == {
        key: value[:2] for key, value in others.items()
    }


@pytest.mark.parametrize("by_row", [True, False])
def test_ids_of_a_file_of_many_rows(tmp_path, by_row):
    path = tmp_path / "texts.jsonl"
    rows = [{"id": f"a{number}", "text": f"text {number}"} for number in range(1, COUNT + 1)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    wanted = {"3", "2000"} if by_row else {"a3", "a2000"}
    found = found_texts(str(path), None, by_row, wanted)
    assert {key.strip("a"): tuple(value[:2]) for key, value in found.items()} == {
        "3": ("a3", "text 3"), "2000": ("a2000", "text 2000"),
    }  # fmt: skip
