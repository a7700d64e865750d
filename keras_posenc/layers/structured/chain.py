"""Sums and best paths over all sequences of tags, from the potentials of a chain.

Potentials are one float32 tensor (B, T, N, N): [b, t, i, j] is the score of tag j at token t after
tag i at the token of the chain before it. Before the first one stands tag 0, and what scores the
first or the last tag is part of those tokens' potentials. A token outside of the chain (padding)
has -inf everywhere; nothing else is -inf.

So a loss, a metric or a decoder needs no weights, no mask and no lengths. This avoids two faults.
On JAX, a metric that read a layer's weights would always see those of the first step. A mask (B, T)
next to a loss (B,) would be applied to the wrong axis if B = T.
"""

import keras
import numpy as np
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.backend.weighing import CLOSED
from keras_posenc.keras_support.configured import Configured
from keras_posenc.layers.structured.label_range import check_labels


def tokens_of_chain(inputs, mask):
    """The tokens of a chain, (B, T) bool, of scores (B, T, ...) and a mask or None."""
    return ops.ones(ops.shape(inputs)[:2], "bool") if mask is None else ops.cast(mask, "bool")


def in_chain(potentials):
    """(B, T) bool: False where a token is outside of the chain."""
    return potentials[:, :, 0, 0] != -np.inf  # NaN is inside, and is to be seen


def outside(potentials, chain_mask):
    """The potentials with every token outside of the chain marked as such."""
    return ops.where(chain_mask[..., None, None], potentials, -np.inf)


def first_and_last(chain_mask):
    """Two (B, T) bools: the first and the last token of each chain."""
    count = ops.cumsum(ops.cast(chain_mask, "int32"), axis=1)
    return chain_mask & (count == 1), chain_mask & (count == count[:, -1:])


def before(chain_mask):
    """(B, T) int32: for each token of the chain, the index of the one before it; 0 at the first."""
    length = ops.shape(chain_mask)[1]
    place = ops.arange(length, dtype="int32")
    order = ops.argsort(ops.where(chain_mask, place, place + length), axis=1)
    rank = ops.cumsum(ops.cast(chain_mask, "int32"), axis=1) - 2
    return ops.take_along_axis(ops.cast(order, "int32"), ops.maximum(rank, 0), axis=1)


def log_loss(potentials, tags):
    """-log p(tags): log sum exp of all paths - log sum exp of those that agree with the tags.

    `potentials`: (B, T, N, N). `tags`: (B, T) integers; a negative one agrees with every tag.
    Returns float32 (B,).
    """
    if 0 in potentials.shape[:2]:
        return ops.sum(ops.cast(potentials, "float32"), axis=(1, 2, 3))
    steps, chain_mask = _steps(potentials)
    known = (chain_mask & (tags >= 0))[..., None]
    other = known & (tags[..., None] != ops.arange(steps.shape[-1], dtype=tags.dtype))
    closed = ops.transpose(ops.where(other, CLOSED, 0.0), (1, 0, 2))
    # Keras cannot scan several tensors of unknown length on TensorFlow, so one holds both.
    steps = ops.concatenate([steps, closed[:, :, None]], axis=2)
    free_or_not = ops.cast(np.array([0.0, 1.0]).reshape(2, 1, 1), "float32")

    def after(carry, step):
        sums, total = carry
        sums = ops.logsumexp(sums[..., None] + step[:, :-1], axis=-2) + free_or_not * step[:, -1]
        # What is taken out of both sums grows with the length; its difference does not.
        top = ops.stop_gradient(ops.max(sums, axis=-1))
        return (sums - top[..., None], total + top[0] - top[1]), None

    start = ops.stack([_before_first(steps)] * 2)
    (sums, total), _ = ops.scan(after, (start, ops.zeros_like(start[0, :, 0])), steps)
    sums = ops.logsumexp(sums, axis=-1)
    return total + sums[0] - sums[1]


def best_tags(potentials):
    """The tags of the best path (Viterbi), (B, T) int32; -1 outside of the chain."""
    if 0 in potentials.shape[:2]:
        return ops.cast(potentials[:, :, 0, 0], "int32")
    steps, chain_mask = _steps(potentials)

    def forth(best, step):
        after = ops.max(best[..., None] + step, axis=-2)
        return after - ops.max(after, axis=-1, keepdims=True), best

    def back(tag, into):
        return _argmax(ops.take_along_axis(into, tag[:, None, None], axis=-1)[..., 0]), tag

    last, best = ops.scan(forth, _before_first(steps), steps)
    _, tags = ops.scan(back, _argmax(last), best[..., None] + steps, reverse=True)
    return ops.where(chain_mask, ops.transpose(tags), -1)


def tag_probabilities(potentials):
    """p(tag j at token t) over all paths, float32 (B, T, N); 0 outside of the chain."""
    if 0 in potentials.shape[:2]:
        return ops.cast(potentials[:, :, 0], "float32")
    steps, chain_mask = _steps(potentials)

    def normal(sums):
        return sums - ops.max(sums, axis=-1, keepdims=True)

    def forth(sums, step):
        sums = normal(ops.logsumexp(sums[..., None] + step, axis=-2))
        return sums, sums

    def back(sums, step):
        return normal(ops.logsumexp(sums[:, None] + step, axis=-1)), sums

    start = _before_first(steps)
    _, left = ops.scan(forth, start, steps)
    _, right = ops.scan(back, ops.zeros_like(start), steps, reverse=True)
    shares = ops.transpose(ops.softmax(left + right, axis=-1), (1, 0, 2))
    return ops.where(chain_mask[..., None], shares, 0.0)


def check_potentials(shape):
    """Raises ValueError unless a shape can be that of potentials."""
    if len(shape) != 4 or shape[2] != shape[3] or (shape[3] or 0) < 2:
        raise ValueError(
            "Expected potentials (B, T, N, N), as ConditionalRandomField and "
            f"MaximumEntropyMarkovModel return them. Received: {tuple(shape)}"
        )


def checked_tags(tags, potentials):
    """Tags (B, T) int32, of (B, T) or (B, T, 1), checked against the potentials."""
    tags = ops.convert_to_tensor(tags)
    if len(tags.shape) == 3 and tags.shape[-1] == 1:
        tags = ops.squeeze(tags, axis=-1)
    check_potentials(potentials.shape)
    length, count = potentials.shape[1], potentials.shape[3]
    if len(tags.shape) != 2 or None not in (tags.shape[1], length) and tags.shape[1] != length:
        raise ValueError(
            f"Each of the {'' if length is None else f'{length} '}tokens of a text needs one tag, "
            "an integer (pad them with -1); one-hot tags need an argmax. Received tags of shape "
            f"{tuple(tags.shape)} for potentials {tuple(potentials.shape)}"
        )
    remedy = "Negative ones are unknown; the layer before the chain has a unit for each tag."
    return check_labels(ops.cast(tags, "int32"), count, "Tag", remedy)


def _steps(potentials):
    """Potentials by time (T, B, N, N), which outside of the chain change nothing, and the chain."""
    chain_mask = in_chain(potentials)
    stay = ops.cast(np.where(np.eye(potentials.shape[-1]), 0.0, CLOSED), "float32")
    steps = ops.where(chain_mask[..., None, None], ops.cast(potentials, "float32"), stay)
    return ops.transpose(steps, (1, 0, 2, 3)), chain_mask


def _before_first(steps):
    """(B, N): the sums before the first token, where tag 0 stands."""
    only = ops.cast(np.where(np.arange(steps.shape[-1]), CLOSED, 0.0), "float32")
    return ops.zeros_like(steps[0, :, 0]) + only


def _argmax(x):
    return ops.cast(ops.argmax(x, axis=-1), "int32")


class Chain(Configured, keras.layers.Layer):
    """Base of the layers from tag scores (B, T, N) to the potentials (B, T, N, N) of a chain.

    Args:
        lr_multiplier: float. How many times faster the weights learn under an optimizer such as
            Adam, whose steps do not grow with the gradient: a weight w is stored as w /
            lr_multiplier.
        initializer: initializer of the transitions.
    """

    def __init__(self, lr_multiplier=1.0, initializer="glorot_uniform", **kwargs):
        # Sums over paths are in float32 under every policy.
        super().__init__(autocast=False, **kwargs)
        self.lr_multiplier = checks.number("lr_multiplier", lr_multiplier, above=0)
        self.initializer = keras.initializers.get(initializer)
        self.supports_masking = True

    def build(self, inputs_shape):
        if len(inputs_shape) != 3 or (inputs_shape[-1] or 0) < 2:
            raise ValueError(
                f"{type(self).__name__} takes the scores (B, T, N) of N tags, at least 2. "
                f"Received: {tuple(inputs_shape)}"
            )
        self.num_tags = inputs_shape[-1]

    def add_scores(self, name, shape, initializer=None):
        """Creates a weight that learns `lr_multiplier` times as fast; `meant` gives its value."""
        # An unseeded instance draws the same values every time.
        initializer = initializer or self.initializer.clone()

        def divided(shape, dtype=None):
            return initializer(shape, dtype) / self.lr_multiplier

        stored = self.add_weight(name=name, shape=shape, initializer=divided, autocast=False)
        setattr(self, f"stored_{name}", stored)  # `tf.train.Checkpoint` reads no lists
        return stored

    def meant(self, stored):
        """The float32 value of a weight of `add_scores`."""
        return ops.cast(stored, "float32") * self.lr_multiplier

    def compute_mask(self, inputs, mask=None):
        """None: the potentials know what is outside of the chain."""
        return None

    def compute_output_spec(self, inputs, mask=None):
        return keras.KerasTensor((*inputs.shape, inputs.shape[-1]), dtype="float32")

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape, inputs_shape[-1])
