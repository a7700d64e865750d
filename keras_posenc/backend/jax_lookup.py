"""Numbers of a row by an index, on a TPU, which gathers number by number.

Each column of the table is compared with the index instead. That is an operation for each column
and number, but a single pass over memory: a hundredth of the traffic.
"""

import functools

import jax
import jax.numpy as jnp

# Columns that are compared in one pass over the index; each is an operation to compile.
GROUP = 64


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def picked(table, index, columns):
    """A table (..., columns) at the index (..., K), integers from 0 to columns - 1.

    The outer sizes of the index may be 1.
    """
    groups = -(-columns // GROUP)
    table = jnp.pad(table, [(0, 0)] * (table.ndim - 1) + [(0, groups * GROUP - columns)])

    def add(group, total):
        part = jax.lax.dynamic_slice_in_dim(table, group * GROUP, GROUP, axis=-1)
        for i in range(min(GROUP, columns)):
            here = index == group * GROUP + i
            total = total + jnp.where(here, part[..., i : i + 1], 0)
        return total

    total = jnp.zeros((*table.shape[:-1], index.shape[-1]), table.dtype)
    return add(0, total) if groups == 1 else jax.lax.fori_loop(0, groups, add, total)


def _forward(table, index, columns):
    return picked(table, index, columns), index


def _backward(columns, index, upstream):
    groups, size = -(-columns // GROUP), min(GROUP, columns)

    def add(group):
        here = [index == group * GROUP + i for i in range(size)]
        return jnp.stack([jnp.where(x, upstream, 0).sum(axis=-1) for x in here], axis=-1)

    if groups == 1:
        return add(0), None
    sums = jnp.moveaxis(jax.lax.map(add, jnp.arange(groups)), 0, -2)
    return sums.reshape(*upstream.shape[:-1], groups * GROUP)[..., :columns], None


picked.defvjp(_forward, _backward)
