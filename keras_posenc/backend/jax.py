"""JAX. See `keras_posenc.backend` for what each function does."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from keras import ops

from keras_posenc.backend import shared
from keras_posenc.backend.shared import *  # noqa: F403

__all__ = shared.NAMES

TRAITS = shared.Traits(
    chunked_sums=True,
    kernel_multiple=8,  # the kernels for GPUs, which widened heads seldom fit
    closures_have_gradients=True,
)

# Tensors of a block that are kept for the backward pass, by the name that JAX knows them by.
SAVED = "saved of a block"


def platform(x):
    device = jax.config.jax_default_device  # of a `with jax.default_device(...)`
    return getattr(device, "platform", device) or jax.default_backend()


def on_accelerator(x):
    return platform(x) != "cpu"


def is_traced(x):
    return isinstance(x, jax.core.Tracer)


def check_range(ids, bound, check, message):
    """The ids; check(smallest, largest) is called when the program runs."""
    if all(isinstance(n, int) for n in ids.shape):
        jax.debug.callback(check, ids.min(), ids.max())
    return ids


def call_back(function, *tensors):
    """Calls a Python function with NumPy arrays whenever the program gets here, in order."""
    jax.debug.callback(lambda *xs: function(*map(np.asarray, xs)), *tensors, ordered=True)


def await_calls():
    """Waits for the calls of `call_back` that a program has left."""
    jax.effects_barrier()


def take_last(table, index):
    """Looks up a table (..., C) at the index (..., Tk), integers from 0 to C - 1.

    `keras.ops.take_along_axis` checks every index again.
    """
    return jnp.take_along_axis(table, index, axis=-1, mode="promise_in_bounds")


interpolate = shared.interpolation(take_last)


def weigh_values(logits, cells, v, dropout, hashes, output=None, keep=False):
    """softmax(logits) v, (B, H, Tq, Dv), over the open cells; v is (B, H, Dv, Tk), already divided
    by 1 - dropout."""

    def forward(logits, bound, v, hashes):
        logits = logits if bound is None else ops.minimum(logits, bound)
        below = logits - ops.max(logits, axis=-1, keepdims=True)
        above = ops.exp(below)
        total = ops.sum(above, axis=-1, keepdims=True)
        used = above / total
        used = shared.keep_by_hash(used, dropout, hashes) if dropout else used
        output = ops.matmul(ops.cast(used, v.dtype), ops.swapaxes(v, -1, -2))
        output = checkpoint_name(output, SAVED)
        # Where the total is known this is one pass with the product before it.
        weights = ops.exp(below - checkpoint_name(ops.log(total), SAVED))
        return output, (weights, output, v, hashes)

    def backward(residuals, upstream):
        weights, output, v, hashes = residuals
        of_logits, of_v = shared.weighing_gradients(weights, output, v, upstream, dropout, hashes)
        return of_logits, None, of_v, None

    weigh = jax.custom_vjp(lambda *arguments: forward(*arguments)[0])
    weigh.defvjp(forward, backward)
    return weigh(logits, shared.bound_of(cells), v, hashes)


def map_blocks(block, stacked, whole, carry, output_shape, dtype):
    """Computes block(stacked[i], whole, carry), i = 0 .. N - 1: outputs (N, B, H, rows, D).

    Args:
        block: function of three lists of tensors. It returns an output, and the carry of the next
            block.
        stacked: list of tensors (N, ...).
        whole: list of tensors that all blocks read.
        carry: list of tensors of the first block; they get no gradient.
        output_shape, dtype: of an output, for TensorFlow.
    """

    def step(carry, parts):
        output, carry = block(parts, whole, carry)
        return carry, output

    policy = jax.checkpoint_policies.save_only_these_names(SAVED)
    count = stacked[0].shape[0]
    if count == 1:
        _, output = jax.checkpoint(step, policy=policy)(carry, [x[0] for x in stacked])
        return output[None]
    if any(map(is_traced, [*stacked, *whole])):
        # In a loop nothing can be merged with the first computation, so it needs no barrier.
        step = jax.checkpoint(step, prevent_cse=False, policy=policy)
        return jax.lax.scan(step, carry, stacked)[1]
    # Outside of a compiled program each call would compile its loop again.
    outputs = []
    for i in range(count):
        carry, output = step(carry, [x[i] for x in stacked])
        outputs.append(output)
    return jnp.stack(outputs)


def gradient(function, x, differentiable):
    """The gradient of function(x), a scalar, by x."""
    return jax.grad(function)(ops.convert_to_tensor(x))


def has_kernel(q, biased):
    """Whether a fused attention kernel is worth using, for logits with or without a bias."""
    # Not on a TPU: the kernel that Keras 3.15 takes there adds a causal mask, does not scale the
    # queries and leaves out the bias.
    return platform(q) == "gpu"


def kernel_forms_map(q):
    """Whether the kernel materialises the map of all heads."""
    return q.dtype == jnp.float32


def adamw_step(optimizer, gradient, variable, learning_rate, decay):
    """Whether the step was done here: XLA fuses that of Keras."""
    return False


def train_steps(model):
    """`shared.train_steps` as one loop on the device, compiled once for any count."""

    @jax.jit
    def program(state, metrics, batches, count):
        def step(i, carry):
            *state, losses = carry
            logs, state = model.train_step((*state, metrics), [x[i] for x in batches])
            return *map(list, state[:3]), losses.at[i].set(logs["loss"])

        losses = jnp.zeros(batches[0].shape[0])
        return jax.lax.fori_loop(0, count, step, (*state, losses))

    def steps(batches, count):
        model.reset_metrics()
        held = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables
        state = tuple([v.value for v in variables] for variables in held)
        metrics = [v.value for v in model.metrics_variables]
        *state, losses = program(state, metrics, batches, count)
        for variables, values in zip(held, state, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        return np.asarray(losses)[:count].tolist()

    return steps
