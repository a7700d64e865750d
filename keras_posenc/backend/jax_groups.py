"""JAX: a function of sorted rows whose groups have weights of their own, in blocks of rows."""

import functools

import jax
import jax.numpy as jnp

FEWEST, MOST = 8, 256  # rows of a block


def by_group(function, rows, counts, weights):
    """`shared.by_group` with a loop over blocks of rows, each of one group."""
    return _program(function, rows, counts, tuple(map(jnp.asarray, weights)))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _grouped(function, rows, counts, weights):
    return _forward(function, rows, counts, weights)[0]


def _forward(function, rows, counts, weights):
    size, places, ends = _blocks(rows.shape[0], counts)
    width = jax.eval_shape(function, rows[:1], [w[0] for w in weights]).shape[-1]
    padded = _padded(rows, size)

    def step(output, place):
        start, group = place
        block = jax.lax.dynamic_slice_in_dim(padded, start, size)
        values = function(block, [w[group] for w in weights])
        return _put(output, values, start, ends[group], size), None

    output = jnp.zeros((rows.shape[0] + size, width), rows.dtype)
    output, _ = jax.lax.scan(step, output, places)
    return output[: rows.shape[0]], (rows, counts, weights)


def _backward(function, saved, gradient):
    rows, counts, weights = saved
    size, places, ends = _blocks(rows.shape[0], counts)
    padded, gradient = _padded(rows, size), _padded(gradient, size)

    # The gradients of the weights are added up in place: as a sum of arrays of the size of all
    # weights, each block would cost as much as all groups.
    def step(sums, place):
        of_rows, of_weights = sums
        start, group = place
        block, above = (jax.lax.dynamic_slice_in_dim(x, start, size) for x in (padded, gradient))
        above = jnp.where(_inside(start, ends[group], size), above, 0)
        _, pull = jax.vjp(function, block, [w[group] for w in weights])
        of_block, of_group = pull(above)
        of_rows = _put(of_rows, of_block, start, ends[group], size)
        of_weights = [x.at[group].add(g) for x, g in zip(of_weights, of_group, strict=True)]
        return (of_rows, of_weights), None

    sums = (jnp.zeros_like(padded), [jnp.zeros_like(w) for w in weights])
    (of_rows, of_weights), _ = jax.lax.scan(step, sums, places)
    return of_rows[: rows.shape[0]], None, tuple(of_weights)


_grouped.defvjp(_forward, _backward)
# Outside of a compiled program each call would compile its loops again.
_program = jax.jit(_grouped, static_argnums=0)


def _blocks(count, counts):
    """Rows of a block; (first row, group) of each block; the end of each group.

    There are as many blocks as there may be: those behind the last begin after all rows.
    """
    groups = counts.shape[0]
    size = min(max(FEWEST, count // groups), MOST)
    most = min(count, count // size + groups)
    ends = jnp.cumsum(counts)
    number = -(-counts // size)
    later = jnp.cumsum(number)
    block = jnp.arange(most)
    group = jnp.minimum(jnp.searchsorted(later, block, side="right"), groups - 1)
    start = (ends - counts)[group] + (block - (later - number)[group]) * size
    return size, (jnp.minimum(start, count), group), ends


def _padded(rows, size):
    return jnp.pad(rows, ((0, size), (0, 0)))


def _inside(start, end, size):
    return (start + jnp.arange(size) < end)[:, None]


def _put(rows, values, start, end, size):
    """Writes those of the values that are of the group."""
    before = jax.lax.dynamic_slice_in_dim(rows, start, size)
    values = jnp.where(_inside(start, end, size), values, before)
    return jax.lax.dynamic_update_slice_in_dim(rows, values, start, 0)
