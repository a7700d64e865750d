"""The fuzzer's tokenizers: a function that writes each kind, damaged, and one that reads them."""

import base64
import random

from crafted import T5, charsmap, piece, sentence_piece
from crafted_tokenizers import CLS, DOUBLE, TEMPLATE, TEXTS, UNIGRAM, crafted
from mutations import damaged, damaged_json

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]
NORMALIZERS = [
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
    | {"strip_accents": None, "lowercase": True},
    {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"},
    {"type": "Prepend", "prepend": "b"},
    {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAAA"},
    {"type": "NFKD"},
]
SPLITTERS = [{"type": "BertPreTokenizer"}, {"type": "FixedLength", "length": 2}]


def write_tokenizer(rng, folder):
    token = {"id": 0, "content": "[PAD]", "single_word": False, "lstrip": False, "rstrip": False}
    steps = [dict(rng.choice(NORMALIZERS)) for _ in range(rng.choice((1, 2, 12)))]
    whole = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [token | {"normalized": False, "special": True}],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": dict(rng.choice(SPLITTERS)),
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": None,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
        | {"max_input_chars_per_word": 9, "vocab": {word: i for i, word in enumerate(WORDS)}},
    }
    (folder / "tokenizer.json").write_text(damaged_json(rng, whole), "utf-8", "replace")


def read_tokenizer(folder):
    from keras_posenc.text import Tokenizer

    tokenizer = Tokenizer(folder)
    ids, segments, offsets = tokenizer.encode("a b [SEP] </s> é", "b", offsets=True)
    assert len(ids) == len(segments) == len(offsets)
    assert all(0 <= number < tokenizer.vocab_size for number in ids)
    assert all(0 <= start <= end <= 16 for start, end in offsets)
    assert isinstance(tokenizer.decode(ids), str)


HUGE = (1, 3, 17, 10**3, 10**5)


def write_bomb(rng, folder):
    """A tokenizer.json of parts that each may ask for far more than the file has, or for little."""

    def some():
        return rng.choice(HUGE)

    def steps(key, *kinds):
        count = rng.choice((1, 2, 40))
        return {"type": "Sequence", key: [dict(rng.choice(kinds)) for _ in range(count)]}

    table = base64.b64encode(charsmap("a", "x" * some())).decode()
    replace = {"type": "Replace", "pattern": rng.choice(({"String": "a"}, {"Regex": ".?"}))}
    token = {"id": "[CLS]", "ids": [0] * some(), "tokens": ["[PAD]"] * some()}
    words = {"type": "BPE", "vocab": {"[PAD]": 0, "a": 1, "aa": 2}, "merges": ["a a"]}
    added = {"id": 9, "content": "a", "special": True, "normalized": rng.random() < 0.5}
    added |= dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    parts = {
        "normalizer": steps(
            "normalizers",
            {"type": "Precompiled", "precompiled_charsmap": table},
            {"type": "Prepend", "prepend": "b" * some()},
            {"type": "ByteLevel"},
            DOUBLE,
        ),
        "pre_tokenizer": steps(
            "pretokenizers",
            {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"},
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
            {"type": "Split", "pattern": {"Regex": "a{1,9}" * min(some(), 10**4)}}
            | {"behavior": "Isolated", "invert": False},
        ),
        "post_processor": TEMPLATE
        | {"single": [CLS] * some() + TEXTS[:1], "special_tokens": {"[CLS]": token}},
        "decoder": steps(
            "decoders",
            {"type": "BPEDecoder", "suffix": rng.choice(("", "a"))},
            {"type": "CTC", "pad_token": "p", "word_delimiter_token": "", "cleanup": True},
            replace | {"content": "x" * some()},
            DOUBLE,
        ),
        "model": rng.choice(
            (
                UNIGRAM | {"vocab": UNIGRAM["vocab"] + [["a" * some(), -1.0]]},
                words | {"end_of_word_suffix": "#" * some(), "dropout": 0.5},
            )
        ),
        "added_tokens": rng.choice(([added | {"content": "a" * some()}], [added] * 10**5)),
    }
    crafted(folder, {name: parts[name] for name in rng.sample(list(parts), rng.choice((1, 2)))})


def write_vocabulary(rng, folder):
    (folder / "vocab.txt").write_bytes(damaged(rng, "\n".join([*WORDS, "é"]).encode()))
    config = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
    (folder / "tokenizer_config.json").write_text(damaged_json(rng, config), "utf-8", "replace")


NAMED = {"tokenizer_class": "T5Tokenizer", "pad_token": "<pad>", "eos_token": {"content": "</s>"}}
NAMED |= {"add_bos_token": False, "added_tokens_decoder": {"1": {"content": "</s>"}}}


def write_settings(rng, folder):
    """Beside a sound model of any kind."""
    which = rng.choice(("pieces", "merges", "json"))
    if which == "pieces":
        (folder / "spiece.model").write_bytes(sentence_piece(*T5, piece("▁a"), piece("▁")))
    elif which == "merges":
        (folder / "vocab.json").write_text('{"</s>": 0, "<s>": 1, "a": 2, "Ġ": 3, "Ġa": 4}')
        (folder / "merges.txt").write_text("Ġ a\n", "utf-8")
    else:
        write_tokenizer(random.Random(0), folder)
    named = NAMED | ({"tokenizer_class": "RobertaTokenizer"} if which == "merges" else {})
    for name in ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
        if rng.random() < 0.6:
            (folder / name).write_text(damaged_json(rng, dict(named)), "utf-8", "replace")


def write_pieces(rng, folder):
    more = [piece("▁a", -2.0), piece("b", -3.0), piece("<0x41>", 0.0, 6), piece("ab", -1.0)]
    more += [piece("▁", -4.0), piece("a", -5.0), piece("c", 0.0, rng.choice((3, 4, 5)))]
    if rng.random() < 0.1:
        more += [piece("a" * length) for length in range(2, rng.choice((9, 999)))]
    tables = (b"", b"", bytes(12), b"\4\0\0\0" + bytes(5), charsmap("a", "b" * rng.choice(HUGE)))
    table = rng.choice(tables)
    trainer, normalizer = [(35, rng.randrange(2))], [(2, table), (4, rng.randrange(2))]
    kind = rng.choice((1, 2))
    whole = sentence_piece(*T5, *more, algorithm=kind, trainer=trainer, normalizer=normalizer)
    name = rng.choice(("spiece.model", "spm.model", "sentencepiece.bpe.model"))
    (folder / name).write_bytes(damaged(rng, whole))


def write_merges(rng, folder):
    words = ["</s>", "<s>", "<pad>", "<unk>", "a", "b", "Ġ", "ab", "Ġa"]
    vocabulary = {word: number for number, word in enumerate(words)}
    (folder / "vocab.json").write_text(damaged_json(rng, vocabulary), "utf-8", "replace")
    merges = "#version: 0.2\na b\nĠ a\n".encode()
    merges = damaged(rng, merges) if rng.random() < 0.5 else merges
    (folder / "merges.txt").write_bytes(merges)


READERS = {
    "tokenizer": (write_tokenizer, read_tokenizer),
    "bomb": (write_bomb, read_tokenizer),
    "vocabulary": (write_vocabulary, read_tokenizer),
    "pieces": (write_pieces, read_tokenizer),
    "merges": (write_merges, read_tokenizer),
    "settings": (write_settings, read_tokenizer),
}
