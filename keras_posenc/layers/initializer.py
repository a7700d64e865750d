"""The initial values of weights that a checkpoint holds: those of the checkpoint."""

import keras


@keras.saving.register_keras_serializable(package="keras_posenc")
class Stored(keras.initializers.TruncatedNormal):
    """The numbers of a checkpoint where it has them, else random ones.

    A weight is made of its stored numbers: none are drawn, or set to zero, only to be overwritten.
    What is made again from a config (a clone, a reloaded model) is drawn at random.

    Args:
        stddev: float. Of the truncated normal for what is not stored.
        read: function (name, shape) -> array, or None where nothing fits.
        name: str. Of the weight, or of the layer whose weights `part` names.
    """

    def __init__(self, stddev, read, name):
        super().__init__(stddev=stddev)
        self.read = read
        self.name = name

    def __call__(self, shape, dtype=None):
        stored = self.read(self.name, tuple(shape))
        if stored is None:
            return super().__call__(shape, dtype)
        return keras.ops.convert_to_tensor(stored, dtype or keras.config.floatx())

    def clone(self):
        return Stored(self.stddev, self.read, self.name)

    @classmethod
    def from_config(cls, config):
        return keras.initializers.TruncatedNormal(**config)


def part(initializer, name):
    """The initializer of one weight of a layer of many: other draws, or other stored numbers.

    Args:
        initializer: of the layer's weights.
        name: str. The weight's path in the layer, such as `"query/kernel"`.
    """
    if isinstance(initializer, Stored):
        return Stored(initializer.stddev, initializer.read, f"{initializer.name}/{name}")
    # An unseeded instance draws the same values every time.
    return initializer.clone()
