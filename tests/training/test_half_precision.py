"""Trainings under a policy of half precision begin with the loss that float32 has."""

import keras
import numpy as np
import pytest
from contextual_texts import SHORT, TEXTS, write_embedder

from keras_posenc import pretrain, stretch
from keras_posenc.training import contextualize

pytestmark = pytest.mark.once


@pytest.fixture(params=["mixed_float16", "mixed_bfloat16"])
def both(request):
    """A function that runs another one in float32 and in half precision."""

    def run(function):
        found = []
        for policy in ("float32", request.param):
            keras.config.set_dtype_policy(policy)
            try:
                found.append(function(policy))
            finally:
                keras.config.set_dtype_policy("float32")
        return found

    return run


def test_trainings_without_labels(both, tmp_path):
    texts = [" ".join(f"w{(3 * n + k) % 35}" for n in range(200)) for k in range(4)]
    given = {"steps": 1, "verbose": False}
    undropped = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0, "max_length": 24, **given}
    small = write_embedder(tmp_path / "embedder")

    def losses(policy):
        out = tmp_path / policy
        stretched = stretch(small, texts, out / "a", test=texts, max_length=96, **given)
        in_context = contextualize(small, TEXTS, out / "b", test=TEXTS, **{**SHORT, **given})
        further = pretrain(small, texts, out / "c", **undropped)
        return [stretched[1]["losses"][0], in_context[1]["losses"][0], further["losses"][0]]

    exact, half = both(losses)
    np.testing.assert_allclose(half, exact, rtol=0.02)
