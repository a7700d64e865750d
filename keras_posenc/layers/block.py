"""One transformer block: sublayers, each with a residual sum, a norm and dropout."""

import functools

from keras_posenc.arguments import checks
from keras_posenc.layers.dropout import Dropout
from keras_posenc.layers.token_embedding import AddTo

NORM_PLACES = ("post", "pre", "both")


class Block:
    """One transformer block: sublayers f, each added to the residual stream x (B, T, D).

        post   x <- norm(x + dropout(f(x)))
        pre    x <- x + dropout(f(norm(x)))
        both   x <- x + dropout(output_norm(f(norm(x))))

    `f` is attention or a feed-forward layer. A block is not a layer but a set of layer names. The
    sublayer `{name}-{kind}` is accompanied by `-Dropout`, `-Add`, `-Norm` and `-Output-Norm`, each
    a layer of the model around the block. A layer that is neither in `layers` nor in `parts` is
    skipped.

    Args:
        name: str, such as "Transformer-3".
        layers: dict. Maps names to existing layers. New layers are added to it.
        parts: dict, as from `block_parts`. Maps the suffix of a layer's name to a function of
            `name` that makes the layer. None makes no layers.
        norm: str. "post", "pre" or "both".
        prefix: str. Prefix of the names of new layers.

    Reference: [Attention Is All You Need](https://arxiv.org/abs/1706.03762) has "post", [On Layer
    Normalization in the Transformer](https://arxiv.org/abs/2002.04745) compares it to "pre".
    """

    def __init__(self, name, layers, parts=None, norm="post", prefix=""):
        checks.choice("norm", norm, NORM_PLACES)
        self.name = name
        self.layers = layers
        self.parts = parts or {}
        self.norm = norm
        self.prefix = prefix

    def layer(self, part):
        """Returns the layer of this part, making it if needed; None if the block has none."""
        name = f"{self.name}-{part}"
        if name not in self.layers and part in self.parts:
            self.layers[name] = self.parts[part](name=self.prefix + name)
        return self.layers.get(name)

    def make(self):
        """Makes all layers of `parts` that do not exist yet."""
        for part in self.parts:
            self.layer(part)

    def add(self, x, kind, call=None, condition=()):
        """Runs a sublayer on the residual stream and adds its output to it.

        Args:
            x: (B, T, D).
            kind: the sublayer, such as "FeedForward".
            call: function of (layer, features) that calls the sublayer, and may return a tuple of
                the output and more; default layer(features).
            condition: list of further inputs of the norms.

        Returns:
            (B, T, D); if `call` returns a tuple, one of that and the rest.
        """
        layer = self.layer(kind)
        before = x if self.norm == "post" else self._run(x, f"{kind}-Norm", *condition)
        out = layer(before) if call is None else call(layer, before)
        out, rest = (out[0], out[1:]) if isinstance(out, tuple) else (out, ())
        if self.norm == "both":
            out = self._run(out, f"{kind}-Output-Norm", *condition)
        x = self.layer(f"{kind}-Add")([x, self._run(out, f"{kind}-Dropout")])
        if self.norm == "post":
            x = self._run(x, f"{kind}-Norm", *condition)
        return (x, *rest) if rest else x

    def _run(self, x, part, *more):
        layer = self.layer(part)
        return x if layer is None else layer(x, *more)


def block_parts(sublayers, normalization, norm="post", dropout=0.0):
    """Lists how the layers of a block are made.

    `sublayers`: dict, kind -> function that makes the sublayer of a `name`, as `normalization`
    makes a norm. `norm`: "post", "pre" or "both". Returns a dict for `Block`, in the order in which
    the layers act in a "post" block.

    Example:

    >>> norm = keras.layers.LayerNormalization
    >>> list(block_parts({"FeedForward": keras.layers.Dense}, norm, dropout=0.1))
    ['FeedForward', 'FeedForward-Dropout', 'FeedForward-Add', 'FeedForward-Norm']
    """
    parts = {}
    for kind, sublayer in sublayers.items():
        parts[kind] = sublayer
        if dropout:
            parts[f"{kind}-Dropout"] = functools.partial(Dropout, dropout)
        parts[f"{kind}-Add"] = AddTo
        parts[f"{kind}-Norm"] = normalization
        if norm == "both":
            parts[f"{kind}-Output-Norm"] = normalization
    return parts
