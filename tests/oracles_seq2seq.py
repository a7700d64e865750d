"""The encoder-decoder Transformer in float64 NumPy, written from the paper; nothing of ours."""

import numpy as np


def logits(weights, source, target, heads, epsilon=1e-6, maps=None):
    """Attention Is All You Need, section 3, with one table for three uses and padding id 0.

    Args:
        weights: dict, path of a variable -> array.
        source, target: (B, S) and (B, T) token ids.
        heads: int.
        maps: dict that gets the weights of each attention by its name.
    """
    w = {path: np.asarray(value, "float64") for path, value in weights.items()}
    table = w["Embedding-Token/embeddings"]
    size = table.shape[1]
    depth = len([path for path in w if path.endswith("CrossAttention/query/kernel")])

    def embed(ids):
        return table[ids] * np.sqrt(size) + sines(ids.shape[1], size)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
        return x * w[f"{name}-Norm/gamma"] + w[f"{name}-Norm/beta"]

    def attend(x, memory, open_cells, name):
        def project(y, part):
            return (
                np.einsum("btd,dhe->bhte", y, w[f"{name}/{part}/kernel"])
                + (w[f"{name}/{part}/bias"][None, :, None])
            )

        q, k, v = project(x, "query"), project(memory, "key"), project(memory, "value")
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(size // heads)
        scores = np.where(open_cells, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores = scores / scores.sum(-1, keepdims=True)
        if maps is not None:
            maps[name] = scores
        mixed = scores @ v
        out = np.einsum("bhte,hed->btd", mixed, w[f"{name}/attention_output/kernel"])
        return norm(x + out + w[f"{name}/attention_output/bias"], name)

    def feed_forward(x, name):
        inner = x @ w[f"{name}/intermediate/kernel"] + w[f"{name}/intermediate/bias"]
        out = np.maximum(inner, 0) @ w[f"{name}/output/kernel"] + w[f"{name}/output/bias"]
        return norm(x + out, name)

    of_source = (source != 0)[:, None, None, :]
    length = target.shape[1]
    of_target = (target != 0)[:, None, None, :] & np.tril(np.ones((length, length), bool))
    memory = embed(source)
    for i in range(depth):
        memory = attend(memory, memory, of_source, f"Encoder-{i}-MultiHeadSelfAttention")
        memory = feed_forward(memory, f"Encoder-{i}-FeedForward")
    x = embed(target)
    for i in range(depth):
        x = attend(x, x, of_target, f"Decoder-{i}-MultiHeadSelfAttention")
        x = attend(x, memory, of_source, f"Decoder-{i}-MultiHeadCrossAttention")
        x = feed_forward(x, f"Decoder-{i}-FeedForward")
    return x @ table.T


def sines(length, size):
    """PE(t, 2k) = sin(t / 10000^(2k/d)), PE(t, 2k + 1) = cos of the same."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, size, 2) / size)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, size)
