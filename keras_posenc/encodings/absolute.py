"""Absolute position embeddings: ordinary layers, `layer(x, position_ids)`, merged into x."""

import keras
from keras import ops

from keras_posenc.positions import check_length, check_positions, consecutive

MERGE_MODES = ("add", "mul", "zero", "concat")


class AbsolutePositionEmbedding(keras.layers.Layer):
    """What all absolute embeddings share: which ids, and how the rows are merged into the features.

    A subclass says what row belongs to a position, in `rows(ids)`.

    Args:
        output_dim: int. Size D of a row.
        merge_mode: "add" (x + p), "mul" (x * (1 + p)), "zero" (p alone) or "concat" (on the
            features).

    Call arguments:
        inputs: (B, T, D) features. With "zero" and "concat" their last size is free.
        position_ids: optional (T,) or (B, T) ids. Default: `offset`, `offset + 1`, ...
        offset: int or scalar integer tensor. Position of the first token when no ids are given.

    Returns:
        (B, T, D); (B, T, D + features) for "concat"; for "zero" (1, T, D), or (B, T, D) with (B, T)
        ids.
    """

    def __init__(self, output_dim, merge_mode="add", **kwargs):
        # Float ids must not be rounded to the compute dtype: bfloat16 cannot tell 257 from 256.
        super().__init__(autocast=False, **kwargs)
        if merge_mode not in MERGE_MODES:
            raise ValueError(f"`merge_mode` must be one of {MERGE_MODES}. Received: {merge_mode!r}")
        if not isinstance(output_dim, int) or output_dim < 1:
            raise ValueError(f"`output_dim` must be a positive integer. Received: {output_dim!r}")
        self.output_dim = output_dim
        self.merge_mode = merge_mode
        self.supports_masking = True

    def rows(self, position_ids):
        """The rows of any ids, float32, shape `ids.shape + (output_dim,)`."""
        raise NotImplementedError

    def check_length(self, offset, length):
        """Fails if the positions from `offset` on do not all have a row; those of a formula do."""

    def check_ids(self, position_ids):
        """The ids, once it is sure that all have a row."""
        return position_ids

    def build(self, inputs_shape, position_ids_shape=None):
        if len(inputs_shape) != 3:
            raise ValueError(
                f"A position embedding takes inputs (B, T, D). Received: {tuple(inputs_shape)}"
            )
        if self.merge_mode in ("add", "mul") and inputs_shape[-1] != self.output_dim:
            raise ValueError(
                f"merge_mode {self.merge_mode!r} needs features of size "
                f"output_dim={self.output_dim}. "
                f'Received: inputs of shape {tuple(inputs_shape)}; use "concat" for another size.'
            )
        self.built = True

    def call(self, inputs, position_ids=None, offset=0):
        length = ops.shape(inputs)[1]
        if isinstance(offset, float):
            raise TypeError(f"`offset` must be an integer. Received: {offset}")
        if position_ids is None:
            position_ids = consecutive(length, offset)
            if isinstance(length, int) and isinstance(offset, int):
                self.check_length(offset, length)
            else:
                position_ids = self.check_ids(position_ids)
        else:
            position_ids = ops.convert_to_tensor(position_ids)
            self._check_ids_shape(position_ids.shape, inputs.shape)
            position_ids = self._cast_ids(self.check_ids(position_ids))
        rows = ops.cast(self.rows(position_ids), self.compute_dtype)
        if len(rows.shape) == 2:
            rows = rows[None]
        x = ops.cast(inputs, self.compute_dtype)
        if self.merge_mode == "add":
            return x + rows
        if self.merge_mode == "mul":
            return x * (1 + rows)
        if self.merge_mode == "zero":
            return rows
        batch = ops.shape(x)[0]
        return ops.concatenate([x, ops.broadcast_to(rows, (batch, length, self.output_dim))], -1)

    def _check_ids_shape(self, ids_shape, inputs_shape):
        batch, length = inputs_shape[:2]
        expected = ((length,), (1, length), (batch, length))
        fits = any(
            len(ids_shape) == len(shape)
            and all(a is None or b is None or a == b for a, b in zip(ids_shape, shape, strict=True))
            for shape in expected
        )
        if not fits:
            raise ValueError(
                f"`position_ids` must have shape (T,) or (B, T) with B, T = {batch}, {length} as "
                f"the inputs. Received: {tuple(ids_shape)}"
            )

    def _cast_ids(self, position_ids):
        return ops.cast(position_ids, "int32")

    def compute_output_spec(self, inputs, position_ids=None, offset=0):
        if position_ids is not None:
            self._check_ids_shape(position_ids.shape, inputs.shape)
            self.check_ids(position_ids)
        elif isinstance(inputs.shape[1], int) and isinstance(offset, int):
            self.check_length(offset, inputs.shape[1])
        batch, length, features = inputs.shape
        if self.merge_mode == "zero":
            own = position_ids is not None and len(position_ids.shape) == 2
            shape = (position_ids.shape[0] if own else 1, length, self.output_dim)
        elif self.merge_mode == "concat":
            shape = (batch, length, features + self.output_dim)
        else:
            shape = inputs.shape
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def compute_output_shape(self, inputs_shape, position_ids_shape=None):
        ids = position_ids_shape and keras.KerasTensor(position_ids_shape, dtype="int32")
        return self.compute_output_spec(keras.KerasTensor(inputs_shape), ids).shape

    def compute_mask(self, inputs, mask=None):
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        return None if self.merge_mode == "zero" else mask

    def get_config(self):
        return {
            **super().get_config(),
            "output_dim": self.output_dim,
            "merge_mode": self.merge_mode,
        }


@keras.saving.register_keras_serializable(package="keras_posenc")
class SinusoidalPositionEmbedding(AbsolutePositionEmbedding):
    """Fixed sines and cosines of the position; ids may be fractional.

    p[t, k] = sin(t w_k) and cos(t w_k), w_k = base^(-2k / D), k = 0 .. D/2 - 1.

    Args:
        output_dim: int, even. Size D of a row.
        merge_mode: "add", "mul", "zero" or "concat".
        base: float. Longest wavelength, in units of 2 pi positions.
        layout: "interleaved" (sin, cos, sin, cos, ...; the paper, bert4keras) or "half" (all sines,
            then all cosines; tensor2tensor, DeepMind).

    Call arguments: as `LearnedPositionEmbedding`; `position_ids` may be floats.

    Example:

    >>> layer = SinusoidalPositionEmbedding(8, layout="half")
    >>> layer(np.zeros((2, 5, 8)), np.linspace(0.0, 2.0, 5)).shape
    (2, 5, 8)

    Reference: [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 3.5.
    """

    def __init__(self, output_dim, merge_mode="add", base=10000.0, layout="interleaved", **kwargs):
        super().__init__(output_dim, merge_mode, **kwargs)
        if output_dim % 2:
            raise ValueError(
                "Sines and cosines come in pairs: `output_dim` must be even. Received: "
                f"{output_dim}"
            )
        if layout not in ("interleaved", "half"):
            raise ValueError(f'`layout` must be "interleaved" or "half". Received: {layout!r}')
        if not base > 1:
            raise ValueError(f"`base` must be above 1. Received: {base}")
        self.base = base
        self.layout = layout

    def rows(self, position_ids):
        exponents = ops.arange(0, self.output_dim, 2, dtype="float32") / self.output_dim
        frequencies = ops.power(ops.cast(self.base, "float32"), -exponents)
        angles = ops.cast(position_ids, "float32")[..., None] * frequencies
        pair = (ops.sin(angles), ops.cos(angles))
        if self.layout == "half":
            return ops.concatenate(pair, -1)
        return ops.reshape(ops.stack(pair, -1), (*ops.shape(position_ids), self.output_dim))

    def _cast_ids(self, position_ids):
        return ops.cast(position_ids, "float32")

    def get_config(self):
        return {**super().get_config(), "base": self.base, "layout": self.layout}


@keras.saving.register_keras_serializable(package="keras_posenc")
class LearnedPositionEmbedding(AbsolutePositionEmbedding):
    """A trained table with one row a position, as in BERT; its last row is the last position.

    p[t] = table[t], 0 <= t < n.

    Args:
        input_dim: int. Rows n of the table.
        output_dim: int. Size D of a row.
        merge_mode: "add" (x + p), "mul" (x * (1 + p)), "zero" (p alone) or "concat" (on the
            features).
        embeddings_initializer: initializer of the table.

    Call arguments:
        inputs: (B, T, D) features.
        position_ids: optional (T,) or (B, T) integers. Default: `offset`, `offset + 1`, ...
        offset: int or scalar integer tensor. Position of the first token when no ids are given.

    Raises:
        ValueError: on a position outside 0 .. n - 1.

    Example:

    >>> LearnedPositionEmbedding(512, 64)(np.zeros((2, 100, 64))).shape
    (2, 100, 64)

    Reference: [BERT](https://arxiv.org/abs/1810.04805).
    """

    remedy = (
        "Give shorter inputs, or stretch the table: HierarchicalPositionEmbedding, "
        "hierarchical_position=True in build_transformer_model."
    )

    def __init__(
        self,
        input_dim,
        output_dim,
        merge_mode="add",
        embeddings_initializer="uniform",
        **kwargs,
    ):
        super().__init__(output_dim, merge_mode, **kwargs)
        if not isinstance(input_dim, int) or input_dim < 1:
            raise ValueError(f"`input_dim` must be a positive integer. Received: {input_dim!r}")
        self.input_dim = input_dim
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    @property
    def bound(self):
        """First position that has no row."""
        return self.input_dim

    def build(self, inputs_shape, position_ids_shape=None):
        self.embeddings = self._add_table("embeddings", self.input_dim)
        super().build(inputs_shape, position_ids_shape)

    def _add_table(self, name, rows):
        # autocast=False: a mixed policy rounds the finished rows once, not the arithmetic on them.
        return self.add_weight(
            name=name,
            shape=(rows, self.output_dim),
            initializer=self.embeddings_initializer,
            autocast=False,
        )

    @property
    def table(self):
        return ops.cast(self.embeddings, "float32")

    def rows(self, position_ids):
        return ops.take(self.table, position_ids, axis=0)

    def check_length(self, offset, length):
        check_length(offset, length, self.bound, self.remedy)

    def check_ids(self, position_ids):
        if not keras.backend.is_int_dtype(position_ids.dtype):
            raise TypeError(
                f"A table has a row for whole positions only, so `position_ids` must be integers. "
                f"Received: {keras.backend.standardize_dtype(position_ids.dtype)}; give "
                f'keras.Input(..., dtype="int32"), or use SinusoidalPositionEmbedding for floats.'
            )
        # Before the cast to int32, which would wrap a large int64 into range.
        return check_positions(position_ids, self.bound, self.remedy)

    def get_config(self):
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
