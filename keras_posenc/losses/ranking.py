"""Losses of the scores of several documents for one query, against those of a teacher."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.keras_support.configured import Configured
from keras_posenc.losses.similarity import whole_batch

# Of the products of a block. Its gradient takes a few times as many.
BLOCK_BYTES = 8 * 2**20
CLOSED = -1e9


def scores_of_all(queries, documents):
    """Scores (B, N) of each query with each document.

    `queries`: (B, Tq, D + 1), vectors, and 1 for those that are scored, 0 for others. `documents`:
    (N, T, D + 1), the same.
    """

    def of_these(tensors):
        return _in_blocks(*tensors, "tbd,nsd->tbns")

    if backend.batch_shards(queries) == 1:
        return of_these([queries, documents])
    # Each device compares its queries with the documents of all devices.
    return backend.over_batch(of_these, [queries, documents], [True, False])


def scores_of_each(queries, documents):
    """Scores (B, N) of query (B, Tq, D + 1) i with its own documents (B, N, T, D + 1)."""
    return _in_blocks(queries, documents, "tbd,bnsd->tbns")


def _in_blocks(queries, documents, equation):
    """The scores (B, N) by blocks of tokens of queries; of few queries, where each has its own
    documents, of all queries else."""
    apart = len(documents.shape) == 3
    batch, length, width = (*ops.shape(queries)[:2], queries.shape[2])
    count, size = ops.shape(documents)[-3:-1]
    tokens, texts = _sizes(batch, length, count * size, apart)
    rows = _filled(_filled(queries, 0, texts), 1, tokens)
    groups, steps = ops.shape(rows)[0] // texts, ops.shape(rows)[1] // tokens
    rows = ops.reshape(rows, (groups, texts, steps, tokens, width))
    rows = ops.reshape(ops.transpose(rows, (2, 0, 3, 1, 4)), (-1, tokens, texts, width))

    def of_block(parts, whole, carry, output=None, number=0):
        (rows,), (vectors, scored) = parts, whole
        closed = scored <= 0
        is_query = rows[..., -1:] > 0

        def largest():
            products = ops.einsum(equation, rows[..., :-1], vectors)
            best = ops.max(ops.where(closed, CLOSED, products), axis=-1)
            return ops.sum(ops.where(is_query, best, 0.0), axis=0)

        def nothing():
            return ops.zeros((texts, count), "float32")

        # Queries are mostly short, and padded to the length of the documents.
        unscored = ops.logical_not(ops.any(is_query))
        return backend.choose(unscored, nothing, largest), carry

    whole = [documents[..., :-1], documents[..., -1]]
    shape = tuple(n if isinstance(n, int) else None for n in (texts, count))
    found = backend.map_blocks(of_block, [rows], whole, [], shape, "float32")
    found = ops.sum(ops.reshape(found, (steps, groups * texts, count)), axis=0)
    return found[:batch]


def _sizes(batch, length, columns, apart):
    """Numbers of tokens and of queries in a block."""
    if all(isinstance(n, int) for n in (batch, length, columns)):
        rows = max(1, BLOCK_BYTES // (4 * max(1, columns)))
        texts = max(1, min(batch, rows)) if apart else batch
        return max(1, min(length, rows // texts)), texts
    rows = BLOCK_BYTES // (4 * ops.maximum(1, ops.cast(columns, "int64")))
    rows = ops.cast(ops.maximum(1, rows), "int32")
    texts = ops.maximum(1, ops.minimum(batch, rows)) if apart else batch
    return ops.maximum(1, ops.minimum(length, rows // texts)), texts


def _filled(x, axis, size):
    """x with zeros up to a multiple of `size` along one of its first two axes."""
    missing = -ops.shape(x)[axis] % size
    if isinstance(missing, int) and not missing:
        return x
    sides = [(0, 0)] * 3
    sides[axis] = (0, missing)
    return ops.pad(x, sides)


def _scores(y_pred):
    """Scores (B, S) of a query's documents, as they are or from the vectors of all texts.

    Of vectors (B, 1 + S, D) they are the products of the first with each; of vectors of tokens
    (B, 1 + S, T, D + 1) the scores of late interaction.
    """
    y_pred = ops.cast(y_pred, "float32")
    rank = len(y_pred.shape)
    if rank == 2:
        return y_pred
    if rank == 3:
        return ops.sum(y_pred[:, :1] * y_pred[:, 1:], axis=-1)
    queries, documents = y_pred[:, 0], y_pred[:, 1:]
    return scores_of_each(queries, documents)


def _check(y_true, scores, sizes):
    if y_true.shape[-1] is not None and y_true.shape[-1] not in sizes:
        raise ValueError(
            f"`y_true` must have {' or '.join(map(str, sizes))} numbers for each query, because "
            f"`y_pred` has scores of {scores.shape[-1]} documents. Received: y_true with the shape "
            f"{tuple(y_true.shape)}"
        )


@keras.saving.register_keras_serializable(package="keras_posenc")
class MarginMSE(Configured, keras.losses.Loss):
    """The squared error of the margins between the first document and the others.

        loss = mean over j > 1 of (c (s_1 - s_j) - (t_1 - t_j))^2.

    The scores of a query's documents are s, the positive first. Those of a teacher, such as a
    cross-encoder, are t. Only the margins are learned, so the two may differ by a constant.

    Args:
        scale: float, c. Cosines are within 1 and the logits of a cross-encoder are not: a scale
            such as 20 lets the margins of cosines reach those of logits.
        reduction: as in `keras.losses.Loss`, over the queries.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, S) scores of the teacher, or (B, S - 1) margins t_1 - t_j.
        y_pred: (B, S) scores, as from `ranking`. Or the vectors of a query and its documents
            (B, 1 + S, D), as from `similarity`, whose scores are dot products. Or the vectors of
            their tokens (B, 1 + S, T, D + 1), as from `LateInteraction.training_model`.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> float(MarginMSE()(np.array([[3.0, 1.0]]), np.array([[5.0, 4.0]])))
    1.0

    Reference: [Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge
    Distillation](https://arxiv.org/abs/2010.02666).
    """

    def __init__(self, scale=1.0, reduction="sum_over_batch_size", name="margin_mse", dtype=None):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.scale = checks.number("scale", scale, above=0)

    def call(self, y_true, y_pred):
        scores, y_true = self.scale * _scores(y_pred), ops.cast(y_true, "float32")
        count = scores.shape[-1]
        _check(y_true, scores, (count, count - 1))
        if y_true.shape[-1] == count:
            y_true = y_true[:, :1] - y_true[:, 1:]
        return ops.mean(ops.square(scores[:, :1] - scores[:, 1:] - y_true), axis=-1)


@keras.saving.register_keras_serializable(package="keras_posenc")
class ListwiseKL(Configured, keras.losses.Loss):
    """The Kullback-Leibler divergence of the scores' distribution from that of the targets.

        loss = T^2 sum_j p_j log(p_j / q_j).

    Here p = softmax(t / T) and q = softmax(c s / T) over the documents of a query. With relevance
    grades t it is the loss of ListNet up to a constant, the entropy of p. With the scores of a
    teacher it is distillation.

    Args:
        temperature: float, T.
        scale: float, c, such as 20 for scores s that are cosines.
        reduction: as in `keras.losses.Loss`, over the queries.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, S) grades, or scores of a teacher.
        y_pred: (B, S) scores, as from `ranking`. Or the vectors of a query and its documents
            (B, 1 + S, D), as from `similarity`, whose scores are dot products. Or the vectors of
            their tokens (B, 1 + S, T, D + 1), as from `LateInteraction.training_model`.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> float(ListwiseKL()(np.array([[2.0, 1.0]]), np.array([[5.0, 4.0]])))
    0.0

    Reference: [Learning to Rank: From Pairwise Approach to Listwise
    Approach](https://dl.acm.org/doi/10.1145/1273496.1273513); [Distilling the Knowledge in a Neural
    Network](https://arxiv.org/abs/1503.02531).
    """

    def __init__(
        self,
        temperature=1.0,
        scale=1.0,
        reduction="sum_over_batch_size",
        name="listwise_kl",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.temperature = checks.number("temperature", temperature, above=0)
        self.scale = checks.number("scale", scale, above=0)

    def call(self, y_true, y_pred):
        scores, y_true = self.scale * _scores(y_pred), ops.cast(y_true, "float32")
        _check(y_true, scores, (scores.shape[-1],))
        wanted = ops.log_softmax(y_true / self.temperature, axis=-1)
        given = ops.log_softmax(scores / self.temperature, axis=-1)
        divergence = ops.sum(ops.exp(wanted) * (wanted - given), axis=-1)
        return self.temperature**2 * divergence


@keras.saving.register_keras_serializable(package="keras_posenc")
class MaxSimRanking(Configured, keras.losses.Loss):
    """Late interaction with every other document of the batch as a negative.

        loss_i = -log(exp(s f(q_i, d_i)) / sum_j exp(s f(q_i, d_j))).

    The score of late interaction is f: the sum over the tokens of the query of the largest product
    with a token of the document. The second text of row i is d_i. The d_j are all second texts of
    the batch and all further texts, which are mined negatives.

    Args:
        scale: float, s, one over the temperature.
        reduction: as in `keras.losses.Loss`, over the rows.
        name: str.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, S), (B,) or (B, 1) integers, as in `MultipleNegativesRanking`.
        y_pred: (B, S, T, D + 1), as from `LateInteraction.training_model`.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> vectors = np.eye(3)[:, None, None].repeat(2, axis=1)  # three pairs, one token each
    >>> vectors = np.concatenate([vectors, np.ones((3, 2, 1, 1))], axis=-1)
    >>> round(float(MaxSimRanking(scale=2.0)(np.arange(3), vectors)), 4)
    0.2395

    Reference: [ColBERT](https://arxiv.org/abs/2004.12832);
    [ColBERTv2](https://arxiv.org/abs/2112.01488).
    """

    def __init__(
        self, scale=1.0, reduction="sum_over_batch_size", name="maxsim_ranking", dtype=None
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.scale = checks.number("scale", scale, above=0)

    def call(self, y_true, y_pred):
        y_pred = ops.cast(y_pred, "float32")
        vectors, places, allowed = whole_batch(y_true, y_pred)
        queries, others = y_pred[:, 0], ops.transpose(vectors[:, 1:], (1, 0, 2, 3))
        documents = ops.reshape(others, (-1, ops.shape(y_pred)[2], y_pred.shape[3]))
        scores = scores_of_all(queries, documents)
        logits = ops.where(allowed, self.scale * scores, -1e9)
        return ops.sparse_categorical_crossentropy(places, logits, from_logits=True)
