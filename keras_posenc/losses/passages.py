"""The loss of passages that are read in their documents."""

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured
from keras_posenc.layers.norm import unit
from keras_posenc.losses.similarity import batch_cosines


@keras.saving.register_keras_serializable(package="keras_posenc")
class PassageRanking(Configured, keras.losses.Loss):
    """Negatives are other passages of the same document, and passages of the rest of the batch.

        loss_i = w CE(s cos(q_i, [p_i, N_i])) + (1 - w) CE(s cos(q_i, [p_i and all other p_j]))

    for a query q_i, its passage p_i, N_i other passages of its document and the scale s. CE is the
    cross-entropy of the right passage. Passages of one document share their context: the first term
    keeps what each states itself, and the second brings the document's context to them.

    Args:
        scale: float, s, one over the temperature.
        document_weight: float in [0, 1], w.
        reduction: as in `keras.losses.Loss`, over the rows.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, 2), (B,) or (B, 1) integers, as in `MultipleNegativesRanking`.
        y_pred: (B, 2 + N, D) vectors of queries, their passages, and N other passages of the
            document, which are 0 where a document has fewer. They are normalized here.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> vectors = np.eye(4)[None, [0, 0, 1]].repeat(2, axis=0)  # two queries about one document
    >>> loss = PassageRanking(scale=1.0, document_weight=1.0)
    >>> round(float(loss(np.array([0, 1]), vectors)), 4)  # log(1 + 1 / e)
    0.3133

    Reference: [InSeNT](https://arxiv.org/abs/2505.24782).
    """

    def __init__(
        self,
        scale=20.0,
        document_weight=0.2,
        reduction="sum_over_batch_size",
        name="passage_ranking",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.scale = checks.number("scale", scale, above=0)
        self.document_weight = checks.number("document_weight", document_weight, least=0, most=1)

    def call(self, y_true, y_pred):
        vectors = unit(y_pred)
        within = ops.sum(vectors[:, :1] * vectors[:, 1:], axis=-1)
        within = ops.where(ops.any(ops.not_equal(vectors[:, 1:], 0), axis=-1), within, -1e9)
        across, places = batch_cosines(y_true, vectors[:, :2])
        return self.document_weight * self._entropy(ops.zeros_like(places), within) + (
            1 - self.document_weight
        ) * self._entropy(places, across)

    def _entropy(self, right, cosines):
        return ops.sparse_categorical_crossentropy(right, self.scale * cosines, from_logits=True)
