"""The tokenizer against transformers' BertTokenizer on MiniLM's vocabulary, and its promises."""

import json
import pickle
import random
import sys

import numpy as np
import pytest

from keras_posenc.text import Tokenizer, read_texts
from keras_posenc.text.truncation import truncate

pytestmark = pytest.mark.once

HARD = [
    "",
    "   \t\n ",
    "Hello WORLD, it's $5.00! don't “quote” — –… ^~`|<>=+",
    "Éléphant naïve façade İstanbul ıI ß ẞ ﬁ Å Å a\u0301\u0327 Σίσυφος ΣΊΣΥΦΟΣ",
    "中文字符ABC漢字テスト한국어 ไทย العربية हिन्दी 𠀀𪜀丽",
    "ＡＢＣ１２３！　ｆｕｌｌ　ｗｉｄｔｈ",
    "👩‍👩‍👧 emoji 😀🏽 ❤️ 🏳️‍🌈",
    "a\x00b\x01c\ufffdd\u200be\u200df\xadg\ufeffh",
    "tab\tnew\nline\r\x0b\x0cfeed\u2028para\u2029\x85nbsp\xa0end\u3000wide",
    "[CLS] [MASK] a[SEP]b [PAD] [UNK] [mask] [unused5]",
    "##ing ## # ###",
    "a" * 99 + " " + "b" * 100 + " " + "c" * 101 + " " + "ab" * 101,
    "\ud7ff \ue000 \uf8ff \U000e0001tag",
]
RANGES = [
    (0x00, 0x250),
    (0x300, 0x370),
    (0x600, 0x700),
    (0x900, 0x980),
    (0x2000, 0x2070),
    (0x3000, 0x3100),
    (0x4E00, 0x4F00),
    (0xAC00, 0xAD00),
    (0xF900, 0xFB00),
    (0xFF00, 0xFFEF),
    (0x1F300, 0x1F700),
    (0x20000, 0x20010),
    (0xE0000, 0xE0080),
]


def random_strings(count):
    rng = random.Random(0)
    pieces = [" ", "the", "New", "ing", "##", "[SEP]", "É"]
    for _ in range(count):
        yield "".join(
            chr(rng.randrange(*rng.choice(RANGES))) if rng.random() < 0.6 else rng.choice(pieces)
            for _ in range(rng.randint(1, 40))
        )


STRINGS = HARD + list(random_strings(500))


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return Tokenizer(minilm / "vocab.txt", special_in_text=True)


@pytest.fixture(scope="module")
def bert_tokenizer():
    import transformers

    return transformers.BertTokenizer


def ids_of(reference, *texts, **options):
    encoding = reference(*texts, **options)
    return encoding["input_ids"], encoding["token_type_ids"]


@pytest.mark.parametrize("strip_accents", [None, True, False])
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json"])
def test_equals_bert_tokenizer(minilm, bert_tokenizer, name, lowercase, strip_accents):
    options = {"lowercase": lowercase, "strip_accents": strip_accents}
    ours = Tokenizer(minilm / name, **options, special_in_text=True)
    reference = bert_tokenizer.from_pretrained(
        minilm, do_lower_case=lowercase, strip_accents=strip_accents
    )
    for text, encoded in zip(STRINGS, ours.encode_batch(STRINGS), strict=True):
        assert encoded == ids_of(reference, text), repr(text)


def test_pairs_equal_bert_tokenizer(minilm, tokenizer, bert_tokenizer):
    reference = bert_tokenizer.from_pretrained(minilm)
    strings = STRINGS[1:]  # transformers takes an empty second text for none at all
    for first, second in zip(strings, reversed(strings), strict=True):
        assert tokenizer.encode(first, second) == ids_of(reference, first, second)


def test_batch_equals_one_by_one_on_real_text(tokenizer, book_excerpts):
    texts = read_texts(book_excerpts).texts[:20]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    first, second = texts[:10], texts[10:]
    assert tokenizer.encode_batch(first, second, max_length=64) == [
        tokenizer.encode(a, b, max_length=64) for a, b in zip(first, second, strict=True)
    ]


def test_the_truncation_inside_tokenizer_json_is_dropped(minilm):
    assert json.loads((minilm / "tokenizer.json").read_text())["truncation"]["max_length"] == 128
    assert len(Tokenizer(minilm).encode("word " * 600)[0]) == 602
    assert len(Tokenizer(minilm).encode("word")[0]) == 3


@pytest.mark.parametrize("truncate_from", ["right", "left"])
@pytest.mark.parametrize("room", range(1, 16))
def test_truncation_drops_from_the_longer_part_token_by_token(room, truncate_from):
    for first in range(9):
        for second in range(9):
            parts = [list(range(first)), list(range(100, 100 + second))]
            expected = [list(part) for part in parts]
            while sum(map(len, expected)) > room:  # bert4keras' loop; argmax takes the first
                expected[np.argmax([len(part) for part in expected])].pop(
                    -1 if truncate_from == "right" else 0
                )
            assert truncate(parts, room, truncate_from) == expected


def test_max_length_keeps_the_special_tokens(tokenizer):
    text = "one two three four five six"
    whole = tokenizer.encode(text)[0]
    assert tokenizer.encode(text, max_length=5)[0] == whole[:4] + whole[-1:]
    assert tokenizer.encode(text, max_length=5, truncate_from="left")[0] == whole[:1] + whole[-4:]
    assert tokenizer.encode(text, max_length=8) == tokenizer.encode(text)
    ids, segments = tokenizer.encode(text, "seven eight", max_length=8)
    assert tokenizer.decode(ids) == "one two three seven eight"
    assert segments == [0, 0, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(("length", "stride"), [(512, 0), (128, 32), (64, 61), (7, 2), (3, 0)])
def test_windows_equal_transformers(minilm, tokenizer, bert_tokenizer, length, stride):
    reference = bert_tokenizer.from_pretrained(minilm)
    for count in (0, 1, length - 3, length - 2, length - 1, 2 * length - 4 - stride, 700):
        text = " ".join(f"{number % 10}" for number in range(count))
        expected = reference(
            text,
            max_length=length,
            stride=stride,
            truncation=True,
            return_overflowing_tokens=True,
        )
        windows = tokenizer.windows(text, length, stride)
        assert [ids for ids, _ in windows] == expected["input_ids"]
        assert [segments for _, segments in windows] == expected["token_type_ids"]


def test_tokenize_and_decode(tokenizer):
    assert tokenizer.tokenize("Unbelievably, THE end") == [
        "un",
        "##bel",
        "##ie",
        "##va",
        "##bly",
    ] + [
        ",",
        "the",
        "end",
    ]
    ids, _ = tokenizer.encode("Hello there, World!")
    assert tokenizer.decode(np.array(ids)) == "hello there, world!"


def test_attributes(tokenizer, minilm):
    lines = (minilm / "vocab.txt").read_text("utf-8").split("\n")
    assert tokenizer.vocab_size == 30522
    names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    ids = [getattr(tokenizer, f"{role}_id") for role in ("pad", "unk", "cls", "sep", "mask")]
    assert ids == [lines.index(name) for name in names] == [tokenizer.vocabulary[n] for n in names]


def test_a_byte_level_tokenizer_keeps_its_special_tokens(tmp_path):
    """RoBERTa's layout: <s> a </s></s> b </s>, one segment, pad 1."""
    import tokenizers

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(["some words to learn from"], vocab_size=300, special_tokens=special)
    made = made._tokenizer
    made.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    made.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer(tmp_path)
    assert (ours.cls_id, ours.pad_id, ours.sep_id, ours.unk_id, ours.mask_id) == (0, 1, 2, 3, 4)
    for pair in [("some words", None), ("some words", "to learn é 中")]:
        reference = made.encode(*pair)
        assert ours.encode(*pair) == (reference.ids, reference.type_ids)
    assert ours.special_tokens() == 2
    assert ours.special_tokens(pair=True) == 4
    with pytest.raises(ValueError, match="normalizer is None, not BERT's: lowercase cannot be"):
        Tokenizer(tmp_path, lowercase=True)
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
    with pytest.raises(ValueError, match="is a BPE tokenizer: vocabulary= needs a WordPiece"):
        Tokenizer(tmp_path, vocabulary=vocabulary)


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_saved_tokenizer_is_the_same_here_and_in_transformers(
    minilm, bert_tokenizer, tmp_path, lowercase
):
    options = {"lowercase": lowercase, "strip_accents": not lowercase}
    ours = Tokenizer(minilm, **options, special_in_text=True)
    ours.save(tmp_path / "new" / "folder")
    again = Tokenizer(tmp_path / "new" / "folder", special_in_text=True)
    lines = Tokenizer(tmp_path / "new" / "folder" / "vocab.txt", special_in_text=True)
    reference = bert_tokenizer.from_pretrained(tmp_path / "new" / "folder")
    for text, encoded in zip(STRINGS, ours.encode_batch(STRINGS), strict=True):
        assert encoded == again.encode(text) == lines.encode(text) == ids_of(reference, text)
    assert not list(tmp_path.rglob("*.part"))


def test_a_pickled_tokenizer_is_the_same(tokenizer):
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.encode_batch(HARD, HARD) == tokenizer.encode_batch(HARD, HARD)


def write_vocabulary(folder, *tokens, **config):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*special, *tokens]) + "\n", "utf-8")
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder / "vocab.txt"


def test_tokenizer_config_is_honoured(tmp_path):
    tokens = ["Été", "été", "Ete", "ete", "中文", "中", "##文", "文"]
    cases = [
        ({"do_lower_case": True}, None, "Été 中文", ["ete", "中", "文"]),
        ({"do_lower_case": True, "strip_accents": False}, None, "Été", ["été"]),
        ({"do_lower_case": False}, None, "Été", ["Été"]),
        ({"do_lower_case": False, "strip_accents": True}, None, "Été", ["Ete"]),
        ({"do_lower_case": False}, True, "Été", ["ete"]),
        ({"do_lower_case": True, "tokenize_chinese_chars": False}, None, "中文", ["中文"]),
    ]
    for config, lowercase, text, expected in cases:
        path = write_vocabulary(tmp_path, *tokens, **config)
        assert Tokenizer(path, lowercase=lowercase).tokenize(text) == expected, config


def test_without_a_config_the_capitals_of_the_vocabulary_decide(tmp_path):
    assert Tokenizer(write_vocabulary(tmp_path, "hello")).tokenize("Hello") == ["hello"]
    cased = write_vocabulary(tmp_path, "Hello", "hello")
    assert Tokenizer(cased).tokenize("Hello hello") == ["Hello", "hello"]
    assert Tokenizer(cased, lowercase=True).tokenize("Hello hello") == ["hello", "hello"]


def test_odd_vocabulary_files(tmp_path):
    path = tmp_path / "vocab.txt"
    lines = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "twice", "\u2028", "twice", "last"]
    path.write_bytes(("\ufeff" + "\r\n".join(lines)).encode("utf-8"))
    tokenizer = Tokenizer(path)
    assert tokenizer.vocabulary["twice"] == 6
    assert tokenizer.encode("twice last")[0] == [2, 6, 7, 3]
    assert tokenizer.vocab_size == 8
    assert tokenizer.mask_id is None
    tokenizer.save(tmp_path / "saved")
    assert Tokenizer(tmp_path / "saved").encode("twice last")[0] == [2, 6, 7, 3]


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No tokenizer at .*nowhere: give a vocab.txt"):
        Tokenizer(tmp_path / "nowhere")
    (tmp_path / "model.bin").touch()
    with pytest.raises(FileNotFoundError, match=r"No tokenizer \(tokenizer.json, .*: model.bin"):
        Tokenizer(tmp_path)
    with pytest.raises(ValueError, match=r"model.bin: a vocabulary of 1 tokens without \[PAD\]"):
        Tokenizer(tmp_path / "model.bin")
    with pytest.raises(ValueError, match="Tokenizer needs a path, or vocabulary="):
        Tokenizer()


def test_damaged_files(minilm, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"[PAD]\n[UNK]\n[CLS]\n\xff\n")
    with pytest.raises(ValueError, match="vocab.txt, line 4: not UTF-8, so not a vocabulary"):
        Tokenizer(path)
    path.write_text("[PAD]\n[CLS]\n")
    with pytest.raises(ValueError, match=r"of 2 tokens without \[UNK\], \[SEP\]"):
        Tokenizer(path)
    with pytest.raises(ValueError, match=r"vocabulary=: a vocabulary of 1 tokens without"):
        Tokenizer(minilm, vocabulary={"[PAD]": 0})
    write_vocabulary(tmp_path, "a")
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(ValueError, match="tokenizer_config.json is damaged .*Download it again"):
        Tokenizer(path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(ValueError, match="tokenizer_config.json is damaged .it holds a list"):
        Tokenizer(path)
    (tmp_path / "tokenizer_config.json").unlink()
    whole = (minilm / "tokenizer.json").read_bytes()
    (tmp_path / "tokenizer.json").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="tokenizer.json is not a tokenizer.json"):
        Tokenizer(tmp_path)
    data = json.loads(whole) | {"added_tokens": []}
    vocabulary = data["model"]["vocab"]
    data["model"]["vocab"] = {"[P]" if k == "[PAD]" else k: v for k, v in vocabulary.items()}
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"has no padding token, \[PAD\] or <pad>"):
        Tokenizer(tmp_path)


def test_wrong_arguments(tokenizer):
    with pytest.raises(TypeError, match="Text 1 is a NoneType, not a str: None"):
        tokenizer.encode_batch(["a", None])
    with pytest.raises(TypeError, match="Expected a list of texts, not one str"):
        tokenizer.encode_batch("a")
    with pytest.raises(ValueError, match=r"Text 0 has half a surrogate pair, '\\ud800', at .* 2"):
        tokenizer.encode("ab\ud800")
    with pytest.raises(ValueError, match="2 texts but 1 pairs"):
        tokenizer.encode_batch(["a", "b"], ["c"])
    with pytest.raises(
        ValueError, match="`max_length` must be .* at least 3: 2 are .* Received: 2"
    ):
        tokenizer.encode("a", max_length=2)
    with pytest.raises(
        ValueError, match="`max_length` must be .* at least 4: 3 are .* Received: 3"
    ):
        tokenizer.encode("a", "b", max_length=3)
    with pytest.raises(ValueError, match="`truncate_from` must be one of"):
        tokenizer.encode("a", max_length=8, truncate_from="both")
    with pytest.raises(
        ValueError,
        match="`stride` must be .* 0 to 5: windows of length=8 hold 6 .*: 6",
    ):
        tokenizer.windows("a", 8, 6)
    with pytest.raises(ValueError, match="30522 is no token id: they go from 0 to 30521"):
        tokenizer.decode([101, 30522])


def test_a_missing_package_is_named(minilm, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match="pip install tokenizers"):
        Tokenizer(minilm)


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_line_ends_of_other_systems(tmp_path, end):
    """As of old Macs and of Windows, in a vocab.txt and in a merges.txt."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (tmp_path / "vocab.txt").write_bytes((end.join([*special, "a", "b"]) + end).encode())
    tokenizer = Tokenizer(tmp_path / "vocab.txt")
    assert tokenizer.encode("b a")[0] == [2, 6, 5, 3] and tokenizer.vocab_size == 7
    (tmp_path / "vocab.json").write_text(
        json.dumps({"a": 0, "b": 1, "ab": 2, "abb": 3, "</s>": 4, "<s>": 5})
    )
    (tmp_path / "merges.txt").write_bytes(end.join(["#version: 0.2", "a b", "ab b", ""]).encode())
    assert Tokenizer(tmp_path / "vocab.json").encode("abb")[0] == [5, 3, 4]
