"""PoPE: the numbers of its published code, and the order in which it may stand."""

import laws
import numpy as np
import pytest

from keras_posenc import PositionalAttention
from keras_posenc.encodings import PoPE

pytestmark = pytest.mark.once


def test_a_phase_moves_the_distance_at_which_a_feature_peaks():
    """With feature 0, which turns by one radian per position, and a phase of 3 radians."""
    encoding = PoPE()
    encoding.build((None, None, 1, 2))
    encoding.set_weights([np.array([[3.0, 0.0]])])
    layer = PositionalAttention(1, 2, encodings=[encoding])
    x = np.array([[[9.0, -30.0]] * 8], "float32")
    layer.build(x.shape, x.shape)
    for dense in (layer.query_dense, layer.key_dense):
        dense.set_weights([np.eye(2)[:, None], np.zeros((1, 2))])
    layer.encodings[0].set_weights([np.array([[3.0, 0.0]])])
    _, logits = layer(x, x, return_attention_logits=True)
    row = laws.to_numpy(logits)[0, 0, 7]
    assert row.argmax() == 4  # 7 - 3
    laws.close(row, 81 * np.cos(np.arange(7, -1, -1) - 3) / np.sqrt(2), 1e-3)


@pytest.mark.parametrize("before", ["rotary", "log_n", "alibi"])
def test_it_acts_on_the_content(before):
    with pytest.raises(ValueError, match="PoPE must be the first in `encodings` of those"):
        PositionalAttention(2, 8, encodings=[before, "pope"])


def test_the_base_is_above_one():
    with pytest.raises(ValueError, match="`base` must be a number above 1. Received: 1"):
        PoPE(base=1)
