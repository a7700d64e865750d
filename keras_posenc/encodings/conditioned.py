"""A bias of the distance that the hidden state of each query chooses."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.encodings.base import Encoding, Execution
from keras_posenc.encodings.relative import whole_distance
from keras_posenc.maps.columns import band
from keras_posenc.maps.diagonals import diagonal_distances, map_of_diagonals, prefers_diagonals

PRODUCT = "bqhs,sc->bhqc"


def _with_zeros(x):
    """x with a last column of zeros, for all other distances."""
    return backend.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, 1)])


@keras.saving.register_keras_serializable(package="keras_posenc")
class ContentBias(Encoding):
    """Content-conditioned relative bias: each query mixes profiles of the distance.

        b[h, i, j] = (W_h x_i)' P[:, i - j]  for |i - j| < R, else 0.

    Here x_i (B, T, E) is the hidden state behind query i. W (E, H, S) has a matrix per head, and P
    (S, 2R - 1) a profile of the distance in each row. The bias is added to the logits (B, H, Tq,
    Tk).
    Distances of float ids are rounded to the nearest integer.

    Args:
        max_distance: int. Distance R from which on the bias is 0.
        size: int. Number S of profiles.
        bidirectional: bool. False: keys after the query have the bias 0, and P is (S, R), as in
            Inkling.
        kernel_initializer: initializer of W.
        profile_initializer: initializer of P. With zeros there is no bias before training.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["content_bias"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)

    Reference: `InklingRelativeLogits` in
    https://github.com/huggingface/transformers, the positions of Inkling, which has no others.
    """

    paper = "https://github.com/huggingface/transformers"
    reads_keys = False
    execution = Execution(max_rows=128)  # a block looks up the band of its rows

    def __init__(
        self,
        max_distance: int = 512,
        size: int = 16,
        bidirectional: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        profile_initializer: Initializer = "zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.max_distance = checks.whole("max_distance", max_distance)
        self.size = checks.whole("size", size)
        self.bidirectional = bool(bidirectional)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.profile_initializer = keras.initializers.get(profile_initializer)

    def build(self, heads_shape, states_shape):
        super().build(heads_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(states_shape[-1], self.num_heads, self.size),
            initializer=self.kernel_initializer.clone(),
        )
        self.first = 1 - self.max_distance if self.bidirectional else 0  # distance of a profile
        self.profiles = self.add_weight(
            name="profiles",
            shape=(self.size, self.max_distance - self.first),
            initializer=self.profile_initializer.clone(),
        )

    def query_features(self, states):
        """W_h x_i, (B, Tq, H, S)."""
        return ops.einsum("bte,ehs->bths", states, ops.cast(self.kernel, states.dtype))

    def bias(self, q, grid):
        """(W_h x_i)' P[:, i - j] near the query, (B, H, Tq, Tk)."""
        mixed = grid.content.query_features[self]
        profiles = ops.cast(self.profiles, mixed.dtype)
        near = band(grid, self.max_distance)
        if prefers_diagonals(near.grid):
            index = self._index(diagonal_distances(near.grid))
            of_diagonals = backend.take(_with_zeros(profiles), index, 1)
            taken = map_of_diagonals(backend.product(mixed, of_diagonals, PRODUCT))
        else:
            by_distance = _with_zeros(backend.product(mixed, profiles, PRODUCT))
            index = self._index(whole_distance(near.grid))
            taken = backend.take_last(by_distance, index[:, None])
        return near.put(taken, ops.zeros((1, 1, 1, 1), taken.dtype))

    def _index(self, distance):
        """The profile of integer distances; the last one, of zeros, is that of unknown ones."""
        index, count = distance - self.first, self.profiles.shape[-1]
        known = ops.logical_and(index >= 0, index < count)
        return ops.where(known, index, count)
