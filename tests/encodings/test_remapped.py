"""Far distances replaced by trained ones: which distances a text meets, and refusals."""

import laws
import numpy as np
import pytest

from keras_posenc import PositionalAttention, RotaryEmbedding
from keras_posenc.encodings import STRING, DualChunk, ReRoPE, SelfExtend

H, D, E, T = 2, 8, laws.E, 60


def distances(encoding, causal=True):
    """The distance by which each logit is turned, (T, T), by one slow pair of features."""
    layer = PositionalAttention(1, 2, encodings=[encoding], use_bias=False)
    x = np.ones((1, T, 1), "float32")
    layer.build(x.shape, x.shape)
    # The logit is cos r for (1, 0) on both sides, and sin r for (0, 1) of the keys.
    sides = []
    for key in ([1, 0], [0, 1]):
        for dense, vector in ((layer.query_dense, [1, 0]), (layer.key_dense, key)):
            dense.set_weights([np.array(vector, "float32").reshape(1, 1, 2)])
        _, logits = laws.call(layer, x, causal=causal, return_attention_logits=True)
        sides.append(laws.to_numpy(logits)[0, 0] * 2**0.5)
    cos, sin = sides
    return np.arctan2(sin, cos) / SLOW


SLOW = 0.01  # angle of one position, so that T positions are less than half a turn
# The only pair turns by base^0 = 1 a position; `linear` divides positions.
SCALING = {"rope_type": "linear", "factor": 1 / SLOW}


@pytest.mark.once
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("encoding", "most"),
    [
        (ReRoPE(window=8, scaling=SCALING), 8),
        (SelfExtend(group_size=4, window=9, scaling=SCALING), 59 // 4 + 9 - 9 // 4),
        (DualChunk(chunk_size=12, local_size=3, scaling=SCALING), 12),
        (DualChunk(chunk_size=12, local_size=0, scaling=SCALING), 12),
        (STRING(shift=20, window=5, scaling=SCALING), 59 - 20 + 5),
    ],
)
def test_no_distance_is_longer_than_promised(encoding, most, causal):
    found = distances(encoding, causal)
    i, j = np.mgrid[:T, :T]
    near = np.abs(i - j) < 3 if not isinstance(encoding, DualChunk) else i // 9 == j // 9
    if isinstance(encoding, DualChunk) and not encoding.local_size:
        near = i // 12 == j // 12
    np.testing.assert_allclose(found[near], (i - j)[near], atol=2e-2)
    assert abs(found[np.tril_indices(T)].max() - most) < 2e-2
    if not causal:
        np.testing.assert_allclose(found, -found.T, atol=2e-2)


@pytest.mark.once
def test_a_local_window_of_chunks_keeps_its_distances():
    found = distances(DualChunk(chunk_size=12, local_size=3, scaling=SCALING))
    i, j = np.mgrid[:T, :T]
    near = (i - j >= 0) & (i - j <= 3)
    np.testing.assert_allclose(found[near], (i - j)[near], atol=2e-2)


@pytest.mark.once
@pytest.mark.parametrize("kind", [SelfExtend, DualChunk, STRING])
def test_a_short_text_is_read_as_by_plain_rotary(kind):
    x = laws.numbers(length=20)
    layers = [PositionalAttention(H, D, encodings=[e]) for e in (kind(), RotaryEmbedding())]
    for layer in layers:
        layer.build(x.shape, x.shape)
    layers[1].set_weights(layers[0].get_weights())
    laws.close(*(laws.run(layer, x, causal=True) for layer in layers))


@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SelfExtend(1), "`group_size` must be an integer of at least 2: in groups of one"),
        (lambda: SelfExtend(window=0), "`window` must be a positive integer. Received: 0"),
        (lambda: DualChunk(0), "`chunk_size` must be a positive integer. Received: 0"),
        (lambda: DualChunk(8, 8), "`local_size` must be an integer from 0 to 7: .*Received: 8"),
        (lambda: STRING(2.5), "`shift` must be a positive integer. Received: 2.5"),
        (lambda: STRING(4, 4), "`window` must be an integer from 0 to 3: .*Received: 4"),
        (lambda: SelfExtend(sections=[4]), "SelfExtend needs one distance"),
    ],
)
def test_bad_arguments_are_refused_with_words(make, message):
    with pytest.raises(ValueError, match=message):
        make()
