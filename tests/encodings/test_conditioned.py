"""The content-conditioned bias: Inkling's, and what it leaves alone."""

import laws
import numpy as np
import pytest

from keras_posenc import PositionalAttention
from keras_posenc.encodings import ContentBias

H, D, E, T, S, R = 3, 4, laws.E, 40, 5, 7


def layer_of(**arguments):
    encoding = ContentBias(R, S, profile_initializer="random_normal", **arguments)
    layer = PositionalAttention(H, D, encodings=[encoding])
    layer.build((None, T, E), (None, T, E))
    for dense in (layer.query_dense, layer.key_dense):
        dense.set_weights([0 * w for w in dense.get_weights()])  # the bias alone is left
    return layer


def bias_of(layer, x, **arguments):
    return laws.to_numpy(laws.call(layer, x, return_attention_logits=True, **arguments)[1])


@pytest.mark.once
def test_it_is_the_bias_of_inkling():
    torch = pytest.importorskip("torch")
    inkling = pytest.importorskip("transformers.models.inkling.modeling_inkling")
    layer, x = layer_of(bidirectional=False), laws.numbers(length=T)
    kernel, profiles = (np.asarray(w) for w in layer.encodings[0].get_weights())
    reference = inkling.InklingRelativeLogits(S, R)
    with torch.no_grad():
        reference.proj.copy_(torch.tensor(profiles))
        projected = torch.tensor(np.einsum("bte,ehs->bths", x, kernel))
        expected = reference(projected, torch.arange(T), torch.arange(T)).numpy()
    laws.close(bias_of(layer, x), expected)
    # Rows and columns of other sizes, as in a cache.
    few = laws.call(
        layer,
        x[:, 5:9],
        x,
        query_positions=np.arange(5, 9, dtype="int32"),
        key_positions=np.arange(T, dtype="int32"),
        return_attention_logits=True,
    )
    laws.close(laws.to_numpy(few[1]), expected[:, :, 5:9])


@pytest.mark.parametrize("causal", [True, False])
def test_blocks_and_windows_have_the_bias_of_their_rows(causal, cut_maps):
    """Values and gradients, of the kernel that the queries' features come from too."""
    x = laws.numbers(length=T)
    layer = layer_of()
    expected = laws.gradients(layer, x, causal=causal, return_attention_scores=True)
    cut_maps(0, 4 * laws.B * H * T * 8)
    for found, one in zip(
        laws.gradients(layer, x, causal=causal, training=True), expected, strict=True
    ):
        laws.close(found, one, 1e-4)


@pytest.mark.once
def test_far_keys_and_new_models_have_no_bias():
    layer, x = layer_of(), laws.numbers(length=T)
    i, j = np.mgrid[:T, :T]
    found = bias_of(layer, x)
    assert not found[:, :, np.abs(i - j) >= R].any()
    assert np.abs(found[:, :, np.abs(i - j) < R]).min() > 0
    fresh = PositionalAttention(H, D, encodings=["content_bias"])
    plain = PositionalAttention(H, D)
    fresh(x, x), plain(x, x)
    plain.set_weights(fresh.get_weights()[2:])
    laws.close(laws.run(fresh, x), laws.run(plain, x))


@pytest.mark.once
@pytest.mark.parametrize("name", ["max_distance", "size"])
def test_sizes_are_positive_integers(name):
    with pytest.raises(ValueError, match=f"`{name}` must be a positive integer. Received: 0"):
        ContentBias(**{name: 0})
