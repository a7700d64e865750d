"""Sinusoidal absolute position embeddings."""

import math

import keras
import numpy as np
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.positions.absolute import AbsolutePositionEmbedding
from keras_posenc.positions.angles import angles


@keras.saving.register_keras_serializable(package="keras_posenc")
class SinusoidalPositionEmbedding(AbsolutePositionEmbedding):
    """Fixed sines and cosines of the position; position ids may be fractional.

    p[t, k] = sin(t w_k) and cos(t w_k), w_k = base^(-2k / D), k = 0 .. D/2 - 1.

    Args:
        output_dim: int, even. Size D of an embedding.
        merge_mode: "add" (x + p), "mul" (x * (1 + p)), "zero" (p alone) or "concat" (along the
            features).
        base: float. Longest wavelength, in units of 2 pi positions.
        layout: "interleaved" (sin, cos, sin, cos, ...; the paper, bert4keras) or "half" (all sines,
            then all cosines; tensor2tensor, DeepMind).

    Call arguments:
        inputs: (B, T, D) features.
        position_ids: optional (T,) or (B, T) ids, integers or floats. Default: `offset`, `offset +
            1`, ...
        offset: int or scalar integer tensor. Position of the first token if no ids are given.

    Returns:
        (B, T, D); (B, T, features + D) for "concat"; (1, T, D) for "zero", or (B, T, D) with ids
        (B, T).

    Example:

    >>> layer = SinusoidalPositionEmbedding(8, layout="half")
    >>> layer(np.zeros((2, 5, 8)), np.linspace(0.0, 2.0, 5)).shape
    (2, 5, 8)

    Reference: [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 3.5.
    """

    def __init__(
        self,
        output_dim: int,
        merge_mode: str = "add",
        base: float = 10000.0,
        layout: str = "interleaved",
        **kwargs,
    ):
        super().__init__(output_dim, merge_mode, **kwargs)
        why = "sines and cosines come in pairs"
        checks.whole("output_dim", output_dim, least=2, even=True, why=why)
        self.base = checks.number("base", base, above=1)
        self.layout = checks.choice("layout", layout, ("interleaved", "half"))

    def rows(self, position_ids):
        exponents = np.arange(0, self.output_dim, 2) / self.output_dim
        turns = float(self.base) ** -exponents / (2 * math.pi)
        by = angles(ops.cast(position_ids, "float32")[..., None], turns)
        pair = (ops.sin(by), ops.cos(by))
        if self.layout == "half":
            return ops.concatenate(pair, -1)
        return ops.reshape(ops.stack(pair, -1), (*ops.shape(position_ids), self.output_dim))

    def _cast_ids(self, position_ids):
        return ops.cast(position_ids, "float32")
