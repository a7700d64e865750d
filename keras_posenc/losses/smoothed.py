"""Sparse cross-entropy with label smoothing, which Keras lacks."""

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured


@keras.saving.register_keras_serializable(package="keras_posenc")
class SmoothedSparseCategoricalCrossentropy(Configured, keras.losses.SparseCategoricalCrossentropy):
    """Sparse categorical cross-entropy with label smoothing.

        loss = -(1 - s) log p_y - s / V sum_k log p_k.

    The target is a mixture of the label y, with weight 1 - s, and the uniform distribution over V
    classes, with weight s. `keras.losses.CategoricalCrossentropy` computes it from one-hot targets.
    A Keras mask of the predictions, `ignore_class` and sample weights work as in Keras' loss.

    Args:
        label_smoothing: float, s. Weight of the uniform distribution; 0 is Keras' loss.
        from_logits: bool. Whether predictions are logits; else probabilities.
        ignore_class: int or None. Positions with this label are ignored.
        reduction: as in `keras.losses.Loss`.
        name: str.
        dtype: dtype of the computation.

    Call arguments:
        y_true: (B, ...) or (B, ..., 1) integers.
        y_pred: (B, ..., V).

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> loss = SmoothedSparseCategoricalCrossentropy(0.1, from_logits=True)
    >>> round(float(loss(np.array([1]), np.array([[0.0, 5.0, 0.0]]))), 2)
    0.35

    Reference: [Rethinking the Inception Architecture for Computer
    Vision](https://arxiv.org/abs/1512.00567), section 7. The value s = 0.1 is from [Attention Is
    All You Need](https://arxiv.org/abs/1706.03762), section 5.4.
    """

    def __init__(
        self,
        label_smoothing=0.1,
        from_logits=False,
        ignore_class=None,
        reduction="sum_over_batch_size",
        name="smoothed_sparse_categorical_crossentropy",
        dtype=None,
    ):
        super().__init__(
            from_logits=from_logits,
            ignore_class=ignore_class,
            reduction=reduction,
            name=name,
            dtype=dtype,
        )
        why = "at 1 no label would be left"
        self.label_smoothing = checks.number(
            "label_smoothing", label_smoothing, least=0, below=1, why=why
        )
        self._counted = Counted(autocast=False)

    def call(self, y_true, y_pred):
        losses = super().call(y_true, y_pred)
        if not self.label_smoothing:
            return losses
        uniform = self._against_uniform(y_pred)
        smoothed = losses + self.label_smoothing * (uniform - losses)
        if self.ignore_class is None:
            return smoothed
        if len(y_true.shape) == len(y_pred.shape):
            y_true = ops.squeeze(y_true, axis=-1)
        counts = ops.not_equal(y_true, ops.cast(self.ignore_class, y_true.dtype))
        return self._counted([ops.where(counts, smoothed, 0.0), counts])

    def _against_uniform(self, y_pred):
        """-mean_k log p_k."""
        if self.from_logits:
            return ops.logsumexp(y_pred, axis=-1) - ops.mean(y_pred, axis=-1)
        # As in Keras' loss: probabilities are clipped away from 0 and 1.
        epsilon = keras.config.epsilon()
        return -ops.mean(ops.log(ops.clip(y_pred, epsilon, 1 - epsilon)), axis=-1)


class Counted(keras.layers.Layer):
    """[losses, counts] -> the losses, under the Keras mask `counts`.

    A mask defines for Keras over which positions a loss is averaged, and only a layer can set one.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.built = True

    def call(self, inputs):
        return inputs[0]

    def compute_mask(self, inputs, mask=None):
        return inputs[1]
