"""AdamW as BERT is fine-tuned: decay on the matrices only, clipped gradients."""

import keras

_WITHOUT_DECAY = {"bias", "gamma", "beta"}


def adamw(model, learning_rate, weight_decay=0.01, clip=1.0):
    """`keras.optimizers.AdamW` for `model`, without decay on biases, norms and position embeddings.

    A decayed position table would shrink rows that few texts reach, and those are the rows that a
    long model is made for.

    Args:
        model: a built `keras.Model`.
        learning_rate: float or `LearningRateSchedule`.
        weight_decay: float. Decoupled: each step subtracts rate * weight_decay * weight.
        clip: float or None. Bound of the norm of all gradients together.

    Returns:
        A `keras.optimizers.AdamW`.

    Example:

    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile(adamw(model, 1e-3), "mse")
    """
    optimizer = keras.optimizers.AdamW(
        learning_rate, weight_decay=weight_decay, epsilon=1e-6, global_clipnorm=clip
    )
    # By variable and not by name: Keras matches names without their layer, and the position table
    # is called `embeddings` like the token table.
    optimizer.exclude_from_weight_decay(
        [variable for variable in model.trainable_variables if not decays(variable.path)]
    )
    return optimizer


def decays(path):
    """Whether the weight at this path of Keras variables is decayed."""
    return path.split("/")[-1] not in _WITHOUT_DECAY and "Embedding-Position" not in path
