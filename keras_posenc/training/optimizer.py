"""AdamW as BERT is fine-tuned: decay on the matrices only, clipped gradients, rates by layer."""

import re

import keras

from keras_posenc.training.adamw import FusedAdamW

_WITHOUT_DECAY = {"bias", "gamma", "beta"}


def adamw(model, learning_rate, weight_decay=0.01, clip=1.0, rates=None):
    """`FusedAdamW` for `model`, without decay on biases, norms and position embeddings.

    A decayed position table would shrink rows that few texts reach, and those are the rows that a
    long model is made for.

    Args:
        model: a built `keras.Model`.
        learning_rate: float or `LearningRateSchedule`.
        weight_decay: float. Decoupled: each step subtracts rate * weight_decay * weight.
        clip: float or None. Bound of the norm of all gradients together.
        rates: dict, pattern of paths -> factor of the learning rate there, as `LayerwiseAdamW`
            takes it and `rates_by_depth` makes it. None: one rate.

    Returns:
        A `FusedAdamW`, or with `rates` a `LayerwiseAdamW`.

    Example:

    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile(adamw(model, 1e-3), "mse")
    """
    arguments = dict(weight_decay=weight_decay, epsilon=1e-6, global_clipnorm=clip)
    if rates is None:
        optimizer = FusedAdamW(learning_rate, **arguments)
    else:
        optimizer = LayerwiseAdamW(learning_rate, rates=rates, **arguments)
    # By variable and not by name: Keras matches names without their layer, and the position table
    # is called `embeddings` like the token table.
    optimizer.exclude_from_weight_decay(
        [variable for variable in model.trainable_variables if not decays(variable.path)]
    )
    return optimizer


def decays(path):
    """Whether the weight at this path of Keras variables is decayed."""
    return path.split("/")[-1] not in _WITHOUT_DECAY and "Embedding-Position" not in path


@keras.saving.register_keras_serializable(package="keras_posenc")
class LayerwiseAdamW(FusedAdamW):
    """AdamW whose learning rate is scaled variable by variable.

    A variable moves, and decays, at factor * rate: that of the first pattern found in its path,
    else 1; at factor 0 it stays. `keras.optimizers.MultiOptimizer` (Keras 3.15) gives each group of
    variables an optimizer of its own; here one schedule drives all, callbacks may set
    `learning_rate`, and `global_clipnorm` bounds the gradients of all groups together.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        rates: dict, regular expression -> factor, tried in order with `re.search` on
            `variable.path`.
        **kwargs: of `keras.optimizers.AdamW`.

    Raises:
        ValueError: if a factor is negative, or a pattern is in no path when training begins.

    Example:

    >>> model = keras.Sequential([keras.layers.Dense(8, name="body"), keras.layers.Dense(1)])
    >>> model.compile(LayerwiseAdamW(1e-3, rates={"body/": 0.1}), "mse")

    Reference: [Universal Language Model Fine-tuning](https://arxiv.org/abs/1801.06146), section
    3.2.
    """

    def __init__(self, learning_rate=0.001, rates=None, name="layerwise_adamw", **kwargs):
        super().__init__(learning_rate, name=name, **kwargs)
        self.rates = dict(rates or {})
        for pattern, factor in self.rates.items():
            if factor < 0:
                raise ValueError(
                    f"`rates` are factors of the learning rate, at least 0 (which freezes). "
                    f"Received: {factor} for {pattern!r}"
                )

    def build(self, variables):
        paths = [variable.path for variable in variables]
        lost = [p for p in self.rates if not any(re.search(p, path) for path in paths)]
        if lost:
            raise ValueError(
                f"`rates` has the pattern {lost[0]!r}, which is in no path of a trainable "
                f"variable. Paths are like {paths[0]!r}."
            )
        self._factors = [
            next((factor for p, factor in self.rates.items() if re.search(p, path)), 1.0)
            for path in paths
        ]
        super().build(variables)

    def factor(self, variable):
        """The factor of the learning rate for a variable of the model."""
        return self._factors[self._get_variable_index(variable)]

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate * self.factor(variable))

    def get_config(self):
        return {**super().get_config(), "rates": self.rates}


def rates_by_depth(model, decay):
    """Factors of the learning rate that shrink from the head down to the embeddings.

    The block i of n has decay^(n - i), the embeddings decay^(n + 1), what comes after the blocks 1.
    The blocks of a decoder stand on those of its encoder.

    Args:
        model: a model of this package, or one that holds it.
        decay: float in (0, 1]. 0.8 for the smaller ELECTRA models, 0.9 for the largest; 0.95 in
            later work.

    Returns:
        dict for `LayerwiseAdamW(rates=...)` or `adamw(rates=...)`.

    Raises:
        ValueError: if `decay` is not in (0, 1], or the model has no numbered blocks.

    Example:

    >>> rates_by_depth(build_transformer_model(num_hidden_layers=2, ...), 0.5)
    {'Embedding-': 0.125, 'Transformer-0-': 0.25, 'Transformer-1-': 0.5}

    Reference: [ELECTRA](https://arxiv.org/abs/2003.10555), appendix B.
    """
    if not 0 < decay <= 1:
        raise ValueError(f"`decay` must be above 0 and at most 1. Received: {decay}")
    found = [
        match
        for variable in model.trainable_variables
        if (match := re.search(r"(Transformer|Encoder|Decoder)-(\d+)-", variable.path))
    ]
    # Encoder blocks come first, each kind in the order of its numbers.
    kinds = {match[0]: (match[1] == "Decoder", int(match[2])) for match in found}
    blocks = sorted(kinds, key=kinds.get)
    if not blocks:
        raise ValueError(
            "The model has no variable of a block, whose path would hold 'Transformer-0-': give "
            "`rates` by hand, patterns of paths and their factors."
        )
    names = ["Embedding-", *blocks]
    return {name: decay ** (len(names) - depth) for depth, name in enumerate(names)}
