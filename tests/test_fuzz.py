"""Some seconds of `make fuzz`: damaged files of every kind are read rightly, or refused."""

import os
import pathlib

import pytest
from forks import run_fork

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.once
def test_damaged_files_are_read_rightly_or_refused():
    """In a process of its own, which may take a gigabyte more than it took before the first."""
    quietly = os.environ | {"RUST_BACKTRACE": "0"}
    done = run_fork("file", "tests/fuzz.py", ["--seconds", 6, "--seed", 0], cwd=ROOT, env=quietly)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "refused, 0 wrong" in done.stdout
