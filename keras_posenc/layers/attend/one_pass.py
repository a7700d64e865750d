"""Several operations over a map as one pass, where TensorFlow would make a pass of each."""

import functools

import keras

from keras_posenc.device import on_accelerator


def in_one_pass(function, *arguments):
    """function(*arguments), on TensorFlow's CPU as a program of XLA.

    Not where TensorFlow sees a GPU, whose plugin may not know XLA.

    Args:
        function: of a module, not made at each call: it is compiled once for each kind of tensors.
        arguments: tensors, and numbers of Python.
    """
    if keras.backend.backend() == "tensorflow" and not on_accelerator(arguments[0]):
        function = _compiled(function)
    return function(*arguments)


@functools.cache
def _compiled(function):
    import tensorflow as tf

    return tf.function(function, jit_compile=True)
