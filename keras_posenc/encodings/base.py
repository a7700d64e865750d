"""The protocol between attention and everything that tells it about position."""

import keras


class Encoding(keras.layers.Layer):
    """Where am I, said to attention. A subclass overrides only the hooks it needs.

    Shapes: q, k (B, T, H, D); logits and weights (B, H, Tq, Tk). Attention owns a list of
    encodings: `heads` compose in order, `bias` and `value` add, `score` composes. `bias` and
    `score` receive the content query, from before any `heads`. The grid tells where rows and
    columns stand and which cells are open; all positions come from it. Attention may call the
    hooks on blocks of rows, so row i of what a hook returns may depend on row i of the grid and on
    all columns, on no other row.

    Weights are created in `build(heads_shape)`, heads_shape being that of q, (B, T, H, D).
    """

    def build(self, heads_shape):
        self.built = True

    def heads(self, q, k, grid):
        """q and k with position in them. They may be widened; the softmax scale stays that of D."""
        return q, k

    def bias(self, q, grid):
        """A term for the logits, broadcastable to (B, H, Tq, Tk), or None."""
        return None

    def score(self, logits, q, grid):
        """The logits, where a term depends on the logits themselves."""
        return logits

    def value(self, weights, grid):
        """A term (B, Tq, H, Dv) for the output, computed from the weights, or None."""
        return None

    def overrides(self, hook):
        """Whether this class brings its own `hook`."""
        return getattr(type(self), hook) is not getattr(Encoding, hook)
