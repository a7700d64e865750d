"""The base class of absolute position embeddings: ordinary layers, `layer(x, position_ids)`."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured
from keras_posenc.positions.position_range import check_length, consecutive, mark_missing

MERGE_MODES = ("add", "mul", "zero", "concat")


class AbsolutePositionEmbedding(Configured, keras.layers.Layer):
    """Computes position ids and merges the embedding of each position with the features.

    Subclasses define the embeddings in `rows(ids)`.

    Args:
        output_dim: int. Size D of an embedding.
        merge_mode: "add" (x + p), "mul" (x * (1 + p)), "zero" (p alone) or "concat" (along the
            features).

    Call arguments:
        inputs: (B, T, D) features. With "zero" and "concat" their size may differ from D.
        position_ids: optional (T,) or (B, T) ids. Default: `offset`, `offset + 1`, ...
        offset: int or scalar integer tensor. Position of the first token if no ids are given.

    Returns:
        (B, T, D); (B, T, features + D) for "concat"; (1, T, D) for "zero", or (B, T, D) with ids
        (B, T).
    """

    max_position = None  # the number of positions that have an embedding; None if all do
    remedy = ""  # what to do about other positions

    def __init__(self, output_dim, merge_mode="add", **kwargs):
        backend.check_floatx()
        # Position ids must not be cast to the compute dtype: in bfloat16, 257 equals 256.
        super().__init__(autocast=False, **kwargs)
        # Keras reads a string in a HDF5 file as a function, if it has one of this name: add.
        merge_mode = getattr(merge_mode, "__name__", merge_mode)
        self.merge_mode = checks.choice("merge_mode", merge_mode, MERGE_MODES)
        self.output_dim = checks.whole("output_dim", output_dim)
        self.supports_masking = True

    def rows(self, position_ids):
        """Computes the embeddings of position ids.

        Args:
            position_ids: tensor of ids, of any shape.

        Returns:
            float32 of shape `(*ids.shape, D)`.
        """
        raise NotImplementedError

    def check_ids(self, position_ids):
        """Returns the ids; raises ValueError unless all of them have embeddings."""
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
        if not keras.backend.is_int_dtype(getattr(offset, "dtype", type(offset))):
            raise TypeError(f"`offset` must be an integer. Received: {offset}")
        if position_ids is None:
            position_ids = consecutive(length, offset)
            if isinstance(length, int) and isinstance(offset, int):
                check_length(offset, length, self.max_position, self.remedy)
            else:
                position_ids = self.check_ids(position_ids)
        else:
            position_ids = ops.convert_to_tensor(position_ids)
            self._check_ids_shape(position_ids.shape, inputs.shape)
            position_ids = self._cast_ids(self.check_ids(position_ids))
        rows = mark_missing(self.rows(position_ids), position_ids, self.max_position)
        rows = ops.cast(rows, self.compute_dtype)
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
            check_length(offset, inputs.shape[1], self.max_position, self.remedy)
        batch, length, features = inputs.shape
        if self.merge_mode == "zero":
            by_text = position_ids is not None and len(position_ids.shape) == 2
            shape = (position_ids.shape[0] if by_text else 1, length, self.output_dim)
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
