"""The table of families, for the README and the site."""

import json
import pathlib

import pytest

from keras_posenc.models.families import FAMILIES
from keras_posenc.models.families.listing import family_table

pytestmark = pytest.mark.once

RESULTS = pathlib.Path(__file__).parents[2] / "benchmarks" / "results" / "families.json"


def test_each_family_is_a_row_with_what_was_found():
    measured = json.loads(RESULTS.read_text("utf-8"))
    assert set(measured) == {"torch", "jax", "tensorflow"}
    for found in measured.values():
        assert found.keys() == FAMILIES.keys()
        assert max(found.values()) <= 1e-5
        rows = family_table(found)
        assert [row["model"] for row in rows] == list(FAMILIES)
        assert all(row["positions"] and row["paper"] and row["model_type"] for row in rows)
    assert "difference" not in family_table()[0]
