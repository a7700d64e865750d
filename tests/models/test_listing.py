"""The table of families, for the README and the site."""

import json
import pathlib

import pytest

from keras_posenc.models.families import FAMILIES

pytestmark = pytest.mark.once

RESULTS = pathlib.Path(__file__).parents[2] / "benchmarks" / "results" / "families.json"


def test_each_family_was_measured_and_states_what_a_table_shows():
    measured = json.loads(RESULTS.read_text("utf-8"))
    assert set(measured) == {"torch", "jax", "tensorflow"}
    for found in measured.values():
        assert found.keys() == FAMILIES.keys()
        assert max(found.values()) <= 1e-5
    for family in FAMILIES.values():
        assert family.positions and family.paper and family.model_types
