"""What the layers of chains have in common."""

import keras
from keras import ops

from keras_posenc.arguments import checks


class Chain(keras.layers.Layer):
    """Base of the layers from tag scores (B, T, N) to the potentials (B, T, N, N) of a chain.

    Args:
        lr_multiplier: float. How many times faster the weights learn under an optimizer such as
            Adam, whose steps do not grow with the gradient: a weight w is stored as w /
            lr_multiplier.
        initializer: initializer of the transitions.
    """

    def __init__(self, lr_multiplier=1.0, initializer="glorot_uniform", **kwargs):
        # Sums over paths are in float32 under every policy.
        super().__init__(autocast=False, **kwargs)
        self.lr_multiplier = checks.number("lr_multiplier", lr_multiplier, above=0)
        self.initializer = keras.initializers.get(initializer)
        self.supports_masking = True

    def build(self, inputs_shape):
        if len(inputs_shape) != 3 or (inputs_shape[-1] or 0) < 2:
            raise ValueError(
                f"{type(self).__name__} takes the scores (B, T, N) of N tags, at least 2. "
                f"Received: {tuple(inputs_shape)}"
            )
        self.num_tags = inputs_shape[-1]

    def add_scores(self, name, shape, initializer=None):
        """Creates a weight that learns `lr_multiplier` times as fast; `meant` gives its value."""
        # An unseeded instance draws the same values every time.
        initializer = initializer or self.initializer.clone()

        def divided(shape, dtype=None):
            return initializer(shape, dtype) / self.lr_multiplier

        return self.add_weight(name=name, shape=shape, initializer=divided, autocast=False)

    def meant(self, stored):
        """The float32 value of a weight of `add_scores`."""
        return ops.cast(stored, "float32") * self.lr_multiplier

    def compute_mask(self, inputs, mask=None):
        """None: the potentials know what is outside of the chain."""
        return None

    def compute_output_spec(self, inputs, mask=None):
        return keras.KerasTensor((*inputs.shape, inputs.shape[-1]), dtype="float32")

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape, inputs_shape[-1])

    def get_config(self):
        return {
            **super().get_config(),
            "lr_multiplier": self.lr_multiplier,
            "initializer": keras.initializers.serialize(self.initializer),
        }
