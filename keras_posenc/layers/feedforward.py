"""The feed-forward sublayer, plain or gated."""

import keras

from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured
from keras_posenc.keras_support.nested_layers import applied, dense_part, with_quantized_parts


@keras.saving.register_keras_serializable(package="keras_posenc")
class FeedForward(Configured, keras.layers.Layer):
    """The feed-forward sublayer: plain with one activation, a gated linear unit with several.

    y = W_o (f_1(W_1 x) f_2(W_2 x) ...) `units`: int. Inner size. `activation`: an activation, or a
    list of them whose results are multiplied, such as ["gelu", "linear"]. `use_bias`: bool, or
    "output" for a bias in W_o alone. `kernel_initializer`: initializer of all kernels. Returns (B,
    T, D).

    Call arguments:
        inputs: (B, T, D).

    Example:

    >>> FeedForward(256, activation=["silu", "linear"])(np.zeros((2, 5, 64))).shape
    (2, 5, 64)

    Reference: [GLU variants improve Transformer](https://arxiv.org/abs/2002.05202).
    """

    def __init__(
        self, units, activation="relu", use_bias=True, kernel_initializer="glorot_uniform", **kwargs
    ):
        super().__init__(**kwargs)
        activations = activation if isinstance(activation, (list, tuple)) else [activation]
        self.units = units
        self.activation = [keras.activations.get(a) for a in activations]
        self.use_bias = checks.choice("use_bias", use_bias, (True, False, "output"))
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def build(self, input_shape):
        names = ["intermediate", *(f"intermediate_{i}" for i in range(1, len(self.activation)))]
        of_inner = {"use_bias": self.use_bias is True}
        self.inner = [
            dense_part(self, name, self.units, input_shape, activation=activation, **of_inner)
            for name, activation in zip(names, self.activation, strict=True)
        ]
        shape, use_bias = (*input_shape[:-1], self.units), bool(self.use_bias)
        self.outer = dense_part(self, "output", input_shape[-1], shape, use_bias=use_bias)
        self.built = True

    def call(self, inputs):
        x = applied(self.inner[0], inputs)
        for dense in self.inner[1:]:
            x = x * applied(dense, inputs)
        return applied(self.outer, x)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        activation = [keras.activations.serialize(a) for a in self.activation]
        config = {**super().get_config(), "activation": activation}
        return with_quantized_parts(config, self, [*self.inner, self.outer] if self.built else [])
