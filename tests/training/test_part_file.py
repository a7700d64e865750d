"""Files that are written part by part: vectors and predictions of more texts than memory holds."""

import errno
import json
import os
import pathlib
import signal
import time

import numpy as np
import pytest
from forks import Fork

from keras_posenc import backend
from keras_posenc.folders.folder import Folder
from keras_posenc.retrieval import DenseEmbedder, Vectors, embed, open_embedder
from keras_posenc.retrieval.embedders import Opening
from keras_posenc.retrieval.embedding_record import EmbeddingRecord, read_record
from keras_posenc.text.text_stream import TextStream
from keras_posenc.training import part_file, predict
from keras_posenc.training.part_file import write_parts
from keras_posenc.training.text_model import TextModel

TEXTS = [f"w{n} w{(n * 7) % 35} w{(n * 3) % 35}" + " w1" * (n % 5) for n in range(11)]


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    return path


def die_after(monkeypatch, calls):
    """The model stops after so many parts; returns how many texts each part had."""
    sizes, judged = [], TextModel.judged

    def counted(self, texts, verbose="auto"):
        if len(sizes) == calls:
            raise KeyboardInterrupt
        sizes.append(len(texts))
        return judged(self, texts, verbose)

    monkeypatch.setattr(TextModel, "judged", counted)
    return sizes


def test_vectors_in_parts_are_those_of_one_call(pretrained, lines, tmp_path, monkeypatch, capsys):
    expected = embed(pretrained, TEXTS, verbose=0)
    monkeypatch.setattr(part_file, "BLOCK", 100)  # what is there already is read in several
    output = tmp_path / "new" / "vectors.npy"
    with monkeypatch.context() as patched:
        assert die_after(patched, 2) == []
        with pytest.raises(KeyboardInterrupt):
            embed(pretrained, lines, output, part_size=3)
    assert not output.exists() and (tmp_path / "new" / "vectors.npy.parts").is_dir()
    with monkeypatch.context() as patched:
        sizes = die_after(patched, 9)
        found = embed(pretrained, lines, output, part_size=3)
    assert sizes == [3, 2]  # what was not there yet
    assert isinstance(found, np.memmap) and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.load(output), found)
    lengths = np.linalg.norm(expected, axis=1)  # of those before the interruption, too
    np.testing.assert_allclose(Vectors.load(output).lengths, lengths, rtol=1e-5)
    names = sorted(path.name for path in output.parent.iterdir())
    assert names == ["vectors.npy", "vectors.npy.json"]
    printed = capsys.readouterr().err
    assert "resuming after part 2 of 4" in printed and "part 4 of 4, " in printed
    assert "left" in printed


@pytest.mark.once
def test_shards_and_chunks_in_parts(pretrained, lines, tmp_path):
    model = open_embedder(pretrained, reading="chunks:6", token_budget=64)
    expected = embed(model, TEXTS, verbose=0)
    parts = [
        embed(model, lines, tmp_path / f"{n}.npy", shard=f"{n}/2", part_size=2, verbose=0)
        for n in (1, 2)
    ]
    assert [len(part) for part in parts] == [5, 6]
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-5, atol=1e-6)
    assert np.abs(embed(pretrained, TEXTS, verbose=0) - expected).max() > 1e-3  # in one piece


@pytest.mark.once
def test_predictions_in_parts_are_those_of_one_call(finetuned, lines, tmp_path, monkeypatch):
    expected = predict(finetuned, TEXTS, verbose=0)
    output = tmp_path / "found.jsonl"
    with monkeypatch.context() as patched:
        die_after(patched, 1)
        with pytest.raises(KeyboardInterrupt):
            predict(finetuned, lines, output=output, part_size=4, verbose=0)
    assert predict(finetuned, lines, output=output, part_size=4, verbose=0) == len(TEXTS)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["row"] for row in rows] == list(range(1, len(TEXTS) + 1))
    for row, prediction in zip(rows, expected, strict=True):
        assert row["label"] == prediction.label
        assert row["probability"] == pytest.approx(prediction.probability, abs=1e-5)
    half = predict(finetuned, TEXTS, shard="2/2", output=output, part_size=4, verbose=0)
    rows = [json.loads(line)["row"] for line in output.read_text().splitlines()]
    assert half == 6 and rows == [6, 7, 8, 9, 10, 11]
    assert len(predict(finetuned, TEXTS, shard="1/2", verbose=0)) == 5


@pytest.mark.once
def test_parts_of_another_call_are_refused(pretrained, lines, tmp_path, monkeypatch):
    def run(texts=lines, directory=pretrained, **settings):
        with monkeypatch.context() as patched:
            die_after(patched, 1)
            embed(directory, texts, tmp_path / "v.npy", **{"part_size": 4, **settings}, verbose=0)

    with pytest.raises(KeyboardInterrupt):
        run()
    with pytest.raises(ValueError, match="max_length was None and is now 8. .* or remove .*parts"):
        run(max_length=8)
    with pytest.raises(ValueError, match="part_size was 4 and is now 5"):
        run(part_size=5)
    with pytest.raises(
        ValueError, match="holds parts of other texts, or ids, than those that are given"
    ):
        run([TEXTS[1], *TEXTS[1:]])
    data = tmp_path / "v.npy.parts" / "data"
    whole = data.read_bytes()
    for place in (0, len(whole) // 2, len(whole) - 1):
        changed = bytearray(whole)
        changed[place] ^= 1
        data.write_bytes(changed)
        with pytest.raises(ValueError, match="parts/data has changed since an earlier call wrote"):
            run()
    data.write_bytes(whole)
    with pytest.raises(KeyboardInterrupt):  # which `run` raises after each part
        run()
    data.write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"progress.json is damaged \(bytes .*\)\. Remove .*parts to start"
    ):
        run()


@pytest.mark.once
def test_parts_of_an_earlier_version_go_on(pretrained, lines, tmp_path, monkeypatch):
    """They stored no digest of what they wrote."""
    expected = embed(pretrained, TEXTS, verbose=0)
    with monkeypatch.context() as patched:
        die_after(patched, 1)
        with pytest.raises(KeyboardInterrupt):
            embed(pretrained, lines, tmp_path / "v.npy", part_size=4, verbose=0)
    progress = tmp_path / "v.npy.parts" / "progress.json"
    state = json.loads(progress.read_text())
    del state["data"]
    progress.write_text(json.dumps(state))
    found = embed(pretrained, lines, tmp_path / "v.npy", part_size=4, verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("call", ["write", "truncate", "fsync"])
def test_a_full_disk_is_an_error_with_the_path(pretrained, lines, tmp_path, monkeypatch, call):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    class Full:
        """A file on a full disk."""

        def __init__(self, file):
            self._file = file

        def __getattr__(self, name):
            return full if name == call else getattr(self._file, name)

    open_file = part_file.open_regular
    monkeypatch.setattr(part_file, "open_regular", lambda path: Full(open_file(path)))
    if call == "fsync":
        monkeypatch.setattr(part_file.os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*v\.npy\.parts/"):
        embed(pretrained, lines, tmp_path / "v.npy", part_size=4, verbose=0)


@pytest.mark.once
def test_a_changed_model_is_another_run(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("one")

    def run(fails):
        def compute(texts, before):
            if fails and before:
                raise KeyboardInterrupt
            return b"x" * len(texts)

        stream = TextStream(TEXTS)
        rows = range(len(TEXTS))
        write_parts(tmp_path / "out", {}, tmp_path / "model", stream, 5, rows, compute, 0)

    with pytest.raises(KeyboardInterrupt):
        run(True)
    (tmp_path / "model" / "weights").write_text("other")
    with pytest.raises(
        ValueError, match="settings: files was content with the digest [0-9a-f]{16} and is"
    ):
        run(False)


@pytest.mark.once
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"part_size": 0}, "`part_size` must be a positive integer. Received: 0"),
        ({"output": None}, "needs a .npy or .jsonl file as `output`.* Received: None"),
        ({"reading": "late:4", "output": "v.npz"}, "needs a .jsonl file as `output`.*v.npz"),
    ],
)
def test_parts_that_embed_does_not_write(pretrained, tmp_path, monkeypatch, settings, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        embed(pretrained, TEXTS, **{"output": "v.npy", "part_size": 2, **settings})
    assert not list(tmp_path.iterdir())


@pytest.mark.once
def test_parts_that_predict_does_not_write(finetuned, tmp_path, monkeypatch):
    for settings, message in (
        ({"output": "p.jsonl"}, "`output` and `part_size` go together"),
        ({"part_size": 2}, "`output` and `part_size` go together"),
        ({"output": "p.tsv", "part_size": 2}, "`output` must be a .jsonl file. Received: 'p.tsv'"),
    ):
        with pytest.raises(ValueError, match=message):
            predict(finetuned, TEXTS, **settings)
    monkeypatch.setattr(backend, "processes", lambda: (0, 2))
    with pytest.raises(ValueError, match="part_size is for one process: .* `shard` of its own"):
        predict(finetuned, TEXTS, output=tmp_path / "p.jsonl", part_size=2)


@pytest.mark.once
def test_a_killed_call_continues_after_its_last_whole_part(tmp_path):
    """Killed in the middle of a part, which may be half on disk."""
    (tmp_path / "model").mkdir()
    program = f"""
        import pathlib
        import time
        from keras_posenc.text.text_stream import TextStream
        from keras_posenc.training.part_file import write_parts

        folder = pathlib.Path({str(tmp_path)!r})

        def compute(texts, before):
            (folder / "calls").open("a").write(f"{{before}}\\n")
            time.sleep(0.05)
            return "".join(texts).encode() * 1000

        texts = [f"text{{n}}" for n in range(60)]
        write_parts(
            folder / "out", {{}}, folder / "model", TextStream(texts), 1, range(60), compute, 0
        )
        """
    process = Fork("code", program)
    progress, deadline = tmp_path / "out.parts" / "progress.json", time.time() + 240
    while not progress.exists() and process.poll() is None and time.time() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    done = json.loads(progress.read_text())["parts"]
    assert 1 <= done < 60 and not (tmp_path / "out").exists()
    with open(tmp_path / "out.parts" / "data", "ab") as file:
        file.write(b"what a kill leaves of a part")
    calls = tmp_path / "calls"
    calls.write_text("")
    assert Fork("code", program).wait() == 0
    assert calls.read_text().split() == [str(n) for n in range(done, 60)]
    expected = "".join(f"text{n}" * 1000 for n in range(60)).encode()
    assert (tmp_path / "out").read_bytes() == expected


class Killed(BaseException):
    """In the place of a kill: nothing handles it."""


@pytest.mark.once
def test_a_moved_result_that_has_changed_is_refused(pretrained, lines, tmp_path, monkeypatch):
    output = tmp_path / "vectors.npy"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(pathlib.Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(Killed))
        embed(pretrained, lines, output, part_size=3, verbose=0)
    output.write_bytes(b"another file")
    with pytest.raises(ValueError, match="by an earlier call, and has changed since then. Remove"):
        embed(pretrained, lines, output, part_size=3, verbose=0)
    assert output.read_bytes() == b"another file"


@pytest.mark.once
@pytest.mark.parametrize("has_record", [True, False], ids=["record", "no record"])
def test_a_result_is_whole_wherever_the_end_was_interrupted(tmp_path, monkeypatch, has_record):
    """Before each rename and removal after the last part."""
    (tmp_path / "model").mkdir()
    model = Opening(Folder.of(tmp_path / "model"), DenseEmbedder, {})
    output, parts = tmp_path / "out.npy", tmp_path / "out.npy.parts"
    computed = []

    def compute(texts, before):
        computed.append(before)
        return "".join(texts).encode()

    def run():
        record = EmbeddingRecord(output, model, {}, TEXTS, None) if has_record else None
        arguments = (TextStream(TEXTS), 4, range(len(TEXTS)), compute, 0)
        write_parts(output, {}, tmp_path / "model", *arguments, record=record)

    def stop_before(number, seen):
        def patched(function):
            def call(*arguments, **options):
                progress = parts / "progress.json"
                if seen or (progress.exists() and json.loads(progress.read_text())["parts"] == 3):
                    seen.append(function)
                if len(seen) > number:
                    raise Killed
                return function(*arguments, **options)

            return call

        patch = monkeypatch.context()
        patches = patch.__enter__()
        for owner, name in ((os, "replace"), (pathlib.Path, "unlink"), (pathlib.Path, "rmdir")):
            patches.setattr(owner, name, patched(getattr(owner, name)))
        return patch

    for number in range(30):
        output.unlink(missing_ok=True)
        (tmp_path / "out.npy.json").unlink(missing_ok=True)
        patch = stop_before(number, [])
        try:
            run()
            break
        except Killed:
            pass
        finally:
            patch.__exit__(None, None, None)
        is_known = has_record or (parts / "progress.json").exists()
        computed.clear()
        run()
        assert computed == [] or not is_known, number
        assert output.read_bytes() == "".join(TEXTS).encode() and not parts.exists()
        assert not has_record or read_record(output) is not None
    assert number > 8 - 2 * (not has_record)


@pytest.mark.once
def test_a_complete_file_is_not_computed_again(pretrained, lines, tmp_path, monkeypatch, capsys):
    run = lambda **options: embed(pretrained, lines, tmp_path / "v.npy", **options)  # noqa: E731
    first = np.array(run(part_size=4, verbose=0))
    with monkeypatch.context() as patched:
        die_after(patched, 0)
        np.testing.assert_array_equal(run(part_size=4), first)
        assert "v.npy is complete. Remove it to compute it again" in capsys.readouterr().err
    lines.write_text(lines.read_text().replace("w1", "w2"))
    assert not np.array_equal(run(part_size=4, verbose=0), first)
    with monkeypatch.context() as patched:
        sizes = die_after(patched, 9)
        run(part_size=5, verbose=0)  # with other settings
    assert sizes == [5, 5, 1]


@pytest.mark.once
@pytest.mark.parametrize("taken", ["file", "folder", "link"])
def test_a_folder_of_parts_is_the_run_s_own(pretrained, lines, tmp_path, taken):
    parts, precious = tmp_path / "v.npy.parts", tmp_path / "precious"
    precious.mkdir()
    if taken == "link":
        parts.symlink_to(precious)
    elif taken == "folder":
        parts.mkdir()
        (parts / "mine").write_text("mine")
    else:
        parts.write_text("mine")
    what = "mine is refused: a run has not" if taken == "folder" else "parts is refused: it is a"
    with pytest.raises(ValueError, match=what):
        embed(pretrained, lines, tmp_path / "v.npy", part_size=4, verbose=0)
    assert not list(precious.iterdir()) and not (tmp_path / "v.npy").exists()
    assert taken != "folder" or (parts / "mine").read_text() == "mine"


@pytest.mark.once
def test_parts_in_the_folder_of_the_model_and_of_other_ids(pretrained, tmp_path, monkeypatch):
    import shutil

    model = tmp_path / "model"
    shutil.copytree(pretrained, model)
    source = model / "texts.csv"

    def run(ids, stop):
        rows = "".join(f"{each},w{n}\n" for n, each in enumerate(ids))
        source.write_text("id,text\n" + rows)
        os.utime(source, (1, 1))
        with monkeypatch.context() as patched:
            die_after(patched, stop)
            return embed(model, source, model / "v.jsonl", part_size=2, verbose=0)

    with pytest.raises(KeyboardInterrupt):
        run("abcdef", 1)
    with pytest.raises(ValueError, match="holds parts of other texts, or ids, than those"):
        run("xbcdef", 9)
    assert run("abcdef", 2) == 6
    rows = [json.loads(line)["id"] for line in (model / "v.jsonl").read_text().splitlines()]
    assert rows == list("abcdef")


@pytest.mark.once
@pytest.mark.parametrize("reading", [None, "late:4"])
def test_errors_count_texts_in_all_parts(pretrained, finetuned, tmp_path, reading):
    """Not in the part, or the shard, in which they are found."""
    texts = [*TEXTS[:9], "w1 \ud800", *TEXTS[9:]]
    suffix = ".jsonl" if reading else ".npy"
    for options in (
        {},
        {"shard": "2/2"},
        {"output": tmp_path / f"v{suffix}", "part_size": 4},
        {"output": tmp_path / f"w{suffix}", "part_size": 2, "shard": "2/2"},
    ):
        with pytest.raises(ValueError, match="^Text 9 has half a surrogate pair"):
            embed(pretrained, texts, reading=reading, verbose=0, **options)
        if "output" in options:
            options["output"] = options["output"].with_suffix(".predicted.jsonl")
        with pytest.raises(ValueError, match="^Text 9 has half a surrogate pair"):
            predict(finetuned, texts, verbose=0, **options)
