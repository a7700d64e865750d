"""Where tokens stand in their text, windows with a question, ids to tokens and back to text."""

import numpy as np
import pytest

from keras_posenc.text import Tokenizer, read_texts

pytestmark = pytest.mark.once

TEXT = "Éléphants aren't  small: 中文 3.5 m, 한국어!"


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return Tokenizer(minilm)


def test_offsets_cut_the_tokens_out_of_the_text(tokenizer):
    ids, segments, offsets = tokenizer.encode(TEXT, offsets=True)
    assert (ids, segments) == tokenizer.encode(TEXT)
    assert offsets[0] == offsets[-1] == (0, 0)
    parts = [TEXT[start:end] for start, end in offsets[1:-1]]
    assert parts[:6] == ["Éléphants", "aren", "'", "t", "small", ":"]
    assert parts[6:13] == ["中", "文", "3", ".", "5", "m", ","]
    assert set(parts[13:-1]) == set("한국어") and parts[-1] == "!"


def test_offsets_of_a_pair_are_of_each_text_and_follow_truncation(tokenizer):
    ids, segments, offsets = tokenizer.encode("one two three", "four five six", 7, offsets=True)
    assert tokenizer.ids_to_tokens(ids) == ["[CLS]", "one", "two", "[SEP]", "four", "five", "[SEP]"]
    assert offsets == [(0, 0), (0, 3), (4, 7), (0, 0), (0, 4), (5, 9), (0, 0)]
    ids, _, offsets = tokenizer.encode("one two three", None, 4, "left", offsets=True)
    assert tokenizer.ids_to_tokens(ids) == ["[CLS]", "two", "three", "[SEP]"]
    assert offsets == [(0, 0), (4, 7), (8, 13), (0, 0)]
    batch = tokenizer.encode_batch(["one", "two"], ["a", "b"], offsets=True)
    assert batch[1] == tokenizer.encode("two", "b", offsets=True)


def test_contents_with_offsets_are_put_together_as_ids_are(tokenizer):
    texts = [TEXT, "one two"]
    contents = tokenizer.contents(texts, offsets=True)
    assert [ids for ids, _ in contents] == tokenizer.contents(texts)
    assert contents[1][1] == [(0, 3), (4, 7)]
    first, second = (list(zip(*each, strict=True)) for each in contents)
    assembled, segments = tokenizer.assemble(first, second, max_length=12)
    ids, expected, offsets = tokenizer.encode(*texts, max_length=12, offsets=True)
    assert segments == expected and set(tokenizer.special_ids) & set(ids) == {101, 102}
    for item, number, span in zip(assembled, ids, offsets, strict=True):
        assert item == (number if number in tokenizer.special_ids else (number, span))


@pytest.mark.parametrize(("length", "stride"), [(64, 0), (64, 16), (32, 20), (400, 128)])
def test_windows_with_a_question_equal_transformers(minilm, tokenizer, length, stride):
    import transformers

    reference = transformers.BertTokenizer.from_pretrained(minilm)
    question, passage = "Who may it be?", "It's 3.5 miles (so they say) to the mill. " * 25
    expected = reference(
        question,
        passage,
        max_length=length,
        stride=stride,
        truncation="only_second",
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    windows = tokenizer.windows(passage, length, stride, question=question, offsets=True)
    assert [ids for ids, _, _ in windows] == expected["input_ids"]
    assert [segments for _, segments, _ in windows] == expected["token_type_ids"]
    for number, (_, _, offsets) in enumerate(windows):
        of_passage = [which == 1 for which in expected.sequence_ids(number)]
        found = expected["offset_mapping"][number]
        assert offsets == [
            span if kept else (0, 0) for span, kept in zip(found, of_passage, strict=True)
        ]
    assert tokenizer.windows(passage, length, stride, question) == [w[:2] for w in windows]


def test_an_answer_is_found_in_a_window_of_a_long_passage(tokenizer, book_excerpts):
    passage = read_texts(book_excerpts).texts[0]
    place = len(passage) // 2
    start = passage.index(" ", place) + 1
    end = passage.index(" ", start + 20)
    answers = set()
    for ids, _, offsets in tokenizer.windows(passage, 96, 32, question="What?", offsets=True):
        inside = [n for n, (a, b) in enumerate(offsets) if a < b and start <= a and b <= end]
        if inside and offsets[inside[0]][0] == start and offsets[inside[-1]][1] == end:
            assert len(ids) <= 96
            answers.add(passage[start:end])
    assert answers == {passage[start:end]}


def test_windows_that_cannot_be(tokenizer):
    with pytest.raises(
        ValueError, match="`length` must be .* at least 8: 3 are special tokens and 4 of"
    ):
        tokenizer.windows("text", 7, question="who is it?")
    with pytest.raises(ValueError, match="`stride` must be .* 0 to 0: windows of length=8 hold 1"):
        tokenizer.windows("text", 8, 1, question="who is it?")
    (window,) = tokenizer.windows("", 8, question="who?", offsets=True)
    assert tokenizer.ids_to_tokens(window[0]) == ["[CLS]", "who", "?", "[SEP]", "[SEP]"]


def bert4keras_rematch(text, tokens):
    """bert4keras's rule, for tokens of lower-case ASCII: each is found after the one before."""
    low, offset, mapping = text.lower(), 0, []
    for token in tokens:
        if token in ("[CLS]", "[SEP]"):
            mapping.append([])
            continue
        token = token.removeprefix("##")
        start = low[offset:].index(token) + offset
        offset = start + len(token)
        mapping.append(list(range(start, offset)))
    return mapping


def test_rematch(tokenizer):
    text = "Unbelievably  long: WORDS, it's 3.5 (or so)."
    tokens = ["[CLS]", *tokenizer.tokenize(text), "[SEP]"]
    assert tokenizer.rematch(text, tokens) == bert4keras_rematch(text, tokens)
    # Truncated, as by `maxlen`, and without special tokens.
    assert tokenizer.rematch(text, tokens[1:5]) == bert4keras_rematch(text, tokens[1:5])
    assert tokenizer.rematch(text, [*tokens[:5], "[SEP]"])[-1] == []
    assert tokenizer.rematch("", ["[CLS]", "[SEP]"]) == [[], []]
    with pytest.raises(ValueError, match="'good' is not the next token .* has 'long' there"):
        tokenizer.rematch("so long", ["so", "good"])
    with pytest.raises(ValueError, match="'good' is not the next token .* has its end there"):
        tokenizer.rematch("so", ["so", "good"])


def test_ids_to_tokens_and_back(tokenizer):
    tokens = ["[CLS]", "un", "##bel", "[MASK]", "中"]
    ids = tokenizer.tokens_to_ids(tokens)
    assert ids == [tokenizer.vocabulary[token] for token in tokens]
    assert tokenizer.ids_to_tokens(np.array(ids)) == tokens
    with pytest.raises(ValueError, match="'Capital' is no token of the vocabulary. tokenize"):
        tokenizer.tokens_to_ids(["un", "Capital"])
    with pytest.raises(TypeError, match="Expected a list of tokens, not one str: vocabulary"):
        tokenizer.tokens_to_ids("un")
    with pytest.raises(ValueError, match="-1 is no token id"):
        tokenizer.ids_to_tokens([5, -1])
    holes = Tokenizer(vocabulary={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 5})
    with pytest.raises(ValueError, match="vocabulary=: no token has the id 4"):
        holes.ids_to_tokens([0, 4])


@pytest.mark.parametrize(
    "text",
    [
        "don't stop, it's 3.5 dollars!",
        'he said "yes" (or no), and left; they\'ll see...',
        "a state-of-the-art 10:30 train costs $5,000 and/or 50% of £3",
        "l'eau d'un ami: “hello there”, she said.",
        "we waited--in vain--for o'clock [sic].",
        'the "old" man\'s \'new\' dog, "rex", ran.',
        "中文，大人。",
        "c_d joined",
        "",
    ],
)
def test_decode_writes_as_people_do(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)[0]) == text


def test_decode_restores_most_spaces_of_a_book(tokenizer, book_excerpts):
    """A tenth and an eighth as many errors as with the decoder of `tokenizers`."""
    wrong = {"ours": 0, "theirs": 0}
    for text in read_texts(book_excerpts).texts[:40]:
        text = " ".join(text.encode("ascii", "ignore").decode().lower().split())[:2000]
        ids = tokenizer.encode(text)[0]
        reference = tokenizer._rust.decode(ids, skip_special_tokens=True)
        for name, found in (("ours", tokenizer.decode(ids)), ("theirs", reference)):
            assert found.replace(" ", "") == text.replace(" ", "")
            wrong[name] += len(spaces(text) ^ spaces(found))
    assert wrong["ours"] < wrong["theirs"] / 5, wrong


def spaces(text):
    """After how many other characters the spaces of a text stand."""
    words = text.split(" ")
    return set(np.cumsum([len(word) for word in words]).tolist())


def test_names_of_other_libraries_are_refused_with_ours(tokenizer):
    cases = [
        (lambda: tokenizer.encode("a", maxlen=8), "encode has no argument maxlen: maxlen is max_l"),
        (
            lambda: tokenizer.encode(first_text="a"),
            "encode has no argument first_text: .* is first",
        ),
        (lambda: tokenizer.encode("a", second_text="b"), "second_text is second="),
        (
            lambda: tokenizer.encode("a", truncation=True, max_len=8, return_tensors="np"),
            "argument truncation, max_len, return_tensors: truncation is max_length=, which is en",
        ),
        (lambda: tokenizer.encode_batch(["a"], padding=True), "padding is TextBatches, which pads"),
        (lambda: tokenizer.encode("a", wrong=1), "encode has no argument wrong."),
        (lambda: Tokenizer(vocabulary=tokenizer.vocabulary, do_lower_case=True), "is lowercase="),
        (lambda: Tokenizer(token_dict="vocab.txt"), "token_dict is path, without a name, or voc"),
        (lambda: tokenizer.windows("a", 8, return_offsets_mapping=True), "is offsets=True"),
    ]
    for call, words in cases:
        with pytest.raises(TypeError, match=words):
            call()
    with pytest.raises(TypeError, match="encode needs a text"):
        tokenizer.encode()
