"""Blocks of rows one after the other, each computed again in the backward pass."""

import keras
from keras import ops


def over_rows(block, by_row, axes, whole, size, shape, dtype):
    """block(parts of `by_row`, whole) of all blocks of rows, joined on axis 1.

    What the block reads besides has no gradient on TensorFlow.

    Args:
        block: function of two lists of tensors; it returns (B, rows of the block, ...).
        by_row: list of tensors that are cut.
        axes: list of int. Their axes of rows.
        whole: list of tensors.
        size: int, or on TensorFlow an int32 scalar. Rows of a block, at most; blocks are even.
        shape, dtype: of the result.
    """
    rows = ops.shape(by_row[0])[axes[0]]
    count = (rows + size - 1) // size
    size = (rows + count - 1) // count
    cut = block, by_row, axes, whole, rows, count, size
    if keras.backend.backend() == "tensorflow":
        return _on_tensorflow(*cut, shape, dtype)
    return (_on_jax if keras.backend.backend() == "jax" else _on_torch)(*cut)


def _on_torch(block, by_row, axes, whole, rows, count, size):
    import torch
    from torch.utils.checkpoint import checkpoint

    def run(*parts):
        if not torch.is_grad_enabled():
            return block(parts, whole)
        return checkpoint(block, parts, whole, use_reentrant=False, preserve_rng_state=False)

    # The parts of a split have one gradient; the gradient of a slice would fill a whole tensor.
    cut = [torch.split(x, size, axis) for x, axis in zip(by_row, axes, strict=True)]
    return torch.cat([run(*parts) for parts in zip(*cut, strict=True)], dim=1)


def _on_jax(block, by_row, axes, whole, rows, count, size):
    import jax

    def run(parts):
        return block(parts, whole)

    if count == 1:
        return jax.checkpoint(run)(by_row)
    stacked = [_stacked(x, axis, count, size) for x, axis in zip(by_row, axes, strict=True)]
    if any(isinstance(x, jax.core.Tracer) for x in [*by_row, *whole]):
        # In a loop nothing can be merged with the first computation, so it needs no barrier.
        out = jax.lax.map(jax.checkpoint(run, prevent_cse=False), stacked)
    else:
        # Outside of a compiled program each call would compile its loop again.
        out = ops.stack([run([x[i] for x in stacked]) for i in range(count)])
    return _joined(out, 1, rows)


def _on_tensorflow(block, by_row, axes, whole, rows, count, size, shape, dtype):
    """Forward and backward pass are loops, neither of which is differentiated: no map is kept."""
    import tensorflow as tf

    inputs = [tf.convert_to_tensor(x) for x in (*by_row, *whole)]
    cut = len(by_row)
    # Only tensors of floats have gradients; the others are read from outside.
    floats = [i for i, x in enumerate(inputs) if x.dtype.is_floating]

    def array(shape, axis, dtype):
        shape = list(shape)
        shape[axis] = size if isinstance(size, int) else None
        return tf.TensorArray(dtype, count, infer_shape=False, element_shape=shape)

    def looped(body, *start):
        def step(i, *carried):
            return i + 1, *body(i, *carried)

        carried = tf.while_loop(
            lambda i, *_: i < count, step, (tf.constant(0), *start), parallel_iterations=1
        )
        return carried[1:]

    @tf.custom_gradient
    def attended(*given):
        held = list(inputs)
        for i, x in zip(floats, given, strict=True):
            held[i] = x
        stacked = [_stacked(x, axis, count, size) for x, axis in zip(held[:cut], axes, strict=True)]

        def at(i):
            """The block's inputs, by names of this turn of the loop."""
            return [*(x[i] for x in stacked), *(tf.identity(x) for x in held[cut:])]

        def forward(i, blocks):
            x = at(i)
            return (blocks.write(i, block(x[:cut], x[cut:])),)

        (blocks,) = looped(forward, array(shape, 1, dtype))
        output = _joined(blocks.stack(), 1, rows)

        def gradients(upstream):
            padding = [[0, 0], [0, count * size - rows], *[[0, 0]] * (len(upstream.shape) - 2)]
            upstream = _stacked(tf.pad(upstream, padding), 1, count, size)
            ours = [i for i in floats if i < cut]
            others = [i for i in floats if i >= cut]

            def backward(i, *found):
                x = at(i)
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch([x[j] for j in floats])
                    out = block(x[:cut], x[cut:])
                grads = tape.gradient(
                    out, {j: x[j] for j in floats}, upstream[i], unconnected_gradients="zero"
                )
                parts = [a.write(i, grads[j]) for a, j in zip(found, ours, strict=False)]
                sums = [
                    tf.ensure_shape(s + grads[j], s.shape)
                    for s, j in zip(found[len(ours) :], others, strict=True)
                ]
                return *parts, *sums

            found = looped(
                backward,
                *(array(inputs[i].shape, axes[i], inputs[i].dtype) for i in ours),
                *(tf.zeros_like(held[i]) for i in others),
            )
            parts = [_joined(a.stack(), axes[i], rows) for a, i in zip(found, ours, strict=False)]
            return *parts, *found[len(ours) :]

        return output, gradients

    return attended(*[inputs[i] for i in floats])


def _stacked(x, axis, count, size):
    """x with its axis of rows cut into `count` on a new first axis; the last row fills it up."""
    axis %= len(x.shape)
    shape = list(ops.shape(x))
    missing = count * size - shape[axis]
    if not isinstance(missing, int) or missing:
        last = ops.take(x, [shape[axis] - 1], axis=axis)
        x = ops.concatenate([x, ops.repeat(last, missing, axis=axis)], axis=axis)
    x = ops.reshape(x, (*shape[:axis], count, size, *shape[axis + 1 :]))
    return ops.moveaxis(x, axis, 0)


def _joined(x, axis, rows):
    """What was cut, in one: the first `rows` of it."""
    axis %= len(x.shape) - 1
    x = ops.moveaxis(x, 0, axis)
    shape = ops.shape(x)
    x = ops.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))
    return x[(*[slice(None)] * axis, slice(0, rows))]
