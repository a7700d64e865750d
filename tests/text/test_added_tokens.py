"""Tokens that lie beside a vocabulary, in all the ways in which transformers has written them."""

import functools
import json

import pytest
from crafted import T5, piece, sentence_piece
from tiny_tokenizers import FAMILIES, write

from keras_posenc.text import Tokenizer, simplified_vocabulary

pytestmark = pytest.mark.once

TEXTS = [
    "one [e1] two",
    "one[e1]two [E1] x [e1]",
    " [e1] [e2]  [e1][e2] ",
    "The quick <new word> brown",
    "a  <new word>  b<new word>c",
    "[e1]",
]
MATCHING = ("lstrip", "rstrip", "single_word", "normalized", "special")


def entry(content, **changes):
    return {"content": content} | dict.fromkeys(MATCHING, False) | changes


def decoder(*entries):
    """`added_tokens_decoder` of tokenizer_config.json."""
    return lambda start: {
        "tokenizer_config.json": {
            "added_tokens_decoder": {str(start + n): each for n, each in enumerate(entries)}
        }
    }


def listed(file, key, tokens):
    return lambda start: {file: {key: tokens}}


def flagged(flag):
    return decoder(entry("[e1]", **{flag: True}), entry("<new word>", **{flag: True}))


ADDED = "added_tokens.json"
MAP, CONFIG = "special_tokens_map.json", "tokenizer_config.json"
LIST, NEW_LIST = "additional_special_tokens", "extra_special_tokens"
WAYS = {
    "added_tokens.json": lambda start: {ADDED: {"<new word>": start + 1, "[e1]": start}},
    "added_tokens.json, special": lambda start: {
        ADDED: {"[e1]": start, "[e2]": start + 1},
        MAP: {LIST: ["[e1]"]},
    },
    "a decoder": decoder(entry("[e1]"), entry("[e2]"), entry("<new word>")),
    "a decoder of special tokens": decoder(entry("[e1]", special=True), entry("[e2]")),
    "a decoder of contents alone": decoder({"content": "[E1]"}, {"content": "<new word>"}),
    **{f"a decoder with {flag}": flagged(flag) for flag in MATCHING},
    "a list": listed(CONFIG, LIST, ["[e1]", "<new word>"]),
    "a newer list": listed(CONFIG, NEW_LIST, ["[e2]", "[e1]"]),
    "a list in the map": listed(MAP, LIST, ["[e1]", "<new word>"]),
    "a list of objects": listed(
        CONFIG, LIST, [entry("[e1]", lstrip=True, special=True) | {"__type": "AddedToken"}]
    ),
    "an object": listed(CONFIG, NEW_LIST, {"first_token": "[e1]"}),
    "a decoder and the same in all others": lambda start: {
        CONFIG: {
            "added_tokens_decoder": {str(start): entry("[e1]", special=True)},
            LIST: ["[e1]"],
        },
        MAP: {LIST: [entry("[e1]", special=True)]},
        ADDED: {"[e1]": start},
    },
}


def add(folder, files):
    for name, content in files.items():
        path = folder / name
        old = json.loads(path.read_text()) if path.is_file() else {}
        path.write_text(json.dumps(old | content))


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    """From the name of a family to its files, transformers' class, and its number of tokens."""

    @functools.cache
    def made(name):
        folder = tmp_path_factory.mktemp(name)
        # Added tokens are found as they are written, whatever the case of the rest.
        kind = write(name, folder, **({"do_lower_case": False} if name == "albert" else {}))
        return folder, kind, len(kind.from_pretrained(folder))

    return made


# transformers 5 gives the tokens of DeBERTa-v2 other ids than its files, and drops flags of Qwen2.
CASES = [("bert", way) for way in WAYS]
CASES += [
    (name, way)
    for name in FAMILIES
    if name not in ("bert", "deberta-v2")
    for way in ("added_tokens.json, special", "a decoder with single_word")
]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_equals_transformers(families, tmp_path, name, way):
    folder, kind, count = families(name)
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    add(tmp_path, WAYS[way](count))
    ours = Tokenizer(tmp_path, special_in_text=True)
    if (tmp_path / MAP).is_file():  # where transformers 5 does not look for what 4 wrote
        path = tmp_path / MAP
        path.write_text(path.read_text().replace(LIST, NEW_LIST))
    reference = kind.from_pretrained(tmp_path)
    assert ours.vocab_size == len(reference) > count
    for text in TEXTS:
        assert ours.encode(text)[0] == reference(text)["input_ids"], text
    ours.save(tmp_path / "saved")
    again = Tokenizer(tmp_path / "saved", special_in_text=True)
    assert again.encode_batch(TEXTS) == ours.encode_batch(TEXTS)
    # Without it too: only the tokens that inputs are assembled with are plain text.
    reading = Tokenizer(tmp_path)
    for text in TEXTS:
        assert reading.encode(text)[0] == reference(text)["input_ids"], text
    for role in ("cls", "sep", "mask", "bos", "eos"):
        number = getattr(reading, f"{role}_id")
        if number not in (None, reading.unk_id):
            (token,) = reading.ids_to_tokens([number])
            assert number in ours.contents([f"a {token} b"])[0], token
            assert number not in reading.contents([f"a {token} b"])[0], token


def words(folder):
    write("bert", folder)
    return len((folder / "vocab.txt").read_text().splitlines())


def letters(folder):
    (folder / "vocab.json").write_text(json.dumps({"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3}))
    (folder / "merges.txt").write_text("a b\n")
    return 4


def pieces(folder):
    made = sentence_piece(*T5, *(piece(letter) for letter in "▁ab"))
    (folder / "spiece.model").write_bytes(made)
    return 6 + 100


CONTRADICTIONS = {
    "a gap": (lambda n: {"<x>": n + 1}, "'<x>' is token {more}, but no token has the id {n}"),
    "a gap between": (
        lambda n: {"<x>": n, "<y>": n + 2},
        "'<y>' is token {most}, but no token has the id {more}",
    ),
    "the id of another": (lambda n: {"<x>": 1}, "'<x>' is token 1, but that is the id of "),
    "one id for two": (
        lambda n: {"<x>": n, "<y>": n},
        "'<y>' is token {n}, but that is the id of '<x>'",
    ),
    "another id": (lambda n: {"a": n}, "'a' is token {n}, but it has the id "),
}


@pytest.mark.parametrize("write_files", [words, letters, pieces])
@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictions_are_refused(tmp_path, write_files, case):
    make, message = CONTRADICTIONS[case]
    count = write_files(tmp_path)
    (tmp_path / ADDED).write_text(json.dumps(make(count)))
    message = message.format(n=count, more=count + 1, most=count + 2)
    with pytest.raises(ValueError, match=f"(vocab|model).*: by a file beside it {message}"):
        Tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({CONFIG: {LIST: "[e1]"}}, "additional_special_tokens is '.e1.', not a list"),
        ({MAP: {LIST: [5]}}, "special_tokens_map.json: additional_special_tokens is 5, which is"),
        (
            {CONFIG: {LIST: [{"content": "x", "lstrip": "yes"}]}},
            "additional_special_tokens has lstrip 'yes', not true or false",
        ),
        ({CONFIG: {"added_tokens_decoder": {"\u0665": "x"}}}, "is no token id"),
        (
            {CONFIG: {"added_tokens_decoder": {"9": "x"}}, ADDED: {"x": 8}},
            "'x' is token 8 in a token of .*added_tokens.json, and token 9 in tokenizer_config",
        ),
    ],
)
def test_what_is_no_added_token(tmp_path, files, message):
    letters(tmp_path)
    add(tmp_path, files)
    with pytest.raises(ValueError, match=message):
        Tokenizer(tmp_path)


def test_ids_are_those_of_the_files(tmp_path):
    """DeBERTa's model lacks [MASK], which comes before what was added to it."""
    kind = write("deberta-v2", tmp_path)
    count = len(kind.from_pretrained(tmp_path))
    add(tmp_path, {ADDED: {"[MASK]": count - 1, "[e1]": count}})
    tokenizer = Tokenizer(tmp_path)
    assert tokenizer.mask_id == count - 1
    assert tokenizer.contents(["[e1]"]) == [[count]]


def test_a_simplified_vocabulary_keeps_what_was_added(tmp_path):
    count = words(tmp_path)
    add(tmp_path, {ADDED: {"[e1]": count}})
    vocabulary, kept = simplified_vocabulary(tmp_path)
    assert kept[vocabulary["[e1]"]] == count
    simplified = Tokenizer(tmp_path, vocabulary=vocabulary)
    assert simplified.tokenize("a [e1] a") == ["a", "[e1]", "a"]


def test_markers_are_special_but_never_padding(tmp_path):
    """They stay in texts when others are masked, and out of what is decoded."""
    count = words(tmp_path)
    before = Tokenizer(tmp_path)
    add(tmp_path, {CONFIG: {NEW_LIST: ["[e1]"]}})
    tokenizer = Tokenizer(tmp_path)
    ids, _, offsets = tokenizer.encode("The [e1] fox", offsets=True)
    assert count in ids and offsets[ids.index(count)] == (4, 8)
    assert tokenizer.decode(ids) == before.decode(before.encode("The fox")[0])
    assert count in tokenizer.special_ids and count not in tokenizer.reserved_ids
    assert before.fingerprint != tokenizer.fingerprint
    tokenizer.save(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "tokenizer.json").read_text())["added_tokens"]
    assert all(token["special"] for token in saved)
    assert Tokenizer(tmp_path / "saved").encode("The [e1] fox") == tokenizer.encode("The [e1] fox")
