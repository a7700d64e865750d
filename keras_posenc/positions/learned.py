"""Learned absolute position embeddings."""

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.positions.absolute import AbsolutePositionEmbedding
from keras_posenc.positions.position_range import check_positions


@keras.saving.register_keras_serializable(package="keras_posenc")
class LearnedPositionEmbedding(AbsolutePositionEmbedding):
    """A learned table with one embedding per position, as in BERT.

    p[t] = table[t], 0 <= t < n.

    Args:
        input_dim: int. Number of rows n of the table.
        output_dim: int. Size D of a row.
        merge_mode: "add" (x + p), "mul" (x * (1 + p)), "zero" (p alone) or "concat" (along the
            features).
        embeddings_initializer: initializer of the table.

    Call arguments:
        inputs: (B, T, D) features.
        position_ids: optional (T,) or (B, T) integers. Default: `offset`, `offset + 1`, ...
        offset: int or scalar integer tensor. Position of the first token if no ids are given.

    Returns:
        (B, T, D); (B, T, features + D) for "concat"; (1, T, D) for "zero", or (B, T, D) with ids
        (B, T).

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
        input_dim: int,
        output_dim: int,
        merge_mode: str = "add",
        embeddings_initializer: Initializer = "uniform",
        **kwargs,
    ):
        super().__init__(output_dim, merge_mode, **kwargs)
        self.input_dim = checks.whole("input_dim", input_dim)
        self.max_position = self.input_dim
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, inputs_shape, position_ids_shape=None):
        self.embeddings = self._add_table("embeddings", self.input_dim)
        super().build(inputs_shape, position_ids_shape)

    def _add_table(self, name, rows, initializer=None):
        # autocast=False: under a mixed policy only the resulting rows are rounded, not the table.
        return self.add_weight(
            name=name,
            shape=(rows, self.output_dim),
            initializer=initializer or self.embeddings_initializer,
            autocast=False,
        )

    @property
    def table(self):
        """The rows that positions look up, float32 (rows, D)."""
        return ops.cast(self.embeddings, "float32")

    def rows(self, position_ids):
        return ops.take(self.table, position_ids, axis=0)

    def check_ids(self, position_ids):
        if not keras.backend.is_int_dtype(position_ids.dtype):
            raise TypeError(
                f"A table has a row for whole positions only, so `position_ids` must be integers. "
                f"Received: {keras.backend.standardize_dtype(position_ids.dtype)}; give "
                f'keras.Input(..., dtype="int32"), or use SinusoidalPositionEmbedding for floats.'
            )
        # Before the cast to int32, which would wrap a large int64 into range.
        return check_positions(position_ids, self.max_position, self.remedy)
