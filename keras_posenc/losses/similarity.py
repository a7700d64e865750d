"""Losses and accuracy of the cosines of texts that belong together."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks


def unit(vectors):
    """Vectors divided by their length, in float32. A zero vector stays, and its gradient is finite,
    where that of a norm would be NaN."""
    vectors = ops.cast(vectors, "float32")
    squares = ops.sum(vectors * vectors, axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, 1e-12))


def whole_batch(y_true, y_pred):
    """What is compared in a batch, whose rows replicas of TensorFlow share.

    Args:
        y_true: (B,) or (B, 1) integers. Rows of the same number are no negatives of each other.
        y_pred: (B, S, ...), of this replica.

    Returns:
        y_pred (N, S, ...) of all replicas, the places (B,) of the rows of this one among them, and
        a mask (B, (S - 1) N) of the candidates that may be negatives or are the positive. The
        candidates of the first side come first.
    """
    ids = ops.reshape(ops.cast(y_true, "int32"), (-1,))
    all_ids, first = backend.gather_rows(ids)
    vectors, _ = backend.gather_rows(y_pred)
    places = first + ops.arange(ops.shape(y_pred)[0])
    # What fills a batch up belongs to no text, and is no negative of any.
    same = ops.logical_or(ops.equal(ids[:, None], all_ids[None]), all_ids[None] < 0)
    sides = y_pred.shape[1] - 1
    rows = ops.shape(vectors)[0]
    is_positive = ops.equal(ops.arange(rows * sides)[None] % rows, places[:, None])
    allowed = ops.logical_or(is_positive, ops.logical_not(ops.tile(same, (1, sides))))
    return vectors, places, allowed


def batch_cosines(y_true, y_pred):
    """Cosines (B, (S - 1) N) of anchors and candidates, -1e9 for those that are no negatives, and
    the places (B,) of the positives."""
    rows = unit(y_pred)
    vectors, places, allowed = whole_batch(y_true, rows)
    others = ops.transpose(vectors[:, 1:], (1, 0, 2))
    candidates = ops.reshape(others, (-1, vectors.shape[-1]))
    cosines = ops.matmul(rows[:, 0], ops.transpose(candidates))
    return ops.where(allowed, cosines, -1e9), places


@keras.saving.register_keras_serializable(package="keras_posenc")
class MultipleNegativesRanking(keras.losses.Loss):
    """Every other text of the batch is a negative: cross-entropy of scaled cosines.

        loss_i = -log(exp(s cos(a_i, p_i)) / sum_j exp(s cos(a_i, c_j))).

    The first and the second text of row i are a_i and p_i. The c_j are all second texts of the
    batch and all further texts, which are hard negatives. The loss is also known as InfoNCE. SimCSE
    is this loss on pairs (text, the same text), which dropout makes different.

    Args:
        scale: float, s, one over the temperature.
        reduction: as in `keras.losses.Loss`, over the rows.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B,) or (B, 1) integers. Rows with the same number belong together, and are not
            negatives of each other. Use `range` if no rows belong together. A row with -1 is not a
            negative of any.
        y_pred: (B, S, D) vectors, as from `similarity`. They are normalized here.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> vectors = np.eye(3)[:, None].repeat(2, axis=1)  # three pairs, each of two equal vectors
    >>> round(float(MultipleNegativesRanking(scale=2.0)(np.arange(3), vectors)), 4)
    0.2395

    Reference: [Efficient Natural Language Response Suggestion for Smart
    Reply](https://arxiv.org/abs/1705.00652), section 4.4;
    [SimCSE](https://arxiv.org/abs/2104.08821).
    """

    def __init__(
        self,
        scale=20.0,
        reduction="sum_over_batch_size",
        name="multiple_negatives_ranking",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.scale = checks.number("scale", scale, above=0)

    def call(self, y_true, y_pred):
        cosines, places = batch_cosines(y_true, y_pred)
        return ops.sparse_categorical_crossentropy(places, self.scale * cosines, from_logits=True)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable(package="keras_posenc")
class CosineRegression(keras.losses.Loss):
    """The squared error of the cosine of two texts, for pairs with a score.

    loss = (cos(a, b) - y)^2, so that scores are from -1 to 1.

    Args:
        reduction: as in `keras.losses.Loss`, over the rows.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B,) or (B, 1), the scores.
        y_pred: (B, 2, D) vectors, as `similarity` returns them; they are normalized here.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> float(CosineRegression()(np.array([0.5]), np.eye(2)[None]))
    0.25

    Reference: [Sentence-BERT](https://arxiv.org/abs/1908.10084).
    """

    def __init__(self, reduction="sum_over_batch_size", name="cosine_regression", dtype=None):
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def call(self, y_true, y_pred):
        vectors = unit(y_pred)
        cosines = ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1)
        return ops.square(cosines - ops.reshape(ops.cast(y_true, "float32"), (-1,)))


@keras.saving.register_keras_serializable(package="keras_posenc")
class CoSENT(keras.losses.Loss):
    """The order of pairs by their scores: a pair with a larger score has a larger cosine.

        loss = log(1 + sum over y_i > y_j of exp(s (cos_j - cos_i))).

    The sum is over all two pairs i and j of the batch. Only the order of the scores counts, so they
    may have any scale. Each row has the loss of the whole batch.

    Args:
        scale: float, s, one over the temperature.
        reduction: as in `keras.losses.Loss`, over the rows.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B,) or (B, 1), the scores. Rows with a score below -1 are left out, because
            `TextBatches` fills batches up with such rows.
        y_pred: (B, 2, D) vectors, as from `similarity`. They are normalized here.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> vectors = np.array([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])  # cosines 1 and 0
    >>> round(float(CoSENT(scale=1.0)(np.array([0.9, 0.1]), vectors)), 4)
    0.3133

    Reference: [CoSENT](https://doi.org/10.1109/TASLP.2024.3402087).
    """

    def __init__(self, scale=20.0, reduction="sum_over_batch_size", name="cosent", dtype=None):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.scale = checks.number("scale", scale, above=0)

    def call(self, y_true, y_pred):
        vectors = unit(y_pred)
        cosines = ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1)
        scores = ops.reshape(ops.cast(y_true, "float32"), (-1,))
        cosines, _ = backend.gather_rows(cosines)
        scores, _ = backend.gather_rows(scores)
        is_pair = scores >= -1
        ordered = ops.logical_and(scores[:, None] > scores[None], is_pair[None])
        gaps = self.scale * (cosines[None] - cosines[:, None])
        gaps = ops.reshape(ops.where(ordered, gaps, -1e9), (-1,))
        # The 0 stands for the 1 in the logarithm.
        loss = ops.logsumexp(ops.concatenate([ops.zeros((1,)), gaps]), axis=0)
        return ops.broadcast_to(loss, ops.shape(y_pred)[:1])

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable(package="keras_posenc")
class InBatchAccuracy(keras.metrics.Mean):
    """The share of rows whose second text is nearer to the first than all others of the batch.

    It falls as batches grow.

    Args:
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B,) or (B, 1) integers, as in `MultipleNegativesRanking`.
        y_pred: (B, S, D) vectors.

    Example:

    >>> metric = InBatchAccuracy()
    >>> metric.update_state(np.arange(3), np.eye(3)[:, None].repeat(2, axis=1))
    >>> float(metric.result())
    1.0
    """

    def __init__(self, name="accuracy", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        cosines, places = batch_cosines(y_true, y_pred)
        nearest = ops.argmax(cosines, axis=-1)
        right = ops.equal(nearest, ops.cast(places, nearest.dtype))
        super().update_state(ops.cast(right, "float32"), sample_weight)
