"""AdamW: by fused kernels, decay of matrices only, clipped gradients, rates by depth."""

import re

import keras

from keras_posenc import backend
from keras_posenc.backend.keras_names import has_moments, index_of, is_decayed, moments


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


_NO_DECAY = {"bias", "gamma", "beta"}


def adamw(model, learning_rate, weight_decay=0.01, clip=1.0, rates=None, use_ema=False):
    """Makes a `FusedAdamW` for `model`, without decay of biases, norms and position embeddings.

    Weight decay would shrink position embeddings that few texts reach, which are the ones that long
    texts need.

    Args:
        model: a built `keras.Model`.
        learning_rate: float or `LearningRateSchedule`.
        weight_decay: float. Decoupled: each step subtracts rate * weight_decay * weight.
        clip: float or None. Maximum global norm of the gradients.
        rates: dict, pattern of variable paths -> factor of the learning rate, as in
            `LayerwiseAdamW`, for example from `rates_by_depth`. None: one rate.
        use_ema: bool. Whether it averages the weights over the steps, see
            `keras.optimizers.Optimizer`.

    Returns:
        A `FusedAdamW`, or with `rates` a `LayerwiseAdamW`.

    Example:

    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile(adamw(model, 1e-3), "mse")
    """
    arguments = dict(weight_decay=weight_decay, epsilon=1e-6, global_clipnorm=clip, use_ema=use_ema)
    if rates is None:
        optimizer = FusedAdamW(learning_rate, **arguments)
    else:
        optimizer = LayerwiseAdamW(learning_rate, rates=rates, **arguments)
    return without_decay(optimizer, model)


def without_decay(optimizer, model):
    """The optimizer, without weight decay for the variables that `adamw` excludes."""
    # By variable, not by name: Keras matches names without their layer, and the position table is
    # called `embeddings` like the token table.
    optimizer.exclude_from_weight_decay(
        [variable for variable in model.trainable_variables if not decays(variable.path)]
    )
    return optimizer


def decays(path):
    """Whether weight decay applies to the variable at this path."""
    return path.split("/")[-1] not in _NO_DECAY and "Embedding-Position" not in path


@keras.saving.register_keras_serializable(package="keras_posenc")
class LayerwiseAdamW(FusedAdamW):
    """AdamW with a learning rate scaled per variable.

    A variable's update and decay use factor * rate, with the factor of the first pattern found in
    its path, else 1; a factor of 0 freezes it. `keras.optimizers.MultiOptimizer` (Keras 3.15) gives
    each group of variables an optimizer of its own; here one schedule drives all, callbacks may set
    `learning_rate`, and `global_clipnorm` clips the gradients of all groups together.

    Args:
        learning_rate: float or `LearningRateSchedule`.
        rates: dict, regular expression -> factor, tried in order with `re.search` on
            `variable.path`.
        name: str.
        **kwargs: of `keras.optimizers.AdamW`.

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
        """The factor of the learning rate of a model variable."""
        return self._factors[index_of(self, variable)]

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate * self.factor(variable))

    def get_config(self):
        return {**super().get_config(), "rates": self.rates}


def rates_by_depth(model, decay):
    """Returns factors of the learning rate that decay from the head down to the embeddings.

    Block i of n gets decay^(n - i), the embeddings decay^(n + 1), layers after the blocks 1.
    Decoder blocks count as stacked on the encoder's.

    Args:
        model: a model of this package, or one that contains it.
        decay: float in (0, 1]. ELECTRA uses 0.8 for the smaller models and 0.9 for the largest.
            Later work uses 0.95.

    Returns:
        dict for `LayerwiseAdamW(rates=...)` or `adamw(rates=...)`.

    Example:

    >>> rates_by_depth(build_transformer_model("bert"), 0.5)  # a model of one block
    {'Embedding-': 0.25, 'Transformer-0-': 0.5}

    Reference: [ELECTRA](https://arxiv.org/abs/2003.10555), appendix B.
    """
    if not 0 < decay <= 1:
        raise ValueError(f"`decay` must be above 0 and at most 1. Received: {decay}")
    matches = [
        match
        for variable in model.trainable_variables
        if (match := re.search(r"(Transformer|Encoder|Decoder)-(\d+)-", variable.path))
    ]
    # Encoder blocks before decoder blocks, each in numerical order.
    kinds = {match[0]: (match[1] == "Decoder", int(match[2])) for match in matches}
    blocks = sorted(kinds, key=kinds.get)
    if not blocks:
        raise ValueError(
            "The model trains no variable of a block, whose path would hold 'Transformer-0-': "
            "leave `layer_decay` out, freeze fewer layers, or give `rates`, factors by patterns."
        )
    names = ["Embedding-", *blocks]
    return {name: decay ** (len(names) - depth) for depth, name in enumerate(names)}
