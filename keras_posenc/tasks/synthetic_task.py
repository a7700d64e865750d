"""The base class of tasks: sizes, samples, inputs for a model."""

import numpy as np

TRAIN_LENGTHS = range(1, 41)
TEST_LENGTHS = range(41, 501)


class Task:
    """A distribution of samples (tokens, targets, mask), most of which follow a rule.

    There are two layouts. `causal = False`: the input is the tokens followed by `output_length`
    placeholders, at which the model answers. `causal = True`: the input is the tokens alone, and
    the model answers at each of them without seeing later ones, unless `bidirectional`. Either way
    the answers are the last `output_length` positions.

    A subclass defines the attributes, `_draw(rng, batch_size, length)` -> tokens, and
    `_answer(tokens)` -> targets, mask, which raises ValueError for tokens outside the language.

    Args:
        variant: one of `variants`, where the paper and its published code differ.

    Attributes:
        name: str. The published name.
        level: str or None. Level of the Chomsky hierarchy: "regular", "context_free" or
            "context_sensitive".
        vocabulary_size: int. Token ids are 0 .. vocabulary_size - 1.
        classes: int. Targets are 0 .. classes - 1.
        chance: float. The accuracy of guessing evenly among the answers that occur.
        causal: bool. The layout, see above.
        bidirectional: bool. Whether a causal layout may be answered with later tokens visible.
        is_text: bool. Whether the tokens are those of a text, so that positions differ only in how
            much context they have.
        variants: tuple of str. Names of the variants; the first is the default.
        paper: str. URL of the paper.

    Example:

    >>> class LastToken(Task):
    ...     name, vocabulary_size, classes = "last_token", 5, 5
    ...     def _answer(self, tokens):
    ...         return tokens[:, -1:], np.ones((len(tokens), 1))
    >>> tokens, targets, mask = LastToken().sample(batch_size=2, length=7, seed=0)
    >>> tokens.shape, targets.shape, bool((tokens[:, -1:] == targets).all())
    ((2, 7), (2, 1), True)
    """

    name = level = paper = None
    vocabulary_size = classes = chance = None
    causal = bidirectional = is_text = False
    variants = ("code",)

    def __init__(self, variant=None):
        variant = self.variants[0] if variant is None else variant
        if variant not in self.variants:
            raise ValueError(
                f"{self.name} has no variant {variant!r}: give one of {', '.join(self.variants)}."
            )
        self.variant = variant

    def input_length(self, length):
        """Number of tokens in a sample of this length."""
        return length

    def output_length(self, tokens_length):
        """Number of positions in the answer to a sample of `tokens_length` tokens."""
        return tokens_length if self.causal else 1

    @property
    def input_size(self):
        """Number of ids in `inputs`: the vocabulary, and the placeholder where there is one."""
        return self.vocabulary_size + (not self.causal)

    def sample(self, batch_size, length, seed):
        """Draws a batch; all rows have one length.

        Args:
            batch_size: int. Number of rows.
            length: int, at least 1. The length as the paper counts it.
            seed: an int, or a tuple of ints such as (seed, step). The same seed gives the same
                batch.

        Returns:
            `(tokens, targets, mask)`, int32 arrays of shapes (B, L), (B, O), (B, O). The published
            loss is the mean over all positions of the targets; the published accuracy counts those
            whose mask is 1.
        """
        for name, value in (("batch_size", batch_size), ("length", length)):
            if value < 1:
                raise ValueError(f"{name}={value}: give at least 1.")
        tokens = self._draw(np.random.default_rng(seed), batch_size, length)
        return tokens.astype("int32"), *self._integers(self._answer(tokens))

    def solve(self, tokens):
        """Computes the answer to any valid tokens.

        Args:
            tokens: ints, (B, L).

        Returns:
            `(targets, mask)`, int32 arrays of the shape (B, O).
        """
        return self._integers(self._answer(self._checked(tokens)))

    def inputs(self, tokens):
        """Makes the input ids of a model: the tokens, then the placeholders, if any.

        The id of the placeholder is `vocabulary_size`, the last of `input_size`.

        Args:
            tokens: ints, (B, L).

        Returns:
            int32 array (B, L), or (B, L + O) with placeholders.
        """
        tokens = self._checked(tokens)
        if self.causal:
            return tokens
        shape = len(tokens), self.output_length(tokens.shape[1])
        return np.concatenate([tokens, np.full(shape, self.vocabulary_size, "int32")], axis=1)

    def one_hot(self, tokens):
        """Makes the published input: `inputs` one-hot, (B, L + O, input_size), float32."""
        return np.eye(self.input_size, dtype="float32")[self.inputs(tokens)]

    def _draw(self, rng, batch_size, length):
        shape = batch_size, self.input_length(length)
        return rng.integers(0, self.vocabulary_size, shape, dtype="int32")

    def _checked(self, tokens):
        tokens = np.asarray(tokens)
        if tokens.ndim != 2 or not tokens.size or tokens.dtype.kind not in "iu":
            raise ValueError(
                f"{self.name}: tokens of shape {tokens.shape} and type {tokens.dtype}; give "
                "integers of shape (batch, length), at least one of each."
            )
        if tokens.min() < 0 or tokens.max() >= self.vocabulary_size:
            raise ValueError(
                f"{self.name}: tokens from {tokens.min()} to {tokens.max()}; its ids are 0 to "
                f"{self.vocabulary_size - 1}."
            )
        return tokens.astype("int32")

    def _integers(self, answer):
        targets, mask = answer
        return targets.astype("int32"), mask.astype("int32")

    def _require(self, valid, rule):
        """Raises unless every row is valid. `rule` completes "a row ..."."""
        if not valid.all():
            row = int(np.flatnonzero(~valid)[0])
            raise ValueError(f"{self.name}: row {row} is not valid: a row {rule}.")


def all_scored(targets):
    """The targets as (B, O), and a mask that scores every position."""
    targets = targets[:, None] if targets.ndim == 1 else targets
    return targets, np.ones(targets.shape, "int32")
