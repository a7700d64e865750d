"""The examples in the docstrings say what happens."""

import doctest

import pytest

from keras_posenc import tasks
from keras_posenc.tasks import (
    context_free,
    context_sensitive,
    contextual,
    counting,
    curricula,
    language,
    regular,
    scoring,
)

pytestmark = pytest.mark.once

MODULES = [context_free, context_sensitive, contextual, counting, curricula, language]
MODULES += [regular, scoring, tasks]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
