"""Numbers of a row by their index."""

import keras
from keras import ops


def looked_up(table, index):
    """The numbers of a table (..., C) at the index (..., Tk), integers from 0 to C - 1.

    `keras.ops.take_along_axis` asks of every index again whether it is within.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        import jax.numpy as jnp

        return jnp.take_along_axis(table, index, axis=-1, mode="promise_in_bounds")
    if backend == "torch":
        index = index.long()  # before it is spread, which takes no memory
    outer = ops.shape(table)[:-1]
    index = ops.broadcast_to(index, (*outer, ops.shape(index)[-1]))
    if backend == "torch":
        import torch

        return torch.gather(table, -1, index)
    import tensorflow as tf

    return tf.gather(table, index, batch_dims=len(outer))
