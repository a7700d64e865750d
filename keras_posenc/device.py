"""Where the numbers are."""

import keras


def on_accelerator(x):
    """Whether a tensor, or on TensorFlow and JAX the program, is computed on an accelerator."""
    backend = keras.backend.backend()
    if backend == "torch":
        return x.device.type != "cpu"
    if backend == "jax":
        import jax

        return jax.default_backend() != "cpu"
    import tensorflow as tf

    return bool(tf.config.list_logical_devices("GPU"))
