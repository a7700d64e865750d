"""Tokenizers of every family against transformers and SentencePiece, on text in eight scripts."""

import json
import shutil

import pytest
from crafted import piece, sentence_piece
from tiny_tokenizers import FAMILIES, PAGE, PAIRS, PIECES, TEXTS, write, write_merges

from keras_posenc.text import Tokenizer

pytestmark = pytest.mark.once

ROLES = ("pad", "cls", "sep", "mask", "unk", "bos", "eos")
COMPATIBLE = "…ﬁ½Å№　ＡＢＣ１２３！\xa0\u2028\u3000\t\r\x0b\u200b﷽"  # what Unicode writes otherwise


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    """A family's name, a folder of its own files, and transformers' tokenizer of them."""
    folder = tmp_path_factory.mktemp(request.param)
    kind = write(request.param, folder)
    return request.param, folder, kind.from_pretrained(folder)


@pytest.fixture(params=["own files", "tokenizer.json"])
def folder(request, family, tmp_path):
    if request.param == "own files":
        return family[1]
    family[2].save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").is_file()
    return tmp_path


def encoded(reference, *texts):
    """Their ids and segments; where they return none, those that ours has are right."""
    found = reference(*texts)
    return found["input_ids"], found.get("token_type_ids")


def same(ours, reference, *texts):
    ids, segments = encoded(reference, *texts)
    found = ours.encode(*texts)
    assert found[0] == ids, repr(texts)
    assert segments in (None, found[1]), repr(texts)


def test_equals_transformers(family, folder):
    name, original, reference = family
    ours = Tokenizer(folder, special_in_text=True)
    normalizes = name == "deberta-v2" and folder == original
    compared = 0
    for texts in [*((text,) for text in TEXTS), *PAIRS]:
        if not (normalizes and set("".join(texts)) & set(COMPATIBLE)):
            same(ours, reference, *texts)
            compared += 1
    assert compared > 12
    for role in ROLES:
        token = getattr(reference, f"{role}_token_id", None)
        assert token in (None, getattr(ours, f"{role}_id")), role
    assert ours.vocab_size == len(reference)


def test_decodes_as_transformers(family, folder):
    name, _, reference = family
    ours = Tokenizer(folder, special_in_text=True)
    for text in TEXTS:
        ids = ours.encode(text)[0]
        expected = reference.decode(ids, skip_special_tokens=True)
        found = ours.decode(ids)
        if name in ("bert", "mpnet"):  # where spaces are ours to choose
            found, expected = found.replace(" ", ""), expected.replace(" ", "")
        assert found == expected
    if name in ("gpt2", "roberta", "gemma"):
        assert ours.decode(ours.encode(PAGE)[0]) == PAGE


def test_offsets_are_those_of_transformers_without_spaces(family, folder):
    name, original, reference = family
    ours = Tokenizer(folder)
    compared = 0
    for text in TEXTS:
        if name == "deberta-v2" and folder == original and set(text) & set(COMPATIBLE):
            continue
        ids, segments, offsets = ours.encode(text, offsets=True)
        assert (ids, segments) == ours.encode(text)
        found = reference(text, return_offsets_mapping=True)["offset_mapping"]
        for token, (start, end), span in zip(ours.ids_to_tokens(ids), offsets, found, strict=True):
            part = text[slice(*span)]
            if token in ("▁", "Ġ") or not part.strip():
                # Nothing but a space, which transformers takes for the character after it at times.
                assert not text[start:end].strip() or token == "▁"
                continue
            assert text[start:end] == part.strip(), (text, token)
            assert span[0] <= start < end <= span[1]
            compared += 1
    assert compared > 300


@pytest.mark.parametrize("name", PIECES)
def test_equals_sentencepiece_itself(name, tmp_path):
    """But for what the family does to the text before: ALBERT drops case and accents."""
    import sentencepiece

    write(name, tmp_path, do_lower_case=False, keep_accents=True)
    (path,) = tmp_path.glob("*.model")
    reference = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ours = Tokenizer(tmp_path)
    for text in TEXTS:
        expected = reference.encode(text)
        found = ours.contents([text])[0]
        unknown = ours.ids_to_tokens([ours.unk_id])[0]
        pieces = [
            unknown if i == reference.unk_id() else reference.id_to_piece(i) for i in expected
        ]
        assert ours.ids_to_tokens(found) == pieces
        if name in ("albert", "deberta-v2", "gemma", "t5"):
            assert found == expected


def test_names_of_special_tokens_in_a_text_are_text(family, folder):
    """A Unigram model has "</s>" among its pieces, and would find it."""
    ours, trusting = Tokenizer(folder), Tokenizer(folder, special_in_text=True)
    special = {i for i in (getattr(ours, f"{role}_id") for role in ROLES) if i is not None}
    special -= {ours.unk_id}
    names = ours.ids_to_tokens(sorted(special))
    for name in names:
        for text in (name, f"a {name}", f"one{name}{name} two", f"x<{name}>"):
            assert not special & set(ours.contents([text])[0]), text
        assert special & set(trusting.contents([f"a {name} b"])[0]), name
    ours.save(folder / "saved")
    again = Tokenizer(folder / "saved", special_in_text=True)
    texts = [f"one {name} two" for name in names] + TEXTS
    assert again.encode_batch(texts) == trusting.encode_batch(texts)
    assert [getattr(again, f"{role}_id") for role in ROLES] == [
        getattr(ours, f"{role}_id") for role in ROLES
    ]
    shutil.rmtree(folder / "saved")


def test_a_saved_tokenizer_is_the_same_in_transformers(family, folder, tmp_path):
    import transformers

    ours = Tokenizer(folder, special_in_text=True)
    ours.save(tmp_path / "saved")
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    for texts in [*((text,) for text in TEXTS), *PAIRS]:
        same(ours, reference, *texts)
    assert reference.pad_token_id == ours.pad_id


def byte_level(folder, special, around, names, **settings):
    """A tokenizer.json of a byte-level BPE, as ModernBERT, EuroBERT and Qwen3 Embedding have."""
    import tokenizers
    import transformers

    write_merges(folder, special)
    model = tokenizers.models.BPE.from_file(
        str(folder / "vocab.json"), str(folder / "merges.txt"), **settings
    )
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(special)
    if around:
        ids = [(token, made.token_to_id(token)) for token in special]
        made.post_processor = tokenizers.processors.Sequence(
            [
                tokenizers.processors.ByteLevel(trim_offsets=False),
                tokenizers.processors.TemplateProcessing(
                    single=around[0], pair=around[1], special_tokens=ids
                ),
            ]
        )
    reference = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)
    for file in folder.iterdir():
        file.unlink()
    reference.save_pretrained(folder)
    return reference


KINDS = {
    "modernbert": (
        ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"],
        ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"),
        {role: f"[{role.upper()}]" for role in ("unk", "cls", "sep", "pad", "mask")},
        {},
    ),
    "eurobert": (
        ["<|begin_of_text|>", "<|end_of_text|>", "<|mask|>"],
        (
            "<|begin_of_text|>:0 $A:0 <|end_of_text|>:0",
            "<|begin_of_text|>:0 $A:0 <|end_of_text|>:0 $B:1 <|end_of_text|>:1",
        ),
        {"bos": "<|begin_of_text|>", "eos": "<|end_of_text|>", "mask": "<|mask|>"}
        | {"cls": "<|begin_of_text|>", "sep": "<|end_of_text|>", "pad": "<|end_of_text|>"},
        {"ignore_merges": True},
    ),
    "qwen3 embedding": (
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        ("$A:0 <|endoftext|>:0", "$A:0 <|endoftext|>:0 $B:1 <|endoftext|>:1"),
        {"eos": "<|im_end|>", "pad": "<|endoftext|>"},
        {},
    ),
    "nothing around": (["<|endoftext|>"], None, {"eos": "<|endoftext|>"}, {}),
}


@pytest.mark.parametrize("dialect", ["strings", "objects", "a map", "an older map"])
@pytest.mark.parametrize("kind", KINDS)
def test_tokenizer_json_with_its_special_tokens_in_any_dialect(tmp_path, kind, dialect):
    special, around, names, settings = KINDS[kind]
    named = {f"{role}_token": token for role, token in names.items()}
    reference = byte_level(tmp_path, special, around, named, **settings)
    if dialect != "strings":
        path = tmp_path / "tokenizer_config.json"
        config = {k: v for k, v in json.loads(path.read_text()).items() if k not in named}
        if dialect in ("objects", "an older map"):
            more = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
            named = {key: {"content": token, **more} for key, token in named.items()}
        if dialect == "objects":
            config |= {k: v | {"__type": "AddedToken", "special": True} for k, v in named.items()}
        else:
            (tmp_path / "special_tokens_map.json").write_text(json.dumps(named))
        path.write_text(json.dumps(config))
    ours = Tokenizer(tmp_path, special_in_text=True)
    for texts in [*((text,) for text in TEXTS), *PAIRS]:
        same(ours, reference, *texts)
    for role, token in names.items():
        assert getattr(ours, f"{role}_id") == reference.convert_tokens_to_ids(token), role
    if kind == "nothing around":
        assert ours.pad_id == ours.eos_id == 0 and ours.special_tokens() == 0


@pytest.mark.parametrize(
    ("flags", "around"),
    [
        ({"add_bos_token": True, "add_eos_token": True}, (2, 1)),
        ({"add_bos_token": True, "add_eos_token": False}, (2, None)),
        ({"add_bos_token": False, "add_eos_token": True}, (None, 1)),
        ({"add_bos_token": False, "add_eos_token": False}, (None, None)),
    ],
)
def test_the_switches_of_bos_and_eos(tmp_path, flags, around):
    """As EmbeddingGemma has them, from the SentencePiece model and from tokenizer.json."""
    reference = write("gemma", tmp_path, **flags).from_pretrained(tmp_path)
    reference.save_pretrained(tmp_path / "json")
    for folder in (tmp_path, tmp_path / "json"):
        ours = Tokenizer(folder)
        for texts in (("one",), ("one", "two")):
            same(ours, reference, *texts)
        ids = ours.encode("one")[0]
        assert (ids[0] if around[0] else None, ids[-1] if around[1] else None) == around
    # A switch says something of its own token only: Qwen3 Embedding ends its texts so.
    config = tmp_path / "json" / "tokenizer_config.json"
    both = {key: True for key in flags}
    write("gemma", tmp_path, **both).from_pretrained(tmp_path).save_pretrained(tmp_path / "json")
    edited = json.loads(config.read_text())
    edited.pop("add_eos_token", None)
    config.write_text(json.dumps(edited | {"add_bos_token": False}))
    assert Tokenizer(tmp_path / "json").encode("one")[0] == [*ours.contents(["one"])[0], 1]


@pytest.mark.parametrize("count", [0, 3])
def test_t5_has_as_many_extra_tokens_as_its_settings_say(tmp_path, count):
    reference = write("t5", tmp_path, extra_ids=count).from_pretrained(tmp_path)
    ours = Tokenizer(tmp_path)
    assert ours.vocab_size == len(reference)
    same(ours, reference, TEXTS[0])


@pytest.mark.parametrize(
    ("file", "names", "pad", "row"),
    [
        ("spiece.model", ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], "<pad>", "[CLS] ▁a [SEP]"),
        ("spm.model", ["[PAD]", "[CLS]", "[SEP]", "[UNK]"], "[PAD]", "[CLS] ▁A [SEP]"),
        ("tokenizer.model", ["<pad>", "<eos>", "<bos>", "<unk>"], "<pad>", "<bos> ▁A"),
        ("sentencepiece.bpe.model", ["<unk>", "<s>", "</s>"], "<pad>", "<s> ▁A </s>"),
        ("spiece.model", ["<pad>", "</s>", "<unk>"], "<pad>", "▁A </s>"),
    ],
    ids=["albert", "debertav2", "gemma", "xlmroberta", "t5"],
)
def test_a_family_is_known_by_its_pieces(file, names, pad, row, tmp_path):
    """As where there is no config beside a SentencePiece model. ALBERT's text is in lower case."""
    special = [piece(name, 0.0, 2 if "unk" in name.lower() else 3) for name in names]
    letters = map(piece, ("▁A", "▁a", "▁", "A", "a"))
    (tmp_path / file).write_bytes(sentence_piece(*special, *letters))
    tokenizer = Tokenizer(tmp_path)
    assert tokenizer.ids_to_tokens(tokenizer.encode("A")[0]) == row.split()
    assert tokenizer.ids_to_tokens([tokenizer.pad_id]) == [pad]
