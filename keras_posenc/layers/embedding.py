"""The token table, which also scores tokens at the other end, and the small layers around it."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_posenc")
class TokenEmbedding(keras.layers.Embedding):
    """A token table that masks the padding id of its choice and is its own output projection.

    Args:
        input_dim: int. Tokens V.
        output_dim: int. Size E.
        pad_token_id: int or None. Tokens with this id are masked; None masks nothing.

    Call arguments:
        inputs: (B, T) token ids; or (B, T, E) features with `reverse=True`.
        reverse: bool. Score every token, x E^T, instead of looking tokens up.

    Returns:
        (B, T, E); (B, T, V) with `reverse=True`.
    """

    def __init__(self, input_dim, output_dim, pad_token_id=0, **kwargs):
        super().__init__(input_dim, output_dim, **kwargs)
        self.pad_token_id = pad_token_id
        self.supports_masking = True

    def call(self, inputs, reverse=False):
        if reverse:
            return ops.matmul(inputs, ops.transpose(ops.cast(self.embeddings, self.compute_dtype)))
        return super().call(inputs)

    def quantize(self, mode=None, type_check=True, **kwargs):
        # Keras leaves subclasses alone, as it cannot know what they do with the table. In int8 it
        # is known here; other modes pack the numbers.
        super().quantize(mode, type_check=mode != "int8", **kwargs)

    def quantized_call(self, inputs, reverse=False):
        if not reverse:
            return super().quantized_call(inputs)
        scores = ops.matmul(inputs, ops.transpose(ops.cast(self.embeddings, self.compute_dtype)))
        return scores / ops.cast(self.embeddings_scale, self.compute_dtype)

    def compute_mask(self, inputs, mask=None):
        if keras.backend.is_float_dtype(inputs.dtype):
            return mask
        return None if self.pad_token_id is None else ops.not_equal(inputs, self.pad_token_id)

    def compute_output_spec(self, inputs, reverse=False):
        shape = (
            (*inputs.shape[:-1], self.input_dim) if reverse else (*inputs.shape, self.output_dim)
        )
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        config = {**super().get_config(), "pad_token_id": self.pad_token_id}
        del config["mask_zero"]
        return config


@keras.saving.register_keras_serializable(package="keras_posenc")
class BiasAdd(keras.layers.Layer):
    """y = x + b, b one trained number a feature, from zero."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        self.bias = self.add_weight(name="bias", shape=(input_shape[-1],), initializer="zeros")
        self.built = True

    def call(self, inputs):
        return inputs + self.bias

    def compute_output_shape(self, input_shape):
        return input_shape


@keras.saving.register_keras_serializable(package="keras_posenc")
class AddTo(keras.layers.Add):
    """The sum of a list of tensors, under the mask of the first: `keras.layers.Add` drops a lone
    mask."""

    def compute_mask(self, inputs, mask=None):
        return None if mask is None else mask[0]
