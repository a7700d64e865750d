"""Folders of runs: one run at a time, results replaced together, whenever a process is killed."""

import os

import pytest
from file_processes import start_process

from keras_posenc.files.writing import make_folder
from keras_posenc.folders import written
from keras_posenc.folders.folder import Folder

pytestmark = pytest.mark.once


def newest_text(path):
    folder = Folder.of(path)
    return folder.place(folder.newest("b")).read_text()


HOLD = """
    import pathlib, sys, time
    from keras_posenc.folders.written import owned
    with owned(pathlib.Path(sys.argv[1])):
        print("owned", flush=True)
        time.sleep(600)
    """


def locked(path):
    """A process that owns a folder."""
    process = start_process(HOLD, path)
    assert process.stdout.readline() == "owned\n"
    return process


def test_a_second_run_is_refused_and_a_killed_one_forgotten(tmp_path):
    process = locked(tmp_path / "run")
    try:
        with pytest.raises(BlockingIOError, match=f"by another run, process {process.pid} on"):
            with written.owned(tmp_path / "run"):
                pass
    finally:
        process.kill()
        process.communicate()
    with written.owned(tmp_path / "run"):
        with pytest.raises(BlockingIOError, match=f"process {os.getpid()} on"):
            with written.owned(tmp_path / "run"):
                pass
    with written.owned(tmp_path / "run"):
        pass


def test_a_file_as_a_folder(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(NotADirectoryError, match="is a file; give a directory"):
        with written.owned(tmp_path / "x"):
            pass


def test_a_folder_in_a_file(tmp_path):
    (tmp_path / "x").write_text("")
    for path in ("x", "x/y", "x/y/z"):
        with pytest.raises(NotADirectoryError, match=f"{path} cannot be created: it, or a folder"):
            make_folder(tmp_path / path)
    assert make_folder(tmp_path / "y" / "z") == make_folder(str(tmp_path / "y" / "z"))
    with pytest.raises(NotADirectoryError, match="run cannot be created"):
        with written.owned(tmp_path / "x" / "run"):
            pass


def test_what_a_kill_left_is_cleared(tmp_path):
    (tmp_path / ".partial-abcd_123").mkdir()
    (tmp_path / ".partial-abcd_123" / "a").write_text("half")
    (tmp_path / ".results").mkdir()
    (tmp_path / ".results" / ".complete").touch()
    (tmp_path / ".results" / "b").write_text("new")
    (tmp_path / "b").write_text("old")
    assert newest_text(tmp_path) == "new"
    with written.owned(tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "b"]
    assert newest_text(tmp_path) == "new"


def test_an_error_while_writing_leaves_the_old_files(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(OSError, match="full"):
        with written.replacing_together(tmp_path) as new:
            (new / "a").write_text("new")
            raise OSError("the disk is full")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_no_room_for_the_state(tmp_path, monkeypatch):
    import shutil

    import keras

    from keras_posenc.training.training_state import check_space

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    check_space(tmp_path, model)
    tiny = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: tiny)
    with pytest.raises(OSError, match=r"has 0\.0 MB left, and the states of this training take"):
        check_space(tmp_path, model)
