"""A table of weights shared by the encodings of several attention layers."""

import keras
from keras import ops

from keras_posenc import encodings as position_encodings
from keras_posenc.arguments.hints import EncodingSpec
from keras_posenc.keras_support.configured import Configured


@keras.saving.register_keras_serializable(package="keras_posenc")
class SharedTable(Configured, keras.layers.Layer):
    """One table that the encodings of several layers share.

    Each attention layer has an encoding with `shared=True`, which owns no table, and is called with
    `tables=[...]`. The table is a single weight; its gradient is the sum over the layers.

    Args:
        encoding: name, dict or `Encoding` with `shared=True`; see `keras_posenc.encodings.get`.
        num_heads: int. Heads of the attention layers.
        key_dim: int. Size of their query and key heads.

    Call arguments:
        inputs: any tensor (B, ...) of the graph. It connects the table to the graph; its values are
            not read.

    Returns:
        The table, without a batch dimension: (P, H) for T5, (D, P) for CoPE.

    Example:

    >>> cope = {"name": "cope", "npos_max": 16, "shared": True}
    >>> x = keras.Input((None, 32))
    >>> table = SharedTable(cope, num_heads=2, key_dim=16)(x)
    >>> y = x
    >>> for _ in range(3):
    ...     layer = PositionalAttention(num_heads=2, key_dim=16, encodings=[cope])
    ...     y = y + layer(y, y, use_causal_mask=True, tables=[table])
    >>> model = keras.Model(x, y)
    """

    def __init__(self, encoding: EncodingSpec, num_heads: int, key_dim: int, **kwargs):
        super().__init__(**kwargs)
        encoding = position_encodings.get(encoding)
        if not encoding.shared:
            raise ValueError(
                "A SharedTable is for encodings that have no table of their own: give it and the "
                f"attention layers a {type(encoding).__name__} with `shared=True`."
            )
        self.encoding = keras.saving.serialize_keras_object(encoding)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.supports_masking = True

    def build(self, inputs_shape):
        encoding = position_encodings.get(self.encoding)
        self.table = self.add_weight(**encoding.table_arguments(self.num_heads, self.key_dim))
        self.built = True

    def call(self, inputs):
        return ops.convert_to_tensor(self.table)

    def compute_mask(self, inputs, previous_mask):
        return None  # rows of a table are not tokens
