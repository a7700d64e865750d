"""Where the numbers are."""

import keras


def on_accelerator(x):
    """Whether a tensor is computed on a GPU or a TPU."""
    backend = keras.backend.backend()
    if backend == "torch":
        return x.device.type != "cpu"
    if backend == "jax":
        import jax

        return jax.default_backend() != "cpu"
    import tensorflow as tf

    return bool(tf.config.list_logical_devices("GPU"))
