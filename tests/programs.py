"""Calls as one program on JAX, which else compiles a program for each operation of a call.

Only for what is compared, never for what is to be refused: in a program no number is known.
"""

import keras
from keras import ops


def one_program(function):
    """The function of tensors; on JAX compiled as it is when it is first called."""
    if keras.backend.backend() != "jax":
        return function
    import jax

    return jax.jit(function)


def predicted(model, inputs):
    """What a model makes of a batch, as NumPy: one array, or a list for several outputs."""
    if keras.backend.backend() == "jax":
        return model.predict_on_batch(inputs)
    return keras.tree.map_structure(ops.convert_to_numpy, model(inputs, training=False))
