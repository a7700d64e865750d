"""Averaging of checkpoints."""

import keras
import numpy as np
from keras import ops


def average_checkpoints(model, paths):
    """Sets the weights of `model` to the mean of several files, such as those of the last epochs.

    Every floating-point variable becomes (w_1 + ... + w_n) / n. Others come from the last file.
    Those that files lack, such as the counters of dropout, stay as they are. The files are those
    of `keras.callbacks.ModelCheckpoint` or `model.save`.

    Averaging happens after training and costs nothing during it, so different sets of files can be
    tried. The alternative in Keras, `use_ema=True` of an optimizer with
    `keras.callbacks.SwapEMAWeights`, averages over every step, with exponential weights, and keeps
    a second copy of the weights while training.

    Args:
        model: a built `keras.Model` with the layers of the saved one; if it is compiled, in the
            same way.
        paths: list of .weights.h5 or .keras files.

    Returns:
        The model. Its optimizer, if it has one, is not averaged: continue training from a single
            file.

    Example:

    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    >>> for epoch in (1, 2):
    ...     model.set_weights([np.array([[float(epoch)]])])
    ...     model.save_weights(f"{epoch}.weights.h5")
    >>> average_checkpoints(model, ["1.weights.h5", "2.weights.h5"]).get_weights()[0].tolist()
    [[1.5]]

    Reference: [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 6.1. It
    averages the last 5 or 20 checkpoints.
    """
    paths = list(paths)
    if not paths:
        raise ValueError("`paths` names no file: give at least one .weights.h5 or .keras file.")
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        # The files contain optimizer variables, and Keras loads all or nothing.
        optimizer.build(model.trainable_variables)
    # Loading sets the optimizer, too. Copies: on PyTorch arrays share their memory with variables.
    everything = [*model.variables, *(optimizer.variables if optimizer is not None else ())]
    before = [np.array(ops.convert_to_numpy(variable)) for variable in everything]
    total = [np.zeros(variable.shape) for variable in _floats(model)]
    try:
        for path in paths:
            model.load_weights(path)
            for number, value in enumerate(_values(model)):
                total[number] += value
    except Exception:
        for variable, value in zip(everything, before, strict=True):
            variable.assign(value)
        raise
    _assign(model, [value / len(paths) for value in total])
    return model


def _floats(model):
    return [v for v in model.variables if keras.backend.is_float_dtype(v.dtype)]


def _values(model):
    """The floating-point variables in float64, in which a sum of bfloat16 loses nothing."""
    return [ops.convert_to_numpy(ops.cast(v, "float32")).astype("float64") for v in _floats(model)]


def _assign(model, values):
    for variable, value in zip(_floats(model), values, strict=True):
        variable.assign(value.astype("float32"))
