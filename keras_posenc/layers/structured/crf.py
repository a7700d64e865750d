"""A conditional random field over the tags of a sequence."""

import keras
from keras import ops

from keras_posenc.arguments.hints import Initializer
from keras_posenc.backend.weighing import CLOSED
from keras_posenc.layers.structured.chain import Chain, first_and_last, outside, tokens_of_chain


@keras.saving.register_keras_serializable(package="keras_posenc")
class ConditionalRandomField(Chain):
    """A linear-chain conditional random field (CRF) on the scores of tags.

    p(y) = exp(s(y)) / sum_y' exp(s(y')), s(y) = start[y_1] + sum_t x_t[y_t] + sum_t A[y_(t-1), y_t]
    + end[y_T], with trained transitions A, start and end.

    The outputs are the potentials: x, A, start and end in one tensor. Train them with
    `ConditionalRandomFieldLoss`, and decode them with `ViterbiDecoder` (the best tags) or
    `ChainMarginals` (probabilities), which need nothing else. Tokens that the mask leaves out,
    padding or not, are not part of the chain: their left and right neighbours become adjacent.

    Args:
        boundaries: bool. Whether there are scores of the first and of the last tag.
        lr_multiplier: float. How many times faster the weights learn under Adam, because the rate
            that suits an encoder is too slow for transitions. They are stored divided by it.
        initializer: Initializer of the transitions; start and end are initialised to zero.

    Call arguments:
        inputs: (B, T, N), the scores (logits) of N tags, as a dense layer gives them.
        mask: (B, T) bool, False on tokens outside of the chain. Set by Keras.

    Returns:
        float32 (B, T, N, N): [b, t, i, j] is the score of tag j at token t after tag i; -inf
        outside of the chain.

    Example:

    >>> inputs = keras.Input((None,))
    >>> x = keras.layers.Embedding(100, 16, mask_zero=True)(inputs)
    >>> crf = ConditionalRandomField()(keras.layers.Dense(5)(x))
    >>> model = keras.Model(inputs, crf)
    >>> model.compile("adam", ConditionalRandomFieldLoss(), metrics=[ViterbiAccuracy()])
    >>> tagger = keras.Model(inputs, ViterbiDecoder()(crf))
    >>> tagger.predict(np.array([[3, 7, 9, 0]]), verbose=0).shape
    (1, 4)

    Reference: Lafferty et al., [Conditional Random
    Fields](https://repository.upenn.edu/cis_papers/159), 2001. The factor `lr_multiplier` is from
    Su Jianlin, [Your CRF layer may learn too slowly](https://kexue.fm/archives/7196), 2020.
    """

    def __init__(
        self,
        boundaries: bool = True,
        lr_multiplier: float = 1.0,
        initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(lr_multiplier, initializer, **kwargs)
        self.boundaries = boundaries

    def build(self, inputs_shape):
        super().build(inputs_shape)
        n = self.num_tags
        self.add_scores("transitions", (n, n))
        if self.boundaries:
            for name in ("start", "end"):
                self.add_scores(name, (n,), keras.initializers.Zeros())
        self.built = True

    def call(self, inputs, mask=None):
        # Scores that are closed already are not to look as if a token were outside.
        scores = ops.maximum(ops.cast(inputs, "float32"), CLOSED)
        chain_mask = tokens_of_chain(scores, mask)
        first, last = first_and_last(chain_mask)
        start = ops.zeros((self.num_tags,), "float32")
        if self.boundaries:
            start = self.meant(self.stored_start)
            scores = scores + ops.where(last[..., None], self.meant(self.stored_end), 0.0)
        transitions = ops.where(first[..., None, None], start, self.transitions)
        return outside(transitions + scores[:, :, None], chain_mask)

    @property
    def transitions(self):
        """float32 (N, N): the score of tag j after tag i."""
        return self.meant(self.stored_transitions)
