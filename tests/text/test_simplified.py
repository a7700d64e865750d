"""bert4keras's simplified vocabulary: the rule, and that no text notices."""

import hashlib
import json

import numpy as np
import pytest

from keras_posenc.text import Tokenizer, read_texts, simplified_vocabulary

pytestmark = pytest.mark.once

# What bert4keras 0.11.5 itself keeps: load_vocab(MiniLM's, simplified=True, startswith=[the five]).
BERT4KERAS = "74dfeb32753e693393b62da5aedc92cc013e2758b0ea64118bf914ab775532a2"


def test_keeps_what_bert4keras_keeps(minilm):
    token_dict, keep_tokens = simplified_vocabulary(minilm / "vocab.txt")
    assert len(token_dict) == len(keep_tokens) == 29191
    assert hashlib.sha256(json.dumps(keep_tokens).encode()).hexdigest() == BERT4KERAS
    lines = (minilm / "vocab.txt").read_text("utf-8").split("\n")
    assert [lines[old] for old in keep_tokens] == list(token_dict)
    assert list(token_dict.values()) == list(range(29191))


def test_which_tokens_go(tmp_path):
    special = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    stay = ["!", "中", "the", "##ing", "##", "1", "##𝐀", "é"]
    go = ["##!", "##中", "中国", "a.b", "##a-", "，，", "$5", "##^", "㐀㐀", "𠀀a", "···"]
    (tmp_path / "vocab.txt").write_text("\n".join(special + go + stay) + "\n", "utf-8")
    token_dict, keep_tokens = simplified_vocabulary(tmp_path)
    assert list(token_dict) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *stay]
    assert keep_tokens == [0, 2, 3, 4, 5, *range(17, 25)]
    short, _ = simplified_vocabulary(tmp_path, ["[UNK]", "[PAD]"])
    assert list(short)[:3] == ["[UNK]", "[PAD]", "!"]
    with pytest.raises(
        ValueError, match=r"starts_with names \['\[eos\]'\], not among .* 25 tokens"
    ):
        simplified_vocabulary(tmp_path, ["[PAD]", "[eos]"])


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json"])
def test_no_text_notices(minilm, book_excerpts, name):
    full = Tokenizer(minilm / name)
    token_dict, keep_tokens = simplified_vocabulary(full)
    small = Tokenizer(minilm / name, vocabulary=token_dict)
    assert small.vocab_size == len(token_dict)
    texts = [*read_texts(book_excerpts).texts[:20], "中文、ＡＢ! a.b [MASK] naïve 😀 $5", "C++/x"]
    for before, after in zip(full.encode_batch(texts), small.encode_batch(texts), strict=True):
        assert before[0] == np.array(keep_tokens)[after[0]].tolist()
        assert before[1] == after[1]


def test_a_tokenizer_from_the_dict_alone(minilm):
    token_dict, _ = simplified_vocabulary(minilm)
    with_file, alone = Tokenizer(minilm, vocabulary=token_dict), Tokenizer(vocabulary=token_dict)
    assert alone.encode("Hello, Wörld") == with_file.encode("Hello, Wörld")
