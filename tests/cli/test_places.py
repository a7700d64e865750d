"""Results of `predict` and `evaluate`: where they may be written."""

import pathlib

import pytest

from keras_posenc.cli import main

pytestmark = pytest.mark.once


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_place_for_results_is_checked_before_keras_is_imported(
    capsys, tmp_path, finetuned, command
):
    """Not after hours of computing; and what is read is not replaced."""
    (tmp_path / "new.csv").write_text("text,label\nw1,a\n")

    def error(output):
        arguments = [command, finetuned, tmp_path / "new.csv", "--output", output]
        assert main([str(each) for each in arguments], load=pytest.fail) == 2
        return capsys.readouterr().err

    assert "new.csv is read and would be replaced" in error(tmp_path / "new.csv")
    assert "cannot be created: it, or a folder" in error(tmp_path / "new.csv" / "found.csv")
    (tmp_path / "found.csv").mkdir()
    assert "found.csv is a folder, a pipe or a device" in error(tmp_path / "found.csv")
    if pathlib.Path("/proc/self").exists():  # where even root creates nothing
        assert "/proc/found.csv cannot be written" in error("/proc/found.csv")
