"""The token embedding, tied to the output projection, and small layers around it."""

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.backend.keras_names import uncast
from keras_posenc.keras_support.configured import Configured

REMEDY = (
    "Encode texts with the tokenizer of this model; a table lacks the tokens that were added to a "
    "tokenizer until it is resized."
)


def check_ids(name, ids, bound, remedy=REMEDY):
    """Refuses ids that are no whole numbers, or that have no row in a table.

    `name`: str, what the error calls them. `ids`: NumPy array. `bound`: int, rows of the table;
    None for the range of int32. `remedy`: str. End of the error message.
    """
    if ids.dtype.kind not in "iu":
        below = "" if bound is None else f", from 0 to {bound - 1}"
        raise ValueError(
            f"`{name}` must be integers{below}. Received: {ids.dtype}; convert them with "
            '`.astype("int32")` if they are ids.'
        )
    if not ids.size:
        return
    least, most = (0, bound - 1) if bound is not None else (-(2**31), 2**31 - 1)
    smallest, largest = int(ids.min()), int(ids.max())
    if smallest < least or largest > most:
        wrong = smallest if smallest < least else largest
        raise ValueError(
            f"`{name}` has the id {wrong}, and ids run from {least} to {most}"
            + (f": the model has {bound} rows for them. {remedy}" if bound is not None else ".")
        )


@keras.saving.register_keras_serializable(package="keras_posenc")
class IdEmbedding(keras.layers.Embedding):
    """An embedding of ids that refuses those without a row, the same on every backend.

    Ids that are known before a program runs are checked. A compiled JAX program, which would give
    NaN, reads the nearest row instead; `TransformerModel` checks what is given to it beforehand.
    `input_dim`: int. Rows of the table. `output_dim`: int. Size of a row. `kwargs`: further
    arguments of `keras.layers.Embedding`. Returns (B, T, output_dim).

    Call arguments:
        inputs: (B, T) ids.

    Example:

    >>> IdEmbedding(2, 8)(np.array([[0, 1, 1]])).shape
    (1, 3, 8)
    """

    def __init__(self, input_dim, output_dim, **kwargs):
        backend.check_floatx()
        super().__init__(input_dim, output_dim, **kwargs)

    def call(self, inputs):
        ids = self._with_rows(inputs)
        whole = keras.backend.standardize_dtype(ids.dtype) in ("int32", "int64")
        ids = ids if whole else ops.cast(ids, "int32")
        with uncast():  # of the table, only the rows that are read are cast
            rows = backend.look_up(self.embeddings, ids)
        return ops.cast(rows, self.compute_dtype)

    def quantize(self, mode=None, type_check=True, **kwargs):
        # int4 packs two numbers into one, which a projection with the table does not read, and
        # calibration is for matrix products: int8 is the next smaller, by its default quantizer.
        if mode in ("int4", "gptq", "awq"):
            mode, kwargs = "int8", {}
        # Keras does not quantize subclasses of its layers.
        super().quantize(mode, type_check=mode != "int8", **kwargs)

    def quantized_call(self, inputs):
        return super().quantized_call(self._with_rows(inputs))

    def _with_rows(self, ids):
        """The ids, each of which has a row."""
        if backend.is_traced(ids):
            return ops.clip(ids, 0, self.input_dim - 1) if backend.TRAITS.fills_missing else ids
        # To ask an accelerator would be to wait for it.
        if not isinstance(ids, keras.KerasTensor) and not backend.on_accelerator(ids):
            values = ops.convert_to_numpy(ids)
            # Keras makes floats of the ids of an input without a dtype.
            whole = values if values.dtype.kind in "iu" else np.floor(values.astype("float32"))
            check_ids(self.name, whole.astype("int64"), self.input_dim)
        return ids


@keras.saving.register_keras_serializable(package="keras_posenc")
class TokenEmbedding(IdEmbedding):
    """A token embedding with a choice of padding id that also serves as output projection.

    `input_dim`: int. Vocabulary size V. `output_dim`: int. Size E. `pad_token_id`: int or None.
    Tokens with this id are masked; None masks nothing. Returns (B, T, E); (B, T, V) with
    `reverse=True`.

    Call arguments:
        inputs: (B, T) token ids; or (B, T, E) features with `reverse=True`.
        reverse: bool. Compute logits of all tokens, x E^T, instead of looking tokens up.

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
        if self.pad_token_id is None or backend.is_unmasked(inputs):
            return None
        return ops.not_equal(inputs, self.pad_token_id)

    def compute_output_spec(self, inputs, reverse=False):
        shape = inputs.shape[:-1] if reverse else inputs.shape
        size = self.input_dim if reverse else self.output_dim
        return keras.KerasTensor((*shape, size), dtype=self.compute_dtype)

    def get_config(self):
        config = {**super().get_config(), "pad_token_id": self.pad_token_id}
        del config["mask_zero"]
        return config


@keras.saving.register_keras_serializable(package="keras_posenc")
class BiasAdd(Configured, keras.layers.Layer):
    """Adds a learned bias per feature, y = x + b, initialised to zero.

    Returns the shape of the inputs.

    Call arguments:
        inputs: (..., D).
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


# Of all tokens in the training of ESM: 15% were chosen, and 80% of those became mask tokens.
MASKED_IN_TRAINING = 0.12


@keras.saving.register_keras_serializable(package="keras_posenc")
class MaskTokenDropout(Configured, keras.layers.Layer):
    """Zeroes the features of mask tokens, and scales the others by how many there are.

    The features x of the other tokens become x (1 - 0.12) / (1 - m), where m is the fraction of
    mask tokens in the sequence, without padding. ESM was trained with m of 0.12 on average. It acts
    with and without training. `pad_token_id`: int, or None if there is no padding. Returns (B, T,
    D).

    Call arguments:
        inputs: list of the features (B, T, D) and the token ids (B, T).

    Example:

    >>> layer = MaskTokenDropout(mask_token_id=3)
    >>> y = keras.ops.convert_to_numpy(layer([np.ones((1, 4, 1)), np.array([[5, 3, 6, 0]])]))
    >>> print(y[0, :, 0].round(2))
    [1.32 0.   1.32 1.32]

    Reference: [Evolutionary-scale prediction of atomic-level protein structure with a language
    model](https://doi.org/10.1126/science.ade2574).
    """

    def __init__(self, mask_token_id, pad_token_id=0, **kwargs):
        super().__init__(**kwargs)
        self.mask_token_id, self.pad_token_id = mask_token_id, pad_token_id
        self.supports_masking = self.built = True

    def call(self, inputs):
        x, ids = inputs
        pad = self.pad_token_id
        masked = ops.equal(ids, self.mask_token_id)
        real = ops.ones_like(masked) if pad is None else ops.not_equal(ids, pad)
        count, zeroed = (ops.sum(ops.cast(m, "float32"), 1, True) for m in (real, masked))
        scale = (1 - MASKED_IN_TRAINING) * count / ops.maximum(count - zeroed, 1)
        scale = ops.cast(ops.where(masked, 0.0, scale), x.dtype)
        return x * ops.expand_dims(scale, -1)

    def compute_output_shape(self, input_shape):
        return input_shape[0]

    def compute_mask(self, inputs, mask=None):
        return None if mask is None else mask[0]


@keras.saving.register_keras_serializable(package="keras_posenc")
class AddTo(keras.layers.Add):
    """Sums a list of tensors and keeps the mask of the first; `keras.layers.Add` drops a lone mask.

    Returns (B, T, D).

    Call arguments:
        inputs: list of tensors (B, T, D).
    """

    def compute_mask(self, inputs, mask=None):
        return None if mask is None else mask[0]
