"""Several operations over a map as one pass, where TensorFlow would make a pass of each."""

import functools

import keras

from keras_posenc.device import on_accelerator


def in_one_pass(function, *arguments):
    """function(*arguments), in a graph of TensorFlow on a CPU as a program of XLA.

    Not where TensorFlow sees a GPU, whose plugin may not know XLA, nor outside of a graph, where
    each length of text would be compiled anew.

    Args:
        function: of a module, not made at each call: it is compiled once for each kind of tensors.
        arguments: tensors, and numbers of Python.
    """
    if keras.backend.backend() == "tensorflow" and _in_graph_on_cpu(arguments[0]):
        function = _compiled(function)
    return function(*arguments)


def _in_graph_on_cpu(x):
    import tensorflow as tf

    return not tf.executing_eagerly() and not on_accelerator(x)


@functools.cache
def _compiled(function):
    import tensorflow as tf

    return tf.function(function, autograph=False, jit_compile=True)
