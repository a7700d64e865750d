"""Seeds and files of Keras, without an import of TensorFlow on another backend."""

import contextlib
import sys

import keras

from keras_posenc.backend.keras_names import forget_global_seeds, has, hidden_tensorflow


def set_random_seed(seed):
    """Does what `keras.utils.set_random_seed` does, with `without_tensorflow`."""
    forget_global_seeds()
    with without_tensorflow():
        keras.utils.set_random_seed(seed)


@contextlib.contextmanager
def without_tensorflow():
    """Lets Keras do without TensorFlow on another backend, unless it is imported already.

    Keras seeds it too, and compares what it saves with the types of TensorFlow. The import takes
    seconds, and prints lines about the processor in front of all else. None of those types can be
    there without it.
    """
    needed = "tensorflow" in sys.modules or keras.backend.backend() == "tensorflow"
    with contextlib.nullcontext() if needed or not has("lazy modules") else hidden_tensorflow():
        yield
