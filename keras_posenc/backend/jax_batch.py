"""A batch split over several devices, where XLA would sum over them in every turn of a loop."""

import jax
import keras
from jax.sharding import PartitionSpec


def batch_shards(x):
    """Number of devices over which the program that is traced splits the texts of x; 1 for none."""
    distribution = keras.distribution.distribution()
    if distribution is None or not isinstance(x, jax.core.Tracer) or not hasattr(jax, "shard_map"):
        return 1
    mesh = distribution.device_mesh
    sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True))
    shards = sizes.get(distribution.batch_dim_name, 1)
    return 1 if x.shape[0] % shards else shards


def over_batch(function, tensors, split):
    """function(tensors), each device with its texts of some tensors and all of the others.

    What it computes of the others, such as a bias of all texts, has a gradient that each device
    sums over its texts. The devices add up their sums once, behind all loops. `function`: A list of
    tensors -> a tensor, whose first axis is the batch. `split`: list of bool. Whether the first
    axis of a tensor is split.
    """
    distribution = keras.distribution.distribution()
    axis = distribution.batch_dim_name
    on_devices = jax.shard_map(
        function,
        mesh=distribution.device_mesh.backend_mesh,
        in_specs=([PartitionSpec(axis) if cut else PartitionSpec() for cut in split],),
        out_specs=PartitionSpec(axis),
        axis_names={axis},
        check_vma=False,
    )
    return on_devices(tensors)


def mesh_of_map():
    """The mesh for a `shard_map`, which is already known inside another one."""
    if jax.sharding.get_abstract_mesh().manual_axes:
        return None
    return keras.distribution.distribution().device_mesh.backend_mesh
