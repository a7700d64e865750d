"""Attention whose rows are split over several devices, by `shard_map`."""

import jax
import jax.numpy as jnp
import keras
from jax.sharding import PartitionSpec

from keras_posenc.backend.jax_batch import mesh_of_map

AXIS = "sequence"


def sequence_shards(q):
    """Number of devices over which the program that is traced splits each text; 1 for none."""
    distribution = keras.distribution.distribution()
    if distribution is None or not isinstance(q, jax.core.Tracer) or not hasattr(jax, "shard_map"):
        return 1
    return _devices_of_text()


def _devices_of_text():
    mesh = keras.distribution.distribution().device_mesh
    return dict(zip(mesh.axis_names, mesh.shape, strict=True)).get(AXIS, 1)


def over_sequence(function, tensors, split, gathered, axis):
    """function(tensors), each device with its part of some tensors and all of the others.

    Without it, a loop over blocks of rows would gather all rows on every turn.

    Args:
        function: A list of tensors -> a tensor, whose rows are those of the tensors.
        tensors: list.
        split: list. For each tensor the axis that is split, or None.
        gathered: list. The axis of a tensor that each device sends to all others once, or None;
            its gradient is summed on the way back.
        axis: int. The axis of rows of the result.
    """

    def on_each(tensors):
        def whole(x, axis):
            if axis is None:
                return x
            return jax.lax.all_gather(x, AXIS, axis=axis, tiled=True)

        return function([whole(x, axis) for x, axis in zip(tensors, gathered, strict=True)])

    axes = zip(split, gathered, strict=True)
    specs = [_spec(other if one is None else one) for one, other in axes]
    # Keys are gathered again in the backward pass: to keep all of them would be to hold, of each
    # layer, the whole text on every device.
    on_devices = jax.shard_map(
        jax.checkpoint(on_each),
        mesh=mesh_of_map(),
        in_specs=(specs,),
        out_specs=_spec(axis),
        axis_names={AXIS},
        check_vma=False,
    )
    return on_devices(tensors)


def with_neighbours(x, axis, before, after):
    """Inside `over_sequence`: x, with columns of the devices before and after between its own.

    Zeros stand before the first column of the text, and after its last one.
    """
    parts = [*_sent(x, axis, before, 1)[::-1], x, *_sent(x, axis, after, -1)]
    return jnp.concatenate(parts, axis=axis)


def _sent(x, axis, count, step):
    """The `count` columns that come from one side, the nearest device first."""
    shards, size = _devices_of_text(), x.shape[axis]
    parts = []
    for hop in range(1, -(-count // size) + 1):
        wanted = min(size, count - (hop - 1) * size)
        start = size - wanted if step > 0 else 0
        part = jax.lax.slice_in_dim(x, start, start + wanted, axis=axis)
        pairs = [(i, i + step * hop) for i in range(shards) if 0 <= i + step * hop < shards]
        parts.append(jax.lax.ppermute(part, AXIS, pairs))
    return parts


def _spec(axis):
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, AXIS)
