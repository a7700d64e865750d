"""Attention whose rows are split over several devices, by `shard_map`."""

import jax
import keras
from jax.sharding import PartitionSpec

AXIS = "sequence"


def sequence_shards(q):
    """Number of devices over which the program that is traced splits each text; 1 for none."""
    distribution = keras.distribution.distribution()
    if distribution is None or not isinstance(q, jax.core.Tracer) or not hasattr(jax, "shard_map"):
        return 1
    mesh = distribution.device_mesh
    return dict(zip(mesh.axis_names, mesh.shape, strict=True)).get(AXIS, 1)


def over_sequence(function, tensors, split, gathered, axis):
    """function(tensors), each device with its part of some tensors and all of the others.

    Without it, a loop over blocks of rows would gather all rows on every turn.

    Args:
        function: a list of tensors -> a tensor, whose rows are those of the tensors.
        tensors: list.
        split: list. The axis that is split, for each tensor, or None.
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
        mesh=keras.distribution.distribution().device_mesh.backend_mesh,
        in_specs=(specs,),
        out_specs=_spec(axis),
        axis_names={AXIS},
        check_vma=False,
    )
    return on_devices(tensors)


def _spec(axis):
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, AXIS)
