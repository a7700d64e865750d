"""The modules of the benchmarks as fixtures."""

import importlib
import os
import pathlib
from unittest import mock

import pytest

BENCHMARKS = pathlib.Path(__file__).parents[1] / "benchmarks"


def imported(name):
    """A fixture: a module of the benchmarks, which may set variables of the environment."""

    @pytest.fixture(name=name)
    def module(monkeypatch):
        monkeypatch.syspath_prepend(str(BENCHMARKS))
        with mock.patch.dict(os.environ):
            yield importlib.import_module(name)

    return module
