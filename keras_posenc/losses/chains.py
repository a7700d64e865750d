"""Losses and a metric on the potentials of a chain of tags."""

import keras
from keras import ops

from keras_posenc.layers.structured.chain import (
    before,
    best_tags,
    checked_tags,
    first_and_last,
    in_chain,
    log_loss,
)
from keras_posenc.layers.structured.label_range import mark_missing_labels
from keras_posenc.losses.smoothed import Counted


@keras.saving.register_keras_serializable(package="keras_posenc")
class ConditionalRandomFieldLoss(keras.losses.Loss):
    """The negative log-likelihood of the tags in a conditional random field.

    loss = log sum_y' exp(s(y')) - log sum_y exp(s(y)), where y' are all paths and y those that
    agree with the given tags. With a tag for each token that is -log p(y); a token with a negative
    tag (-1, or -100 as in Hugging Face) stands in the chain with any tag. It is one number per
    text, so that long texts weigh more.

    Sample weights are one number per text, (B,), or (B, T) as from `TagLabels`: a token of weight 0
    then stands in the chain with any tag, and the largest weight is that of the text.

    Args:
        reduction: as in `keras.losses.Loss`, over the texts.
        name: str.
        dtype: dtype of the result. The sums over paths are float32.

    Call arguments:
        y_true: (B, T) or (B, T, 1) integers, the tags from 0 to N - 1; negative ones are unknown.
            What stands outside of the chain does not matter.
        y_pred: (B, T, N, N), the potentials of a `ConditionalRandomField`.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> potentials = ConditionalRandomField(initializer="zeros")(np.zeros((1, 3, 2)))
    >>> loss = ConditionalRandomFieldLoss()(np.array([[0, 1, 1]]), potentials)
    >>> f"{ops.convert_to_numpy(loss):.4f}"
    '2.0794'
    """

    def __init__(
        self, reduction="sum_over_batch_size", name="conditional_random_field_loss", dtype=None
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def __call__(self, y_true, y_pred, sample_weight=None):
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight)
            shape = tuple(sample_weight.shape)
            length = ops.convert_to_tensor(y_pred).shape[1]
            if len(shape) > 2 or len(shape) == 2 and shape[1] not in (None, 1, length):
                raise ValueError(
                    "A conditional random field takes one sample weight per text, (B,), or one per "
                    f"token, (B, T), for potentials of {length} tokens. Received: {shape}"
                )
            if len(shape) == 2:
                tags = checked_tags(y_true, ops.convert_to_tensor(y_pred))
                y_true = ops.where(sample_weight > 0, tags, -1)
                sample_weight = (ops.sum if 0 in shape else ops.max)(sample_weight, axis=1)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true, y_pred):
        tags = checked_tags(y_true, y_pred)
        return mark_missing_labels(log_loss(y_pred, tags), tags, y_pred.shape[-1])


@keras.saving.register_keras_serializable(package="keras_posenc")
class MaximumEntropyMarkovLoss(keras.losses.Loss):
    """The negative log-likelihood of the tags in a maximum-entropy Markov model, of both ends.

    loss = -1/2 sum_t (log p(y_t | y_(t-1)) + log p(y_t | y_(t+1))), averaged over the tokens.

    Args:
        reduction: as in `keras.losses.Loss`, over the tokens of the chain whose tag and the tag
            before it are known.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, T) or (B, T, 1) integers, the tags from 0 to N - 1; negative ones are unknown.
            What stands outside of the chain does not matter.
        y_pred: (B, T, N, N), the potentials of a `MaximumEntropyMarkovModel`.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> potentials = MaximumEntropyMarkovModel(initializer="zeros")(np.zeros((1, 3, 2)))
    >>> loss = MaximumEntropyMarkovLoss()(np.array([[0, 1, 1]]), potentials)
    >>> f"{ops.convert_to_numpy(loss):.4f}"
    '0.6931'
    """

    def __init__(
        self, reduction="sum_over_batch_size", name="maximum_entropy_markov_loss", dtype=None
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self._counted = Counted(autocast=False)

    def call(self, y_true, y_pred):
        tags, chain_mask = checked_tags(y_true, y_pred), in_chain(y_pred)
        earlier = ops.take_along_axis(tags, before(chain_mask), axis=1)
        earlier = ops.where(first_and_last(chain_mask)[0], 0, earlier)
        known = chain_mask & (tags >= 0) & (earlier >= 0)
        scores = ops.take_along_axis(y_pred, ops.maximum(earlier, 0)[..., None, None], axis=2)
        scores = ops.take_along_axis(scores, ops.maximum(tags, 0)[..., None, None], axis=3)
        losses = ops.where(known, -scores[..., 0, 0], 0.0)
        return self._counted([mark_missing_labels(losses, tags, y_pred.shape[-1]), known])


@keras.saving.register_keras_serializable(package="keras_posenc")
class ViterbiAccuracy(keras.metrics.Mean):
    """The share of tokens whose tag the best path through a chain finds.

    Tokens outside of the chain and those with a negative tag do not count. The best path takes two
    passes over the tokens, one after another.

    Args:
        name: str.
        dtype: dtype of the result.

    Example:

    >>> metric = ViterbiAccuracy()
    >>> scores = np.array([[[2.0, 0.0], [0.0, 3.0], [0.5, 0.0]]])
    >>> potentials = ConditionalRandomField(initializer="zeros")(scores)
    >>> metric.update_state(np.array([[0, 0, -1]]), potentials)
    >>> float(metric.result())
    0.5
    """

    def __init__(self, name="viterbi_accuracy", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
            y_true: (B, T) or (B, T, 1) integers, the tags; negative ones are unknown.
            y_pred: (B, T, N, N), the potentials of a chain.
            sample_weight: (B,) or (B, T), or None.
        """
        y_pred = ops.convert_to_tensor(y_pred)
        tags = checked_tags(y_true, y_pred)
        counts = ops.cast(in_chain(y_pred) & (tags >= 0), "float32")
        if sample_weight is not None:
            weight = ops.cast(sample_weight, "float32")
            counts = counts * (weight if len(weight.shape) > 1 else weight[:, None])
        right = ops.ravel(ops.equal(best_tags(y_pred), tags))  # else Keras takes means of texts
        super().update_state(right, sample_weight=ops.ravel(counts))

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype}
