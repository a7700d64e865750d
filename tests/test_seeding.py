"""A seed gives Keras' own numbers, and does not import TensorFlow on another backend."""

import random
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_posenc.backend.seeding import set_random_seed


def draws():
    """Numbers of each stream, and of layers that were made without a seed."""
    numbers = [random.random(), *np.random.random(2)]
    drawn = [keras.random.uniform((3,)), keras.random.normal((2,))]
    drawn.append(keras.initializers.GlorotUniform()((2, 3)))
    drawn.append(keras.layers.Dropout(0.5)(np.ones((2, 8)), training=True))
    return [numbers, *(keras.ops.convert_to_numpy(each).tolist() for each in drawn)]


def test_the_streams_are_those_of_keras(monkeypatch):
    keras.utils.set_random_seed(3)
    expected = draws()
    assert draws() != expected
    if keras.backend.backend() != "tensorflow":
        monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    set_random_seed(3)
    assert draws() == expected
    set_random_seed(4)
    assert draws() != expected


RUN = """
import sys
from keras_posenc.cli import main
from keras_posenc.training import finetune
model, table, out = sys.argv[1:]
finetune(model, table, f"{out}/a", max_length=16, epochs=1)
assert main(["predict", f"{out}/a", table]) == 0
assert main(["embed", model, table, "--output", f"{out}/c.npy"]) == 0
assert main(["plot", "decay", "rotary", "--output", f"{out}/d.svg"]) == 0
found = [name for name in ("tensorflow", "jax", "torch") if name in sys.modules]
print("imported:", *found)
"""


def test_commands_do_not_import_tensorflow_on_another_backend(pretrained, corpus, tmp_path):
    backend = keras.backend.backend()
    if backend == "tensorflow":
        pytest.skip("it is the backend")
    arguments = [pretrained, corpus / "train.tsv", tmp_path]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    imported = done.stdout.splitlines()[-1].split()[1:]
    assert backend in imported and "tensorflow" not in imported
    assert "TensorFlow" not in done.stderr
