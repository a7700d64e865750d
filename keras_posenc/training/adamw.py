"""AdamW computed by the backend's fused kernel: each weight is read once instead of ten times."""

import keras

from keras_posenc import backend
from keras_posenc.backend.keras_names import has_moments, is_decayed, moments


@keras.saving.register_keras_serializable(package="keras_posenc")
class FusedAdamW(keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` with the fused kernels of TensorFlow and PyTorch.

        m += (1 - beta_1) (g - m),  v += (1 - beta_2) (g^2 - v)
        w -= rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon).

    It computes the formula of Keras with the variables of Keras. The results differ by rounding
    only, and each optimizer can continue from the state of the other. On a CPU, Keras reads and
    writes each weight, its gradient and its moments about ten times per step. JAX fuses these
    operations itself, so nothing changes there. Repeated rows in the gradient of a
    `keras.layers.Embedding` are summed before they are squared, which Keras omits on TensorFlow.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        **kwargs: Arguments of `keras.optimizers.AdamW`. With `amsgrad=True` Keras computes the
            step.

    Example:

    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile(FusedAdamW(1e-3, weight_decay=0.01), "mse")

    Reference: [Decoupled Weight Decay Regularization](https://arxiv.org/abs/1711.05101).
    """

    def _apply_weight_decay(self, variables):
        """Does nothing: `update_step` reads each weight anyway and applies the decay."""
        if not has_moments(self):
            super()._apply_weight_decay(variables)

    def _backend_update_step(self, gradients, variables, learning_rate):
        """All weights by one kernel, where each call of one costs time."""
        if not backend.TRAITS.eager or not has_moments(self) or self.amsgrad:
            super()._backend_update_step(gradients, variables, learning_rate)
            return
        factors = [self.factor(variable) for variable in variables]
        for factor in dict.fromkeys(factors):
            chosen = [i for i, each in enumerate(factors) if each == factor]
            some = [variables[i] for i in chosen]
            decays = [self.weight_decay if is_decayed(self, v) else 0.0 for v in some]
            rate = learning_rate if factor == 1 else learning_rate * factor
            backend.adamw_step(self, [gradients[i] for i in chosen], some, rate, decays)

    def factor(self, variable):
        """The factor of the learning rate of a model variable."""
        return 1.0

    def update_step(self, gradient, variable, learning_rate):
        if not has_moments(self):
            super().update_step(gradient, variable, learning_rate)
            return
        decay = self.weight_decay if is_decayed(self, variable) else 0.0
        if backend.adamw_step(self, [gradient], [variable], learning_rate, [decay]):
            return
        if decay:
            self.decay(variable, learning_rate, decay)
        super().update_step(gradient, variable, learning_rate)

    def decay(self, variable, learning_rate, decay):
        """Multiplies a weight by 1 - learning_rate decay."""
        share = keras.ops.cast(learning_rate * decay, variable.dtype)
        self.assign(variable, variable * (1 - share))

    def moments(self, variable):
        """The backend's variables m and v of a weight."""
        return tuple(each.value for each in moments(self, variable))
