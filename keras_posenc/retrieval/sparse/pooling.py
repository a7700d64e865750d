"""SPLADE's pooling: a weight for each token of the vocabulary."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured
from keras_posenc.models.model import model_on

SPARSE_POOLINGS = ("max", "sum")
ACTIVATIONS = ("relu", "log1p_relu")


@keras.saving.register_keras_serializable(package="keras_posenc")
class SparsePooling(Configured, keras.layers.Layer):
    """Pools the logits of a masked language model to one weight per token of the vocabulary.

    w_v = max over the tokens t of log(1 + relu(x_tv)), ignoring padding. Most weights are 0.

    Args:
        pooling: "max", or "sum" over the tokens, as in the first SPLADE.
        activation: "relu", or "log1p_relu" for log(1 + log(1 + relu(x))).

    Call arguments:
        inputs: (B, T, V) logits.
        mask: (B, T) bool, False on padding. Set by Keras.

    Returns:
        (B, V).

    Example:

    >>> logits = np.array([[[-1.0, np.e - 1], [0.0, 0.5]]])
    >>> keras.ops.convert_to_numpy(SparsePooling()(logits)).tolist()
    [[0.0, 1.0]]

    Reference: [SPLADE v2](https://arxiv.org/abs/2109.10086), [SPLADE](https://arxiv.org/abs/2107.05720).
    """

    def __init__(self, pooling="max", activation="relu", **kwargs):
        super().__init__(**kwargs)
        self.pooling = checks.choice("pooling", pooling, SPARSE_POOLINGS)
        self.activation = checks.choice("activation", activation, ACTIVATIONS)
        self.supports_masking = True
        self.built = True

    def call(self, inputs, mask=None):
        # The logarithm rises, so it may come after the maximum: it is of (B, V) then.
        positive = ops.relu(ops.cast(inputs, "float32"))
        if mask is not None:
            positive = ops.where(mask[..., None], positive, 0.0)
        if self.pooling == "max" and 0 not in positive.shape[:2]:
            return self._logarithm(ops.max(positive, axis=1))
        return ops.sum(self._logarithm(positive), axis=1)

    def _logarithm(self, x):
        x = backend.log1p(x)
        return backend.log1p(x) if self.activation == "log1p_relu" else x

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, inputs_shape):
        return (inputs_shape[0], inputs_shape[2])


def sparse_embedder(model, pooling="max", activation="relu"):
    """A masked language model, whose output is the logits (B, T, V), with `SparsePooling` behind
    them: ids (B, T) to weights (B, V)."""
    pooled = SparsePooling(pooling, activation, dtype="float32", name="Sparse-Pooling")
    return model_on(model, pooled(model.output), "sparse_embedder")
