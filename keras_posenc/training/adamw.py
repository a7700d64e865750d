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

    def update_step(self, gradient, variable, learning_rate):
        kernel = None if self.amsgrad else KERNELS.get(keras.backend.backend())
        if kernel is None:
            return super().update_step(gradient, variable, learning_rate)
        index = self._get_variable_index(variable)
        moments = self._momentums[index], self._velocities[index]
        kernel(self, gradient, variable, *moments, learning_rate)


def _on_tensorflow(optimizer, gradient, variable, m, v, learning_rate):
    import tensorflow as tf

    dtype = m.value.dtype
    step = tf.cast(optimizer.iterations.value + 1, dtype)
    tf.raw_ops.ResourceApplyAdam(
        var=(variable.value if isinstance(variable, keras.Variable) else variable).handle,
        m=m.value.handle,
        v=v.value.handle,
        beta1_power=tf.pow(tf.cast(optimizer.beta_1, dtype), step),
        beta2_power=tf.pow(tf.cast(optimizer.beta_2, dtype), step),
        lr=tf.cast(learning_rate, dtype),
        beta1=tf.cast(optimizer.beta_1, dtype),
        beta2=tf.cast(optimizer.beta_2, dtype),
        epsilon=tf.cast(optimizer.epsilon, dtype),
        grad=tf.cast(tf.convert_to_tensor(gradient), dtype),
    )


def _on_torch(optimizer, gradient, variable, m, v, learning_rate):
    import torch
    from torch.optim.adam import adam

    done = optimizer.iterations.value.to(torch.float32)
    # torch divides sqrt(v) by this root before it adds epsilon, Keras does not.
    root = (1 - optimizer.beta_2 ** (int(done) + 1)) ** 0.5
    with torch.no_grad():
        adam(
            [variable.value],
            [gradient.to(m.value.dtype)],
            [m.value],
            [v.value],
            [],
            [done.clone()],
            fused=True,
            amsgrad=False,
            beta1=optimizer.beta_1,
            beta2=optimizer.beta_2,
            lr=float(learning_rate),
            weight_decay=0.0,
            eps=optimizer.epsilon / root,
            maximize=False,
        )


KERNELS = {"tensorflow": _on_tensorflow, "torch": _on_torch}
