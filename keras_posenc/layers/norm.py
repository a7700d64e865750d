"""Layer normalization that depends on a condition, RMS normalization, and norms by name."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Activation, Initializer
from keras_posenc.keras_support.configured import Configured
from keras_posenc.keras_support.nested_layers import dense_part, with_quantized_parts


@keras.saving.register_keras_serializable(package="keras_posenc")
class ConditionalLayerNormalization(Configured, keras.layers.Layer):
    """Layer normalization with a scale and shift that depend on a condition c of each sequence.

        y = (gamma + W_g h(c)) (x - mean) / sqrt(var + epsilon) + beta + W_b h(c).

    `h` is a dense layer if `hidden_size` is given, else the identity. W_g and W_b are initialised
    to zero, so training starts from plain layer normalization.

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
        epsilon: float = 1e-12,
        hidden_size: int | None = None,
        hidden_act: Activation = "linear",
        kernel_initializer: Initializer = "glorot_uniform",
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
            arguments = "hidden_dense", self.hidden_size, condition_shape, self.kernel_initializer
            self.hidden_dense = dense_part(self, *arguments, use_bias=False)
            self.hidden_dense.activation = self.hidden_act
            condition_shape = (*condition_shape[:-1], self.hidden_size)
        self.beta_dense, self.gamma_dense = (
            dense_part(self, name, features, condition_shape, "zeros", use_bias=False)
            for name in ("beta_dense", "gamma_dense")
        )
        self.built = True

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
        activation = keras.activations.serialize(self.hidden_act)
        config = {**super().get_config(), "hidden_act": activation}
        parts = [self.hidden_dense, self.beta_dense, self.gamma_dense] if self.built else []
        return with_quantized_parts(config, self, [part for part in parts if part is not None])


@keras.saving.register_keras_serializable(package="keras_posenc")
class RMSNormalization(Configured, keras.layers.Layer):
    """Root mean square normalization: the scale of each vector is removed, its mean is kept.

        y = x / sqrt(mean(x^2) + epsilon) (offset + gamma)

    The mean square is computed in float32.

    Args:
        epsilon: float. Added to the mean square.
        scale: bool. Whether there is a trained gamma; without it the factor is 1.
        offset: float. Added to gamma, which is initialised to 1 - offset. Gemma's is 1.

    Call arguments:
        inputs: (B, T, D), or any (..., D).

    Returns:
        The shape of the inputs.

    Example:

    >>> RMSNormalization()(np.array([[3.0, 4.0, 0.0, 0.0]])).shape
    (1, 4)

    Reference: [Root Mean Square Layer Normalization](https://arxiv.org/abs/1910.07467).
    """

    casts_weights = True  # `backend.rms_norm` does, where Keras does not

    def __init__(self, epsilon: float = 1e-6, scale: bool = True, offset: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = checks.number("epsilon", epsilon, above=0)
        self.scale = scale
        self.offset = offset
        self.supports_masking = True

    def build(self, inputs_shape):
        if self.scale:
            start = keras.initializers.Constant(1.0 - self.offset)
            shape = (inputs_shape[-1],)
            self.gamma = self.add_weight(name="gamma", shape=shape, initializer=start)
        self.built = True

    def call(self, inputs):
        gamma = self.gamma if self.scale else None
        return backend.rms_norm(inputs, gamma, self.offset, self.epsilon)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape


# The name in a `Config` -> the layer, and its arguments beside `epsilon`.
NORMS = {
    "layer_norm": (keras.layers.LayerNormalization, {}),
    "layer_norm_without_bias": (keras.layers.LayerNormalization, {"center": False}),
    "rms_norm": (RMSNormalization, {}),
    "rms_norm_plus_one": (RMSNormalization, {"offset": 1.0}),
    "rms_norm_without_scale": (RMSNormalization, {"scale": False}),
}


def normalization(kind="layer_norm", epsilon=1e-6, **kwargs):
    """Makes the normalization layer that a config names.

    `kind`: "layer_norm"; "layer_norm_without_bias" (ModernBERT); "rms_norm"; "rms_norm_plus_one",
    with a factor 1 + gamma (Gemma); "rms_norm_without_scale" (RoFormerV2). `kwargs`: of
    `keras.layers.Layer`. Returns a layer from (..., D) to (..., D).
    """
    checks.choice("kind", kind, sorted(NORMS))
    layer, arguments = NORMS[kind]
    return layer(epsilon=epsilon, **arguments, **kwargs)


def unit(vectors):
    """Vectors divided by their length, in float32. A zero vector stays, and its gradient is finite,
    where that of a norm would be NaN."""
    vectors = ops.cast(vectors, "float32")
    squares = ops.sum(vectors * vectors, axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, 1e-12))


@keras.saving.register_keras_serializable(package="keras_posenc")
class UnitLength(keras.layers.UnitNormalization):
    """Keras' layer for the last axis, with a finite gradient of a zero vector, as that of a text of
    padding."""

    def call(self, inputs):
        return unit(inputs)
