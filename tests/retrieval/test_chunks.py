"""Chunks cover every token, none is too long, and they end with sentences."""

import numpy as np
import pytest
import tokenizers
from limits import processor_seconds

from keras_posenc import Tokenizer, embed
from keras_posenc.retrieval import LateSpans, chunk_spans

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


@pytest.mark.parametrize("repeated", [".", "?!…", '."', "\n ", "。", ".”\n"])
def test_the_time_of_a_long_run_of_marks_is_linear(repeated):
    text = f"one {repeated * 100_000}two"
    with processor_seconds(60):
        spans = chunk_spans(text, TOKENIZER, tokens=5000)
    assert spans[0][0] == 0 and spans[-1][1] == len(text)


@pytest.fixture(scope="module")
def of_bytes(tmp_path_factory):
    """A tokenizer whose tokens are bytes: a character has up to four of them."""
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator([], 261, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    folder = tmp_path_factory.mktemp("bytes")
    made.save_model(str(folder))
    return Tokenizer(folder)


@pytest.fixture(scope="module")
def of_forms():
    """A tokenizer that writes one character as several, as compatible forms of Unicode are."""
    vocabulary = {"<unk>": 0.0, "<pad>": 0.0} | dict.fromkeys("MHzab", -1.0)
    made = tokenizers.Tokenizer(tokenizers.models.Unigram(list(vocabulary.items()), 0))
    made.normalizer = tokenizers.normalizers.NFKC()
    return made


@pytest.mark.parametrize("overlap", [0, 1, 3])
@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 7])
def test_no_chunk_ends_inside_a_character(of_bytes, of_forms, tmp_path, tokens, overlap):
    of_forms.save(str(tmp_path / "tokenizer.json"))
    for text, tokenizer in (("aé山😀。b😀😀é", of_bytes), ("a㎒㎒b㎒a", Tokenizer(tmp_path))):
        spans = chunk_spans(text, tokenizer, tokens, min(overlap, tokens // 2))
        for start, end in spans:
            (ids,) = tokenizer.contents([text[start:end]])
            assert len(ids) <= tokens or len(text[start:end].strip()) == 1
        assert spans[0][0] == 0 and spans[-1][1] == len(text)
        assert "".join(text[start:end] for start, end in spans) == text or overlap
        assert [start for start, _ in spans] == sorted({start for start, _ in spans})


@pytest.mark.parametrize("reading", ["chunks:8", "late:4", "late:4,overlap=1"])
@pytest.mark.parametrize("texts", [[("a", "b"), ("c", "d")], [["a", "b"]], [[5, 6, 7]]])
def test_what_cannot_be_cut_is_refused(pretrained, reading, texts):
    message = f"`texts` must be a list of str, because reading='{reading}' cuts them.* the kind "
    with pytest.raises(TypeError, match=message):
        embed(pretrained, texts, reading=reading, verbose=0)


@pytest.mark.parametrize("reading", ["chunks:8", "late:4", LateSpans([[(0, 1)]] * 3)])
def test_an_error_has_the_number_of_the_text(pretrained, reading):
    texts = ["w1 w2", "w3", "w4 \ud800"]
    with pytest.raises(ValueError, match="^Text 2 has half a surrogate pair"):
        embed(pretrained, texts, reading=reading, verbose=0)
    if reading == "late:4":
        with pytest.raises(ValueError, match="^Text 1 has no token to make a chunk of"):
            embed(pretrained, ["w1", "\u200b"], reading=reading, verbose=0)
