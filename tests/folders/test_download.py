"""`hf://owner/name` in the place of a path: what is taken from a server, and from the cache."""

import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import keras_posenc
from keras_posenc.folders import download
from keras_posenc.folders.download import local_path

pytest.importorskip("huggingface_hub")
pytestmark = pytest.mark.once

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b"{}",
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"a pickle",
    "model.fp16.safetensors": b"other weights",
    "artifact.metadata": b"{}",
    "vocab.txt": b"[PAD]\n",
    "1_Pooling/config.json": b"{}",
    "2_Dense/model.safetensors": b"more weights",
    "onnx/model.onnx": b"onnx",
    "README.md": b"text",
    "run.py": b"code",
}
TAKEN = {"config.json", "model.safetensors", "vocab.txt", "1_Pooling/config.json"}
TAKEN |= {"2_Dense/model.safetensors", "artifact.metadata"}
# The package without what it imports by itself, since a backend takes seconds.
SCRIPT = f"""
import sys, types
package = types.ModuleType("keras_posenc")
package.__path__ = [{str(pathlib.Path(keras_posenc.__file__).parent)!r}]
sys.modules["keras_posenc"] = package
from keras_posenc.folders.download import local_path
print(local_path(sys.argv[1]))
"""


class Hub(http.server.BaseHTTPRequestHandler):
    """The few addresses of the Hub that a download asks for."""

    def __init__(self, files, asked, *args):
        self.files, self.asked = files, asked
        super().__init__(*args)

    def log_message(self, *args):
        pass

    def reply(self, data, **headers):
        self.send_response(200)
        headers = {"X-Repo-Commit": COMMIT, "Content-Length": str(len(data)), **headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/owner/name/tree/"):
            rows = [
                {"type": "file", "path": name, "size": len(data), "oid": f"{i:040x}"}
                for i, (name, data) in enumerate(self.files.items())
            ]
            self.reply(json.dumps(rows).encode(), **{"Content-Type": "application/json"})
        elif path.startswith("/api/models/owner/name"):
            rows = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
            info = {"id": "owner/name", "modelId": "owner/name", "sha": COMMIT, "siblings": rows}
            self.reply(json.dumps(info).encode(), **{"Content-Type": "application/json"})
        elif path.startswith("/owner/name/resolve/"):
            name = path.split("/", 5)[5]
            if self.command == "GET":
                self.asked.append(name)
            etag = f"{list(self.files).index(name):040x}"
            self.reply(self.files[name], ETag=f'"{etag}"')
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    do_HEAD = do_GET


@pytest.fixture
def hub(tmp_path):
    files, asked = dict(FILES), []
    handler = functools.partial(Hub, files, asked)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        **os.environ,
        "HF_HOME": str(tmp_path / "home"),
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    environment.pop("HF_HUB_OFFLINE", None)

    def ask(name, script=SCRIPT, **more):
        command = [sys.executable, "-c", script, name]
        done = subprocess.run(
            command, env={**environment, **more}, capture_output=True, text=True, timeout=300
        )
        return done.stdout.strip(), done.stderr

    yield ask, files, asked
    server.shutdown()
    server.server_close()


def test_a_download_takes_what_is_read_and_says_so(hub):
    ask, files, asked = hub
    path, printed = ask("hf://owner/name@v1.0")
    found = pathlib.Path(path)
    assert {str(p.relative_to(found)) for p in found.rglob("*") if p.is_file()} == TAKEN
    assert set(asked) == TAKEN
    assert "Downloading hf://owner/name@v1.0 from the Hugging Face Hub: 6 files, 0.0 MB" in printed
    # Again, and without a network: from the cache, in silence.
    for more in ({}, {"HF_HUB_OFFLINE": "1"}):
        asked.clear()
        again, printed = ask("hf://owner/name@v1.0", **more)
        assert (again, asked) == (path, []) and "Downloading" not in printed


def test_a_command_downloads_its_model_and_looks_for_its_other_files(hub):
    ask, files, asked = hub
    script = SCRIPT.replace("folders.download import local_path", "cli.guards import check_files")
    _, printed = ask(
        "hf://owner/name",
        script.replace("local_path(sys.argv[1])", 'check_files({"directory": sys.argv[1]})'),
    )
    assert "Downloading hf://owner/name" in printed and set(asked) == TAKEN
    assert "Error" not in printed
    _, printed = ask(
        "hf://owner/name",
        script.replace("local_path(sys.argv[1])", 'check_files({"texts": sys.argv[1]})'),
    )
    assert "FileNotFoundError" in printed


def test_what_cannot_be_downloaded(hub):
    ask, files, asked = hub
    _, printed = ask("hf://owner/other")
    assert "FileNotFoundError: hf://owner/other cannot be read from the Hugging Face Hub" in printed
    _, printed = ask("hf://owner/name", HF_HUB_OFFLINE="1")
    assert "hf://owner/name is not in the cache, and the Hugging Face Hub cannot be" in printed
    assert "hf download owner/name --local-dir name" in printed
    for name in [n for n in files if n.endswith(".safetensors")]:
        del files[name]
    _, printed = ask("hf://owner/name")
    assert "has no weights that are read from there" in printed and asked == []
    assert "a .bin or .pt file is a pickle" in printed


def test_an_older_hub_is_named(monkeypatch):
    from huggingface_hub import errors

    monkeypatch.setattr("huggingface_hub.__version__", "0.36.2")
    monkeypatch.delattr(errors, "DryRunError")
    with pytest.raises(ImportError, match="hf://owner/name needs .* 1.1 or newer: .*_hub 0.36.2"):
        local_path("hf://owner/name")


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A function that puts a directory into a cache without a network, and returns its name."""
    from huggingface_hub import constants

    from keras_posenc.folders.download import _download

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    _download.cache_clear()

    def put(directory):
        folder = tmp_path / "models--owner--name"
        shutil.copytree(directory, folder / "snapshots" / COMMIT)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(COMMIT, "utf-8")
        return "hf://owner/name"

    yield put
    _download.cache_clear()


def test_every_kind_of_retrieval_opens_from_the_cache(cached, request, colberts):
    from keras_posenc.retrieval import LateInteraction, open_embedder

    name = cached(colberts / "pylate")
    for opened in (open_embedder(name), LateInteraction(name)):
        assert isinstance(opened, LateInteraction)
        expected = LateInteraction(colberts / "pylate").encode_queries(["one"], verbose=0)
        found = opened.encode_queries(["one"], verbose=0)
        np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-6)


def test_sparse_embedders_and_tokenizers_open_from_the_cache(cached, splade):
    from keras_posenc import Tokenizer
    from keras_posenc.retrieval import SparseEmbedder

    name = cached(splade)
    found = SparseEmbedder(name).encode_documents(["w1 w2"], verbose=0)
    expected = SparseEmbedder(splade).encode_documents(["w1 w2"], verbose=0)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)
    assert Tokenizer(name).encode("w1 w2") == Tokenizer(splade).encode("w1 w2")


def test_rerankers_open_from_the_cache(cached, splade, tiny_config, tmp_path_factory):
    from keras_posenc import Tokenizer, build_transformer_model, save_checkpoint
    from keras_posenc.retrieval import Reranker, open_embedder

    folder = tmp_path_factory.mktemp("reranker")
    head = {"head": "sequence_classification", "label_names": ["score"]}
    save_checkpoint(build_transformer_model(tiny_config, **head), folder)
    Tokenizer(splade).save(folder)
    name = cached(folder)
    expected = Reranker(folder).rank("w1", ["w2 w3", "w4"], verbose=0)
    for opened in (Reranker(name), open_embedder(name)):
        assert opened.rank("w1", ["w2 w3", "w4"], verbose=0) == expected


def test_without_the_package_a_name_stays_as_it_is(monkeypatch):
    from keras_posenc.folders.download import local_path

    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert local_path("hf://owner/name") == "hf://owner/name"
    assert local_path(3) == 3 and local_path("a/b") == "a/b"


@pytest.fixture
def in_cache(pretrained, tmp_path):
    """The folder of a model in the cache: one commit, as links to blobs."""
    folder = tmp_path / "models--some-owner--a-name"
    snapshot, blobs = folder / "snapshots" / COMMIT, folder / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted(pretrained.iterdir())):
        shutil.copy(path, blobs / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    return folder


def test_a_folder_of_the_cache_is_the_model_in_it(in_cache, pretrained):
    expected = keras_posenc.embed(pretrained, ["w1 w2"], verbose=0)
    for path in (in_cache, str(in_cache), f"{in_cache}/"):
        np.testing.assert_array_equal(keras_posenc.embed(path, ["w1 w2"], verbose=0), expected)
    other = in_cache / "snapshots" / ("f" * 40)
    other.mkdir()
    with pytest.raises(ValueError, match="holds 2 copies of a model: give one of .*snapshots"):
        keras_posenc.embed(in_cache, ["w1 w2"])
    (in_cache / "refs").mkdir()
    (in_cache / "refs" / "main").write_text(COMMIT)
    assert local_path(in_cache) == in_cache / "snapshots" / COMMIT


def test_an_unfinished_download_is_named(in_cache, tmp_path):
    (in_cache / "snapshots" / COMMIT / "model.keras").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"holds no checkpoint.*there is config.json, [^:]*\.$"
    ):
        keras_posenc.build_transformer_model(in_cache)
    (in_cache / "blobs" / "0123.incomplete").write_bytes(b"half")
    remedy = "Its download was interrupted: finish it with hf download some-owner/a-name$"
    for path in (in_cache, in_cache / "snapshots" / COMMIT):
        with pytest.raises(FileNotFoundError, match=f"holds no checkpoint.*{remedy}"):
            keras_posenc.build_transformer_model(path)
    local = tmp_path / "local"
    (local / ".cache" / "huggingface" / "download").mkdir(parents=True)
    (local / ".cache" / "huggingface" / "download" / "a.incomplete").write_bytes(b"half")
    shutil.copy(in_cache / "snapshots" / COMMIT / "config.json", local)
    with pytest.raises(FileNotFoundError, match=f"hf download owner/name --local-dir {local}"):
        keras_posenc.build_transformer_model(local)
    shutil.rmtree(in_cache / "snapshots")
    with pytest.raises(FileNotFoundError, match=f"has no snapshot of the model. {remedy}"):
        keras_posenc.build_transformer_model(in_cache)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("hf://a/" + "b" * 5000, "has at most 96 characters. Received: .*, of 5,002 characters"),
        ("hf://owner/name@../main", r"revision behind @ must be .* Received: '\.\./main'"),
        ("hf://owner/name@a b", "revision behind @ must be .* Received: 'a b'"),
        ("hf://owner/name@" + "a" * 300, "revision behind @ must be the name of a branch or tag"),
        ("hf://owner/name@-x", "revision behind @ must be .* Received: '-x'"),
    ],
)
def test_what_the_hub_cannot_have_is_not_asked_for(monkeypatch, path, message):
    monkeypatch.setattr(download, "_download", lambda *_: pytest.fail("the network is asked"))
    with pytest.raises(ValueError, match=message) as caught:
        download.local_path(path)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("revision", ["main", "v1.0", "refs/pr/3", "a-b_c", "0123abcd", None])
def test_what_the_hub_may_have_is_asked_for(monkeypatch, revision):
    monkeypatch.setattr(download, "_download", lambda name, revision: f"{name} {revision}")
    path = "hf://owner/name" + (f"@{revision}" if revision else "")
    assert download.local_path(path) == f"owner/name {revision}"
