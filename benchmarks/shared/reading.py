"""Embeddings of texts, scores of their words, and the rank of the right document."""

import numpy as np

from keras_posenc.training.stretching.windows import one_segment

POOLINGS = ("mean", "cls")
# Maximum tokens in a batch.
TOKEN_BUDGET = 4096


def embedded(model, tokenizer, rows, pooling="mean"):
    """Embeds texts as vectors of length 1.

    Args:
        model: `keras.Model`. An encoder, `{"token_ids", ...}` (B, T) -> (B, T, D).
        tokenizer: `Tokenizer`. Its special tokens are added.
        rows: lists of token ids, without special tokens. The shorter ones are padded.
        pooling: str. "mean" of the last features of all tokens, or "cls", those of the first token.

    Returns:
        (N, D) float array.
    """
    rows = [tokenizer.assemble(row)[0] for row in rows]
    ids = np.full((len(rows), max(map(len, rows))), tokenizer.pad_id, "int32")
    shown = np.arange(ids.shape[1]) < np.array([[len(row)] for row in rows])
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    if pooling == "cls":
        shown[:, 1:] = False
    size, sums = max(1, TOKEN_BUDGET // ids.shape[1]), []
    for start in range(0, len(ids), size):
        here = slice(start, start + size)
        features = np.asarray(model.predict_on_batch(one_segment(model, ids[here])), "float32")
        sums.append((features * shown[here, :, None]).sum(1))
    sums = np.concatenate(sums)
    return sums / np.linalg.norm(sums, axis=-1, keepdims=True)


def by_words(queries, documents, k1=1.2, b=0.75):
    """Scores (Q, N) of Okapi BM25 over token ids, without any model.

        score = sum over the query's tokens of idf * tf (k1 + 1) / (tf + k1 (1 - b + b n / mean n)).

    The inverse document frequency idf is ln(1 + (N - df + 0.5) / (df + 0.5)). If there are several
    queries, tokens that occur equally often in all of them are left out, as stop words are: they
    distinguish no query, and favour some documents.

    Args:
        queries, documents: lists of lists of token ids.
        k1, b: float. Saturation of the term frequency, and weight of the document's length.

    Returns:
        (Q, N) float array.

    Example:

    >>> by_words([[1, 2]], [[1, 3, 3], [3, 3, 3]]).round(2).tolist()
    [[0.69, 0.0]]
    """
    sizes = np.array([len(ids) for ids in documents], float)
    scale = k1 * (1 - b + b * sizes / sizes.mean())
    scores = np.zeros((len(queries), len(documents)))
    for token in set(sum(map(list, queries), [])):
        counts = np.array([ids.count(token) for ids in documents], float)
        having = (counts > 0).sum()
        idf = np.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
        asked = np.array([list(ids).count(token) for ids in queries])
        if len(queries) > 1 and (asked == asked[0]).all():
            continue
        scores += asked[:, None] * (idf * counts * (k1 + 1) / (counts + scale))
    return scores


def first_rank(scores):
    """nDCG@1 of each query whose only document is the one at its place.

    Documents whose scores differ by less than 1e-6 share the rank, as if drawn at random.

    Args:
        scores: (N, N), queries by documents.

    Returns:
        list of N floats.

    Example:

    >>> first_rank(np.array([[0.9, 0.1], [0.5, 0.5]]))
    [1.0, 0.5]
    """
    near = scores >= scores.max(1, keepdims=True) - 1e-6
    return (np.diag(near) / near.sum(1)).round(4).tolist()
