"""Splash attention, the kernel for TPUs that JAX ships, and what it needs to be right.

It never materialises the attention matrix, reads of a window only the blocks of keys that it
touches, and has a gradient. It does not scale the queries, and knows of masks only a band of
diagonals, fixed when the program is traced, and segments. Its lengths are multiples of 128.
"""

import importlib.util

import jax
import jax.numpy as jnp
import keras
from jax.sharding import PartitionSpec

LANES = 128
# Blocks of the kernel, the best first. A block of logits, 1 MB of float32, fits the fast memory of
# every TPU a few times over.
BLOCKS = (512, 384, 256, 128)
# How much longer a text may get so that its blocks are larger.
PADDED = 1.25

NO_TEXT = -1  # the segment of what fills up the last block of keys: no query is of it


def has_splash(q):
    """Whether this JAX has the kernel, for heads of this dtype on a TPU."""
    return (
        q.dtype in (jnp.float32, jnp.bfloat16)
        and hasattr(jax, "shard_map")
        and not is_split_by_xla(q)
        and importlib.util.find_spec("jax.experimental.pallas.ops.tpu.splash_attention") is not None
    )


def is_split_by_xla(q):
    """Whether shardings of plain JAX split the program over devices: the kernel would not compile.

    JAX knows it while tracing, except where only `in_shardings` of `jax.jit` name the devices.
    """
    if keras.distribution.distribution() is not None or not hasattr(jax, "typeof"):
        return False
    mesh = jax.typeof(q).sharding.mesh
    axes = zip(mesh.axis_sizes, mesh.axis_types, strict=True)
    return any(size > 1 and kind != jax.sharding.AxisType.Manual for size, kind in axes)


def splash(q, k, v, query_segments, key_segments, before, after):
    """softmax(q k') v of heads (B, T, H, D), where rows see the keys of a band and their segment.

    Args:
        q, k, v: heads; the queries are scaled already.
        query_segments, key_segments: (B or 1, T) int32, or None. A query sees the keys of its
            segment; queries have segments of at least 0.
        before, after: int or None. How far to the left and right of itself a row sees; None is
            everything. Only where there are as many rows as columns.
    """
    (batch, rows), columns = q.shape[:2], k.shape[1]
    reach = max(before or 0, after or 0)
    of_rows, of_columns = _block(rows, reach), _block(columns, reach)
    q, k, v = filled(q, of_rows, 0), filled(k, of_columns, 0), filled(v, of_columns, 0)
    # A causal order hides what comes after the last key.
    if key_segments is None and k.shape[1] > columns and after != 0:
        query_segments = jnp.zeros((1, rows), "int32")
        key_segments = jnp.zeros((1, columns), "int32")
    arguments = [x.transpose(0, 2, 1, 3) for x in (q, k, v)]
    if key_segments is not None:
        segments = filled(query_segments, of_rows, 0), filled(key_segments, of_columns, NO_TEXT)
        arguments += [jnp.broadcast_to(x, (batch, x.shape[1])) for x in segments]
    output = _on_each_device(_attention(q.shape[1], k.shape[1], of_rows, of_columns, before, after))
    return output(*arguments).transpose(0, 2, 1, 3)[:, :rows]


def _block(length, reach):
    """The number of rows or columns in a block: the largest that pads little, and within a window
    none that is wider than it reaches."""
    least = _multiple(length, LANES)
    for size in BLOCKS:
        wide = reach and size > _multiple(reach, LANES)
        if not wide and _multiple(length, size) <= PADDED * least:
            return size
    return LANES


def _multiple(number, of):
    return -(-number // of) * of


def filled(x, size, value):
    """x (B, T, ...) with more of this value, up to a multiple of `size`."""
    missing = -x.shape[1] % size
    sides = [(0, 0), (0, missing)] + [(0, 0)] * (x.ndim - 2)
    return jnp.pad(x, sides, constant_values=value) if missing else x


def _attention(rows, columns, of_rows, of_columns, before, after):
    """The kernel for these sizes, as a function of (B, H, T, D) and segments (B, T)."""
    from jax.experimental.pallas.ops.tpu import splash_attention as kernels

    if before is None and after is None:
        mask = kernels.FullMask((rows, columns))
    elif before is None and after == 0:
        mask = kernels.CausalMask((rows, columns))
    else:
        mask = kernels.LocalMask((rows, columns), (before, after), 0)
    sizes = kernels.BlockSizes(
        block_q=of_rows,
        block_kv=of_columns,
        block_q_dkv=of_rows,
        block_kv_dkv=of_columns,
        block_q_dq=of_rows,
        block_kv_dq=of_columns,
    )

    def attention(q, k, v, *segments):
        kernel = kernels.make_splash_mha(
            kernels.MultiHeadMask([mask] * q.shape[1]),
            block_sizes=sizes,
            head_shards=1,
            q_seq_shards=1,
        )
        segments = [kernels.SegmentIds(*segments)] if segments else []
        return jax.vmap(kernel)(q, k, v, *segments)

    return attention


def _on_each_device(attention):
    """The function with the batch, and heads where a mesh cuts them, split as Keras does: XLA does
    not split a kernel by itself."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return attention
    devices = distribution.device_mesh
    mesh, sizes = devices.backend_mesh, dict(zip(devices.axis_names, devices.shape, strict=True))

    def split(q, k, v, *segments):
        batch, model = distribution.batch_dim_name, "model" if "model" in sizes else None
        batch = batch if batch in sizes and q.shape[0] % sizes[batch] == 0 else None
        model = model if model and q.shape[1] % sizes[model] == 0 else None
        heads = PartitionSpec(batch, model)
        specs = (heads,) * 3 + (PartitionSpec(batch),) * len(segments)
        on_each = jax.shard_map(
            attention, mesh=mesh, in_specs=specs, out_specs=heads, check_vma=False
        )
        return on_each(q, k, v, *segments)

    return split
