"""Loss and accuracy of the two ends of an answer, one number per row with any mask."""

import keras
from keras import ops

from keras_posenc.backend.weighing import CLOSED


class _Closed(keras.layers.Layer):
    """Closes masked tokens, and ends the mask: Keras would multiply (B,) losses by (B, T)."""

    def __init__(self):
        super().__init__(name="closed", dtype="float32")
        self.supports_masking = True
        self.built = True

    def call(self, inputs, mask=None):
        return inputs if mask is None else ops.where(mask[..., None], inputs, CLOSED)

    def compute_mask(self, inputs, mask=None):
        return None


@keras.saving.register_keras_serializable(package="keras_posenc")
class SpanCrossentropy(keras.losses.Loss):
    """The mean of the cross-entropies of the first and the last token of a span.

    loss = -(log p_start(s) + log p_end(e)) / 2, with each p the softmax over the tokens of a row.
    Masked tokens have no part in it.

    Args:
        reduction: as in `keras.losses.Loss`, over the rows.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, 2) integers, the first and the last token.
        y_pred: (B, T, 2) logits, as `span_head` returns them.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> loss = SpanCrossentropy()
    >>> round(float(loss(np.array([[1, 2]]), np.zeros((1, 4, 2)))), 4)  # log 4
    1.3863
    """

    def __init__(self, reduction="sum_over_batch_size", name="span_crossentropy", dtype=None):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self._closed = _Closed()

    def __call__(self, y_true, y_pred, sample_weight=None):
        return super().__call__(y_true, self._closed(y_pred), sample_weight)

    def call(self, y_true, y_pred):
        y_true = ops.cast(y_true, "int32")
        logits = ops.transpose(ops.cast(y_pred, "float32"), (0, 2, 1))  # (B, 2, T)
        losses = ops.sparse_categorical_crossentropy(y_true, logits, from_logits=True)
        return ops.mean(losses, axis=-1)


@keras.saving.register_keras_serializable(package="keras_posenc")
class SpanAccuracy(keras.metrics.Mean):
    """The share of rows whose first and last token are both the most probable ones.

    Args:
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, 2) integers, the first and the last token.
        y_pred: (B, T, 2) logits.

    Example:

    >>> metric = SpanAccuracy()
    >>> metric.update_state(np.array([[0, 1]]), np.array([[[5.0, 0.0], [0.0, 5.0]]]))
    >>> float(metric.result())
    1.0
    """

    def __init__(self, name="accuracy", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self._closed = _Closed()

    def update_state(self, y_true, y_pred, sample_weight=None):
        predicted = ops.argmax(self._closed(y_pred), axis=1)
        right = ops.all(ops.equal(predicted, ops.cast(y_true, predicted.dtype)), axis=-1)
        super().update_state(ops.cast(right, "float32"), sample_weight)
