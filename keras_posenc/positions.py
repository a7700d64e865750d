"""Which position ids: consecutive, or counted over the real tokens only; and their one guard.

Ids are int32 (float32 where a strategy is continuous), whatever the dtype policy.
"""

import keras
from keras import ops


def consecutive(length, offset=0):
    """(length,) int32 ids `offset, offset + 1, ...`; `length` and `offset` may be tensors."""
    return ops.arange(0, length, dtype="int32") + ops.cast(offset, "int32")


@keras.saving.register_keras_serializable(package="keras_posenc")
class PaddedPositionIds(keras.layers.Layer):
    """Position ids that count the real tokens only, so that padding on either side shifts nothing.

    id[t] = (number of real tokens up to and including t) - 1, and 0 on leading padding. This is the
    numbering of RoBERTa, less its constant offset.

    Args:
        pad_token_id: int. The token id that stands for padding.

    Call arguments:
        token_ids: (B, T) integers.

    Returns:
        (B, T) int32.

    Example:

    >>> PaddedPositionIds(pad_token_id=1)(np.array([[1, 1, 7, 8, 9]]))
    [[0, 0, 0, 1, 2]]

    Reference: [RoBERTa](https://arxiv.org/abs/1907.11692), in the numbering of fairseq.
    """

    def __init__(self, pad_token_id=0, **kwargs):
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


def check_positions(ids, bound, remedy):
    """Returns the ids, sure that 0 <= id < `bound`; else one message, the same on every backend.

    JAX turns an index out of range into NaN and clamps a negative one, TensorFlow and torch raise
    words of their own; so the check is ours. Ids that are only known inside a compiled step are
    checked there, except under XLA on TensorFlow, which drops assertions.

    Args:
        ids: integer tensor of any shape, or KerasTensor (then nothing can be checked yet).
        bound: int. First position that does not exist.
        remedy: str. What the user can do, the end of the message.
    """
    if isinstance(ids, keras.KerasTensor) or 0 in ids.shape:
        return ids
    if not _is_traced(ids):
        values = ops.convert_to_numpy(ids)
        _raise_unless_in_range(values.min(), values.max(), bound, remedy)
    elif keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        message = f"A position does not exist: positions run from 0 to {bound - 1}. {remedy}"
        in_range = tf.reduce_all(tf.logical_and(ids >= 0, ids < bound))
        with tf.control_dependencies([tf.debugging.Assert(in_range, [message, ids])]):
            return tf.identity(ids)
    elif keras.backend.backend() == "jax" and all(isinstance(n, int) for n in ids.shape):
        import jax

        def check(smallest, largest):
            _raise_unless_in_range(smallest, largest, bound, remedy)

        jax.debug.callback(check, ids.min(), ids.max())
    return ids


def check_length(offset, length, bound, remedy):
    """Makes sure that positions offset .. offset + length - 1 exist."""
    _raise_unless_in_range(offset, max(offset, offset + length - 1), bound, remedy)


def _raise_unless_in_range(smallest, largest, bound, remedy):
    if smallest < 0 or largest >= bound:
        wrong = int(smallest if smallest < 0 else largest)
        raise ValueError(
            f"Position {wrong} does not exist: positions run from 0 to {bound - 1}. {remedy}"
        )


def _is_traced(x):
    """Whether the values of `x` are only known at run time."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return hasattr(x, "graph")
    if backend == "jax":
        import jax

        return isinstance(x, jax.core.Tracer)
    return str(getattr(x, "device", "")) == "meta"
