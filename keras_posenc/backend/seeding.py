"""Seeds and files of Keras, without an import of TensorFlow on another backend."""

import contextlib
import sys

import keras
from keras.src.utils.module_utils import tensorflow


def set_random_seed(seed):
    """Does what `keras.utils.set_random_seed` does, with `without_tensorflow`.

    Args:
        seed: int.
    """
    with without_tensorflow():
        keras.utils.set_random_seed(seed)


@contextlib.contextmanager
def without_tensorflow():
    """Lets Keras do without TensorFlow on another backend, unless it is imported already.

    Keras seeds it too, and compares what it saves with the types of TensorFlow. The import takes
    seconds, and prints lines about the processor in front of all else. None of those types can be
    there without it.
    """
    if "tensorflow" in sys.modules or keras.backend.backend() == "tensorflow":
        yield
        return
    known, tensorflow._available = tensorflow._available, False
    try:
        yield
    finally:
        tensorflow._available = known
