"""`pre_tokenize` as bert4keras has it, and RoFormer's words of jieba as transformers finds them."""

import json
import re
import sys
import unicodedata

import pytest
from tiny_tokenizers import (
    LINES,
    PAIRS,
    TEXTS,
    numbered,
    write,
    write_merges,
    write_sentence_piece,
    write_words,
)

from keras_posenc.text import Tokenizer, simplified_vocabulary
from keras_posenc.text.words import CHINESE as CHINESE_CHARACTER

pytestmark = pytest.mark.once

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHINESE = ["玻璃", "身体", "伤身体", "不伤", "测试", "今天", "非常"]
MORE = ["今天非常好。", "用[MASK]测试a.b玻璃C身体100%", *TEXTS]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    write_words(folder, SPECIAL)
    tokens = (folder / "vocab.txt").read_text("utf-8").split()
    return {token: number for number, token in enumerate([*tokens, *CHINESE])}


def written(folder, vocabulary, **config):
    """A folder with vocab.txt and tokenizer_config.json."""
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def roformer(folder, vocabulary):
    return written(folder, vocabulary, tokenizer_class="RoFormerTokenizer")


def test_roformer_has_the_tokens_of_transformers(vocabulary, tmp_path):
    """Made of a dict: of files transformers 5 parts Chinese characters before it seeks words."""
    import transformers

    reference = transformers.RoFormerTokenizer(vocab=vocabulary, tokenize_chinese_chars=False)
    ours = Tokenizer(roformer(tmp_path, vocabulary), special_in_text=True)
    for texts in [*((text,) for text in MORE), *PAIRS]:
        found = reference(*texts, return_token_type_ids=True)
        assert ours.encode(*texts) == (found["input_ids"], found["token_type_ids"]), texts
    assert ours.tokenize("今天非常好。")[:2] == ["今天", "非常"]
    text = "用玻璃 é"
    spans = ours.encode(text, offsets=True)[2][1:-1]
    assert [text[a:b] for a, b in spans] == ["用", "玻璃", "é"]


def bert4keras(text, words_of, vocabulary):
    """bert4keras's `Tokenizer._tokenize`, rewritten."""
    text = unicodedata.normalize("NFD", text.lower())
    text = "".join(c for c in text if unicodedata.category(c) != "Mn")

    def pieces(word):
        start = 0
        found = []
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in vocabulary:
                    break
            else:
                return ["[UNK]"]
            found.append(piece)
            start = end
        return found

    def parts(text):
        spaced = ""
        for c in text:
            if unicodedata.category(c)[0] == "P" or c in "$+<=>^`|~" or "一" <= c <= "鿿":
                spaced += f" {c} "
            else:
                spaced += c
        return [piece for word in spaced.split() for piece in pieces(word)]

    return [
        token
        for word in words_of(text)
        for token in ([word] if word in vocabulary else parts(word))
    ]


def test_words_as_in_bert4keras(vocabulary, tmp_path):
    import rjieba

    def words_of(text):
        return iter(rjieba.cut(text, False))

    ours = Tokenizer(written(tmp_path, vocabulary), pre_tokenize=words_of)
    automatic = Tokenizer(roformer(tmp_path, vocabulary))
    for text in ["今天非常好。", "测试a.b玻璃C身体100%", "x=1 伤身体 $5", *LINES[:3], LINES[7]]:
        expected = bert4keras(text, words_of, vocabulary)
        assert ours.tokenize(text) == automatic.tokenize(text) == expected


def test_it_is_saved_with_what_finds_its_words(vocabulary, tmp_path):
    import transformers

    ours = Tokenizer(roformer(tmp_path, vocabulary))
    ours.save(tmp_path / "saved")
    assert Tokenizer(tmp_path / "saved").encode_batch(MORE) == ours.encode_batch(MORE)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert reference.tokenize("今天非常") == ["今天", "非常"]
    given = Tokenizer(vocabulary=vocabulary, pre_tokenize=str.split)
    given.save(tmp_path / "given")
    with pytest.raises(ValueError, match="was saved with a function of yours: give it as pre_tok"):
        Tokenizer(tmp_path / "given")
    again = Tokenizer(tmp_path / "given", pre_tokenize=str.split)
    assert again.tokenize("the 玻璃") == given.tokenize("the 玻璃") == ["the", "玻璃"]


def test_a_roformer_of_characters_needs_no_words(vocabulary, tmp_path):
    characters = {t: i for i, t in enumerate(vocabulary) if t not in CHINESE}
    ours = Tokenizer(roformer(tmp_path, characters))
    assert ours.pre_tokenize is None
    assert ours.encode_batch(LINES) == Tokenizer(vocabulary=characters).encode_batch(LINES)


def test_chinese_characters_are_those_of_bert():
    from tokenizers.normalizers import BertNormalizer

    normalizer = BertNormalizer(False, True, False, False)
    # Further on, that of `tokenizers` has a gap which BERT has not.
    for character in map(chr, [*range(0x2E80, 0xD800), *range(0xE000, 0x2B820)]):
        parted = normalizer.normalize_str(character) != character
        assert bool(re.fullmatch(CHINESE_CHARACTER, character)) == parted, ascii(character)


def test_simplified_keeps_the_words(vocabulary, tmp_path):
    tokens, _ = simplified_vocabulary(Tokenizer(roformer(tmp_path, vocabulary)))
    assert set(CHINESE) <= set(tokens)
    assert not set(CHINESE) & set(simplified_vocabulary(Tokenizer(vocabulary=vocabulary))[0])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("jieba", TypeError, "`pre_tokenize` must be a function, text -> words. Received: 'jieba'"),
        (lambda text: text, ValueError, r"pre_tokenize gives '.*', which is no list of words"),
        (lambda text: None, ValueError, "pre_tokenize gives None, which is no list of words"),
        (lambda text: ["b"], ValueError, "gives 'b', which is not in the rest of the text, '"),
    ],
)
def test_what_gives_no_words(vocabulary, given, error, message):
    with pytest.raises(error, match=message):
        Tokenizer(vocabulary=vocabulary, pre_tokenize=given).tokenize("a")


def test_jieba_that_is_missing_is_asked_for(vocabulary, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(ImportError, match="RoFormer's vocabulary has words of jieba: pip install"):
        Tokenizer(roformer(tmp_path, vocabulary))


def test_words_are_for_bert_tokenizers_alone(tmp_path):
    write("gpt2", tmp_path)
    with pytest.raises(ValueError, match=r"vocab.json is no BERT tokenizer: pre_tokenize= is for"):
        Tokenizer(tmp_path, pre_tokenize=str.split)


@pytest.mark.parametrize("config", [{"tokenizer_class": "DebertaTokenizer"}, {}])
def test_the_first_deberta_is_refused_by_name(tmp_path, config):
    write_merges(tmp_path, ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="how 'deberta' uses a vocab.json .* its tokenizer.json"):
        Tokenizer(tmp_path)


def test_a_pickle_is_refused_by_name(tmp_path):
    (tmp_path / "bpe_encoder.bin").write_bytes(b"\x80\x02}q\x00.")
    for path in (tmp_path, tmp_path / "bpe_encoder.bin"):
        with pytest.raises(ValueError, match="bpe_encoder.bin is DeBERTa's tokenizer as a pickle"):
            Tokenizer(path)


def test_llama_is_refused_by_name(tmp_path):
    options = numbered(unk=0, bos=1, eos=2) | {"model_type": "bpe", "byte_fallback": True}
    write_sentence_piece(tmp_path / "tokenizer.model", **options | {"vocab_size": 700})
    with pytest.raises(ValueError, match="cannot be identified from its pieces"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    with pytest.raises(ValueError, match="how 'llama' uses a SentencePiece model is not known"):
        Tokenizer(tmp_path)
