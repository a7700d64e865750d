"""The examples in the docstrings say what happens."""

import doctest

import pytest

from keras_posenc.text import batches, buckets, files, simplified, tokenizer

pytestmark = pytest.mark.once


@pytest.mark.parametrize("module", [batches, buckets, files, simplified, tokenizer])
def test_examples(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
