"""Log-CPB against the code of Swin v2, and where its network runs."""

import math

import laws
import numpy as np
import pytest

from keras_posenc import PositionalAttention
from keras_posenc.encodings import LogCPB

pytestmark = pytest.mark.once


def bias_of(layer, x, **arguments):
    """(H, Tq, Tk): the logits where queries and keys are zero."""
    for dense in (layer.query_dense, layer.key_dense):
        dense.set_weights([0 * w for w in dense.get_weights()])
    return laws.to_numpy(laws.call(layer, x, return_attention_logits=True, **arguments)[1])[0]


def test_it_is_the_bias_of_swin_v2():
    """Of the tokens in one row of a window, whose distances have one axis."""
    torch = pytest.importorskip("torch")
    swin = pytest.importorskip("transformers.models.swinv2.modeling_swinv2")
    window, heads, units, c = 6, 3, 512, 8 / 5
    config = swin.Swinv2Config()
    reference = swin.Swinv2SelfAttention(config, dim=12, num_heads=heads, window_size=window)
    with torch.no_grad():
        table = reference.continuous_position_bias_mlp(reference.relative_coords_table).view(
            -1, heads
        )
        index = reference.relative_position_index[:window, :window].reshape(-1)
        expected = 16 * torch.sigmoid(table[index].view(window, window, heads)).numpy()
    first, _, last = reference.continuous_position_bias_mlp
    layer = PositionalAttention(heads, 4, encodings=[LogCPB(units, window - 1, scale=c)])
    x = laws.numbers(1, length=window)
    layer.build(x.shape, x.shape)
    w = first.weight.detach().numpy()[:, 1] * (math.log(1 + c * (window - 1)) / math.log(8))
    u, v = first.bias.detach().numpy(), last.weight.detach().numpy().T
    layer.encodings[0].set_weights([w, u, v])
    laws.close(bias_of(layer, x), expected.transpose(2, 0, 1), 1e-5)


def test_eight_times_the_length_is_near_the_trained_distances():
    layer = PositionalAttention(2, 4, encodings=[LogCPB(train_length=64)])
    x = laws.numbers(1, length=4)
    layer.build(x.shape, x.shape)
    far = {"query_positions": np.array([[512, 512, 512, 512]])}
    far["key_positions"] = np.array([[0, 448, 511, 512]])
    bias = bias_of(layer, x, **far)[:, 0]
    assert np.abs(np.diff(bias, axis=-1)).max() < 16
    assert np.abs(bias[:, 0] - bias[:, 1]).max() < np.abs(bias[:, 1] - bias[:, 3]).max()


@pytest.mark.parametrize("name", ["units", "train_length"])
def test_sizes_are_positive_integers(name):
    with pytest.raises(ValueError, match=f"`{name}` must be a positive integer. Received: 0"):
        LogCPB(**{name: 0})


@pytest.mark.parametrize("name", ["scale", "bound"])
def test_factors_are_positive(name):
    with pytest.raises(ValueError, match=f"`{name}` must be a positive number. Received: -1"):
        LogCPB(**{name: -1})
