"""The modules of the benchmarks as fixtures."""

import importlib
import os
from unittest import mock

import pytest


def imported(package, names):
    """Fixtures: modules of a package of the benchmarks, which may set variables of the environment.

    Args:
        package: str, such as "benchmarks.steps".
        names: str, the modules, with spaces between them.
    """
    return [_imported(package, name) for name in names.split()]


def _imported(package, name):
    @pytest.fixture(name=name)
    def module():
        with mock.patch.dict(os.environ):
            yield importlib.import_module(f"{package}.{name}")

    return module
