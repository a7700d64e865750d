"""Losses and accuracy of the cosines of texts that belong together."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured
from keras_posenc.layers.norm import unit

TIE = 1e-6  # difference of cosines that rounding explains


def whole_batch(y_true, y_pred):
    """What is compared in a batch, whose rows replicas of TensorFlow share.

    `y_true`: (B,) or (B, C) integers, as in `MultipleNegativesRanking`. `y_pred`: (B, S, ...), of
    this replica. Returns y_pred (N, S, ...) of all replicas, the places (B,) of the rows of this
    one among them, and a mask (B, (S - 1) N) of the candidates that may be negatives or are the
    positive. The candidates of the first side come first.
    """
    texts, columns = y_pred.shape[1], 1
    if len(y_true.shape) == 2 and y_true.shape[1] is not None:
        columns = y_true.shape[1]
    if columns > texts:
        raise ValueError(
            f"`y_true` must have one number per row, or one for each of its {texts} texts. "
            f"Received: y_true with the shape {tuple(y_true.shape)}"
        )
    numbers = ops.reshape(ops.cast(y_true, "int32"), (-1, columns))
    all_numbers, first = backend.gather_rows(numbers)
    vectors, _ = backend.gather_rows(y_pred)
    places = first + ops.arange(ops.shape(y_pred)[0])
    rows, sides = ops.shape(vectors)[0], texts - 1
    row_of = ops.tile(ops.arange(rows), (sides,))
    is_own = ops.equal(row_of[None], places[:, None])
    is_positive = ops.logical_and(is_own, ops.arange(rows * sides)[None] < rows)
    anchors = all_numbers[:, 0]
    same_anchor = ops.equal(numbers[:, :1], anchors[None])
    related = ops.logical_and(ops.tile(same_anchor, (1, sides)), ops.logical_not(is_own))
    if columns > 1:
        candidates = ops.pad(all_numbers[:, 1:], [(0, 0), (0, texts - columns)], constant_values=-2)
        candidates = ops.reshape(ops.transpose(candidates), (-1,))
        # Whatever stands beside a copy of the anchor in some row of the batch belongs to it.
        copies = ops.cast(ops.equal(all_numbers[:, 1:2], candidates[None]), "float32")
        positives = ops.matmul(ops.cast(same_anchor, "float32"), copies) > 0
        is_anchor = ops.equal(numbers[:, :1], candidates[None])
        related = ops.logical_or(related, ops.logical_or(positives, is_anchor))
    # What fills a batch up belongs to no text, and is no negative of any.
    related = ops.logical_or(related, ops.tile(anchors < 0, (sides,))[None])
    return vectors, places, ops.logical_or(is_positive, ops.logical_not(related))


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
class MultipleNegativesRanking(Configured, keras.losses.Loss):
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
        y_true: (B, S) integers, the numbers of the S texts of each row, where equal texts have one
            number: no text that belongs to an anchor in the batch is a negative of it. The last
            ones may lack numbers, if they are equal to none. Or (B,) or (B, 1), such as `range`:
            rows with the same number belong together, and are not negatives of each other. A row
            with -1 is not a negative of any.
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
class CoSENT(Configured, keras.losses.Loss):
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


@keras.saving.register_keras_serializable(package="keras_posenc")
class InBatchAccuracy(keras.metrics.Mean):
    """The share of rows whose second text is nearer to the first than all others of the batch.

    It falls as batches grow. Of n texts that are equally near, one is drawn: the row counts 1 / n.

    Args:
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: integers, as in `MultipleNegativesRanking`.
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
        positive = ops.take_along_axis(cosines, places[:, None], axis=1)
        nearer, level = (
            ops.sum(ops.cast(each, "float32"), axis=1)
            for each in (cosines > positive + TIE, ops.abs(cosines - positive) <= TIE)
        )
        super().update_state(ops.cast(nearer == 0, "float32") / level, sample_weight)
