"""PaTH: every token between a key and a query reflects the key."""

import math

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Initializer
from keras_posenc.encodings.base import Encoding, Execution
from keras_posenc.maps.columns import slice_axis

# Most tokens whose transformations are multiplied at once.
BLOCK = 64


@keras.saving.register_keras_serializable(package="keras_posenc")
class PaTH(Encoding):
    """PaTH: position encoding by accumulated Householder transformations.

    Each token t has a transformation H_t (D, D) per head, and the logits (B, H, Tq, Tk) are

        l_ij = q_i' H_i H_i-1 ... H_j+1 k_j / sqrt(D),    H_t = I - b_t w_t w_t'
        w_t = y_t / |y_t|,    y_t = silu(sum_s c_s * (V U x_t-s)),    b_t = 2 sigmoid(a . x_t + a_0)

    Here x_t (B, T, E) is the hidden state behind key t. U (E, rank) and V (rank, H, D) are a
    projection of low rank, and c (S, H, D) is a short convolution over the tokens up to t. The
    strength is a (E, H) with a_0 (H,). At 0, t changes nothing; at 1 it erases w_t from the keys
    before, and at 2 it reflects them. So tokens can swap and overwrite what keys mean, which tracks
    a state. It reads no position ids, and padding changes nothing; a key that only an
    `attention_mask` masks still does. The convolution reads tokens that its own may attend to, by
    documents and by the mask, where there are as many queries as keys.

    The difference from q.k is a bias: transformations are multiplied in blocks of 64 tokens, and
    memory is linear in the length. A step of decoding multiplies those of all earlier tokens again,
    so it costs much more than one without.

    Args:
        rank: int. Rank of the projection to w.
        kernel_size: int. Tokens S of the convolution.
        kernel_initializer: initializer of U, V and a.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16, encodings=["path"])
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x, use_causal_mask=True).shape
    (1, 10, 32)

    Reference: [PaTH Attention: Position Encoding via Accumulating Householder
    Transformations](https://arxiv.org/abs/2505.16381).
    """

    causal_only = True
    exportable = False
    paper = "https://arxiv.org/abs/2505.16381"
    # What lies between a key and a query acts on them, even where a window masks it.
    execution = Execution(min_rows=256, earlier_columns=True)

    def __init__(
        self,
        rank: int = 32,
        kernel_size: int = 3,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.rank = checks.whole("rank", rank)
        self.kernel_size = checks.whole("kernel_size", kernel_size)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, heads_shape, states_shape):
        super().build(heads_shape)
        (heads, size), features = heads_shape[-2:], states_shape[-1]
        self.feature_size = size + 1
        bound = self.kernel_size**-0.5
        uniform = keras.initializers.RandomUniform(-bound, bound)
        self.down = self._add("down", (features, self.rank))
        self.up = self._add("up", (self.rank, heads * size))
        self.convolution = self._add("convolution", (self.kernel_size, heads, size), uniform)
        self.strength = self._add("strength", (features, heads))
        self.strength_bias = self._add("strength_bias", (heads,), "zeros")

    def _add(self, name, shape, initializer=None):
        return self._add_uncast(name, shape, initializer or self.kernel_initializer.clone())

    def features(self, states):
        """V U x before the convolution and a.x, (B, Tk, H, D + 1) float32."""
        weights = states, self.down, self.up, self.strength
        states, down, up, strength = (ops.cast(x, "float32") for x in weights)
        projected = ops.matmul(ops.matmul(states, down), up)
        shape = (*ops.shape(projected)[:2], self.num_heads, self.head_size)
        projected = ops.reshape(projected, shape)
        return ops.concatenate([projected, ops.matmul(states, strength)[..., None]], axis=-1)

    def restrict(self, grid):
        """A grid with the causal order, and with what the products need of each key.

        That is w, and what `_multiplied` makes of it and others of its block, (B, Tk, H, 2 D + C).
        """
        grid = _ordered(grid)
        features = ops.cast(grid.content.features[self], "float32")
        if grid.key_mask is not None:
            features = features * ops.cast(grid.key_mask, "float32")[..., None, None]
        y = ops.silu(self._convolved(features[..., :-1], grid))
        w = y * ops.rsqrt(ops.sum(y * y, axis=-1, keepdims=True) + 1e-6)
        strength_bias = ops.cast(self.strength_bias, "float32")[:, None]
        b = 2 * ops.sigmoid(features[..., -1:] + strength_bias)
        if grid.key_mask is not None:
            b = b * ops.cast(grid.key_mask, "float32")[..., None, None]
        keys = ops.cast(grid.content.keys, "float32")
        length = ops.shape(keys)[1]
        width = 1 if isinstance(length, int) else BLOCK
        while width < BLOCK and width < length:  # torch.compile guards comparisons alone
            width *= 2
        blocks = (_in_blocks(x, length, width) for x in (w, b, keys))
        multiplied = _out_of_blocks(ops.concatenate(_multiplied(*blocks), axis=-1), length)
        known = {**grid.content.features, self: ops.concatenate([w, multiplied], axis=-1)}
        return grid.replace(features=known)

    def _convolved(self, x, grid):
        """The convolution of x (B, Tk, H, D) over tokens that a token may attend to."""
        kernel = ops.cast(self.convolution, "float32")
        total = x * kernel[-1]
        for shift in range(1, self.kernel_size):
            place = _place_before(grid, shift)
            before = _shifted(x, shift) if grid.key_mask is None else _at(x, place)
            for seen in _seen(grid, place):
                before = before * ops.cast(seen, "float32")[..., None]
            total = total + before * kernel[-1 - shift]
        return total

    def bias(self, q, grid):
        """q_i' (H_i ... H_j+1 - I) k_j / sqrt(D), (B, H, Tq, Tk) float32."""
        keys, known = (
            ops.cast(x, "float32") for x in (grid.content.keys, grid.content.features[self])
        )
        size, num_columns = self.head_size, ops.shape(keys)[1]
        width = known.shape[-1] - 2 * size
        order = ops.cast(grid.key_order, "float32")[..., None, None] + ops.zeros_like(keys[..., :1])
        blocks = _in_blocks(ops.concatenate([known, keys, order], axis=-1), num_columns, width)
        w, v, within, k, order = backend.split(
            blocks, [size, 2 * size, 2 * size + width, 3 * size + width], -1
        )

        q = ops.transpose(ops.cast(q, "float32"), (0, 2, 1, 3))
        rows = ops.cast(grid.query_order, "float32")[:, None, :, None]

        def along(d, w, order, rows):
            """Products of q + d (..., Tq, D) with w (..., C, D) of tokens not after the query."""
            products = ops.matmul(d, ops.swapaxes(w, -1, -2))
            return ops.where(ops.swapaxes(order, -1, -2) <= rows, products, 0.0)

        def step(d, block):
            w, v, order = block[..., :size], block[..., size:-1], block[..., -1:]
            return d - ops.matmul(along(q + d, w, order, rows), v), d

        # From the last block to the first: what the tokens after a block add to the queries.
        steps = ops.moveaxis(ops.concatenate([w, v, order], axis=-1), 2, 0)
        _, d = backend.scan(step, ops.zeros_like(q), steps, reverse=True)
        d = ops.moveaxis(d, 0, 2)  # (B, H, blocks, Tq, D)
        bias = ops.matmul(d, ops.swapaxes(k, -1, -2))
        bias = bias - ops.matmul(along(q[:, :, None] + d, w, order, rows[:, :, None]), within)
        batch, heads, count, num_rows, width = ops.shape(bias)
        bias = ops.reshape(ops.swapaxes(bias, 2, 3), (batch, heads, num_rows, count * width))
        return backend.apart(slice_axis(bias, -1, 0, num_columns) / math.sqrt(size))


def _ordered(grid):
    """The grid with the causal order, if the rows and columns are the same tokens, in it."""
    num_rows, num_columns = grid.query_positions.shape[1], grid.key_positions.shape[1]
    known = None not in (num_rows, num_columns)
    if grid.order_is_index:
        fits = not known or num_rows <= num_columns
    else:
        fits = grid.query_order is None and (not known or num_rows == num_columns)
    if not fits:
        order = "a `query_order`" if grid.query_order is not None else "no causal order"
        raise ValueError(
            "PaTH multiplies the tokens between a key and a query, so it needs one sequence in the "
            "plain causal order: call the layer with `use_causal_mask=True` or a cache, and leave "
            f"`query_order` out. Received: {num_rows} queries, {num_columns} keys and {order}"
        )
    if grid.order_is_index:
        return grid
    index = ops.arange(ops.shape(grid.key_positions)[1], dtype="int32")[None]
    return grid.replace(query_order=index, key_order=index, order_is_index=True)


def _place_before(grid, shift):
    """The index of the token `shift` before each, (B or 1, T) int32, below 0 if there is none.

    Padding may stand between two tokens, as after the prompts of a cache; it is none.
    """
    index = ops.arange(ops.shape(grid.key_positions)[1], dtype="int32")[None]
    if grid.key_mask is None:
        return index - shift
    is_token = ops.cast(grid.key_mask, "int32")
    places = ops.argsort(index + ops.shape(index)[1] * (1 - is_token), axis=1)  # of the n-th token
    number = ops.cumsum(is_token, axis=1) - 1 - shift
    found = backend.take_along_axis(ops.cast(places, "int32"), ops.maximum(number, 0), 1)
    return ops.where(number < 0, -1, found)


def _shifted(x, shift):
    """x (B, T, ...) moved to later tokens, with zeros before."""
    sides = [(0, 0)] * len(x.shape)
    sides[1] = (shift, 0)
    return slice_axis(backend.pad(x, sides), 1, 0, ops.shape(x)[1])


def _at(x, place):
    """x (B, T, ...) at other places (B or 1, T), and zeros where these are below 0."""
    place = ops.reshape(place, (*ops.shape(place), *[1] * (len(x.shape) - 2)))
    found = backend.take_along_axis(x, ops.maximum(place, 0), 1)
    return found * ops.cast(place >= 0, x.dtype)


def _seen(grid, place):
    """Where a token may attend to the one at `place`, (B, T, H), by each condition."""
    conditions = []
    if grid.key_index is not None:
        starts = grid.key_index - grid.key_positions  # of documents
        conditions.append((_at(starts, place) == starts)[..., None])
    num_rows, num_columns = grid.query_positions.shape[1], grid.key_positions.shape[1]
    if grid.attention_mask is not None and num_rows == num_columns:
        index = ops.arange(ops.shape(grid.key_positions)[1], dtype="int32")
        mask = ops.cast(grid.attention_mask, "bool")
        mask = ops.reshape(mask, (*[1] * (4 - len(mask.shape)), *ops.shape(mask)))
        mask = ops.swapaxes(mask, 0, 1) if len(grid.attention_mask.shape) == 3 else mask
        mask = ops.any(ops.logical_and(mask, place[:, None, :, None] == index), axis=-1)
        conditions.append(ops.swapaxes(mask, 1, 2))
    return conditions


def _in_blocks(x, length, width):
    """x (B, T, H, F) as (B, H, blocks, width, F), the last block filled up with zeros."""
    batch, _, heads, features = ops.shape(x)
    count = (length + width - 1) // width
    x = backend.pad(x, [(0, 0), (0, count * width - length), (0, 0), (0, 0)])
    x = ops.reshape(x, (batch, count, width, heads, features))
    return ops.transpose(x, (0, 3, 1, 2, 4))


def _out_of_blocks(x, length):
    """x (B, H, blocks, width, F) as (B, T, H, F)."""
    batch, heads, count, width, features = ops.shape(x)
    x = ops.reshape(ops.transpose(x, (0, 2, 3, 1, 4)), (batch, count * width, heads, features))
    return slice_axis(x, 1, 0, length)


def _multiplied(w, b, k):
    """The products of the transformations of each block (UT transform).

    A vector x becomes x - (x W') V when it passes a block from its last token to the first, and the
    tokens after key j of the block change the product x.k_j by -(x W') within_j. `w`, `k`: (..., C,
    D), where C is a power of two. `b`: (..., C, 1). Returns V (..., C, D), and `within` (..., C,
    C).
    """
    index = ops.arange(w.shape[-2], dtype="int32")
    later = index[:, None] > index
    products = ops.matmul(w, ops.swapaxes(ops.concatenate([w, k], axis=-2), -1, -2))
    of_tokens, of_keys = ops.split(products, 2, axis=-1)
    of_tokens, of_keys = (ops.where(later, x, 0.0) for x in (of_tokens, of_keys))
    inverse = _inverse_of_unit_triangle(b * of_tokens)
    solved = backend.exact_product(inverse, b * ops.concatenate([w, of_keys], axis=-1))
    return solved[..., : w.shape[-1]], solved[..., w.shape[-1] :]


def _inverse_of_unit_triangle(lower):
    """The inverse of I + L, where L (..., C, C) has no number above or on its diagonal.

    Diagonal blocks are inverted two by two: [[A, 0], [L, B]] has the inverse D - D L D, where D is
    that of [[A, 0], [0, B]]. Triangular solves of JAX can wait for each other without end on a CPU
    of two cores.
    """
    count = lower.shape[-1]
    index, inverse = ops.arange(count, dtype="int32"), ops.eye(count)
    for size in (2**level for level in range(count.bit_length() - 1)):
        block = index // size
        pairs = (block[:, None] == block + 1) & (block % 2 == 0)
        below = ops.where(pairs, lower, 0.0)
        product = backend.exact_product(backend.exact_product(inverse, below), inverse)
        inverse = inverse - product
    return inverse
