"""Losses of the scores of several documents for one query, against those of a teacher."""

import keras
from keras import ops


def _scores(y_pred):
    """Scores (B, S) as they are; of vectors (B, 1 + S, D) the products of the first with each."""
    y_pred = ops.cast(y_pred, "float32")
    if len(y_pred.shape) == 2:
        return y_pred
    return ops.sum(y_pred[:, :1] * y_pred[:, 1:], axis=-1)


def _check(y_true, scores, sizes):
    if y_true.shape[-1] is not None and y_true.shape[-1] not in sizes:
        raise ValueError(
            f"`y_true` must have {' or '.join(map(str, sizes))} numbers for each query, because "
            f"`y_pred` has scores of {scores.shape[-1]} documents. Received: y_true with the shape "
            f"{tuple(y_true.shape)}"
        )


@keras.saving.register_keras_serializable(package="keras_posenc")
class MarginMSE(keras.losses.Loss):
    """The squared error of how much better the first document is than each other.

    loss = mean over j > 1 of ((s_1 - s_j) - (t_1 - t_j))^2, where s are the scores of a query's
    documents, the positive first, and t those of a teacher, such as a cross-encoder. Only the
    margins are learned, so the two may have different scales.

    Args:
        reduction: as in `keras.losses.Loss`, over the queries.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, S) scores of the teacher, or (B, S - 1) margins t_1 - t_j.
        y_pred: (B, S) scores, as of `ranking`; or (B, 1 + S, D) vectors, as of `similarity`, of a
            query and its documents, whose scores are dot products.

    Returns:
        The reduced loss, a scalar by default.

    Raises:
        ValueError: in a call, if `y_true` has another number of columns.

    Example:

    >>> float(MarginMSE()(np.array([[3.0, 1.0]]), np.array([[5.0, 4.0]])))
    1.0

    Reference: [Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge
    Distillation](https://arxiv.org/abs/2010.02666).
    """

    def __init__(self, reduction="sum_over_batch_size", name="margin_mse", dtype=None):
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def call(self, y_true, y_pred):
        scores, y_true = _scores(y_pred), ops.cast(y_true, "float32")
        count = scores.shape[-1]
        _check(y_true, scores, (count, count - 1))
        if y_true.shape[-1] == count:
            y_true = y_true[:, :1] - y_true[:, 1:]
        return ops.mean(ops.square(scores[:, :1] - scores[:, 1:] - y_true), axis=-1)


@keras.saving.register_keras_serializable(package="keras_posenc")
class ListwiseKL(keras.losses.Loss):
    """The Kullback-Leibler divergence of the scores' distribution from that of the targets.

    loss = T^2 sum_j p_j log(p_j / q_j), with p = softmax(t / T) and q = softmax(s / T) over the
    documents of a query. Of relevance grades t it is ListNet's loss up to a constant, the entropy
    of p; of a teacher's scores it is distillation.

    Args:
        temperature: float, T.
        reduction: as in `keras.losses.Loss`, over the queries.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, S) grades, or scores of a teacher.
        y_pred: (B, S) scores, as of `ranking`; or (B, 1 + S, D) vectors, as of `similarity`, of a
            query and its documents, whose scores are dot products.

    Returns:
        The reduced loss, a scalar by default.

    Raises:
        ValueError: if `temperature` is not positive; in a call, if `y_true` has another number of
            columns.

    Example:

    >>> float(ListwiseKL()(np.array([[2.0, 1.0]]), np.array([[5.0, 4.0]])))
    0.0

    Reference: [Learning to Rank: From Pairwise Approach to Listwise
    Approach](https://dl.acm.org/doi/10.1145/1273496.1273513); [Distilling the Knowledge in a Neural
    Network](https://arxiv.org/abs/1503.02531).
    """

    def __init__(
        self, temperature=1.0, reduction="sum_over_batch_size", name="listwise_kl", dtype=None
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if not temperature > 0:
            raise ValueError(f"`temperature` must be positive. Received: {temperature}")
        self.temperature = temperature

    def call(self, y_true, y_pred):
        scores, y_true = _scores(y_pred), ops.cast(y_true, "float32")
        _check(y_true, scores, (scores.shape[-1],))
        wanted = ops.log_softmax(y_true / self.temperature, axis=-1)
        given = ops.log_softmax(scores / self.temperature, axis=-1)
        divergence = ops.sum(ops.exp(wanted) * (wanted - given), axis=-1)
        return self.temperature**2 * divergence

    def get_config(self):
        return {**super().get_config(), "temperature": self.temperature}
