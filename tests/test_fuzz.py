"""Some seconds of `make fuzz`: damaged files of every kind are read rightly, or refused."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.once
def test_damaged_files_are_read_rightly_or_refused():
    """In a process of its own, which may take a gigabyte more than it took before the first."""
    command = [sys.executable, "tests/fuzz.py", "--seconds", "12", "--seed", "0"]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    quietly = os.environ | {"PYTHONPATH": path, "RUST_BACKTRACE": "0"}
    done = subprocess.run(
        command, cwd=ROOT, env=quietly, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "refused, 0 wrong" in done.stdout
