"""The tables in the README are those of the results beside it."""

import pathlib
import re

import pytest

from keras_posenc.bench import read_results, to_table

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = sorted((ROOT / "benchmarks" / "results" / "bench").glob("*.json"))


def test_every_result_has_its_table_in_the_readme():
    readme = (ROOT / "README.md").read_text("utf-8")
    tables = dict(re.findall(r"<!-- bench: (\w+) -->\n(.*?)\n<!-- /bench -->", readme, re.S))
    assert tables == {path.stem: to_table(read_results(path)) for path in RESULTS}
    assert tables
