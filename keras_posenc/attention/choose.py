"""The choice of a path: the cheapest one that can compute what the encodings need."""

import functools

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.attention.blocks import LANES, attend_in_blocks
from keras_posenc.attention.fused import (
    attend_dropping,
    attend_fused,
    drops_in_kernel,
    fused_cells,
    heads_of_map,
)
from keras_posenc.attention.local import attend_locally, local_rows
from keras_posenc.attention.matrix import (
    attend_cells,
    attend_explicitly,
    attend_nothing,
    attend_with_map,
    weigh_cells,
)
from keras_posenc.attention.rules import encode
from keras_posenc.attention.sequence import (
    attend_over_devices,
    attend_per_device,
    rows_on_each_device,
    splits_batch,
    splits_sequence,
)
from keras_posenc.attention.splash import FEWEST_TOKENS, attend_by_splash, splash_serves
from keras_posenc.backend.head_groups import repeated_heads

MB = 2**20
# Bytes of a float32 map from which on it is cut, and of a block's map. On a CPU they are those of
# the backend's traits; of what a fused kernel is given, cutting costs time and saves memory.
IN_KERNEL = (128 * MB, 32 * MB)
# Per chip. A block of 32 MB stays in the 128 MB of fast memory that a TPU v5e has.
ON_GPU, ON_TPU = (1024 * MB, 256 * MB), (128 * MB, 32 * MB)
# Times the usual bytes, of a block with the rows that an encoding asks for.
AT_MOST = 4
# Blocks of fewer rows would read the keys and values too often.
FEWEST_ROWS = 64


def attend(q, k, v, grid, rules, with_map=False):
    """Lets the encodings act, and attends by the cheapest path that they allow.

    A window costs what its cells cost. A fused kernel is used where the backend has one and no
    encoding needs the map. Otherwise the map is materialised.

    `q`, `k`, `v`: heads (B, T, H, D), before the encodings of `rules`; of k and v there may be
    fewer. `with_map`: bool. Return the map too, which is then materialised as a whole. Returns the
    output (B, Tq, H, Dv), the weights before dropout, and the logits before closing,
    (B, H, Tq, Tk); these two are None unless `with_map`.
    """
    if 0 in (*q.shape[:2], k.shape[1]):
        return attend_nothing(q, k, v)
    with backend.exporting_free_sizes(q):
        if with_map or backend.is_exporting():
            _check_rows(q, rules.hooks.encodings)
        fused = not with_map and _takes_kernel(q, rules)
        drops = not (with_map or fused) and drops_in_kernel(q, v, grid, rules)
        rules = rules.drawn(q, k, fused)
        q, k, grid = encode(q, k, v, grid, rules.hooks, forms_map=not (fused or drops))
        v = repeated_heads(v, k.shape[2])  # an encoding may have widened the keys by query head
        kernel = attend_dropping if drops and drops_in_kernel(q, v, grid, rules) else None
        if fused and backend.platform(q) == "tpu":
            whole = backend.sequence_shards(q) == 1  # the kernel needs all rows
            fused = whole and _takes_splash(q, k, grid, rules)
            kernel = attend_by_splash if fused else None
        if with_map:
            return attend_with_map(q, k, v, grid, rules)
        path, in_loop = (kernel, False) if kernel else choose_path(q, k, grid, rules, fused)
        if (in_loop or not fused) and splits_batch(q, rules, kernel):
            path = functools.partial(attend_per_device, path)
        return path(q, k, v, grid, rules), None, None


def _takes_kernel(q, rules):
    """Whether a fused kernel computes this map, or a block of it."""
    reads_map = (rules.dropout and not backend.kernels_drop(q)) or rules.hooks.read_map
    if rules.flash and reads_map:
        raise ValueError(
            "A fused kernel cannot drop attention weights, nor run an encoding that reads the "
            "attention map. Set `dropout=0`, take such encodings out, or leave "
            "`flash_attention=None`."
        )
    if reads_map or rules.flash is False:
        return False
    return bool(rules.flash or backend.has_kernel(q, rules.has_bias()))


def _takes_splash(q, k, grid, rules):
    """Whether the kernel for TPUs serves this call.

    It is the only one there: the path of Keras 3.15 adds a causal mask, does not scale the queries
    and leaves out the bias.
    """
    serves = splash_serves(q, k, grid, rules)
    if rules.flash and not serves:
        raise ValueError(
            "`flash_attention` must be None or False on a TPU for this call: the fused kernel "
            f"takes {FEWEST_TOKENS} queries and keys or more, in float32 or bfloat16, and no bias, "
            "attention mask or learned sinks, and several devices only by `keras.distribution`. "
            "Received: True, or `keras.config.enable_flash_attention()`"
        )
    return serves


def choose_path(q, k, grid, rules, fused):
    """The function of (q, k, v, grid, rules) that attends, and whether it computes blocks of rows.

    In training the attention matrix is not saved but recomputed in the backward pass: a small one
    as a whole, a large one in blocks of rows. So memory is linear in the length.
    """
    hooks, num_rows = rules.hooks, ops.shape(q)[1]
    if fused:
        compute = fused_cells
    else:
        compute = attend_cells if hooks.read_weights else weigh_cells
    local = block_rows = None
    split = splits_sequence(q, k, hooks)
    if not backend.is_exporting():
        local = None if grid.window is None else local_rows(q, k, grid, rules)
        local = local if local and local <= (hooks.most_rows or local) else None
        local = rows_on_each_device(q, local) if local and split else local
        heads, sizes = ops.shape(q)[2], (backend.TRAITS.map_bytes, backend.TRAITS.block_bytes)
        if fused:
            heads, sizes = heads_of_map(q, grid, rules), IN_KERNEL
        block_rows = rows_of_block(q, k, hooks, heads, sizes) if heads and not local else None
        if hooks.most_rows:
            block_rows = _limited(block_rows, num_rows, hooks.most_rows)
    in_blocks = {"block_rows": local or block_rows, "compute": compute}
    if local:
        return functools.partial(attend_locally, **in_blocks, over_devices=split), True
    if split:
        return functools.partial(attend_over_devices, **in_blocks), block_rows is not None
    if block_rows is not None:
        return functools.partial(attend_in_blocks, **in_blocks), True
    if fused:
        return attend_fused, False
    if grid.training:
        return functools.partial(attend_in_blocks, block_rows=num_rows, compute=compute), False
    return attend_explicitly, False


def _limited(block_rows, num_rows, most_rows):
    """Number of rows in a block, or None for one block, where a block may hold `most_rows`."""
    if isinstance(num_rows, int):
        return block_rows if num_rows <= most_rows else min(block_rows or num_rows, most_rows)
    return ops.minimum(num_rows if block_rows is None else block_rows, most_rows)


def _check_rows(q, encodings):
    """Raises ValueError for more rows than an encoding can compute in one map."""
    for encoding in encodings:
        most_rows, num_rows = encoding.execution.most_rows, q.shape[1]
        known = num_rows is not None and not backend.is_exporting("saved_model")
        if known and most_rows is not None and num_rows > most_rows:
            raise ValueError(
                f"{type(encoding).__name__} computes at most {most_rows} queries in one attention "
                "map: request no scores or logits, export a shorter length, or configure a slower "
                f"decay. Received: {num_rows} queries"
            )


def rows_of_block(q, k, hooks, heads, sizes):
    """Number of rows in a block, or None if the map is to be materialised as a whole.

    `sizes`: (bytes of a map from which on it is cut, bytes of a block's map), on a CPU.
    """
    accelerated = backend.on_accelerator(q)
    if accelerated:
        sizes = ON_TPU if backend.platform(q) == "tpu" else ON_GPU
    map_bytes, block_bytes = sizes
    batch, num_rows, num_columns = *ops.shape(q)[:2], ops.shape(k)[1]
    if isinstance(num_rows, int) and num_rows <= FEWEST_ROWS:
        return None
    max_rows = block_bytes if accelerated else hooks.max_rows or block_bytes
    if all(isinstance(size, int) for size in (batch, num_rows, num_columns)):
        batch = -(-batch // _batch_shards()) if accelerated else batch
        of_row = max(1, 4 * heads * batch * num_columns)
        size = min(max_rows, block_bytes // of_row)
        size = max(FEWEST_ROWS, size, min(hooks.min_rows, AT_MOST * block_bytes // of_row))
        size = max(LANES, size // LANES * LANES) if accelerated else size
        return None if of_row * num_rows <= map_bytes else size
    # TensorFlow learns the sizes later. A map can have more bytes than int32 can count.
    of_row = ops.maximum(4 * heads * ops.cast(batch, "int64") * ops.cast(num_columns, "int64"), 1)
    num_rows = ops.cast(num_rows, "int64")
    size = ops.minimum(max_rows, block_bytes // of_row)
    size = ops.maximum(size, ops.minimum(hooks.min_rows, AT_MOST * block_bytes // of_row))
    size = ops.minimum(ops.maximum(FEWEST_ROWS, size), num_rows)
    return ops.cast(ops.where(of_row * num_rows <= map_bytes, num_rows, size), "int32")


def _batch_shards():
    """Number of chips over which Keras splits a batch."""
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else backend.mesh_size(distribution.batch_dim_name)
