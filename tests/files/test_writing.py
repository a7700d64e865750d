"""Files written whole, never through the links of others, by several writers at once."""

import errno
import os
import pathlib
import subprocess
import tempfile
import threading

import pytest
from file_processes import start_process

from keras_posenc.files import writing
from keras_posenc.files.writing import (
    check_place,
    clear_partials,
    open_regular,
    replacing,
    subfolder,
    temporary_folder,
    write_text,
)
from keras_posenc.folders import written
from keras_posenc.text import Tokenizer

pytestmark = pytest.mark.once


@pytest.fixture
def precious(tmp_path):
    """A file and a folder of the user's, outside of the output."""
    place = tmp_path / "home"
    place.mkdir()
    (place / "letter").write_text("precious")
    yield place
    assert [path.name for path in place.iterdir()] == ["letter"]
    assert (place / "letter").read_text() == "precious"


@pytest.fixture
def output(tmp_path):
    (tmp_path / "output").mkdir()
    return tmp_path / "output"


def test_a_file_replaces_a_link(precious, output):
    names = ("report.html", ".partial-report.html", "report.html.part")
    for name in names:
        (output / name).symlink_to(precious / "letter")
    write_text(output / "report.html", "page")
    assert not (output / "report.html").is_symlink()
    assert (output / "report.html").read_text() == "page"


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to a folder"])
def test_what_is_no_file_is_not_replaced(output, kind):
    path = output / "x"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}.get(
        kind, lambda: path.symlink_to(output)
    )()
    with pytest.raises(ValueError, match="x is a folder, a pipe or a device: give the path of a"):
        write_text(path, "text")
    assert [each.name for each in output.iterdir()] == ["x"]


def test_a_tokenizer_replaces_links(precious, output, tokenizer_folder):
    for name in ("tokenizer.json", "tokenizer.json.part", "vocab.txt", "vocab.txt.part"):
        (output / name).symlink_to(precious / "letter")
    tokenizer = Tokenizer(tokenizer_folder)
    tokenizer.save(output)
    assert Tokenizer(output).encode("a b") == tokenizer.encode("a b")


@pytest.fixture
def tokenizer_folder(tmp_path):
    (tmp_path / "tokenizer").mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    (tmp_path / "tokenizer" / "vocab.txt").write_text("\n".join(words) + "\n")
    return tmp_path / "tokenizer"


def runs(output):
    with written.owned(output):
        with written.replacing_together(output) as new:
            (new / "a").write_text("new")


@pytest.mark.parametrize("name", [".lock", ".results"])
@pytest.mark.parametrize("target", ["letter", "", "nothing"])
def test_links_in_the_place_of_a_run_are_refused(precious, output, name, target):
    (output / name).symlink_to(precious / target)
    with pytest.raises(ValueError, match=rf"\{name} is refused: a run writes there, and it is"):
        runs(output)
    assert [path.name for path in output.iterdir() if path.name not in (name, ".lock")] == []


@pytest.mark.parametrize("kind", ["pipe", "folder", "second name"])
def test_a_lock_is_a_file_with_one_name(precious, output, kind):
    make = {
        "pipe": os.mkfifo,
        "folder": os.mkdir,
        "second name": lambda path: os.link(precious / "letter", path),
    }
    make[kind](output / ".lock")
    with pytest.raises(ValueError, match=r"\.lock is refused: a run writes there"):
        open_regular(output / ".lock")


def test_what_looks_like_the_rest_of_a_killed_run_may_be_a_link(precious, output):
    names = [".partial-aaaaaaaa", ".partial-bbbbbbbb"]
    for name, target in zip(names, (precious, precious / "letter"), strict=True):
        (output / name).symlink_to(target)
    runs(output)
    assert sorted(path.name for path in output.iterdir()) == [".lock", *names, "a"]


def test_a_folder_with_more_behind_such_a_name_stays(output):
    (output / ".partial-aaaaaaaa").mkdir()
    (output / ".partial-aaaaaaaa-mine").mkdir()
    clear_partials(output)
    assert [path.name for path in output.iterdir()] == [".partial-aaaaaaaa-mine"]


@pytest.mark.parametrize("name", [".partial-mine", ".partial-aaaaaaaa", ".results", ".lock"])
def test_files_of_the_user_under_names_of_a_run_stay(output, name):
    if name in (".lock", ".partial-aaaaaaaa"):
        (output / name).write_text("mine")
    else:
        (output / name).mkdir()
        (output / name / "a").write_text("mine")
    if name in (".results", ".lock"):
        with pytest.raises(ValueError, match=rf"\{name} is refused: .* Move it, or give another"):
            runs(output)
    else:
        runs(output)
    path = output / name
    assert (path if path.is_file() else path / "a").read_text() == "mine"
    if name == ".results":
        with pytest.raises(ValueError, match="it holds files that no run wrote"):
            with written.replacing_together(output) as new:
                (new / "a").write_text("new")
        (output / "recipe.json").write_text("{}")  # as a run of an earlier version left it
        runs(output)
        assert (output / "a").read_text() == "new"


def test_a_place_where_no_file_can_be_written(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    check_place(tmp_path / "new" / "deeper" / "a.npy")
    check_place(tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    with pytest.raises(ValueError, match="folder is a folder, a pipe or a device: give the path"):
        check_place(tmp_path / "folder")
    with pytest.raises(NotADirectoryError, match="file/b cannot be created: it, or a folder"):
        check_place(tmp_path / "file" / "b" / "a.npy")
    if pathlib.Path("/proc/self").exists():  # where even root creates nothing
        with pytest.raises(OSError, match="/proc/a.npy cannot be written, because nothing can be"):
            check_place("/proc/a.npy")


@pytest.mark.parametrize("old", ["link to a file", "link to a folder", "file", "folder"])
@pytest.mark.parametrize("new", ["file", "folder"])
def test_results_replace_whatever_has_their_name(precious, output, old, new):
    path = output / "1_Pooling"
    if old.startswith("link"):
        path.symlink_to(precious / "letter" if old == "link to a file" else precious)
    elif old == "file":
        path.write_text("old")
    else:
        path.mkdir()
        (path / "old").write_text("old")
    with written.replacing_together(output) as results:
        place = results / "1_Pooling"
        if new == "folder":
            place.mkdir()
            place /= "config.json"
        place.write_text("new")
    assert sorted(output.rglob("*"))[0] == path and not path.is_symlink()
    content = path if new == "file" else path / "config.json"
    assert content.read_text() == "new" and not (path / "old").exists()


def test_a_link_in_the_place_of_a_folder(precious, output):
    (output / "runs").symlink_to(precious)
    with pytest.raises(ValueError, match=r"runs is refused: a run writes there"):
        subfolder(output, "runs")
    assert subfolder(output, "states") == subfolder(output, "states") == output / "states"


def test_the_output_itself_may_be_a_link(output, tmp_path):
    (tmp_path / "link").symlink_to(output)
    runs(tmp_path / "link")
    write_text(tmp_path / "link" / "b", "text")
    assert sorted(path.name for path in output.iterdir()) == [".lock", "a", "b"]


def at_once(work, count=8):
    """Does some work in several threads, and raises what one of them raises."""
    errors = []
    barrier = threading.Barrier(count)

    def one(number):
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_writers_of_one_file_at_once(output):
    texts = [str(number) * 200_000 for number in range(8)]
    at_once(lambda number: write_text(output / "vectors.npy", texts[number]))
    assert (output / "vectors.npy").read_text() in texts
    assert [path.name for path in output.iterdir()] == ["vectors.npy"]


def test_writers_of_one_folder_at_once(output):
    """The files that stay are all of one writer."""

    def work(number):
        for _ in range(5):
            with written.replacing_together(output) as new:
                for name in "abc":
                    (new / name).write_text(str(number))

    at_once(work)
    assert sorted(path.name for path in output.iterdir()) == ["a", "b", "c"]
    assert len({(output / name).read_text() for name in "abc"}) == 1


def test_what_a_killed_process_left_of_a_file_is_removed_with_the_next_one(output):
    left = {"aaaaaaaa": ["a"], "bbbbbbbb": [], "cccccccc": ["b"], "dddddddd": ["a", "b"]}
    for drawn, names in left.items():
        (output / f".partial-{drawn}").mkdir()
        for name in names:
            (output / f".partial-{drawn}" / name).write_text("half")
    with replacing(output / "a") as partial:
        partial.write_text("another process is writing it")
        write_text(output / "a", "text")
        assert partial.exists()
    names = sorted(path.name for path in output.iterdir())
    assert names == [".partial-cccccccc", ".partial-dddddddd", "a"]


def test_an_empty_folder_that_a_killed_check_left_is_removed_by_the_next_one(output):
    (output / ".partial-aaaaaaaa").mkdir()
    check_place(output / "a")
    assert not list(output.iterdir())


def test_temporary_files_of_another_user_stay(output, monkeypatch):
    (output / ".partial-aaaaaaaa").mkdir()
    refuse = PermissionError(13, "Permission denied")
    monkeypatch.setattr(os, "open", lambda *_, **__: (_ for _ in ()).throw(refuse))
    clear_partials(output)
    assert (output / ".partial-aaaaaaaa").is_dir()


def test_a_run_that_starts_leaves_others_temporary_files(output):
    """A report is written into the folder of a run that begins; one that was killed had left
    something."""
    (output / ".partial-abcd_123").mkdir()
    (output / ".partial-abcd_123" / "half").write_text("half")
    with replacing(output / "report.html") as partial:
        partial.write_text("page")
        with written.owned(output):
            assert {path.name for path in output.iterdir()} == {partial.parent.name, ".lock"}
    assert (output / "report.html").read_text() == "page"


def test_the_mode_of_files_is_that_of_other_files(output):
    write_text(output / "a", "text")
    with written.replacing_together(output) as new:
        (new / "folder").mkdir()
        (new / "b").write_text("text")
    (output / "usual").write_text("text")
    (output / "usual folder").mkdir()
    modes = {name: (output / name).stat().st_mode for name in os.listdir(output)}
    assert modes["a"] == modes["b"] == modes["usual"]
    assert modes["folder"] == modes["usual folder"]


def test_others_cannot_enter_a_temporary_folder(output):
    with temporary_folder(output) as one, temporary_folder(output) as other:
        assert one != other and one.stat().st_mode & 0o077 == 0
        clear_partials(output)
        assert one.is_dir() and other.is_dir()
    assert not list(output.iterdir())


FORKS = """
    import os, pathlib, sys, time
    from keras_posenc.folders.written import owned
    with owned(pathlib.Path(sys.argv[1])):
        if os.fork() == 0:
            print(os.getpid(), flush=True)
            sys.stdin.read()  # outlives its parent
        os._exit(0)
    """


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_keep_the_lock(output):
    with start_process(FORKS, output, stdin=subprocess.PIPE) as process:
        child = int(process.stdout.readline())
        process.wait()
        os.kill(child, 0)  # it is there
        with written.owned(output):
            pass
        process.stdin.close()


# JAX, which Keras imports where it is installed, warns of every fork; these handle files only.
QUIET_FORKS = pytest.mark.filterwarnings(
    "ignore:os.fork:RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@QUIET_FORKS
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_end_of_a_fork_does_not_free_the_lock(output):
    with written.owned(output):
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(BlockingIOError, match="is in use by another run"):
            with written.owned(output):
                pass


def test_the_copy_of_a_fork_that_has_not_begun_does_not_keep_the_lock(output):
    with written.owned(output):
        copies = [os.dup(number) for number in writing._LOCKS]
    with written.owned(output):
        pass
    assert copies
    for number in copies:
        os.close(number)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@QUIET_FORKS
def test_a_fork_that_ends_leaves_a_temporary_folder_and_its_lock(output):
    writer = temporary_folder(output)
    path = writer.__enter__()
    if (child := os.fork()) == 0:
        writer.__exit__(None, None, None)
        os._exit(0)
    os.waitpid(child, 0)
    clear_partials(output)
    assert path.is_dir()
    writer.__exit__(None, None, None)
    assert not list(output.iterdir())


@pytest.mark.parametrize("use, left", [(check_place, []), (lambda a: write_text(a, "x"), ["a"])])
def test_a_folder_that_is_cleared_before_its_lock_is_made_again(tmp_path, monkeypatch, use, left):
    make = tempfile.mkdtemp

    def made_and_cleared(**options):
        monkeypatch.setattr(tempfile, "mkdtemp", make)
        folder = make(**options)
        writing.clear_partials(tmp_path)  # as another process does at this moment
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", made_and_cleared)
    use(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == left


def test_a_full_disk_is_named(tmp_path):
    for error in (
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("4096 requested and 0 written"),
    ):
        with pytest.raises(OSError, match=r"a\.txt"), writing.replacing(tmp_path / "a.txt"):
            raise error
    assert not list(tmp_path.iterdir())
