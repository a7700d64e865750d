"""The one guard of position ids: each of them exists, or one message says which does not."""

import keras
from keras import ops


def check_positions(ids, bound, remedy):
    """Returns the ids, sure that 0 <= id < `bound`; else one message, the same on every backend.

    JAX turns an index out of range into NaN and clamps a negative one, TensorFlow and torch raise
    words of their own; so the check is ours. Ids that are only known inside a compiled step are
    checked there, except under XLA on TensorFlow, which drops assertions.

    Args:
        ids: integer tensor of any shape, or KerasTensor (then nothing can be checked yet).
        bound: int. First position that does not exist; None if that is not known yet.
        remedy: str. What the user can do, the end of the message.
    """
    if isinstance(ids, keras.KerasTensor) or bound is None or 0 in ids.shape:
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
