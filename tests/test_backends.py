"""One backend at a time: the other two are hidden, so that they are as good as not installed."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
from one_backend import new_encoder

from keras_posenc import save_checkpoint
from keras_posenc.keras_support.lazy import import_keras

pytestmark = pytest.mark.once

BACKENDS = {"tensorflow": ("tensorflow",), "jax": ("jax", "jaxlib"), "torch": ("torch",)}
EXTRAS = ("safetensors", "tokenizers", "matplotlib", "transformers", "sklearn")
SCRIPT = pathlib.Path(__file__).with_name("one_backend.py")
REFERENCE = pathlib.Path(__file__).parent / "references" / "bert4keras_minilm.npz"


def run(backend, step, *arguments, without=()):
    """Runs a step of one_backend.py in a process that has only `backend` and lacks `without`.

    It compiles as users do, whatever XLA was told for the other tests.
    """
    others = [name for other in BACKENDS if other != backend for name in BACKENDS[other]]
    command = [sys.executable, SCRIPT, ",".join([*others, *without]), step, *map(str, arguments)]
    # Safe path: what lies in the folder of the tests shadows no package.
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONSAFEPATH": "1", "XLA_FLAGS": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{step} with {backend} alone:\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def torch_bin(minilm, tmp_path_factory):
    """MiniLM as pytorch_model.bin, written by torch itself."""
    import torch
    from safetensors.torch import load_file

    path = tmp_path_factory.mktemp("torch") / "pytorch_model.bin"
    torch.save(load_file(minilm / "model.safetensors"), path)
    return path


@pytest.fixture(scope="module")
def google_checkpoint(tmp_path_factory):
    """A small model under Google's names, which TensorFlow writes, and under Hugging Face's."""
    folder = tmp_path_factory.mktemp("google")
    model = new_encoder()
    save_checkpoint(model, folder, format="google")
    save_checkpoint(model, folder, format="huggingface")
    return folder


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_backend_is_enough(
    backend, google_checkpoint, minilm, torch_bin, first_layer, tmp_path
):
    """With Keras and NumPy the import is lean, a new model trains, and checkpoints are read. With
    tokenizers real text is read too; safetensors and torch files need no other package."""
    paths = google_checkpoint, minilm, torch_bin, REFERENCE, first_layer, tmp_path
    run(backend, "one_backend", *paths, without=EXTRAS)


def test_a_hidden_package_is_hidden():
    with pytest.raises(AssertionError, match="No module named 'jax'"):
        run("torch", "import_jax")


def test_a_misspelt_backend_is_refused_before_keras_is_imported(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "pytorch")
    monkeypatch.delitem(sys.modules, "keras")
    with pytest.raises(ImportError, match="must be one of tensorflow, jax, torch. Received: 'pyto"):
        import_keras()


def test_another_backend_is_refused_by_name(monkeypatch):
    """Keras has more of them, for which nothing here is written."""
    import keras

    from keras_posenc import backend

    monkeypatch.setattr(keras.backend, "backend", lambda: "openvino")
    spec = importlib.util.spec_from_file_location("backend_again", backend.__file__)
    message = "runs on the Keras backends .'torch', 'jax', 'tensorflow'.. Received: 'openvino'. Set"
    with pytest.raises(ImportError, match=message):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
