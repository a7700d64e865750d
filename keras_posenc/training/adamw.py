"""AdamW by the backend's own kernel: one pass over each weight instead of ten."""

import keras


@keras.saving.register_keras_serializable(package="keras_posenc")
class FusedAdamW(keras.optimizers.AdamW):
    """`keras.optimizers.AdamW`, its step computed by the fused kernels of TensorFlow and torch.

        m += (1 - beta_1) (g - m),  v += (1 - beta_2) (g^2 - v)
        w -= rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon)

    The same formula on the same variables as Keras', so that the numbers differ by rounding only
    and either can go on where the other stopped. Keras on a CPU reads and writes each weight, its
    gradient and moments some ten times a step; JAX fuses that by itself and is left alone. The
    gradients of one row of a `keras.layers.Embedding` are added up before they are squared, which
    Keras leaves out on TensorFlow.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        **kwargs: of `keras.optimizers.AdamW`. With `amsgrad=True` the step is Keras' own.

    Example:

    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile(FusedAdamW(1e-3, weight_decay=0.01), "mse")

    Reference: [Decoupled Weight Decay Regularization](https://arxiv.org/abs/1711.05101).
    """

    def _apply_weight_decay(self, variables):
        """Left to `update_step`, which reads each weight anyway."""

    def update_step(self, gradient, variable, learning_rate):
        decay = self.weight_decay if self._use_weight_decay(variable) else 0.0
        backend = keras.backend.backend()
        if backend == "torch" and not self.amsgrad:
            return self._on_torch(gradient, variable, learning_rate, decay)
        if decay:
            share = keras.ops.cast(learning_rate * decay, variable.dtype)
            self.assign(variable, variable * (1 - share))
        if backend == "tensorflow" and not self.amsgrad:
            return self._on_tensorflow(gradient, variable, learning_rate)
        super().update_step(gradient, variable, learning_rate)

    def _moments(self, variable):
        index = self._get_variable_index(variable)
        return self._momentums[index].value, self._velocities[index].value

    def _on_tensorflow(self, gradient, variable, learning_rate):
        import tensorflow as tf

        m, v = self._moments(variable)
        step = tf.cast(keras.ops.convert_to_tensor(self.iterations) + 1, m.dtype)
        beta_1, beta_2 = tf.cast(self.beta_1, m.dtype), tf.cast(self.beta_2, m.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=(variable.value if isinstance(variable, keras.Variable) else variable).handle,
            m=m.handle,
            v=v.handle,
            beta1_power=tf.pow(beta_1, step),
            beta2_power=tf.pow(beta_2, step),
            lr=tf.cast(learning_rate, m.dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.cast(self.epsilon, m.dtype),
            grad=tf.cast(tf.convert_to_tensor(gradient), m.dtype),
        )

    def _on_torch(self, gradient, variable, learning_rate, decay):
        import torch
        from torch.optim.adamw import adamw

        m, v = self._moments(variable)
        done = keras.ops.convert_to_tensor(self.iterations).to(torch.float32)
        # torch divides sqrt(v) by this root before it adds epsilon, Keras does not.
        root = (1 - self.beta_2 ** (int(done) + 1)) ** 0.5
        with torch.no_grad():
            adamw(
                [variable.value],
                [gradient.to(m.dtype)],
                [m],
                [v],
                [],
                [done.clone()],
                fused=True,
                amsgrad=False,
                beta1=self.beta_1,
                beta2=self.beta_2,
                lr=float(learning_rate),
                weight_decay=decay,
                eps=self.epsilon / root,
                maximize=False,
            )
