"""The two ends of an answer: a start and an end logit of each token."""

import keras
from keras import ops

from keras_posenc.backend.weighing import CLOSED
from keras_posenc.keras_support.nested_layers import dense_part, with_quantized_parts


@keras.saving.register_keras_serializable(package="keras_posenc")
class SpanLogits(keras.layers.Layer):
    """A start and an end logit of each token, -1e9 where no answer can be.

    No answer can be in padding or, in a row with tokens of segment 1, in segment 0 except the first
    token, [CLS], which stands for "no answer". The mask ends here, because the loss has one number
    per row, from which Keras could leave out no token.

    Call arguments:
        inputs: (B, T, D).
        segment_ids: (B, T) ints, or None.
        inputs_mask: (B, T) bool, False on padding. Set by Keras, as `mask` without segment ids.

    Returns:
        (B, T, 2).

    Example:

    >>> layer = SpanLogits()
    >>> logits = layer(np.ones((1, 4, 8)), np.array([[0, 0, 1, 1]]))
    >>> (ops.convert_to_numpy(logits)[0, :, 0] > -1e9).tolist()
    [True, False, True, True]
    """

    reads_whole_row = True

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, inputs_shape, segment_ids_shape=None):
        self.ends = dense_part(self, "ends", 2, inputs_shape, "glorot_uniform")
        self.built = True

    def call(self, inputs, segment_ids=None, inputs_mask=None, mask=None):
        mask = inputs_mask if mask is None else mask
        logits = ops.cast(self.ends(inputs), "float32")
        if segment_ids is not None:
            second = ops.equal(segment_ids, 1)
            first = ops.equal(ops.arange(ops.shape(inputs)[1]), 0)
            # The mask of a closed row would leave nothing: a text alone is all open.
            passage = second | first[None] | ops.logical_not(ops.any(second, 1, keepdims=True))
            mask = passage if mask is None else ops.logical_and(mask, passage)
        return logits if mask is None else ops.where(mask[..., None], logits, CLOSED)

    def compute_mask(self, inputs, segment_ids=None, inputs_mask=None, mask=None):
        return None

    def compute_output_spec(self, inputs, segment_ids=None, inputs_mask=None, mask=None):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), "float32")

    def compute_output_shape(self, inputs_shape, segment_ids_shape=None):
        return (*inputs_shape[:2], 2)

    def get_config(self):
        return with_quantized_parts(super().get_config(), self, [self.ends] if self.built else [])
