"""A learned table of n rows, stretched to more positions than it was trained for."""

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.positions.learned import LearnedPositionEmbedding

MOST_POSITIONS = 2**31 - 1  # of int32 ids


def check_alpha(alpha):
    """Returns the weight of the block index as a float; raises ValueError if it is of no use."""
    why = "at 0 the block index vanishes, at 1 u = (p - alpha p[0]) / (1 - alpha) divides by 0"
    remedy = "the usual value is 0.4"
    alpha = float(checks.number("alpha", alpha, above=0, below=1, why=why, remedy=remedy))
    if alpha == 0.5:
        raise ValueError(
            "`alpha` must not be 0.5: positions i n + j and j n + i would share one row. "
            "The usual value is 0.4."
        )
    return alpha


class _RepeatingPositionEmbedding(LearnedPositionEmbedding):
    """A table whose rows serve many positions each, except the first `kept_rows`: those of [CLS],
    which are unlike the others, may stand where they were trained and nowhere else."""

    def __init__(self, input_dim: int, output_dim: int, kept_rows: int = 0, **kwargs):
        super().__init__(input_dim, output_dim, **kwargs)
        why = f"a table has {input_dim} rows"
        self.kept_rows = checks.whole("kept_rows", kept_rows, 0, input_dim - 1, why=why)

    def rows(self, position_ids):
        first, size = self.kept_rows, self.input_dim - self.kept_rows
        later = ops.maximum(position_ids - first, 0) if first else position_ids
        rows = self._repeated(first + later % size, first + later // size)
        if not first:
            return rows
        reserved = ops.take(self.table, ops.minimum(position_ids, first), axis=0)
        return ops.where(ops.expand_dims(position_ids < first, -1), reserved, rows)


@keras.saving.register_keras_serializable(package="keras_posenc")
class HierarchicalPositionEmbedding(_RepeatingPositionEmbedding):
    """Serves n^2 positions with a table of n rows; the first n embeddings are unchanged.

    A position m is written in base n as m = i n + j, with the block index i. Its embedding q
    combines two rows of a base u, which is computed from the table p:

        q[i n + j] = alpha u[i] + (1 - alpha) u[j],    u = (p - alpha p[0]) / (1 - alpha).

    This gives q[m] = p[m] for m < n. It is computed as

        q[i n + j] = p[j] + alpha / (1 - alpha) (p[i] - p[0]).

    The second term is exactly zero for i = 0, so the first n embeddings are bit-identical to the
    table. There are no new weights; the gradient reaches the table through both terms.

    With g reserved rows for the first g positions, the others are in base n - g:

        q[g + i (n - g) + j] = p[g + j] + alpha / (1 - alpha) (p[g + i] - p[g]).

    Args:
        input_dim: int. Number of rows n of the table, 512 for BERT.
        output_dim: int. Size D of a row.
        alpha: float in (0, 1), not 0.5. Weight of the block index i. Below 0.5 the offset j
            dominates, which distinguishes neighbours. Default 0.4, as in Su (2020).
        kept_rows: int. Number g of rows that are reserved for the first positions; 1 reserves that
            of [CLS]. Su (2020) reserves none, which is the default.
        merge_mode: str. How embeddings meet features: "add" (x + p), "mul" (x * (1 + p)), "zero"
            (p alone) or "concat" (along the features).
        embeddings_initializer: Initializer of the table.

    Call arguments:
        inputs: (B, T, D) features.
        position_ids: optional (T,) or (B, T) integers. Default: `offset`, `offset + 1`, ...
        offset: int or scalar integer tensor. Position of the first token if no ids are given.

    Returns:
        (B, T, D); (B, T, features + D) for "concat"; (1, T, D) for "zero", or (B, T, D) with ids
        (B, T).

    Example:

    >>> layer = HierarchicalPositionEmbedding(512, 64)
    >>> layer(np.zeros((2, 1536, 64))).shape
    (2, 1536, 64)

    Reference: Su Jianlin, [Hierarchical decomposition of position
    embeddings](https://www.spaces.ac.cn/archives/7947), 2020.
    """

    remedy = (
        "A hierarchical table of n rows serves n^2 positions: give shorter inputs or more rows."
    )

    def __init__(self, input_dim: int, output_dim: int, alpha: float = 0.4, **kwargs):
        alpha = check_alpha(alpha)
        super().__init__(input_dim, output_dim, **kwargs)
        self.alpha = alpha
        repeated = (self.input_dim - self.kept_rows) ** 2
        self.max_position = min(self.kept_rows + repeated, MOST_POSITIONS)

    def _repeated(self, fine, coarse):
        fine = ops.take(self.table, fine, axis=0)
        coarse = ops.take(self.table, coarse, axis=0)
        return fine + self.alpha / (1 - self.alpha) * (coarse - self.table[self.kept_rows])


@keras.saving.register_keras_serializable(package="keras_posenc")
class TiledPositionEmbedding(_RepeatingPositionEmbedding):
    """Repeats the table: q[m] = p[m mod n]; the limit alpha = 0 of the hierarchical table.

    With the first g rows kept apart, q[m] = p[g + (m - g) mod (n - g)] from position g on.

    It is called as `LearnedPositionEmbedding`, and returns (B, T, D) as that does.

    Args:
        input_dim: int. Number of rows n of the table.
        output_dim: int. Size D of a row.
        kept_rows: int. First rows g that serve the first positions and no others.
        merge_mode, embeddings_initializer: as in `LearnedPositionEmbedding`.

    Example:

    >>> layer = TiledPositionEmbedding(512, 64)
    >>> layer(np.zeros((2, 1536, 64))).shape
    (2, 1536, 64)

    Reference: [Longformer](https://arxiv.org/abs/2004.05150), which initialises its positions this
    way.
    """

    remedy = "Positions are counted from 0."

    def __init__(self, input_dim: int, output_dim: int, **kwargs):
        super().__init__(input_dim, output_dim, **kwargs)
        self.max_position = MOST_POSITIONS

    def _repeated(self, fine, coarse):
        return ops.take(self.table, fine, axis=0)


class _LongPositionEmbedding(LearnedPositionEmbedding):
    """A table stretched to a given number of positions, `max_position` >= n."""

    remedy = "Give shorter inputs, or a larger `max_position`."

    def __init__(self, input_dim: int, output_dim: int, max_position: int, **kwargs):
        super().__init__(input_dim, output_dim, **kwargs)
        why = f"the table has {input_dim} rows"
        self.max_position = checks.whole("max_position", max_position, least=input_dim, why=why)


@keras.saving.register_keras_serializable(package="keras_posenc")
class InterpolatedPositionEmbedding(_LongPositionEmbedding):
    """Interpolates the table linearly to m rows: position t reads it at t (n - 1) / (m - 1).

    All rows but the first and the last change, so short texts no longer get the trained embeddings.

    It is called as `LearnedPositionEmbedding`, and returns (B, T, D) as that does.

    Args:
        input_dim: int. Number of rows n of the table.
        output_dim: int. Size D of a row.
        max_position: int >= n. Number of positions m.
        **kwargs: as in `LearnedPositionEmbedding`.

    Example:

    >>> layer = InterpolatedPositionEmbedding(512, 64, max_position=2048)
    >>> layer(np.zeros((2, 1536, 64))).shape
    (2, 1536, 64)
    """

    def __init__(self, input_dim: int, output_dim: int, max_position: int, **kwargs):
        super().__init__(input_dim, output_dim, max_position, **kwargs)
        most = 1 + (2**31 - 1) // max(input_dim - 1, 1)
        if max_position > most:
            raise ValueError(
                f"A table of {input_dim} rows is interpolated to at most {most} positions, by "
                f"integers of 32 bits. Received: max_position={max_position}"
            )

    def rows(self, position_ids):
        if self.max_position == self.input_dim:
            return super().rows(position_ids)
        # Integer arithmetic: a float32 quotient would miss the table's own rows by rounding.
        scaled = position_ids * (self.input_dim - 1)
        lower = scaled // (self.max_position - 1)
        weight = ops.cast(scaled % (self.max_position - 1), "float32") / (self.max_position - 1)
        upper = ops.minimum(lower + 1, self.input_dim - 1)
        low, high = (ops.take(self.table, i, axis=0) for i in (lower, upper))
        return low + ops.expand_dims(weight, -1) * (high - low)


@keras.saving.register_keras_serializable(package="keras_posenc")
class FreshPositionEmbedding(_LongPositionEmbedding):
    """Appends m - n randomly initialised rows to the table, which need training.

    It is called as `LearnedPositionEmbedding`, and returns (B, T, D) as that does.

    Args:
        input_dim: int. Number of rows n of the table.
        output_dim: int. Size D of a row.
        max_position: int >= n. Number of positions m.
        **kwargs: as in `LearnedPositionEmbedding`.

    Example:

    >>> layer = FreshPositionEmbedding(512, 64, max_position=2048)
    >>> layer(np.zeros((2, 1536, 64))).shape
    (2, 1536, 64)
    """

    def build(self, inputs_shape, position_ids_shape=None):
        super().build(inputs_shape, position_ids_shape)
        self.fresh = self._add_table(
            "fresh",
            self.max_position - self.input_dim,
            self.embeddings_initializer.clone(),  # one instance draws the same again
        )

    @property
    def table(self):
        return ops.concatenate([super().table, ops.cast(self.fresh, "float32")], 0)


STRETCHES = {
    None: LearnedPositionEmbedding,
    "hierarchical": HierarchicalPositionEmbedding,
    "tile": TiledPositionEmbedding,
    "interpolate": InterpolatedPositionEmbedding,
    "fresh": FreshPositionEmbedding,
}


def stretching_in(layer):
    """The arguments of `position_embedding` by which a layer serves more positions than its table
    has rows, as a dict; empty for a plain table."""
    name = next((name for name, each in STRETCHES.items() if type(layer) is each), None)
    config = {} if name is None else layer.get_config()
    found = {key: config[key] for key in ("alpha", "kept_rows", "max_position") if key in config}
    return {"stretch": name, **found} if name else {}


def position_embedding(
    input_dim: int,
    output_dim: int,
    stretch: str | None = None,
    alpha: float | None = None,
    max_position: int | None = None,
    kept_rows: int | None = None,
    **kwargs,
):
    """Makes a learned position embedding with one of the `STRETCHES`, or without.

    Args:
        input_dim: int. Number of rows n of the table.
        output_dim: int. Size of a row.
        stretch: None, "hierarchical", "tile", "interpolate" or "fresh".
        alpha: float. For "hierarchical" only; default 0.4, as in Su (2020).
        max_position: int. Number of positions; required by "interpolate" and "fresh", while
            "hierarchical" checks that its positions are enough.
        kept_rows: int. For "hierarchical" and "tile": first rows that serve the first positions and
            no others; default 0.
        **kwargs: as in `LearnedPositionEmbedding`.

    Returns:
        A layer, (B, T, D) -> (B, T, D): a `LearnedPositionEmbedding` or a subclass.

    Example:

    >>> position_embedding(512, 64, stretch="interpolate", max_position=2048).max_position
    2048
    """
    checks.choice("stretch", stretch, STRETCHES)
    if alpha is not None and stretch != "hierarchical":
        raise ValueError(
            f'`alpha` belongs to stretch="hierarchical". Received: stretch={stretch!r}'
        )
    if kept_rows is not None and not issubclass(STRETCHES[stretch], _RepeatingPositionEmbedding):
        raise ValueError(
            '`kept_rows` belongs to stretch="hierarchical" and "tile", which repeat rows. '
            f"Received: stretch={stretch!r}"
        )
    if max_position is not None:
        max_position = checks.whole("max_position", max_position)
    layer = STRETCHES[stretch]
    if issubclass(layer, _LongPositionEmbedding):
        if max_position is None:
            raise ValueError(f"stretch={stretch!r} needs `max_position`, the positions to serve.")
        kwargs["max_position"] = max_position
    elif alpha is not None:
        kwargs["alpha"] = alpha
    if kept_rows is not None:
        kwargs["kept_rows"] = kept_rows
    layer = layer(input_dim, output_dim, **kwargs)
    if max_position is not None and max_position > layer.max_position:
        raise ValueError(
            f"max_position={max_position} is out of reach: stretch={stretch!r} makes "
            f"{layer.max_position} positions of the {input_dim} rows of the table."
        )
    return layer
