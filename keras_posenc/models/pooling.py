"""From the features of a text to its vector: pooling, and vectors cut to fewer numbers."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured

POOLINGS = ("mean", "cls", "max", "last", "weighted_mean", "sqrt_mean")


@keras.saving.register_keras_serializable(package="keras_posenc")
class MaskedPooling(Configured, keras.layers.Layer):
    """Pools the features of a sequence to one vector, ignoring padding.

    Args:
        pooling: "mean" of the tokens, "cls" (the first token), "max", "last" (the last real token,
            for causal models), "weighted_mean" (the n-th token counts n times) or "sqrt_mean" (the
            sum over the root of the number of tokens).

    Call arguments:
        inputs: (B, T, D).
        mask: (B, T) bool, False on padding. Set by Keras.

    Returns:
        (B, D).

    Example:

    >>> x = keras.layers.Masking()(np.array([[[1.0], [3.0], [0.0]]]))
    >>> float(MaskedPooling()(x)[0, 0])
    2.0
    """

    def __init__(self, pooling="mean", **kwargs):
        super().__init__(**kwargs)
        self.pooling = checks.choice("pooling", pooling, POOLINGS)
        self.reads_whole_row = pooling != "cls"
        self.supports_masking = True
        self.built = True

    def call(self, inputs, mask=None):
        if 0 in inputs.shape[:2]:  # no text, or texts of no token: zeros, as a mean of padding is
            return ops.sum(inputs, axis=1)
        if self.pooling == "cls":
            return inputs[:, 0]
        if self.pooling == "last":
            if mask is None:
                return inputs[:, -1]
            steps = ops.arange(ops.shape(inputs)[1], dtype="int32")
            last = ops.max(ops.where(mask, steps, 0), axis=1)
            if not backend.is_exporting():
                return ops.take_along_axis(inputs, last[:, None, None], axis=1)[:, 0]
            # A gather would give an export on torch a fixed number of texts.
            chosen = ops.expand_dims(ops.equal(steps, ops.expand_dims(last, 1)), 2)
            return ops.sum(ops.where(chosen, inputs, 0), axis=1)
        if self.pooling == "max":
            if mask is None:
                return ops.max(inputs, axis=1)
            most = ops.max(ops.where(ops.expand_dims(mask, -1), inputs, -3e4), axis=1)
            return ops.where(ops.any(mask, axis=1, keepdims=True), most, 0)
        if mask is None and self.pooling == "mean":
            return ops.mean(inputs, axis=1)
        # Sums over long texts are in float32: bfloat16 cannot count beyond 256.
        real = ops.ones(ops.shape(inputs)[:2]) if mask is None else ops.cast(mask, "float32")
        weights = ops.cumsum(real, axis=1) * real if self.pooling == "weighted_mean" else real
        total = ops.sum(ops.cast(inputs, "float32") * ops.expand_dims(weights, -1), axis=1)
        count = ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0)
        mean = total / (ops.sqrt(count) if self.pooling == "sqrt_mean" else count)
        return ops.cast(mean, self.compute_dtype)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, inputs_shape):
        return (inputs_shape[0], inputs_shape[2])


@keras.saving.register_keras_serializable(package="keras_posenc")
class LeadingDimensions(Configured, keras.layers.Layer):
    """Keeps the first numbers of each vector, as Matryoshka embeddings are cut.

    `dimension`: int. How many numbers to keep. Returns (..., dimension).

    Call arguments:
        inputs: (..., D).

    Example:

    >>> LeadingDimensions(2)(np.array([[1.0, 2.0, 3.0]])).shape
    (1, 2)
    """

    def __init__(self, dimension, **kwargs):
        super().__init__(**kwargs)
        self.dimension = checks.whole("dimension", dimension)
        self.supports_masking = True
        self.built = True

    def call(self, inputs):
        checks.whole("dimension", self.dimension, most=inputs.shape[-1])
        return inputs[..., : self.dimension]

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:-1], self.dimension)
