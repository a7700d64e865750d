"""Blocks of rows one after the other, each computed again in the backward pass."""

import dataclasses
import functools
from collections.abc import Callable

import keras
from keras import ops

ROWS = 2  # their axis in what a block returns
# What JAX knows by this name it keeps, and does not find it again in the backward pass.
KEPT = "kept of a block"


def over_rows(block, by_row, axes, whole, start, size, shape, dtype):
    """block(parts of `by_row`, whole, carried) of all blocks of rows, joined.

    What the block reads besides has no gradient on TensorFlow and torch.

    Args:
        block: function of three lists of tensors. It returns (B, H, rows of the block, D), and
            the list that it is to get as `carried` with the next block. In the backward pass on
            TensorFlow it is given the first of them too; on JAX it has what it called `KEPT`.
        by_row: list of tensors that are cut.
        axes: list of int. Their axes of rows.
        whole: list of tensors.
        start: list of tensors of floats, `carried` of the first block; they get no gradient.
        size: int, or on TensorFlow an int32 scalar. Rows of a block, at most; blocks are even.
        shape, dtype: of the result.
    """
    rows = ops.shape(by_row[0])[axes[0]]
    count = (rows + size - 1) // size
    size = (rows + count - 1) // count
    cut = block, by_row, axes, whole, start, rows, count, size
    if keras.backend.backend() == "tensorflow":
        return _on_tensorflow(*cut, shape, dtype)
    return (_on_jax if keras.backend.backend() == "jax" else _on_torch)(*cut)


def _on_torch(block, by_row, axes, whole, start, rows, count, size):
    import torch

    if torch.compiler.is_compiling():
        return _compiled_by_torch(block, by_row, axes, whole, start, size)
    inputs, blocks = [*by_row, *whole], _Blocks(block, axes, rows, size)
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return _joined_by_torch().apply(blocks, start, *inputs)
    return blocks.joined(inputs, start)[0]


@dataclasses.dataclass(frozen=True)
class _Blocks:
    """The blocks of `over_rows` on torch, over a list of inputs: those by row, then the others."""

    block: Callable
    axes: list
    rows: int
    size: int

    def firsts(self):
        """The first row of each block."""
        return range(0, self.rows, self.size)

    def at(self, first, held):
        """What belongs to the block that begins at a row; None stays."""
        length = min(self.size, self.rows - first)
        parts = zip(held, self.axes, strict=False)
        parts = [None if x is None else x.narrow(axis, first, length) for x, axis in parts]
        return parts, held[len(parts) :]

    def joined(self, held, start):
        """The output, and what each block got from the one before."""
        output, states = None, [start]
        for first in self.firsts():
            found, carried = self.block(*self.at(first, held), states[-1])
            states.append(carried)
            if output is None:
                output = found.new_empty((*found.shape[:ROWS], self.rows, found.shape[-1]))
            output.narrow(ROWS, first, found.shape[ROWS]).copy_(found)
        return output, states[:-1]


def _autocast(device):
    """What tells `torch.autocast` to compute a block again as it is computed now."""
    import torch

    device = device if torch.amp.is_autocast_available(device) else "cpu"
    enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    return {"device_type": device, "dtype": dtype, "enabled": enabled, "cache_enabled": False}


@functools.cache
def _joined_by_torch():
    import torch

    class Joined(torch.autograd.Function):
        """Between two blocks nothing that lasts is made but what they hand on: in the gap that a
        map leaves it would take its place from the next, and the process grow by all maps.

        One class for all calls: torch never lets go of a class, nor of what its methods hold.
        """

        @staticmethod
        def forward(context, blocks, start, *held):
            output, states = blocks.joined(held, start)
            context.blocks, context.autocast = blocks, _autocast(held[0].device.type)
            context.save_for_backward(*held, *(x for carried in states for x in carried))
            return output

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(context, upstream):
            blocks, saved, firsts = context.blocks, context.saved_tensors, context.blocks.firsts()
            needed = context.needs_input_grad[2:]
            held, states = saved[: len(needed)], list(saved[len(needed) :])
            grads = [torch.zeros_like(x) if n else None for x, n in zip(held, needed, strict=True)]
            of_carried = [torch.zeros_like(x) for x in states[: len(states) // len(firsts)]]
            for first in reversed(firsts):
                parts, others = ([x.detach() for x in some] for some in blocks.at(first, held))
                carried = [states.pop().detach().requires_grad_() for _ in of_carried][::-1]
                inner = zip([*parts, *others], needed, strict=True)
                wanted = [x.requires_grad_() for x, n in inner if n]
                with torch.enable_grad(), torch.autocast(**context.autocast):
                    output, left = blocks.block(parts, others, carried)
                of_left = [upstream.narrow(ROWS, first, output.shape[ROWS]), *of_carried]
                # What depends on none of the wanted has no gradient to give.
                pairs = zip([output, *left], of_left, strict=True)
                pairs = [(x, of_x) for x, of_x in pairs if x.requires_grad]
                found = torch.autograd.grad(
                    [x for x, _ in pairs],
                    [*wanted, *carried],
                    [of_x for _, of_x in pairs],
                    allow_unused=True,
                    materialize_grads=True,
                )
                of_carried = found[len(wanted) :]
                sums = [x for some in blocks.at(first, grads) for x in some if x is not None]
                for total, more in zip(sums, found, strict=False):
                    total += more
            return None, None, *grads

    return Joined


def _compiled_by_torch(block, by_row, axes, whole, carried, size):
    """As `_on_torch`, by what torch can compile."""
    import torch
    from torch.utils.checkpoint import checkpoint

    def run(*given):
        if not torch.is_grad_enabled():
            return block(*given)
        return checkpoint(block, *given, use_reentrant=False, preserve_rng_state=False)

    # The parts of a split have one gradient; the gradient of a slice would fill a whole tensor.
    cut = [torch.split(x, size, axis) for x, axis in zip(by_row, axes, strict=True)]
    outputs = []
    for parts in zip(*cut, strict=True):
        output, carried = run(parts, whole, carried)
        outputs.append(output)
    return torch.cat(outputs, dim=ROWS)


def _on_jax(block, by_row, axes, whole, start, rows, count, size):
    import jax

    def run(carried, parts):
        output, carried = block(parts, whole, carried)
        return carried, output

    policy = jax.checkpoint_policies.save_only_these_names(KEPT)
    if count == 1:
        return jax.checkpoint(run, policy=policy)(start, by_row)[1]
    stacked = [_stacked(x, axis, count, size) for x, axis in zip(by_row, axes, strict=True)]
    if any(isinstance(x, jax.core.Tracer) for x in [*by_row, *whole]):
        # In a loop nothing can be merged with the first computation, so it needs no barrier.
        _, out = jax.lax.scan(jax.checkpoint(run, prevent_cse=False, policy=policy), start, stacked)
    else:
        # Outside of a compiled program each call would compile its loop again.
        carried, outputs = start, []
        for i in range(count):
            carried, output = run(carried, [x[i] for x in stacked])
            outputs.append(output)
        out = ops.stack(outputs)
    return _joined(out, ROWS, rows)


def _on_tensorflow(block, by_row, axes, whole, start, rows, count, size, shape, dtype):
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

    def looped(body, *first):
        def step(i, *found):
            return i + 1, *body(i, *found)

        found = tf.while_loop(
            lambda i, *_: i < count, step, (tf.constant(0), *first), parallel_iterations=1
        )
        return found[1:]

    @tf.custom_gradient
    def attended(*given):
        held = list(inputs)
        for i, x in zip(floats, given, strict=True):
            held[i] = x
        stacked = [_stacked(x, axis, count, size) for x, axis in zip(held[:cut], axes, strict=True)]

        def at(i):
            """The block's inputs, by names of this turn of the loop."""
            return [*(x[i] for x in stacked), *(tf.identity(x) for x in held[cut:])]

        def forward(i, blocks, *found):
            x = at(i)
            states, carried = found[: len(start)], found[len(start) :]
            output, left = block(x[:cut], x[cut:], carried)
            states = [a.write(i, c) for a, c in zip(states, carried, strict=True)]
            return blocks.write(i, output), *states, *map(tf.ensure_shape, left, shapes)

        shapes = [x.shape for x in start]
        states = [tf.TensorArray(x.dtype, count, element_shape=x.shape) for x in start]
        blocks, *states = looped(forward, array(shape, ROWS, dtype), *states, *start)
        blocks = blocks.stack()
        states = [x.stack() for x in states[: len(start)]]

        def gradients(upstream):
            padding = [[0, 0], [0, 0], [0, count * size - rows], [0, 0]]
            upstream = _stacked(tf.pad(upstream, padding), ROWS, count, size)
            ours = [i for i in floats if i < cut]
            others = [i for i in floats if i >= cut]

            def backward(turn, *found):
                i = count - 1 - turn
                x, carried = at(i), [x[i] for x in states]
                of_carried, found = found[: len(start)], found[len(start) :]
                wanted = [*(x[j] for j in floats), *carried]
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(wanted)
                    out, left = block(x[:cut], x[cut:], carried, blocks[i])
                grads = tape.gradient(
                    [out, *left], wanted, [upstream[i], *of_carried], unconnected_gradients="zero"
                )
                grads, of_carried = grads[: len(floats)], grads[len(floats) :]
                grads = dict(zip(floats, grads, strict=True))
                parts = [a.write(i, grads[j]) for a, j in zip(found, ours, strict=False)]
                sums = [
                    tf.ensure_shape(s + grads[j], s.shape)
                    for s, j in zip(found[len(ours) :], others, strict=True)
                ]
                return *map(tf.ensure_shape, of_carried, shapes), *parts, *sums

            found = looped(
                backward,
                *map(tf.zeros_like, start),
                *(array(inputs[i].shape, axes[i], inputs[i].dtype) for i in ours),
                *(tf.zeros_like(held[i]) for i in others),
            )[len(start) :]
            parts = [_joined(a.stack(), axes[i], rows) for a, i in zip(found, ours, strict=False)]
            return *parts, *found[len(ours) :]

        return _joined(blocks, ROWS, rows), gradients

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
