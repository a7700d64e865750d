"""Tokenizer files made to do harm, and texts that hold the names of special tokens."""

import json

import pytest

from keras_posenc.text import Tokenizer
from keras_posenc.text.loading import MOST_BYTES
from keras_posenc.untrusted import MOST_JSON

pytestmark = pytest.mark.once

MODEL = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
    "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2},
}


CLS = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
TEXTS = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
TEMPLATE = {"type": "TemplateProcessing", "single": [CLS, TEXTS[0]], "pair": TEXTS}
HALF = {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Removed", "invert": False}
NO_WORDS = {"type": "WordLevel", "vocab": {}, "unk_token": "x"}
DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
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
    "adds an id beyond the table": (
        {"post_processor": {"type": "BertProcessing", "sep": ["x", 99], "cls": ["[PAD]", 0]}},
        "it adds the id 99 of segment 0 to a text, beyond its 3 tokens",
    ),
    "a text 2^60 times as long": (
        {"normalizer": {"type": "Sequence", "normalizers": [DOUBLE] * 60}},
        "its normalizer can make a text 64 times as long",
    ),
    "in parts of parts": (
        {
            "normalizer": {
                "type": "Sequence",
                "normalizers": [{"type": "Sequence", "normalizers": [DOUBLE] * 4}] * 2,
            }
        },
        "64 times as long",
    ),
    "a character as a hundred": ({"normalizer": ANY}, "64 times as long"),
    "nothing as something": ({"normalizer": NOTHING}, "64 times as long"),
    "put before": ({"normalizer": PREPEND}, "64 times as long"),
    "maps of maps": (
        {"normalizer": {"type": "Sequence", "normalizers": [MAP] * 4}},
        "64 times as long",
    ),
    "half a pattern": (
        {"pre_tokenizer": HALF},
        "is not a tokenizer.json: .*Oniguruma",
    ),
    "no vocabulary": ({"model": NO_WORDS}, "has no padding token"),
    "a kind of a megabyte": ({"model": {"type": "x" * 2**20}}, "is not a tokenizer.json"),
}


def crafted(folder, changes):
    whole = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": None,
        "model": MODEL,
    }
    (folder / "tokenizer.json").write_text(json.dumps(whole | changes))
    return folder


def test_what_is_crafted_here_is_read(tmp_path):
    usual = {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "Lowercase"}, DOUBLE]}
    tokenizer = Tokenizer(crafted(tmp_path, {"normalizer": usual}))
    assert tokenizer.encode("A b")[0] == [1, 1] and tokenizer.vocab_size == 3


@pytest.mark.parametrize("case", CRAFTED)
def test_files_that_tokenizers_does_not_write(tmp_path, case):
    changes, message = CRAFTED[case]
    with pytest.raises(ValueError, match=f"tokenizer.json.*{message}") as caught:
        Tokenizer(crafted(tmp_path, changes))
    said = str(caught.value).replace(str(tmp_path), "")
    assert "\n" not in said and len(said) < 500


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
    theirs = transformers.BertTokenizer.from_pretrained(minilm)
    ours, trusting = Tokenizer(minilm / name), Tokenizer(minilm / name, special_in_text=True)
    assert trusting.encode(text)[0] == theirs(text)["input_ids"]
    (ids, segments), special = ours.encode(text), (ours.cls_id, ours.sep_id, ours.mask_id)
    assert [place for place, id in enumerate(ids) if id in special] == [0, len(ids) - 1]
    assert ids == theirs(text, split_special_tokens=True)["input_ids"] and not any(segments)
    assert "mask" in ours.decode(ids)
