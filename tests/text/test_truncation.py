"""That no token is dropped without a word."""

import logging

import pytest

from keras_posenc.text import TextBatches, Tokenizer, truncation

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def afresh():
    """Each test is a process of its own, as far as what was said before goes."""
    truncation._log.cache_clear()


@pytest.fixture
def tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]
    return Tokenizer(vocabulary={word: number for number, word in enumerate(words)})


def lines(caplog):
    assert {record.name for record in caplog.records} <= {"keras_posenc"}
    return [record.getMessage() for record in caplog.records]


def test_batches_say_how_many_texts_and_what_share(tokenizer, caplog):
    texts = ["a b c d e f g h", "a b", "a b c d e f", "c"]  # 10 + 4 + 8 + 3 tokens
    TextBatches(texts, tokenizer=tokenizer, max_length=6)
    (line,) = lines(caplog)
    assert line == (
        "2 of 4 texts are longer than max_length=6: 24.0% of all tokens are cut off. The longest "
        "has 10 tokens. To read all of a text, raise `max_length`, or read it in chunks: give "
        '`chunks` to predict and evaluate, reading="chunks:6" to embed.'
    )
    assert caplog.records[0].levelno == logging.WARNING
    TextBatches(texts, tokenizer=tokenizer, max_length=6)  # such as the validation of each epoch
    assert len(lines(caplog)) == 1
    TextBatches(texts, tokenizer=tokenizer, max_length=9)
    assert lines(caplog)[1].startswith("1 of 4 texts are longer than max_length=9: 4.0% of all")


def test_pairs_and_ids_too(tokenizer, caplog):
    pairs = [("a b c", "d e f"), ("a", "b")]  # 9 + 5 tokens
    TextBatches(pairs, tokenizer=tokenizer, max_length=7)
    TextBatches([[1] * 2000, [1, 2]], max_length=1999)
    assert [line.split(" are cut off")[0] for line in lines(caplog)] == [
        "1 of 2 texts are longer than max_length=7: 14.3% of all tokens",
        "1 of 2 texts are longer than max_length=1999: less than 0.1% of all tokens",
    ]


def test_nothing_is_logged_where_nothing_is_cut(tokenizer, caplog):
    TextBatches(["a b", "c"], tokenizer=tokenizer, max_length=4)
    TextBatches(["a b", "c"], tokenizer=tokenizer, max_length=None)
    tokenizer.encode("a b", max_length=4)
    tokenizer.windows("a b c d e f", 4)
    assert lines(caplog) == []


def test_a_tokenizer_says_it_once(tokenizer, caplog):
    tokenizer.encode("a b", max_length=4)
    tokenizer.encode("a b c d", max_length=4)
    tokenizer.encode("a b c d e", max_length=4)
    tokenizer.encode_batch(["a b c d e", "a"], max_length=4)
    (line,) = lines(caplog)
    assert line.startswith("1 of 1 texts are longer than max_length=4: 33.3% of all tokens")


def test_a_program_that_sets_up_no_logging_prints_it(tokenizer, capsys):
    """And one that takes warnings for errors, as this one does, goes on."""
    logger = logging.getLogger("keras_posenc")
    handlers, logging.root.handlers = logging.root.handlers, []
    try:
        assert not logger.handlers
        tokenizer.encode("a b c d e f", max_length=5)
    finally:
        logging.root.handlers = handlers
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("1 of 1 texts are longer than max_length")
