"""The initial values of weights that a checkpoint is about to replace."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_posenc")
class Unset(keras.initializers.TruncatedNormal):
    """Zeros, at once, where random numbers would only be overwritten; that takes BERT seconds.

    What is made again from a config (a clone, a reloaded model) is drawn at random after all.

    Args:
        stddev: float. Of the truncated normal that it stands for.
    """

    def __call__(self, shape, dtype=None):
        return ops.zeros(shape, dtype)

    def clone(self):
        return self

    @classmethod
    def from_config(cls, config):
        return keras.initializers.TruncatedNormal(**config)
