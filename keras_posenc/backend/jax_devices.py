"""Programs over several devices and processes: texts, or the rows of attention, split."""

import contextlib
import pickle

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import PartitionSpec

from keras_posenc.backend import shared


def batch_shards(x):
    """Number of devices over which the program that is traced splits the texts of x; 1 for none."""
    distribution = keras.distribution.distribution()
    if distribution is None or not isinstance(x, jax.core.Tracer) or not hasattr(jax, "shard_map"):
        return 1
    shards = shared.mesh_size(distribution.batch_dim_name)
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


AXIS = "sequence"


def sequence_shards(q):
    """Number of devices over which the program that is traced splits each text; 1 for none."""
    distribution = keras.distribution.distribution()
    if distribution is None or not isinstance(q, jax.core.Tracer) or not hasattr(jax, "shard_map"):
        return 1
    return shared.mesh_size(AXIS)


def over_sequence(function, tensors, split, gathered, axis):
    """function(tensors), each device with its part of some tensors and all of the others.

    Without it, a loop over blocks of rows would gather all rows on every turn.

    `function`: tensors -> a tensor, whose rows are those of the tensors. `split`: for each
    tensor the axis that is split, or None. `gathered`: the axis of a tensor that each device sends
    to all others once, or None; its gradient is summed on the way back. `axis`: that of the rows of
    the result.
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
    shards, size = shared.mesh_size(AXIS), x.shape[axis]
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


def processes():
    if keras.distribution.distribution() is None:
        return 0, 1
    return jax.process_index(), jax.process_count()


def launched_processes():
    return jax.process_count()


def gather(value):
    if processes()[1] == 1:
        return [value]
    from jax.experimental import multihost_utils  # slow to import, for several processes alone

    data = np.frombuffer(pickle.dumps(value), "uint8")
    sizes = multihost_utils.process_allgather(np.array(len(data)))
    padded = np.zeros(sizes.max(), "uint8")
    padded[: len(data)] = data
    rows = multihost_utils.process_allgather(padded)
    return [pickle.loads(row[:size]) for row, size in zip(rows, sizes, strict=True)]


def device_count():
    return jax.local_device_count()


def over_devices(count):
    names = keras.distribution.list_devices()
    if count > len(names):
        remedy = ""
        if names[0].startswith("cpu"):
            flag = f"XLA_FLAGS=--xla_force_host_platform_device_count={count}"
            remedy = f"; to divide the processor, start Python with {flag}"
        raise ValueError(
            f"`devices` must be at most {len(names)}, the number of devices of JAX. Received: "
            f"{count}{remedy}"
        )
    return keras.distribution.DataParallel(devices=names[:count]).scope()


class LocalPredictions:
    """Keras cannot read predictions that lie on devices of other processes. Here each process
    predicts what it is given on a device of its own, by the copy of the weights that is there."""

    _is_local = False

    @contextlib.contextmanager
    def _locally(self):
        distribution = keras.distribution.distribution()
        if processes()[1] == 1:
            yield
            return
        keras.distribution.set_distribution(None)
        self._is_local = True
        try:
            yield
        finally:
            self._is_local = False
            self._jax_state = None  # else the next step would take over the local copies
            keras.distribution.set_distribution(distribution)

    def _get_jax_state(self, **kinds):
        state = super()._get_jax_state(**kinds)
        if self._is_local:
            return jax.tree.map(lambda array: array.addressable_data(0), state)
        return state

    def jax_state_sync(self):
        if not self._is_local:  # predictions change no weights
            super().jax_state_sync()
