"""What a TPU computes in another way than a CPU, run on a CPU."""

import keras
import laws
import numpy as np
import pytest
from keras import ops

from keras_posenc.maps.sums import sum_from_right

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="TPUs are JAX's")


@pytest.mark.parametrize("columns", [1, 5, 64, 150])
def test_numbers_are_picked_by_index(columns):
    """Values and gradients, with heads that share an index."""
    import jax

    from keras_posenc.backend import jax_lookup, take_last

    rng = np.random.default_rng(0)
    table = rng.normal(size=(2, 3, 4, columns)).astype("float32")
    index = rng.integers(0, columns, (2, 1, 4, 9)).astype("int32")
    weight = rng.normal(size=(2, 3, 4, 9)).astype("float32")

    def loss_of(look_up):
        def loss(table):
            taken = look_up(table, index)
            return (taken * weight).sum(), taken

        return jax.value_and_grad(loss, has_aux=True)

    def picked(table, index):
        return jax_lookup.picked(table, index, columns)

    (_, found), of_table = loss_of(picked)(table)
    (_, wanted), wanted_of_table = loss_of(take_last)(table)
    np.testing.assert_array_equal(found, wanted)
    laws.close(np.asarray(of_table), np.asarray(wanted_of_table), 1e-6)
    assert "gather" not in str(jax.make_jaxpr(loss_of(picked))(table))


@pytest.mark.parametrize("width", [256, 7])
def test_running_sums_on_a_tpu_round_as_little_as_float32(width, monkeypatch):
    import jax

    x = np.random.default_rng(0).uniform(size=(2, 3, width)).astype("float32")
    wanted = np.cumsum(x[..., ::-1].astype("float64"), axis=-1)[..., ::-1]
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    laws.close(laws.to_numpy(sum_from_right(ops.convert_to_tensor(x))), wanted, 1e-6)
    program = str(jax.make_jaxpr(sum_from_right)(x))
    assert "Precision.HIGHEST" in program  # a TPU would round to bfloat16


def test_biases_by_distance_on_a_tpu_need_no_reshaping(monkeypatch):
    import jax

    from keras_posenc.maps import diagonals

    def none(*_):
        raise AssertionError("rows were shifted by reshaping")

    layer, x = laws.attention(laws.Case(("t5",))), laws.numbers()
    expected = laws.run(layer, x)
    monkeypatch.setattr(diagonals, "map_of_diagonals", none)
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    laws.close(laws.run(layer, x), expected)
