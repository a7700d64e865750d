"""The choice of a path: the cheapest one that can compute what the encodings need."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.blocks import attend_in_blocks
from keras_posenc.attention.cells import attend_explicitly, attend_nothing, zero_if_blind
from keras_posenc.attention.encode import encode
from keras_posenc.attention.fused import attend_fused, heads_of_map
from keras_posenc.attention.local import attend_locally, local_rows

MB = 2**20
# Bytes of a float32 map from which on it is cut, and of a block's map. On a CPU they are those of
# the backend's traits; of what a fused kernel is given, cutting costs time and saves memory.
IN_KERNEL = (128 * MB, 32 * MB)
# Per chip. A block of 32 MB stays in the 128 MB of fast memory that a TPU v5e has.
ON_GPU, ON_TPU = (1024 * MB, 256 * MB), (128 * MB, 32 * MB)
# A TPU stores rows in tiles of this many, and a GPU's products like multiples of it.
LANES = 128
# Times the usual bytes, of a block with the rows that an encoding asks for.
AT_MOST = 4
# Blocks of fewer rows would read the keys and values too often.
FEWEST_ROWS = 64


def attend(q, k, v, grid, rules, with_map=False):
    """Lets the encodings act, and attends by the cheapest path that they allow.

    A window costs what its cells cost. A fused kernel is used where the backend has one and no
    encoding needs the map. Otherwise the map is materialised, and recomputed in the backward pass
    instead of saved: a small one as a whole, a large one in blocks of rows, so that memory is
    linear in the number of tokens.

    Args:
        q, k, v: heads (B, T, H, D), before any encoding.
        grid: `Grid` of the map.
        rules: `Rules`.
        with_map: bool. Return the map too, which is then materialised as a whole.

    Returns:
        The output (B, Tq, H, Dv), the weights before dropout, and the logits before closing,
        (B, H, Tq, Tk); these two are None unless `with_map`.
    """
    if 0 in (*q.shape[:2], k.shape[1]):
        return attend_nothing(q, k, v)
    if with_map or backend.is_exporting():
        _check_rows(q, rules)
    if with_map:
        q, k, grid = encode(q, k, v, grid, rules, forms_map=True)
        output, weights, logits = attend_explicitly(q, k, v, grid, rules)
        return output, zero_if_blind(weights, grid, grid.open()), logits
    reads_map = rules.dropout or rules.override("score", "scan", "normalize", "value")
    if rules.flash and reads_map:
        raise ValueError(
            "A fused kernel cannot drop attention weights, nor run an encoding that reads the "
            "attention map. Set `dropout=0`, take such encodings out, or leave "
            "`flash_attention=None`."
        )
    if rules.flash and backend.platform(q) == "tpu":
        raise ValueError(
            "`flash_attention` must be None or False on a TPU, where the fused kernel of Keras "
            "computes other numbers. Received: True, or `keras.config.enable_flash_attention()`"
        )
    biased = rules.bias is not None or rules.override("bias")
    allowed = not reads_map and rules.flash is not False
    fused = allowed and bool(rules.flash or backend.has_kernel(q, biased))
    q, k, grid = encode(q, k, v, grid, rules, forms_map=not fused)
    return _attend_cheaply(q, k, v, grid, rules, fused, biased), None, None


def _attend_cheaply(q, k, v, grid, rules, fused, biased):
    """The output, by a fused kernel or by the map, in one or in blocks."""
    most_rows = rules.most_rows()
    block_rows = None if backend.is_exporting() else local_rows(q, k, grid, rules)
    if block_rows and block_rows <= (most_rows or block_rows):
        return attend_locally(q, k, v, grid, rules, block_rows, fused)
    if fused:
        heads, sizes = heads_of_map(q, grid.is_by_cell(), biased), IN_KERNEL
    else:
        heads, sizes = ops.shape(q)[2], (backend.TRAITS.map_bytes, backend.TRAITS.block_bytes)
    block_rows = rows_of_block(q, k, rules.encodings, heads, sizes) if heads else None
    if most_rows and not backend.is_exporting():
        block_rows = _limited(block_rows, ops.shape(q)[1], most_rows)
    if block_rows is not None:
        return attend_in_blocks(q, k, v, grid, rules, block_rows, fused)
    if fused:
        return attend_fused(q, k, v, grid, rules)
    if grid.training:  # one block, so that the map is not saved
        return attend_in_blocks(q, k, v, grid, rules, ops.shape(q)[1])
    return attend_explicitly(q, k, v, grid, rules)[0]


def _limited(block_rows, num_rows, most_rows):
    """Number of rows in a block, or None for one block, where a block may hold `most_rows`."""
    if isinstance(num_rows, int):
        return block_rows if num_rows <= most_rows else min(block_rows or num_rows, most_rows)
    return ops.minimum(num_rows if block_rows is None else block_rows, most_rows)


def _check_rows(q, rules):
    """Raises ValueError for more rows than an encoding can compute in one map."""
    for encoding in rules.encodings:
        most_rows, num_rows = encoding.execution.most_rows, q.shape[1]
        if None not in (most_rows, num_rows) and num_rows > most_rows:
            raise ValueError(
                f"{type(encoding).__name__} computes at most {most_rows} queries in one attention "
                "map: request no scores or logits, export a shorter length, or configure a slower "
                f"decay. Received: {num_rows} queries"
            )


def rows_of_block(q, k, encodings, heads, sizes):
    """Number of rows in a block, or None if the map is to be materialised as a whole.

    Args:
        sizes: (bytes of a map from which on it is cut, bytes of a block's map), on a CPU.
    """
    if backend.is_exporting():
        return None
    accelerated = backend.on_accelerator(q)
    if accelerated:
        sizes = ON_TPU if backend.platform(q) == "tpu" else ON_GPU
    map_bytes, block_bytes = sizes
    batch, num_rows, num_columns = *ops.shape(q)[:2], ops.shape(k)[1]
    if isinstance(num_rows, int) and num_rows <= FEWEST_ROWS:
        return None
    min_rows = max((e.execution.min_rows for e in encodings), default=0)
    bounds = [e.execution.max_rows for e in encodings if e.execution.max_rows]
    max_rows = min(bounds, default=block_bytes) if not accelerated else block_bytes
    if all(isinstance(size, int) for size in (batch, num_rows, num_columns)):
        batch = -(-batch // _batch_shards()) if accelerated else batch
        of_row = max(1, 4 * heads * batch * num_columns)
        size = min(max_rows, block_bytes // of_row)
        size = max(FEWEST_ROWS, size, min(min_rows, AT_MOST * block_bytes // of_row))
        size = max(LANES, size // LANES * LANES) if accelerated else size
        return None if of_row * num_rows <= map_bytes else size
    # TensorFlow learns the sizes later. A map can have more bytes than int32 can count.
    of_row = ops.maximum(4 * heads * ops.cast(batch, "int64") * ops.cast(num_columns, "int64"), 1)
    num_rows = ops.cast(num_rows, "int64")
    size = ops.minimum(max_rows, block_bytes // of_row)
    size = ops.maximum(size, ops.minimum(min_rows, AT_MOST * block_bytes // of_row))
    size = ops.minimum(ops.maximum(FEWEST_ROWS, size), num_rows)
    return ops.cast(ops.where(of_row * num_rows <= map_bytes, num_rows, size), "int32")


def _batch_shards():
    """Number of chips over which Keras splits a batch."""
    distribution = keras.distribution.distribution()
    mesh = getattr(distribution, "device_mesh", None)
    if mesh is None or distribution.batch_dim_name not in mesh.axis_names:
        return 1
    return mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)]
