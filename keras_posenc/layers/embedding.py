"""The token embedding, tied to the output projection, and small layers around it."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_posenc")
class TokenEmbedding(keras.layers.Embedding):
    """A token embedding with a choice of padding id that also serves as output projection.

    Args:
        input_dim: int. Vocabulary size V.
        output_dim: int. Size E.
        pad_token_id: int or None. Tokens with this id are masked; None masks nothing.

    Call arguments:
        inputs: (B, T) token ids; or (B, T, E) features with `reverse=True`.
        reverse: bool. Compute logits of all tokens, x E^T, instead of looking tokens up.

    Returns:
        (B, T, E); (B, T, V) with `reverse=True`.

    Example:

    >>> layer = TokenEmbedding(100, 32)
    >>> x = layer(np.array([[5, 7, 0]]))
    >>> layer(x, reverse=True).shape
    (1, 3, 100)
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
        # Keras does not quantize subclasses of its layers. int8 is implemented below; other modes
        # pack the numbers.
        super().quantize(mode, type_check=mode != "int8", **kwargs)

    def quantized_call(self, inputs, reverse=False):
        if not reverse:
            return super().quantized_call(inputs)
        table = ops.transpose(ops.cast(self._embeddings, self.compute_dtype))
        scores = ops.matmul(inputs, table) / ops.cast(self.embeddings_scale, self.compute_dtype)
        if self.lora_enabled:  # beside the scaled numbers, not among them
            a, b = (
                ops.transpose(ops.cast(x, self.compute_dtype))
                for x in (self.lora_embeddings_a, self.lora_embeddings_b)
            )
            scale = self.lora_alpha / self.lora_rank
            scores = scores + scale * ops.matmul(ops.matmul(inputs, b), a)
        return scores

    def compute_mask(self, inputs, mask=None):
        if len(inputs.shape) > 2:  # features; ids may be floats, as those of `keras.Input` are
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
    """Adds a learned bias per feature, y = x + b, initialised to zero.

    Call arguments:
        inputs: (..., D).

    Returns:
        The shape of the inputs.
    """

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
    """Sums a list of tensors and keeps the mask of the first; `keras.layers.Add` drops a lone mask.

    Call arguments:
        inputs: list of tensors (B, T, D).

    Returns:
        (B, T, D).
    """

    def compute_mask(self, inputs, mask=None):
        return None if mask is None else mask[0]
