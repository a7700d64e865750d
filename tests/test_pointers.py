"""What Git LFS keeps in place of a file is recognised wherever a file is read."""

import pytest

pytestmark = pytest.mark.once

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4400\n"


def read_config(path):
    from keras_posenc.models.config_file import read_config

    return read_config(path)


def read_tokenizer(path):
    from keras_posenc.text import Tokenizer

    return Tokenizer(path)


def read_texts(path):
    from keras_posenc.text import read_texts

    return read_texts(path)


def read_checkpoint(path):
    from keras_posenc.checkpoints import open_checkpoint

    return open_checkpoint(path)


def read_corpus(path):
    from keras_posenc.tasks.language import Corpus

    return Corpus(path)


READERS = {
    "tokenizer.json": read_tokenizer,
    "vocab.txt": read_tokenizer,
    "vocab.json": read_tokenizer,
    "spiece.model": read_tokenizer,
    "config.json": read_config,
    "model.safetensors": read_checkpoint,
    "model.safetensors.index.json": read_checkpoint,
    "bert_model.ckpt.index": read_checkpoint,
    "texts.csv": read_texts,
    "texts.jsonl": read_texts,
    "corpus.txt": read_corpus,
}


@pytest.mark.parametrize("name", READERS)
def test_a_pointer_of_git_lfs(tmp_path, name):
    path = tmp_path / name
    path.write_text(POINTER)
    with pytest.raises(ValueError, match=f"{name} is a git-LFS pointer, not the file itself: run"):
        READERS[name](path)


@pytest.mark.parametrize("name", ["merges.txt", "tokenizer_config.json", "added_tokens.json"])
def test_a_pointer_next_to_a_tokenizer(tmp_path, name):
    (tmp_path / "vocab.json").write_text('{"<|endoftext|>": 0, "a": 1}')
    (tmp_path / "merges.txt").write_text("")
    (tmp_path / name).write_text(POINTER)
    with pytest.raises(ValueError, match=f"{name} is a git-LFS pointer, not the file itself: run"):
        read_tokenizer(tmp_path)
