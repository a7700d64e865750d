"""Vectors whose first numbers are vectors, too: one loss at several dimensions."""

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured
from keras_posenc.layers.norm import unit


@keras.saving.register_keras_serializable(package="keras_posenc")
class Matryoshka(Configured, keras.losses.Loss):
    """Trains the first numbers of vectors to be good vectors by themselves.

        loss = sum over the dimensions d of w_d loss_d.

    The loss of the first d numbers of each vector is loss_d; they are normalized to length 1. The
    vectors can then be cut to any of the dimensions, which saves memory and time of a search.

    Args:
        loss: a loss of this package with vectors (B, S, D) as `y_pred`, such as
            `MultipleNegativesRanking`.
        dimensions: list of int, such as [384, 256, 128, 64]. The dimensions to train. Without that
            of the vectors, these are not trained whole.
        weights: list of float, w. One per dimension; by default 1.
        reduction: as in `keras.losses.Loss`, over the rows.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: as for `loss`.
        y_pred: (B, S, D) vectors, as from `similarity`.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> vectors = np.eye(4)[:, None].repeat(2, axis=1)  # four pairs of equal vectors
    >>> loss = Matryoshka(MultipleNegativesRanking(scale=2.0), [4, 2])
    >>> round(float(loss(np.arange(4), vectors)), 4)
    1.2043

    Reference: [Matryoshka Representation Learning](https://arxiv.org/abs/2205.13147).
    """

    def __init__(
        self,
        loss,
        dimensions,
        weights=None,
        reduction="sum_over_batch_size",
        name="matryoshka",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.loss = checks.instance("loss", loss, keras.losses.Loss, "a loss of Keras")
        self.dimensions = check_dimensions("dimensions", dimensions)
        weights = [1.0] * len(self.dimensions) if weights is None else weights
        checks.instance("weights", weights, (list, tuple), "a list of numbers")
        if len(weights) != len(self.dimensions):
            raise ValueError(
                f"`weights` must have one number per dimension, {len(self.dimensions)}. Received: "
                f"{weights!r}"
            )
        self.weights = [checks.number("weights", weight, above=0) for weight in weights]

    def call(self, y_true, y_pred):
        y_pred = ops.cast(y_pred, "float32")
        if y_pred.shape[-1] < max(self.dimensions):
            raise ValueError(
                f"`dimensions` must be at most {y_pred.shape[-1]}, the numbers of a vector. "
                f"Received: {self.dimensions}"
            )
        losses = [
            weight * self.loss.call(y_true, unit(y_pred[..., :dimension]))
            for dimension, weight in zip(self.dimensions, self.weights, strict=True)
        ]
        return sum(losses[1:], losses[0])

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "loss": keras.losses.deserialize(config["loss"])})


def check_dimensions(name, dimensions):
    """The dimensions as a list of int, checked.

    `name`: str, of the argument. `dimensions`: what was given.
    """
    wanted = "a list of dimensions, such as [384, 128]"
    checks.instance(name, dimensions, (list, tuple), wanted)
    dimensions = [checks.whole(name, dimension) for dimension in dimensions]
    if not dimensions or len(set(dimensions)) != len(dimensions):
        raise ValueError(
            f"`{name}` must have one dimension or more, each once. Received: {dimensions}"
        )
    return dimensions
