import json
import os
import pathlib

import keras
import numpy as np
import pytest
from forks import run_fork
from tiny_models import SIZES

from keras_posenc import build_transformer_model
from keras_posenc.backend import shared
from keras_posenc.models.layouts import layout_map

SCRIPT = pathlib.Path(__file__).parents[1] / "many_devices.py"
BACKEND = keras.backend.backend()


def on_many_devices(folder):
    """What many_devices.py prints; a process of its own, as devices are made before all else."""
    flags = os.environ.get("XLA_FLAGS", "")
    flags = f"{flags} --xla_force_host_platform_device_count=4"
    environment = {**os.environ, "XLA_FLAGS": flags}
    done = run_fork("file", SCRIPT, [BACKEND, folder], env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(BACKEND != "jax", reason="Keras distributes on JAX")
def test_four_devices_train_as_one(tmp_path):
    found = on_many_devices(tmp_path)
    one, copied, cut = found["losses"]
    assert one[-1] < one[0]
    np.testing.assert_allclose([copied, cut], [one, one], rtol=1e-5)
    assert max(found["differences"]) < 1e-5
    shards = {path: shard for path, (_, shard) in found["shards"].items()}
    attention, inner = "Transformer-0-MultiHeadSelfAttention", "Transformer-0-FeedForward"
    # In the forward pass copies send nothing. Pieces add up their activations twice in the block,
    # and never gather them.
    of_copies, of_pieces = found["collectives"]
    assert of_copies == {"all-gather": 0, "all-reduce": 0}
    assert of_pieces == {"all-gather": 0, "all-reduce": 2}
    assert shards[f"{attention}/query/kernel"] == [16, 1, 8]
    assert shards[f"{attention}/value/bias"] == [1, 8]
    assert shards[f"{attention}/attention_output/kernel"] == [1, 8, 16]
    assert shards[f"{inner}/intermediate/kernel"] == [16, 16]
    assert shards[f"{inner}/output/kernel"] == [16, 16]
    # Each of the ten weights that are cut has two moments, which are cut alike.
    assert len(shards) == 10 * 3


@pytest.mark.skipif(BACKEND != "jax", reason="Keras distributes on JAX")
def test_batches_without_weights_need_a_newer_keras(monkeypatch):
    model = build_transformer_model(**SIZES)
    monkeypatch.setattr(shared, "KERAS", (3, 12))
    ids = np.ones((2, 4), "int32")
    one = keras.distribution.DataParallel(devices=["cpu:0"])
    message = f"^Batches without weights are split .* by Keras 3.15 .* {keras.__version__}: pip"
    with one.scope(), pytest.raises(ImportError, match=message):
        model.train_on_batch({"token_ids": ids, "segment_ids": ids}, np.ones((2, 4, 16)))


@pytest.mark.skipif(BACKEND != "tensorflow", reason="a strategy of TensorFlow")
def test_two_devices_train_as_one(tmp_path):
    found = on_many_devices(tmp_path)
    one, copied = found["losses"]
    assert one[-1] < one[0]
    np.testing.assert_allclose(copied, one, rtol=1e-5)
    assert max(found["differences"]) < 1e-5


@pytest.mark.skipif(BACKEND == "torch", reason="Keras 3.15 has no devices on torch")
def test_a_mesh_without_the_axis_of_the_model_is_refused():
    mesh = keras.distribution.DeviceMesh((1,), ["batch"], ["cpu:0"])
    with pytest.raises(ValueError, match=r'axis "model" of the mesh.*Received: axes \[.batch.\]'):
        layout_map(mesh)
