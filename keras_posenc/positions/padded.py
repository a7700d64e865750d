"""Position ids that count real tokens only."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_posenc")
class PaddedPositionIds(keras.layers.Layer):
    """Position ids that skip padding, so that padding on either side shifts no token.

    id[t] = (number of tokens up to and including t that are not padding) - 1, and 0 on leading
    padding. This is RoBERTa's numbering without its constant offset.

    Args:
        pad_token_id: int. The id of the padding token.

    Call arguments:
        token_ids: (B, T) integers.

    Returns:
        (B, T) int32.

    Example:

    >>> ids = PaddedPositionIds(pad_token_id=1)(np.array([[1, 1, 7, 8, 9]]))
    >>> ops.convert_to_numpy(ids).tolist()
    [[0, 0, 0, 1, 2]]

    Reference: [RoBERTa](https://arxiv.org/abs/1907.11692), as numbered by fairseq.
    """

    def __init__(self, pad_token_id: int = 0, **kwargs):
        kwargs.setdefault("dtype", "int32")
        super().__init__(**kwargs)
        self.pad_token_id = pad_token_id
        self.built = True

    def call(self, token_ids):
        real = ops.cast(ops.not_equal(token_ids, self.pad_token_id), "int32")
        return ops.maximum(ops.cumsum(real, axis=-1) - 1, 0)

    def compute_output_spec(self, token_ids):
        return keras.KerasTensor(token_ids.shape, dtype="int32")

    def get_config(self):
        return {**super().get_config(), "pad_token_id": self.pad_token_id}
