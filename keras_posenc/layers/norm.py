"""Conditional layer normalization."""

import keras
from keras import ops

from keras_posenc.sublayers import policy_of_part, with_quantized_parts


@keras.saving.register_keras_serializable(package="keras_posenc")
class ConditionalLayerNormalization(keras.layers.Layer):
    """Layer normalization with a scale and shift that depend on a condition c of each sequence.

    y = (gamma + W_g h(c)) (x - mean) / sqrt(var + epsilon) + beta + W_b h(c), where h is a dense
    layer if `hidden_size` is given, else the identity. W_g and W_b are initialised to zero, so
    training starts from plain layer normalization.

    Args:
        epsilon: float. Added to the variance.
        hidden_size: int or None. Size of the hidden layer h, which has no bias.
        hidden_act: activation of the hidden layer.
        kernel_initializer: initializer of the hidden layer.

    Call arguments:
        inputs: (B, T, D).
        condition: (B, C), or (B, T, C).

    Returns:
        (B, T, D).

    Example:

    >>> norm = ConditionalLayerNormalization()
    >>> norm(np.random.normal(size=(2, 5, 8)), np.ones((2, 3))).shape
    (2, 5, 8)

    Reference: Su Jianlin, [Conditional text generation by conditional layer
    normalisation](https://spaces.ac.cn/archives/7124), 2019.
    """

    def __init__(
        self,
        epsilon=1e-12,
        hidden_size=None,
        hidden_act="linear",
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.hidden_size = hidden_size
        self.hidden_act = keras.activations.get(hidden_act)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def build(self, inputs_shape, condition_shape):
        features = inputs_shape[-1]
        self.gamma = self.add_weight(name="gamma", shape=(features,), initializer="ones")
        self.beta = self.add_weight(name="beta", shape=(features,), initializer="zeros")
        self.hidden_dense = None
        if self.hidden_size is not None:
            self.hidden_dense = self._dense(
                "hidden_dense", condition_shape, self.hidden_size, self.kernel_initializer
            )
            self.hidden_dense.activation = self.hidden_act
            condition_shape = (*condition_shape[:-1], self.hidden_size)
        self.beta_dense = self._dense("beta_dense", condition_shape, features, "zeros")
        self.gamma_dense = self._dense("gamma_dense", condition_shape, features, "zeros")
        self.built = True

    def _dense(self, name, input_shape, units, initializer):
        dense = keras.layers.Dense(
            units,
            use_bias=False,
            kernel_initializer=initializer,
            dtype=policy_of_part(self, name),
            name=name,
        )
        dense.build(input_shape)
        return dense

    def call(self, inputs, condition):
        if self.hidden_dense is not None:
            condition = self.hidden_dense(condition)
        gamma = self.gamma + self.gamma_dense(condition)
        beta = self.beta + self.beta_dense(condition)
        if len(gamma.shape) == 2:
            gamma, beta = gamma[:, None], beta[:, None]
        # Moments in float32: a half-precision square overflows, or loses small deviations.
        x = ops.cast(inputs, "float32")
        mean, variance = ops.moments(x, axes=-1, keepdims=True)
        x = ops.cast((x - mean) * ops.rsqrt(variance + self.epsilon), self.compute_dtype)
        return x * gamma + beta

    def compute_output_shape(self, inputs_shape, condition_shape):
        return inputs_shape

    def get_config(self):
        config = {
            **super().get_config(),
            "epsilon": self.epsilon,
            "hidden_size": self.hidden_size,
            "hidden_act": keras.activations.serialize(self.hidden_act),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
        parts = [self.hidden_dense, self.beta_dense, self.gamma_dense] if self.built else []
        return with_quantized_parts(config, self, [part for part in parts if part is not None])
