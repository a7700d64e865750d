"""Chunks cover every token, none is too long, and they end with sentences."""

import numpy as np
import pytest

from keras_posenc import Tokenizer
from keras_posenc.retrieval import chunk_spans

pytestmark = pytest.mark.once

WORDS = "one two three four five six seven eight nine ten . ! ? , “ ” 。 山 川".split()
TOKENIZER = Tokenizer(
    vocabulary={w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
)


def count(text):
    return len(TOKENIZER.contents([text])[0])


@pytest.mark.parametrize("seed", range(20))
def test_chunks_cover_all_tokens_and_none_is_too_long(seed):
    rng = np.random.default_rng(seed)
    text = "".join(rng.choice(WORDS) + rng.choice(["", " ", "  ", "\n", "\n\n"]) for _ in range(80))
    size = int(rng.integers(1, 20))
    overlap = int(rng.integers(0, size // 2 + 1))
    spans = chunk_spans(text, TOKENIZER, size, overlap)
    ((_, offsets),) = TOKENIZER.contents([text], offsets=True)
    for start, end in offsets:
        assert any(first <= start and end <= last for first, last in spans)
    assert all(1 <= count(text[first:last]) <= size for first, last in spans)
    starts = [first for first, _ in spans]
    assert starts == sorted(set(starts))
    if overlap == 0:
        assert sum(count(text[first:last]) for first, last in spans) == len(offsets)


@pytest.mark.parametrize(
    "size, text, chunks",
    [
        (5, "One two. Two one three. One.", ["One two.", "Two one three.", "One."]),
        (7, "One two “three!” Four five six.", ["One two “three!”", "Four five six."]),
        (5, "one two three\n\nfour five six seven", ["one two three", "four five six seven"]),
        (6, "山川山。川山川山。", ["山川山。", "川山川山。"]),
        (6, "one two three four five six seven", ["one two three four five six", "seven"]),
        (5, "one 1.5 two three. four", ["one 1.5 two", "three. four"]),
    ],
)
def test_chunks_end_with_sentences(size, text, chunks):
    spans = chunk_spans(text, TOKENIZER, tokens=size)
    assert [text[start:end] for start, end in spans] == chunks


def test_an_overlap_begins_with_a_sentence():
    text = "one two three. four five. six seven eight. nine ten."
    spans = chunk_spans(text, TOKENIZER, tokens=8, overlap=4)
    assert [text[start:end] for start, end in spans] == [
        "one two three. four five.",
        "four five. six seven eight.",
        "six seven eight. nine ten.",
    ]


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"tokens": 0}, ValueError, "`tokens` must be a positive integer. Received: 0"),
        ({"tokens": 2.0}, ValueError, "`tokens` must be a positive integer. Received: 2.0"),
        ({"tokens": True}, ValueError, "`tokens` must be a positive integer. Received: True"),
        (
            {"tokens": 8, "overlap": 5},
            ValueError,
            "`overlap` must be an integer from 0 to 4. Received",
        ),
        (
            {"tokens": 8, "overlap": -1},
            ValueError,
            "`overlap` must be an integer from 0 to 4. Received",
        ),
    ],
)
def test_refused_sizes(arguments, error, message):
    with pytest.raises(error, match=message):
        chunk_spans("one two", TOKENIZER, **arguments)


def test_an_empty_text_is_refused():
    with pytest.raises(ValueError, match="no token to make a chunk of"):
        chunk_spans(" \n", TOKENIZER)
