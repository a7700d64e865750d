"""A maximum-entropy Markov model over the tags of a sequence, read from both ends."""

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.backend.weighing import CLOSED
from keras_posenc.layers.structured.chain import (
    Chain,
    before,
    first_and_last,
    outside,
    tokens_of_chain,
)


@keras.saving.register_keras_serializable(package="keras_posenc")
class MaximumEntropyMarkovModel(Chain):
    """A maximum-entropy Markov model (MEMM) of tags, which reads the sequence from both ends.

        p(y_t | y_(t-1)) = softmax((x_t + A[y_(t-1)]) / 2),
        p(y_t | y_(t+1)) = softmax((x_t + A[:, y_(t+1)]) / 2).

    `A` are the trained transitions; at either end the probability is softmax(x_t). The score of a
    sequence is the mean of both log-likelihoods. Each step is normalized separately, so there is no
    sum over paths. Therefore training needs no loop over the length, where a
    `ConditionalRandomField` takes one step per token. The two neighbours of a tag enter two
    softmaxes instead of one.

    The outputs are the potentials, the terms of that mean. Train them with
    `MaximumEntropyMarkovLoss` and decode them with `ViterbiDecoder`, which need nothing else.
    Tokens that the mask leaves out are not part of the chain.

    Args:
        rank: int or None. A = L R' with L and R of shape (N, rank), for many tags; None trains A.
        lr_multiplier: float. How many times faster the transitions learn than without, under Adam.
            They are stored divided by it.
        initializer: initializer of the transitions.

    Call arguments:
        inputs: (B, T, N), the scores (logits) of N tags, as a dense layer gives them.
        mask: (B, T) bool, False on tokens outside of the chain. Set by Keras.

    Returns:
        float32 (B, T, N, N): [b, t, i, j] is the score of tag j at token t after tag i; -inf
        outside of the chain.

    Example:

    >>> scores = np.random.normal(size=(2, 6, 5))
    >>> potentials = MaximumEntropyMarkovModel()(scores)
    >>> potentials.shape, ViterbiDecoder()(potentials).shape
    ((2, 6, 5, 5), (2, 6))

    Reference: McCallum et al., [Maximum Entropy Markov Models for Information Extraction and
    Segmentation](https://dl.acm.org/doi/10.5555/645529.658277), 2000; both directions and the
    halves as in bert4keras.
    """

    def __init__(
        self,
        rank: int | None = None,
        lr_multiplier: float = 1.0,
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(lr_multiplier, initializer, **kwargs)
        self.rank = None if rank is None else checks.whole("rank", rank)

    def build(self, inputs_shape):
        super().build(inputs_shape)
        n = self.num_tags
        if self.rank is None:
            self.stored = [self.add_scores("transitions", (n, n))]
        else:
            self.stored = [self.add_scores(name, (n, self.rank)) for name in ("left", "right")]
        self.built = True

    def call(self, inputs, mask=None):
        scores = ops.maximum(ops.cast(inputs, "float32"), CLOSED)
        chain_mask = tokens_of_chain(scores, mask)
        first, last = first_and_last(chain_mask)
        earlier = ops.take_along_axis(scores, before(chain_mask)[..., None], axis=1)
        forth = ops.log_softmax((scores[:, :, None] + self.transitions) / 2, axis=3)
        back = ops.log_softmax((earlier[..., None] + self.transitions) / 2, axis=2)
        ends = ops.log_softmax(scores, axis=-1)[:, :, None]
        sums = ops.where(first[..., None, None], ends, forth + back)
        return outside((sums + ops.where(last[..., None, None], ends, 0.0)) / 2, chain_mask)

    @property
    def transitions(self):
        """float32 (N, N): the score of tag j after tag i, or of i before j."""
        if self.rank is None:
            return self.meant(self.stored[0])
        left, right = map(self.meant, self.stored)
        return ops.matmul(left, ops.transpose(right))
