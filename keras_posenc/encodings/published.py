"""From weights as other code publishes them to weights as the encodings here store them.

Each function returns a list for `set_weights` of a built encoding. Shapes: H heads, S the size of a
vector, F hidden units.
"""

import numpy as np


def kerple_weights(a, p, kind="log"):
    """Converts KERPLE's a and p to the stored weights of `KERPLE`.

    a is stored as ln(exp(a) - 1), and so is p of kind "log"; p of kind "power" as ln(p / (2 - p)).
    `a`: positive numbers (H,). `p`: positive numbers (H,), below 2 for "power"; None for a fixed
    `power`. `kind`: "log" or "power". Returns a list of two float64 arrays (H,); of one without p.

    Example:

    >>> stored_a, stored_p = kerple_weights(a=[0.5, 1.0], p=[1.0, 2.0])
    >>> np.log1p(np.exp(stored_a)).round(6).tolist()  # softplus
    [0.5, 1.0]
    """
    if kind == "log":
        return [_before_softplus("a", a), _before_softplus("p", p)]
    if kind != "power":
        raise ValueError(f'`kind` must be "log" or "power". Received: {kind!r}')
    if p is None:
        return [_before_softplus("a", a)]
    p = np.asarray(p, "float64")
    if not np.all((p > 0) & (p < 2)):
        raise ValueError(f"`p` must lie between 0 and 2, both excluded. Received: {p.tolist()}")
    return [_before_softplus("a", a), np.log(p / (2 - p))]


def fire_weights(c, multiplier, hidden_kernel, hidden_bias, output_kernel, output_bias):
    """Converts the weights of FIRE's listing to the stored weights of `FIRE`.

    The listing has c and a multiplier of the threshold, and takes the absolute values of both. It
    has two linear layers with kernels (outputs, inputs), as PyTorch stores them. Set
    `FIRE(length=...)` to the listing's `init_L`.

    Args:
        c: number, not 0.
        multiplier: number, not 0. The listing's `L_multiplier`; the threshold is `init_L` times it.
        hidden_kernel, hidden_bias: (F, 1) and (F,), of the first linear layer.
        output_kernel, output_bias: (H, F) and (H,), of the second.

    Returns:
        list of six float64 arrays: c and threshold (), w and u (F,), v (F, H), d (H,).

    Example:

    >>> layers = np.ones((4, 1)), np.zeros(4), np.ones((2, 4)), np.zeros(2)
    >>> [weight.shape for weight in fire_weights(0.1, 1.0, *layers)]
    [(), (), (4,), (4,), (4, 2), (2,)]
    """
    return [
        _before_softplus("c", np.abs(c)),
        _before_softplus("multiplier", np.abs(multiplier)),
        np.asarray(hidden_kernel, "float64").reshape(-1),
        np.asarray(hidden_bias, "float64"),
        np.asarray(output_kernel, "float64").T,
        np.asarray(output_bias, "float64"),
    ]


def rotary_bias_weights(a, b):
    """Converts the two vectors of GAU's or MEGA's rotary bias to the weights of `RotaryBias`.

    Their code rotates the features (k, k + S / 2) as a pair, `RotaryBias` (2k, 2k + 1). `a`: (S,)
    or (H, S). The vector that is rotated by the position of the query. `b`: (S,) or (H, S). The
    vector that is rotated by the position of the key. Returns a list of two float64 arrays (H, S),
    H = 1 for vectors (S,).

    Example:

    >>> rotary_bias_weights([0, 1, 2, 3], [0, 0, 1, 1])[0].tolist()
    [[0.0, 2.0, 1.0, 3.0]]
    """
    return [_interleaved(vectors) for vectors in (a, b)]


def _interleaved(vectors):
    vectors = np.atleast_2d(np.asarray(vectors, "float64"))
    heads, size = vectors.shape
    if size % 2:
        raise ValueError(f"Features are rotated in pairs: S must be even. Received: {size}")
    return vectors.reshape(heads, 2, size // 2).swapaxes(1, 2).reshape(heads, size)


def _before_softplus(name, x):
    x = np.asarray(x, "float64")
    if not np.all(x > 0):
        raise ValueError(f"`{name}` must be positive. Received: {x.tolist()}")
    return x + np.log(-np.expm1(-x))
