"""Tokenizer files made to do harm, and texts that hold the names of special tokens."""

import json

import pytest
from crafted import T5, message, piece, sentence_piece
from crafted_tokenizers import DOUBLE, MODEL, TEMPLATE, TEXTS, crafted

from keras_posenc.files.untrusted import MOST_JSON
from keras_posenc.text import Tokenizer
from keras_posenc.text.loading import MOST_BYTES

pytestmark = pytest.mark.once

HALF = {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Removed", "invert": False}
NO_WORDS = {"type": "WordLevel", "vocab": {}, "unk_token": "x"}
ANY = {"type": "Replace", "pattern": {"Regex": "."}, "content": "x" * 100}
NOTHING = {"type": "Replace", "pattern": {"String": ""}, "content": "x" * 64}
PREPEND = {"type": "Prepend", "prepend": "x" * 64}
MAP = {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAAA"}

CRAFTED = {
    "panics when read": ({"normalizer": {**MAP, "precompiled_charsmap": "AAAA"}}, "Precompiled"),
    "panics on a text": ({"normalizer": MAP}, "no tokenizer that works: index out of bounds"),
    "panics on a part of nothing": (
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        "no tokenizer that works: chunk size must be non-zero",
    ),
    "panics on a pair": (
        {"post_processor": {**TEMPLATE, "special_tokens": {}}},
        "no entry found for key",
    ),
    "lacks its unknown token": (
        {"model": {**MODEL, "vocab": {"[PAD]": 0}}},
        "no tokenizer that works: WordPiece error: Missing",
    ),
    "an id of a table of a terabyte": (
        {"model": {**MODEL, "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2**32 - 1}}},
        "a token has the id 4294967295, and a table of at most 16777216 rows",
    ),
    "leaves out a text": (
        {
            "post_processor": {**TEMPLATE, "pair": TEXTS[:1], "single": TEXTS[:1]}
            | {"special_tokens": {}}
        },
        r"its post_processor writes the texts \['A'\] for 'pair', not \['A', 'B'\]",
    ),
    "finds no token": (
        {"normalizer": {"type": "Replace", "pattern": {"Regex": "."}, "content": ""}},
        "no tokenizer that works: it leaves out a text, or finds no token in any",
    ),
    "adds an id beyond the table": (
        {"post_processor": {"type": "BertProcessing", "sep": ["x", 99], "cls": ["[PAD]", 0]}},
        "it adds the id 99 of segment 0 to a text, beyond its 3 tokens",
    ),
    "a text 2^60 times as long": (
        {"normalizer": {"type": "Sequence", "normalizers": [DOUBLE] * 60}},
        "its normalizer and pre_tokenizer can make a text 1.15e.18 times as long, more than 64",
    ),
    "in parts of parts": (
        {
            "normalizer": {
                "type": "Sequence",
                "normalizers": [{"type": "Sequence", "normalizers": [DOUBLE] * 4}] * 2,
            }
        },
        "a text 256 times as long",
    ),
    "a character as a hundred": ({"normalizer": ANY}, "a text 100 times as long"),
    "nothing as something": ({"normalizer": NOTHING}, "a text 65 times as long"),
    "put before": ({"normalizer": PREPEND}, "a text 65 times as long"),
    "a table of eight gigabytes": (
        {"normalizer": {**MAP, "precompiled_charsmap": "AP///wAAAAAAAAAA"}},
        "is not a tokenizer.json: .*a part of it takes 4294967040 bytes, and has 8",
    ),
    "half a pattern": (
        {"pre_tokenizer": HALF},
        "is not a tokenizer.json: .*Oniguruma",
    ),
    "no vocabulary": ({"model": NO_WORDS}, "has no padding token"),
    "a kind of a megabyte": ({"model": {"type": "x" * 2**20}}, "is not a tokenizer.json"),
}


def test_what_is_crafted_here_is_read(tmp_path):
    usual = {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "Lowercase"}, DOUBLE]}
    tokenizer = Tokenizer(crafted(tmp_path, {"normalizer": usual}))
    assert tokenizer.encode("A b")[0] == [1, 1] and tokenizer.vocab_size == 3


@pytest.mark.parametrize("old", ["precompiled", "AP///w"])
def test_a_table_of_gigabytes_in_other_letters(tmp_path, old):
    """JSON has more than one way to write a text."""
    folder = crafted(tmp_path, CRAFTED["a table of eight gigabytes"][0])
    text = (folder / "tokenizer.json").read_text()
    new = old.replace("/", "\\/") if "/" in old else "".join(f"\\u{ord(c):04X}" for c in old)
    assert old in text and json.loads(text.replace(old, new)) == json.loads(text)
    (folder / "tokenizer.json").write_text(text.replace(old, new))
    with pytest.raises(ValueError, match="a part of it takes 4294967040 bytes"):
        Tokenizer(folder)


@pytest.mark.parametrize("case", CRAFTED)
def test_files_that_tokenizers_does_not_write(tmp_path, case):
    changes, message = CRAFTED[case]
    with pytest.raises(ValueError, match=f"tokenizer.json.*{message}") as caught:
        Tokenizer(crafted(tmp_path, changes))
    shown = str(caught.value).replace(str(tmp_path), "")
    assert "\n" not in shown and len(shown) < 500


def test_a_panic_on_a_later_text(tmp_path):
    """Of a map that is right for the text that is tried, and wrong for another."""
    unigram = {"type": "Unigram", "unk_id": None, "vocab": [["[PAD]", 0.0], ["a", 0.0]]}
    tokenizer = Tokenizer(crafted(tmp_path, {"model": unigram}))
    with pytest.raises(ValueError, match="tokenizer.json is no tokenizer that works: .*unknown"):
        tokenizer.encode("b")


def test_files_of_any_length_and_depth(tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(ValueError, match=f"json is refused: it is longer than {MOST_BYTES} bytes"):
        Tokenizer(tmp_path)
    for data in (b"[" * 100_000, b"\xff", b""):
        (tmp_path / "tokenizer.json").write_bytes(data)
        with pytest.raises(ValueError, match="tokenizer.json is not a tokenizer.json"):
            Tokenizer(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(b"\n" * (MOST_JSON + 1))
    with pytest.raises(ValueError, match=f"txt is refused: it is longer than {MOST_JSON} bytes"):
        Tokenizer(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": "no"}')
    with pytest.raises(ValueError, match="json: do_lower_case is 'no', not true, false or null"):
        Tokenizer(tmp_path / "vocab.txt")


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json"])
def test_the_names_of_special_tokens_in_a_text_are_text(minilm, name):
    import transformers

    text = "He wrote [SEP] and [MASK], or[CLS]?"
    reference = transformers.BertTokenizer.from_pretrained(minilm)
    ours, trusting = Tokenizer(minilm / name), Tokenizer(minilm / name, special_in_text=True)
    assert trusting.encode(text)[0] == reference(text)["input_ids"]
    (ids, segments), special = ours.encode(text), (ours.cls_id, ours.sep_id, ours.mask_id)
    assert [place for place, id in enumerate(ids) if id in special] == [0, len(ids) - 1]
    assert ids == reference(text, split_special_tokens=True)["input_ids"] and not any(segments)
    assert "mask" in ours.decode(ids)


WORDS = [*T5, piece("▁a"), piece("b"), piece("▁", -3.0)]
LONG = "x" * 1025
MODELS = {
    "nothing": (b"", "no SentencePiece model: among its 0 pieces is none for what is unknown"),
    "text": (b"[PAD]\n[UNK]\n", "no SentencePiece model: "),
    "half a field": (sentence_piece(*WORDS)[:-40], "no SentencePiece model: "),
    "an empty piece": (sentence_piece(*T5, piece("")), "its piece 3 is empty, or its score is no"),
    "a score of nan": (sentence_piece(*T5, piece("a", float("nan"))), "its piece 3 is empty, or"),
    "a piece of a kilobyte": (sentence_piece(*T5, piece(LONG)), "its piece 3 is longer than 1024"),
    "bytes that are no text": (sentence_piece(*T5, piece(b"\xff")), "no SentencePiece .*utf-8"),
    "a piece that is a number": (message((1, 5)), "no SentencePiece model: "),
    "words": (sentence_piece(*WORDS, algorithm=3), "it splits into words or characters"),
    "spaces as they are": (sentence_piece(*WORDS, normalizer=[(5, 0)]), "it leaves spaces as they"),
    "a table of eight gigabytes": (
        sentence_piece(*WORDS, normalizer=[(2, b"\0\xff\xff\xff" + bytes(9))]),
        "no SentencePiece model: .*a part of it takes 4294967040 bytes, and has 9",
    ),
    "a table that panics": (
        sentence_piece(*WORDS, normalizer=[(2, bytes([4, 0, 0, 0] + [0] * 5))]),
        "no tokenizer that works: index out of bounds",
    ),
    "half a table": (sentence_piece(*WORDS, normalizer=[(2, b"\0")]), "no tokenizer that works"),
    "without the end of a text": (sentence_piece(T5[0], T5[2]), "has no piece '</s>', which its"),
    "of no family": (sentence_piece(T5[2], piece("▁a")), "cannot be identified from its pieces"),
}


@pytest.mark.parametrize("case", MODELS)
def test_sentencepiece_models_that_nobody_writes(tmp_path, case):
    data, message = MODELS[case]
    (tmp_path / "spiece.model").write_bytes(data)
    with pytest.raises(ValueError, match=f"spiece.model.*{message}") as caught:
        Tokenizer(tmp_path)
    shown = str(caught.value).replace(str(tmp_path), "")
    assert "\n" not in shown and len(shown) < 500


def test_what_is_crafted_of_sentencepiece_is_read(tmp_path):
    (tmp_path / "spiece.model").write_bytes(sentence_piece(*WORDS))
    tokenizer = Tokenizer(tmp_path)  # of T5's family, as its pieces tell
    assert tokenizer.encode("a ab  b") == ([3, 3, 4, 5, 4, 1], [0] * 6)
    assert tokenizer.vocab_size == 106 and tokenizer.ids_to_tokens([105]) == ["<extra_id_0>"]
    (tmp_path / "spiece.model").write_bytes(b"x" * (2**26 + 1))
    with pytest.raises(ValueError, match="spiece.model is refused: it is longer than 67108864"):
        Tokenizer(tmp_path)


def write_merges(folder, vocabulary, merges="#version: 0.2\na b\n"):
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    if merges is not None:
        (folder / "merges.txt").write_bytes(merges.encode("latin-1"))
    return folder


LETTERS = {"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3}


def test_what_is_crafted_of_merges_is_read(tmp_path):
    tokenizer = Tokenizer(write_merges(tmp_path, LETTERS))
    assert tokenizer.encode("abba") == ([3, 2, 1], [0, 0, 0])
    assert tokenizer.pad_id == tokenizer.eos_id == 0


@pytest.mark.parametrize(
    ("vocabulary", "merges", "message"),
    [
        ([], "", "vocab.json is damaged .it holds a list"),
        ({}, "", "vocab.json: the tokenizer has no padding token"),
        ({"a": "b"}, "", "vocab.json: the token 'a' has the id 'b'"),
        ({"a": -1}, "", "vocab.json: the token 'a' has the id -1"),
        ({"a": 2**32}, "", "vocab.json: the token 'a' has the id 4294967296"),
        ({"\ud800": 1}, "", "vocab.json: .* has half a surrogate pair"),
        (LETTERS | {"c": 2**31}, "", "the id 2147483648, and a table of at most"),
        (LETTERS, "a b c\n", "merges.txt, line 1: 'a b c' is no pair of tokens"),
        (LETTERS, "#version\n\nab\n", "merges.txt, line 3: 'ab' is no pair of tokens"),
        (LETTERS, "a c\n", "vocab.json is no tokenizer that works: "),
        (LETTERS, "b a\n", "vocab.json is no tokenizer that works: "),
        (LETTERS, "\xff b\n", "merges.txt is not UTF-8, so no list of merges"),
    ],
)
def test_merges_that_nobody_writes(tmp_path, vocabulary, merges, message):
    write_merges(tmp_path, vocabulary, merges)
    with pytest.raises(ValueError, match=message) as caught:
        Tokenizer(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("tokenizer_config.json", {"pad_token": 5}, "pad_token is 5, which is no token"),
        ("tokenizer_config.json", {"pad_token": {"content": ""}}, "pad_token is {'content': ''}"),
        ("special_tokens_map.json", {"cls_token": ["a"]}, "cls_token is \\['a'\\], which is no"),
        ("special_tokens_map.json", {"cls_token": "\ud800"}, "cls_token has half a surrogate"),
        ("tokenizer_config.json", {"added_tokens_decoder": [1]}, "is no object of tokens"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": "a"}}, "'x' is no token id"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"7": None}}, "is None, which is no"),
        ("added_tokens.json", {"a": "b"}, "added_tokens.json: 'b' is no token id"),
        ("tokenizer_config.json", {"tokenizer_class": "Gemma"}, "has no piece '<bos>', which its"),
        ("tokenizer_config.json", {"extra_ids": "all"}, "extra_ids is 'all', not a number of 0"),
        ("tokenizer_config.json", {"add_bos_token": 1, "tokenizer_class": "Gemma"}, "is 1, not tr"),
        ("tokenizer_config.json", {"tokenizer_class": "XLNetTokenizer"}, "how 'xlnet' uses a Sent"),
        ("config.json", {"model_type": "bigbird"}, "how 'bigbird' uses a SentencePiece model is"),
    ],
)
def test_other_settings_that_nobody_writes(tmp_path, file, content, message):
    (tmp_path / "spiece.model").write_bytes(sentence_piece(*WORDS))
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        Tokenizer(tmp_path)


def test_files_that_lack_their_others(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no .*merges.txt, which vocab.json needs"):
        Tokenizer(write_merges(tmp_path, LETTERS, None))
    write_merges(tmp_path, LETTERS)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMTokenizer"}')
    with pytest.raises(ValueError, match="how 'xlm' uses a vocab.json is not known here, only how"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "RobertaTokenizer"}')
    with pytest.raises(ValueError, match="vocab.json has no token '<s>', which its family needs"):
        Tokenizer(tmp_path)
