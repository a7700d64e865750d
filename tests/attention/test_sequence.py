"""Attention whose texts or rows are split over devices computes what one device computes."""

import json
import os
import pathlib

import keras
import numpy as np
import pytest
from forks import run_fork

SCRIPT = pathlib.Path(__file__).parents[1] / "many_rows.py"
WIDTH = 8  # of all heads
TEXTS = 2


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="Keras distributes on JAX")
def test_several_devices_attend_as_one():
    """Keys and values are gathered once in each direction, however many blocks there are; under a
    window, devices only send each other the columns that it reaches. The gradient of a bias is
    summed over the devices once, behind the loop."""
    flags = os.environ.get("XLA_FLAGS", "")
    flags = f"{flags} --xla_force_host_platform_device_count=8"
    done = run_fork("file", SCRIPT, [], env={**os.environ, "XLA_FLAGS": flags})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(*found["losses"], rtol=1e-5)
    by_xla = found["cases"].pop("bias of texts, split by XLA")
    assert by_xla["in loops"]["all-reduce"][1] == 2 * 64 * 256  # a block of the map of both heads
    for name, case in found["cases"].items():
        assert case["error"] < 1e-5, name
        assert not case["in loops"], name
        if "texts" in name and "rows" not in name:
            assert case["loops"], name
            assert list(case["collectives"]) == ["all-reduce"], name
    assert found["cases"]["bias"]["loops"]
    collectives = found["cases"]["bias"]["collectives"]
    assert collectives.keys() == {"all-gather", "reduce-scatter", "all-reduce"}
    assert collectives["all-gather"][0] <= 4 and collectives["reduce-scatter"][0] == 2
    assert max(most for _, most in collectives.values()) == TEXTS * 512 * WIDTH
    shared = found["cases"]["shared heads"]["collectives"]  # of one head of keys for two of queries
    assert max(most for _, most in shared.values()) == TEXTS * 512 * WIDTH // 2
    collectives = found["cases"]["window"]["collectives"]
    assert collectives.keys() == {"collective-permute", "all-reduce"}
    assert max(most for _, most in collectives.values()) == TEXTS * 128 * WIDTH  # those of a device
