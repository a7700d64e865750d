"""A gated convolution over a few tokens, in place of an attention layer."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.keras_support.configured import Configured
from keras_posenc.keras_support.nested_layers import (
    applied,
    dense_part,
    initializer_of_part,
    with_quantized_parts,
)


@keras.saving.register_keras_serializable(package="keras_posenc")
class ShortConvolution(Configured, keras.layers.Layer):
    """A causal convolution of each feature, between two gates.

        y_t = W_o (c_t * sum over k < K of w_k * (b * x)_{t - k}), with (b, c, x) = W_i inputs

    It has no positions and no cost that grows with the distance. Padding is read as zeros.
    `kernel_size`: int. K, tokens that a token sees, itself included. `kernel_initializer`:
    initializer of all kernels. Returns (B, T, D).

    Call arguments:
        inputs: (B, T, D).
        mask: (B, T) bool, False on padding.

    Example:

    >>> ShortConvolution(3)(np.random.normal(size=(2, 5, 16))).shape
    (2, 5, 16)

    Reference: [LFM2 Technical Report](https://arxiv.org/abs/2511.23404).
    """

    def __init__(
        self, kernel_size: int, kernel_initializer: Initializer = "glorot_uniform", **kwargs
    ):
        super().__init__(**kwargs)
        self.kernel_size = checks.whole("kernel_size", kernel_size)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def build(self, input_shape):
        size = input_shape[-1]
        self.gates = dense_part(self, "gates", 3 * size, input_shape, use_bias=False)
        self.outer = dense_part(self, "output", size, input_shape, use_bias=False)
        self.conv_kernel = self.add_weight(
            name="conv_kernel",
            shape=(self.kernel_size, 1, size),
            initializer=initializer_of_part(self.kernel_initializer, "conv_kernel"),
        )
        self.built = True

    def call(self, inputs, mask=None):
        length, earlier = ops.shape(inputs)[1], self.kernel_size - 1
        if mask is not None:
            inputs = ops.where(ops.expand_dims(ops.cast(mask, "bool"), -1), inputs, 0)  # also NaN
        before, after, x = ops.split(applied(self.gates, inputs), 3, axis=-1)
        x = backend.pad(before * x, ((0, 0), (earlier, 0), (0, 0)))
        kernel = ops.cast(self.conv_kernel, x.dtype)
        shifted = (x[:, k : k + length] * kernel[k] for k in range(self.kernel_size))
        return applied(self.outer, after * sum(shifted))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        parts = [self.gates, self.outer] if self.built else []
        return with_quantized_parts(super().get_config(), self, parts)
