"""Small tokenizer files that ask for all memory or all time: refused before the library reads them.

Each case here is a little beyond its bound, so that a reader without the bound survives it.
"""

import base64
import json

import pytest
from crafted import T5, charsmap, piece, sentence_piece
from crafted_tokenizers import CLS, DOUBLE, MODEL, TEMPLATE, TEXTS, UNIGRAM, crafted

from keras_posenc import text
from keras_posenc.text import Tokenizer, bounds, offsets, vocabulary
from keras_posenc.text.expansion_bounds import charsmap_growth

pytestmark = pytest.mark.once

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
LONG = "x" * (bounds.MOST_PIECE + 1)


def table(count, letter="a"):
    data = base64.b64encode(charsmap(letter, "x" * count)).decode()
    return {"type": "Precompiled", "precompiled_charsmap": data}


def sequence(key, step, count):
    return {"type": "Sequence", key: [step] * count}


def decoder(step, count=7):
    return {"decoder": sequence("decoders", step, count)}


def template(pieces, ids=1, single=True):
    """A post-processor that writes a special token of some ids some times."""
    token = {"id": "[CLS]", "ids": [0] * ids, "tokens": ["[PAD]"] * ids}
    changes = {"single": [CLS] * pieces + TEXTS[:1]} if single else {"pair": [CLS] * pieces + TEXTS}
    return TEMPLATE | changes | {"special_tokens": {"[CLS]": token}}


def token(**changes):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": 9, "content": "<x>"} | flags | changes


def model(**changes):
    return {"model": MODEL | changes}


CASES = {
    "a letter as many": (
        {"model": UNIGRAM, "normalizer": table(65)},
        "its normalizer and pre_tokenizer can make a text 65 times as long, more than 64",
    ),
    "a letter as many, twice": (
        {"model": UNIGRAM, "normalizer": sequence("normalizers", table(9), 2)},
        "a text 81 times as long, more than 64",
    ),
    "a table of no letters": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}},
        "the table of its normalization is not in base64",
    ),
    "a list for an object": (
        {"normalizer": [base64.b64encode(charsmap("a", "xx")).decode()]},
        r"a part of it is \['AAgA",
    ),
    "a normalizer without a type": ({"normalizer": {"prepend": "x"}}, "not an object with a type"),
    "no list of steps": (
        {"decoder": {"type": "Sequence", "decoders": {}}},
        "its decoders are {}, not a list",
    ),
    "a pre-tokenizer that writes bytes as letters": (
        {"pre_tokenizer": sequence("pretokenizers", BYTES, 7)},
        "a text 128 times as long, more than 64",
    ),
    "a normalizer, then a pre-tokenizer": (
        {"normalizer": table(33), "pre_tokenizer": BYTES},
        "a text 66 times as long, more than 64",
    ),
    "a decoder that doubles": (
        decoder(DOUBLE),
        "its decoder can make a text 128 times as long, more than 64",
    ),
    "a decoder that ends words after each letter": (
        decoder({"type": "BPEDecoder", "suffix": ""}),
        "its decoder can make a text 128 times as long, more than 64",
    ),
    "a decoder that parts all letters": (
        decoder({"type": "CTC", "pad_token": "p", "word_delimiter_token": "", "cleanup": True}),
        "its decoder can make a text 128 times as long, more than 64",
    ),
    "a decoder of one long text": (
        {"decoder": {"type": "Replace", "pattern": {"Regex": "."}, "content": "x" * 65}},
        "its decoder can make a text 65 times as long, more than 64",
    ),
    "a number for a text": (
        {"decoder": {"type": "Replace", "pattern": {"String": "a"}, "content": 5}},
        "a part of it has 5 in place of a text",
    ),
    "many ids of a few tokens": (
        {"post_processor": template(41, 25)},
        "its post_processor writes 1025 tokens around a text, more than 1024",
    ),
    "many ids around a pair": (
        {"post_processor": template(41, 25, single=False)},
        "its post_processor writes 1025 tokens around a text, more than 1024",
    ),
    "many ids in steps": (
        {"post_processor": sequence("processors", template(20, 30), 2)},
        "its post_processor writes 1200 tokens around a text, more than 1024",
    ),
    "many names of one id": (
        {
            "post_processor": template(41)
            | {"special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [0], "tokens": ["x"] * 25}}}
        },
        "its post_processor writes 1025 tokens around a text, more than 1024",
    ),
    "a text many times": (
        {"post_processor": template(1) | {"single": TEXTS[:1] * 3}},
        r"its post_processor writes the texts \['A', 'A', 'A'\] for 'single', not \['A'\]",
    ),
    "no text": (
        {"post_processor": template(1) | {"single": [CLS]}},
        r"its post_processor writes the texts \[\] for 'single', not \['A'\]",
    ),
    "the second text alone": (
        {"post_processor": template(1) | {"pair": TEXTS[1:]}},
        r"its post_processor writes the texts \['B'\] for 'pair', not \['A', 'B'\]",
    ),
    "many steps of a normalizer": (
        {"normalizer": sequence("normalizers", {"type": "NFC"}, 128)},  # and the Sequence itself
        "its normalizer has 129 steps, more than 128",
    ),
    "many steps of a pre-tokenizer": (
        {"pre_tokenizer": sequence("pretokenizers", {"type": "Whitespace"}, 128)},
        "its pre_tokenizer has 129 steps, more than 128",
    ),
    "many steps of a decoder": (decoder({"type": "Fuse"}, 128), "its decoder has 129 steps"),
    "many steps of a post-processor": (
        {"post_processor": sequence("processors", template(1), 128)},
        "its post_processor has 129 steps, more than 128",
    ),
    "a special token as a list": (
        {"post_processor": template(1) | {"special_tokens": {"[CLS]": ["[CLS]", [0], ["[PAD]"]]}}},
        r"'\[CLS\]' has \['\[CLS\]', \[0\], .* in place of an object",
    ),
    "a layout as an object": (
        {"post_processor": template(1) | {"single": {}}},
        "'single' has {} in place of a list",
    ),
    "a long token around a text": (
        {"post_processor": {"type": "BertProcessing", "sep": [LONG, 0], "cls": ["[PAD]", 0]}},
        "a token of its post_processor has 1025 characters, more than 1024",
    ),
    "a long piece": (
        {"model": UNIGRAM | {"vocab": UNIGRAM["vocab"] + [[LONG, -1.0]]}},
        "a token of its model has 1025 characters, more than 1024",
    ),
    "a long word": (
        model(vocab=MODEL["vocab"] | {LONG: 3}),
        "a token of its model has 1025 characters, more than 1024",
    ),
    "a long added token": (
        {"added_tokens": [token(content=LONG)]},
        "an added token has 1025 characters, more than 1024",
    ),
    "many added tokens": (
        {"added_tokens": [token()] * (bounds.MOST_ADDED + 1)},
        "it adds 65537 tokens, more than 65536",
    ),
    "words of any length": (
        model(max_input_chars_per_word=1025),
        "max_input_chars_per_word of its model is 1025, more than 1024",
    ),
    "a long prefix": (
        model(continuing_subword_prefix="#" * 65),
        "continuing_subword_prefix of its model has 65 characters, more than 64",
    ),
    "a long suffix": (
        {"model": {"type": "BPE", "vocab": {}, "merges": [], "end_of_word_suffix": "#" * 65}},
        "end_of_word_suffix of its model has 65 characters, more than 64",
    ),
    "a long pattern": (
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a" * 4097}}},
        "a pattern of its pre_tokenizer has 4097 characters, more than 4096",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_more_than_any_tokenizer_asks_for(tmp_path, case):
    changes, message = CASES[case]
    with pytest.raises(ValueError, match=f"tokenizer.json is not a tokenizer.json: .*{message}"):
        Tokenizer(crafted(tmp_path, changes))


@pytest.mark.parametrize("name", ["MOST_TOKENS", "MOST_MERGES", "MOST_LISTS"])
def test_more_than_any_vocabulary_has(tmp_path, monkeypatch, name):
    crafted(tmp_path, {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}})
    monkeypatch.setattr(bounds, name, 0)
    with pytest.raises(ValueError, match="tokenizer.json: it.* has . [a-z ]*, more than 0"):
        Tokenizer(tmp_path)


@pytest.mark.parametrize("kind", ["tokenizer.json", "spiece.model"])
def test_a_search_tree_of_too_many_branches(tmp_path, monkeypatch, kind):
    """Rust takes 350 bytes for each, so that a model of 64 MB would take 20 GB."""
    words = ["ab", "abc", "abd", "b"]
    if kind == "spiece.model":
        (tmp_path / kind).write_bytes(sentence_piece(*T5, *map(piece, ["▁", *words])))
        branches = len("<pad>/s>unk>") + 100 * len("0>") + len("extra_id_1")
    else:
        vocabulary = [["[PAD]", 0.0], ["[UNK]", 0.0], *([word, -1.0] for word in words)]
        crafted(tmp_path, {"model": UNIGRAM | {"vocab": vocabulary}})
        branches = len("[PAD]") + len("UNK]") + len("abc") + len("d") + len("b")
        monkeypatch.setattr(bounds, "MOST_BRANCHES", branches)
        Tokenizer(tmp_path)
    monkeypatch.setattr(bounds, "MOST_BRANCHES", branches - 1)
    with pytest.raises(ValueError, match=f"search tree .* has [0-9]+ branches.* {branches - 1}"):
        Tokenizer(tmp_path)


def test_at_its_bounds_a_tokenizer_is_read(tmp_path):
    changes = {"normalizer": table(64), "decoder": sequence("decoders", DOUBLE, 6)}
    changes |= {"post_processor": template(32, 32), "model": UNIGRAM}
    tokenizer = Tokenizer(crafted(tmp_path, changes))
    assert tokenizer.special_tokens() == 1024 and tokenizer.decode([2]) == "a" * 64
    assert tokenizer.contents(["a"]) == [[1]]  # 64 times x


def test_a_map_of_sentencepiece(tmp_path):
    """The longest compatible form, of U+FDFA, has 18 characters."""
    from tiny_tokenizers import write_sentence_piece

    from keras_posenc.text.pieces import read_sentence_piece

    write_sentence_piece(tmp_path / "spiece.model")
    assert charsmap_growth(read_sentence_piece(tmp_path / "spiece.model").charsmap) == 18
    map = charsmap("a", "x" * 65)
    model = sentence_piece(*T5, piece("▁a"), piece("▁"), normalizer=[(2, map)])
    (tmp_path / "spiece.model").write_bytes(model)
    message = "the table of its normalization writes 65 characters for one, more than 64"
    with pytest.raises(ValueError, match=f"spiece.model is no SentencePiece model: {message}"):
        Tokenizer(tmp_path)


def test_settings_of_padding_and_truncation_are_dropped(tmp_path):
    padding = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": 10**9}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    truncation = {"max_length": 1, "stride": 10**9, "strategy": "LongestFirst"}
    crafted(tmp_path, {"padding": padding, "truncation": truncation | {"direction": "Right"}})
    assert Tokenizer(tmp_path).encode("a a") == ([2, 2], [0, 0])


def test_dropout_is_dropped(tmp_path):
    vocabulary = {"[PAD]": 0, "a": 1, "aa": 2, "aaaa": 3}
    merges = [["a", "a"], ["aa", "aa"]]
    model = {"type": "BPE", "dropout": 0.5, "vocab": vocabulary, "merges": merges}
    tokenizer = Tokenizer(crafted(tmp_path, {"model": model}))
    assert tokenizer.contents(["aaaa"] * 50) == [[3]] * 50
    tokenizer.save(tmp_path)
    assert json.loads((tmp_path / "tokenizer.json").read_text())["model"]["dropout"] is None


def test_pieces_that_can_be_made_in_all_ways(tmp_path, monkeypatch):
    """Of a BPE in a SentencePiece model, whose file lists pieces alone."""
    pieces = [*T5, piece("▁"), *(piece("a" * length) for length in range(1, 12))]
    (tmp_path / "spiece.model").write_bytes(sentence_piece(*pieces, algorithm=2))
    assert Tokenizer(tmp_path).contents(["aa"]) == [[3, 5]]
    for name, count in (("MOST_MERGED", 440), ("MOST_SPLIT", 67)):
        with monkeypatch.context() as patched:
            patched.setattr(text.pieces, name, count - 1)
            message = f"spiece.model is no tokenizer that works: .* {count} char.* than {count - 1}"
            with pytest.raises(ValueError, match=message):
                Tokenizer(tmp_path)
            patched.setattr(text.pieces, name, count)
            assert Tokenizer(tmp_path).vocab_size == 115


def test_a_vocabulary_of_too_many_lines(tmp_path):
    """Each takes 200 bytes of memory."""
    (tmp_path / "vocab.txt").write_bytes(b"\n" * (vocabulary.MOST_LINES + 1))
    with pytest.raises(ValueError, match="vocab.txt is refused: it has 1048577 lines, more than"):
        Tokenizer(tmp_path)


def test_a_text_of_too_many_characters(tmp_path, monkeypatch):
    tokenizer = Tokenizer(crafted(tmp_path, {}))
    expected = tokenizer.encode_batch(["a a", "a", "a a a"] * 3)
    monkeypatch.setattr(offsets, "MOST_CHARACTERS", 5)
    assert tokenizer.encode_batch(["a a", "a", "a a a"] * 3) == expected
    assert list(offsets.in_chunks(["ab", "abc", "a", "", "a"], 2)) == [
        ["ab", "abc"],
        ["a", ""],
        ["a"],
    ]
    with pytest.raises(ValueError, match="Text 1 has 6 characters, and one text may have 5, .*spl"):
        tokenizer.contents(["a", "a a a "])
