"""What position encodings do to attention, in numbers: NumPy arrays out, nothing drawn.

`pictures.py` draws what these functions return.
"""

import keras
import numpy as np
from keras import ops

from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.encodings.base import Encoding
from keras_posenc.metrics.scores import unit_rows


def position_similarity(embedding, positions, centred=True):
    """Returns the cosines (P, P) of the rows of an absolute position embedding.

    cos(p_s - m, p_t - m) with m the mean row: what all rows share carries no position.

    Args:
        embedding: a built absolute embedding, or an array (positions, D).
        positions: 1-D array of ids; fractions only where the embedding takes them.
        centred: bool. Whether the mean row is subtracted first.

    Example:

    >>> layer = SinusoidalPositionEmbedding(64)
    >>> position_similarity(layer, np.arange(100)).shape
    (100, 100)

    Reference: Su Jianlin, [Hierarchical decomposition of position
    embeddings](https://www.spaces.ac.cn/archives/7947).
    """
    if hasattr(embedding, "rows"):
        ids = embedding.check_ids(ops.convert_to_tensor(positions))
        rows = ops.convert_to_numpy(embedding.rows(ids))
    else:
        rows = np.asarray(embedding)[positions]
    rows = rows.astype("float64")
    if centred:
        rows = rows - rows.mean(0)
    rows = unit_rows(rows)
    return rows @ rows.T


def attention_map(encodings, q, k, causal=False):
    """Computes the attention map of given queries and keys under some encodings.

    Args:
        encodings: list of names, dicts or instances; an instance that is built keeps its weights.
        q, k: (B, T, H, D) arrays, the content before any encoding.
        causal: bool. Whether a query sees no later key.

    Returns:
        dict: `logits` and `weights`, (B, H, T, T). A logit is NaN where the cell is closed.

    Example:

    >>> q, k = np.random.normal(size=(2, 1, 10, 8, 64))
    >>> attention_map(["alibi"], q, k, causal=True)["weights"].shape
    (1, 8, 10, 10)
    """
    batch, length, heads, size = np.shape(q)
    layer = _attention_on_heads(encodings, heads, size)
    queries, keys = (np.reshape(x, (batch, length, heads * size)) for x in (q, k))
    _, weights, logits = layer(
        queries.astype("float32"),
        keys.astype("float32"),
        use_causal_mask=causal,
        return_attention_scores=True,
        return_attention_logits=True,
    )
    mask = layer.encodings[-1].grid.mask()
    mask = True if mask is None else ops.convert_to_numpy(mask)
    weights, logits = ops.convert_to_numpy(weights), ops.convert_to_numpy(logits)
    return {"logits": np.where(mask, logits, np.nan), "weights": weights}


def decay_curve(encodings, length, num_heads=8, head_size=64, causal=True):
    """Logits and weights of one query by distance alone, the content being the same everywhere.

    All tokens are identical: every feature of every head is one number, scaled so that the logit is
    1 before any encoding acts. The query is the last token if `causal`, else the middle one.

    Args:
        encodings: list of names, dicts or instances; an instance that is built keeps its weights.
        length: int. Number of tokens T. The whole map is formed.
        num_heads: int. Number of heads H.
        head_size: int. Features per head D.
        causal: bool. Whether a query sees no later key.

    Returns:
        dict: `distance` (T,), ascending, query minus key; `logits` and `weights` (H, T). A logit is
        NaN where the cell is closed.

    Example:

    >>> decay_curve(["alibi"], length=4, num_heads=4)["logits"][0].round(2).tolist()
    [1.0, 0.75, 0.5, 0.25]
    """
    content = np.full((1, length, num_heads, head_size), head_size**-0.25)
    maps = attention_map(encodings, content, content, causal)
    row = length - 1 if causal else length // 2
    return {
        "distance": row - np.arange(length)[::-1],
        "logits": maps["logits"][0, :, row, ::-1],
        "weights": maps["weights"][0, :, row, ::-1],
    }


def entropy(weights):
    """Returns the entropy of attention weights over their last axis, in nats: -sum_j a_j ln a_j.

    exp(entropy) is the effective number of keys that share the attention.

    Args:
        weights: array (..., T) of weights that sum to 1.

    Example:

    >>> entropy([0.25, 0.25, 0.25, 0.25]).round(3).item()
    1.386
    """
    weights = np.asarray(weights, "float64")
    return -np.sum(weights * np.log(np.where(weights > 0, weights, 1)), axis=-1)


def entropy_by_length(
    encodings, lengths, sharpness=2.0, num_heads=8, head_size=64, causal=False, seed=0
):
    """Entropy of attention at several lengths, on random content.

    Queries and keys are drawn from a normal distribution and scaled so that the logits have the
    standard deviation `sharpness` s. Without encodings the entropy approaches ln n - s^2 / 2 as the
    number of keys n grows: it rises with every doubling. Log-n scaling is to keep it constant.

    Args:
        encodings: list of names, dicts or instances; an instance that is built keeps its weights.
        lengths: list of int. Numbers of tokens.
        sharpness: float. Standard deviation s of the logits.
        num_heads: int. Number of heads H.
        head_size: int. Features per head D.
        causal: bool. If True, only the last query is measured, which sees all keys; else all.
        seed: int. Seed of the content.

    Returns:
        dict: `length` (N,); `entropy` (N, H) in nats.

    Example:

    >>> entropy_by_length([], [128, 256])["entropy"].mean(1).round(1).tolist()
    [3.2, 3.8]

    Reference: Su Jianlin, [log-n attention](https://kexue.fm/archives/8823).
    """
    rng, entropies = np.random.default_rng(seed), []
    for length in lengths:
        q, k = rng.normal(size=(2, 1, length, num_heads, head_size))
        weights = attention_map(encodings, sharpness * q, k, causal)["weights"][0]
        entropies.append(entropy(weights[:, -1:] if causal else weights).mean(-1))
    return {"length": np.asarray(lengths), "entropy": np.stack(entropies)}


class Recorder(Encoding):
    """Changes nothing, and keeps what `score` received, outside compiled code."""

    def score(self, logits, q, grid):
        """The logits (B, H, Tq, Tk), unchanged."""
        self.logits, self.queries, self.grid = logits, q, grid
        return logits


def _attention_on_heads(encodings, heads, size):
    """Attention whose heads are its inputs, split H ways; its last encoding is a `Recorder`."""
    layer = PositionalAttention(
        heads, size, encodings=[*encodings, Recorder()], use_bias=False, dtype="float32"
    )
    layer.build((None, None, heads * size), (None, None, heads * size))
    for dense in (layer.query_dense, layer.key_dense):
        dense.kernel.assign(np.eye(heads * size).reshape(heads * size, heads, size))
    for source, copy in zip(encodings, layer.encodings, strict=False):
        if isinstance(source, keras.Layer) and source.built:
            copy.set_weights(source.get_weights())
    return layer
