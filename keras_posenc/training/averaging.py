"""The mean of several checkpoints of one training."""

import keras
import numpy as np
from keras import ops


def average_checkpoints(model, paths):
    """Gives `model` the mean of the weights in several files, such as the last five epochs'.

    w = (w_1 + ... + w_n) / n for every variable of floats; others (counters of random numbers) are
    those of the last file. Files come from `keras.callbacks.ModelCheckpoint` or `model.save`.

    Averaging is for the end of a training and costs nothing before it: which files, and how many,
    can be tried afterwards. What Keras has, `use_ema=True` of an optimizer with
    `keras.callbacks.SwapEMAWeights`, is another mean: of every step, the newer the heavier, kept
    beside the weights while training.

    Args:
        model: a built `keras.Model` of the same layers; if it is compiled, as the saved one was.
        paths: list of .weights.h5 or .keras files.

    Returns:
        The model, whose weights are the mean. Its optimizer, if it has one, is not averaged: train
        on from a single file.

    Raises:
        ValueError: if there is no path, or Keras cannot load one; the model is then as it was.

    Example:

    >>> keep = keras.callbacks.ModelCheckpoint("{epoch:02d}.weights.h5", save_weights_only=True)
    >>> model.fit(batches, epochs=20, callbacks=[keep])
    >>> average_checkpoints(model, [f"{epoch}.weights.h5" for epoch in range(16, 21)])

    Reference: [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 6.1, which
    averages the last 5 or 20 checkpoints.
    """
    paths = list(paths)
    if not paths:
        raise ValueError("`paths` names no file: give at least one .weights.h5 or .keras file.")
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        # The files hold the variables of an optimizer, and Keras loads all or nothing.
        optimizer.build(model.trainable_variables)
    before = _values(model)
    total = [np.zeros(value.shape) for value in before]
    try:
        for path in paths:
            model.load_weights(path)
            for number, value in enumerate(_values(model)):
                total[number] += value
    except Exception:
        _assign(model, before)
        raise
    _assign(model, [value / len(paths) for value in total])
    return model


def _floats(model):
    return [v for v in model.variables if keras.backend.is_float_dtype(v.dtype)]


def _values(model):
    """float64, in which a sum of bfloat16 loses nothing."""
    return [ops.convert_to_numpy(ops.cast(v, "float32")).astype("float64") for v in _floats(model)]


def _assign(model, values):
    for variable, value in zip(_floats(model), values, strict=True):
        variable.assign(value.astype("float32"))
