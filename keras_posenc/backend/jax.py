"""JAX. See `keras_posenc.backend` for what each function does."""

import functools
import threading

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from keras import ops

from keras_posenc.backend import (
    jax_cache,
    jax_devices,
    jax_groups,
    jax_lookup,
    jax_splash,
    shared,
    weighing,
)
from keras_posenc.backend.keras_names import fresh_masks
from keras_posenc.backend.shared import *  # noqa: F403
from keras_posenc.backend.weighing import keep_by_hash  # noqa: F401

__all__ = shared.NAMES

batch_shards = jax_devices.batch_shards
cache_programs = jax_cache.cache_programs
keeps_programs = jax_cache.keeps_programs
by_group = jax_groups.by_group
device_count = jax_devices.device_count
gather = jax_devices.gather
launched_processes = jax_devices.launched_processes
has_splash = jax_splash.has_splash
over_batch = jax_devices.over_batch
over_devices = jax_devices.over_devices
over_sequence = jax_devices.over_sequence
processes = jax_devices.processes
sequence_shards = jax_devices.sequence_shards
splash = jax_splash.splash
with_neighbours = jax_devices.with_neighbours

TRAITS = shared.Traits(
    writes_onnx="jax2onnx",
    chunked_sums=True,
    closures_have_gradients=True,
    fills_missing=True,
    shape_price=4096,
)

# Tensors of a block that are kept for the backward pass, by the name that JAX knows them by.
SAVED = "saved of a block"


# What a program reads and returns, in the order of Keras.
STATE = (
    "trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables",
)  # fmt: skip


class SafeTrainer(jax_devices.LocalPredictions, shared.SafeTrainer):
    """Keras takes the weights out of a model while a program runs, and attaches what it returns.

    A program that fails, or that never begins, returns nothing. Here training attaches the weights
    that were taken out, and other programs leave them in the model: they change none, so this costs
    no memory.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._one_thread = threading.RLock()

    def _get_jax_state(self, purge_model_variables=False, **kinds):
        state = super()._get_jax_state(**kinds)
        if purge_model_variables and kinds.get("optimizer_variables"):
            asked = [kind for kind in STATE if kinds.get(kind)]
            # `fit` attaches it when it ends, however it ends.
            self._jax_state = dict(zip(asked, state, strict=True))
            self._jax_state_synced = False
            self._purge_model_variables(**kinds)
        return state

    def make_test_function(self, force=False):
        if self.test_function is None or force:
            step = _leaving_weights(self, lambda *arguments: self.test_step(*arguments))
            self.test_function = self._make_function(step)

    def make_predict_function(self, force=False):
        if self.predict_function is None or force:

            def predict_step(state, data):
                outputs, later = self.predict_step(state, data)
                return outputs, (state[0], later)

            step = _leaving_weights(self, predict_step)
            self.predict_function = self._make_function(step, concatenate_outputs=True)
        return self.predict_function

    def _symbolic_build(self, *args, **kwargs):
        with fresh_masks():
            super()._symbolic_build(*args, **kwargs)

    def _make_function(self, step_function, **kwargs):
        return super()._make_function(fresh_masks()(step_function), **kwargs)

    def evaluate(self, *args, **kwargs):
        return self._alone(super().evaluate, args, kwargs)

    def predict(self, *args, **kwargs):
        with self._locally():
            return self._alone(super().predict, args, kwargs)

    def train_on_batch(self, x, y=None, sample_weight=None, *args, **kwargs):
        if sample_weight is None and keras.distribution.distribution() is not None:
            shared.check_keras("Batches without weights are split over devices", 3, 15)
        return super().train_on_batch(x, y, sample_weight, *args, **kwargs)

    def test_on_batch(self, *args, **kwargs):
        return self._alone(super().test_on_batch, args, kwargs)

    def predict_on_batch(self, *args, **kwargs):
        with self._locally():
            return self._alone(super().predict_on_batch, args, kwargs)

    def _alone(self, method, args, kwargs):
        """Calls a method of Keras that keeps its state on the model, so one thread at a time."""
        with self._one_thread:
            try:
                return method(*args, **kwargs)
            except BaseException:
                self._jax_state = None
                raise


def _leaving_weights(model, step):
    """The function step(state, data) as a program that takes no memory of its state and returns of
    it only what it changes: JAX would copy the rest."""

    def changes(state, data):
        outputs, later = step(state, data)
        new, old = jax.tree.leaves(later), jax.tree.leaves(state)
        return outputs, {i: new[i] for i in range(len(old)) if new[i] is not old[i]}

    if model.jit_compile and not model.run_eagerly:
        changes = jax.jit(changes)

    def whole(state, data):
        outputs, changed = changes(state, data)
        leaves, structure = jax.tree.flatten(state)
        leaves = [changed.get(i, leaf) for i, leaf in enumerate(leaves)]
        return outputs, jax.tree.unflatten(structure, leaves)

    return whole


def check_floatx():
    """Keras makes bfloat16 of integers whose dtype is not named: 257 would be 256."""
    if keras.config.floatx() == "bfloat16":
        raise ValueError(
            "`keras.config.floatx()` must not be bfloat16 on JAX: Keras would round ids and "
            "positions, which are integers. Received: floatx='bfloat16'; leave it float32, and set "
            'the policy: keras.config.set_dtype_policy("bfloat16").'
        )


def platform(x):
    # A program for hardware that is not there is traced within `with jax.default_device(device)`.
    device = jax.config.jax_default_device
    return getattr(device, "platform", device) or jax.default_backend()


def row_multiple():
    """The replicas of all processes, over which an array is split in equal parts."""
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else shared.mesh_size(distribution.batch_dim_name)


def on_accelerator(x):
    return platform(x) != "cpu"


def is_traced(x):
    return isinstance(x, jax.core.Tracer)


def check_range(ids, bound, check, message):
    """The ids; check(smallest, largest) is called when the program runs.

    Not on an accelerator, where each step would wait for the host: there an id beyond a table reads
    NaN.
    """
    if not on_accelerator(ids) and all(isinstance(n, int) for n in ids.shape):
        jax.debug.callback(check, ids.min(), ids.max())
    return ids


def call_back(function, *tensors):
    """Calls a Python function with NumPy arrays whenever the program gets here, in order."""
    jax.debug.callback(lambda *xs: function(*map(np.asarray, xs)), *tensors, ordered=True)


def await_calls():
    """Waits for the calls of `call_back` that a program has left."""
    jax.effects_barrier()


def take_last(table, index):
    """As on PyTorch."""
    if platform(table) == "tpu":
        return jax_lookup.picked(table, index, table.shape[-1])
    return jnp.take_along_axis(table, index, axis=-1, mode="promise_in_bounds")


def exporting_free_sizes(x):
    free = any(jax.export.is_symbolic_dim(size) for size in x.shape)
    return shared.exporting("saved_model") if free else shared.exporting_free_sizes(x)


def saved_model_options(inputs):
    # Left to itself, Keras gives the length of each input a name of its own.
    names = ("batch", "length", *"cdefgh")
    shapes = [
        [str(size or name) for size, name in zip(x.shape, names, strict=False)] for x in inputs
    ]
    return {"jax2tf_kwargs": {"polymorphic_shapes": [[f"({', '.join(x)})" for x in shapes]]}}


interpolate = shared.interpolation(take_last)


def product(x, y, equation=None):
    """`shared.product` by the matrix units of float16, which sum in float32."""
    if x.dtype != jnp.float16:
        return shared.product(x, y, equation)
    multiply = jnp.matmul if equation is None else functools.partial(jnp.einsum, equation)
    return multiply(x, y, preferred_element_type=jnp.float32)


def apart(x):
    # XLA gives such a kernel more of a TPU's fast memory than there is (CompileTimeScopedVmemOom).
    return jax.lax.optimization_barrier(x) if platform(x) == "tpu" else x


def exact_product(x, y):
    return jnp.matmul(x, y, precision="highest" if on_accelerator(x) else None)


def weigh_values(logits, mask, v, dropout, hashes, output=None, keep_logits=False):
    """As on PyTorch."""

    def forward(logits, ceiling, v, hashes):
        logits = logits if ceiling is None else ops.minimum(logits, ceiling)
        below = logits - ops.max(logits, axis=-1, keepdims=True)
        above = ops.exp(below)
        total = ops.sum(above, axis=-1, keepdims=True)
        used = above / total
        # Chosen zeros would be an array as large as the block, which a loop reads in each turn.
        used = used * weighing.kept(dropout, weighing.bits_of(hashes)) if dropout else used
        output = weighing.weighed(ops.cast(used, v.dtype), v)
        output = checkpoint_name(output, SAVED)
        # If the total is known, this is fused with the product before it.
        weights = ops.exp(below - checkpoint_name(ops.log(total), SAVED))
        return output, (weights, output, v, hashes)

    def backward(residuals, upstream):
        weights, output, v, hashes = residuals
        arguments = weights, output, v, upstream, dropout, hashes
        of_logits, of_v = weighing.gradients(*arguments, shared.one_pass)
        return of_logits, None, of_v, None

    weigh = jax.custom_vjp(lambda *arguments: forward(*arguments)[0])
    weigh.defvjp(forward, backward)
    return weigh(logits, weighing.ceiling_of(mask), v, hashes)


def map_blocks(block, stacked, whole, carry, output_shape, dtype):
    """As on PyTorch, by a scan that forms each block again in the backward pass."""

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


recomputed = jax.checkpoint


def gradient(function, x, differentiable):
    """The gradient of function(x), a scalar, by x."""
    return jax.grad(function)(ops.convert_to_tensor(x))


def has_kernel(q, biased):
    """Whether a fused attention kernel is worth using, for logits with or without a bias."""
    on = platform(q)
    return on == "gpu" or (on == "tpu" and has_splash(q) and not biased)


def kernel_multiple(q):
    return 8  # of cuDNN, which widened heads seldom fit


def kernel_forms_map(q, padded):
    """Whether the kernel materialises the map of all heads.

    `padded`: bool. The heads get a feature more, by `runs_cudnn`.
    """
    return not _has_flash_attention(q.dtype, q.shape[-1] + padded)


def runs_cudnn(q):
    return _has_flash_attention(q.dtype, q.shape[-1] + 1)


def _has_flash_attention(dtype, size):
    """Whether cuDNN's flash attention takes heads of this size; Keras materialises the matrix of
    others in XLA."""
    if platform(None) != "gpu" or dtype not in (jnp.float16, jnp.bfloat16):
        return False
    device = jax.config.jax_default_device
    device = device if hasattr(device, "compute_capability") else jax.devices()[0]
    capability = float(device.compute_capability)
    return capability >= 8 and size <= (256 if capability >= 9 else 128)


def has_dropout_kernel(q):
    size, distribution = q.shape[-1], keras.distribution.distribution()
    if size not in (16, 32, 64, 128) or not _has_flash_attention(q.dtype, size):
        return False
    if not _has_triton():
        return False
    if distribution is None:
        return not jax_splash.is_split_by_xla(q)
    return batch_shards(q) == distribution.device_mesh.devices.size


@functools.cache
def _has_triton():
    """Whether this JAX has Pallas' Triton, which since 0.11 is to be removed."""
    try:
        from jax.experimental.pallas import triton
    except ImportError:
        return False
    return hasattr(triton, "CompilerParams")


def dropout_kernel(q, k, v, key_mask, hashes, scale, dropout, causal):
    from keras_posenc.backend import jax_dropping  # Pallas is slow to import

    return jax_dropping.attend(q, k, v, key_mask, hashes, scale, dropout, causal)


def adamw_step(optimizer, gradients, variables, learning_rate, decays):
    """Whether the step was done here: XLA fuses that of Keras."""
    return False


def train_steps(model):
    """`shared.train_steps` as one loop on the device, compiled once for any count."""

    @fresh_masks()
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
        groups = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables
        state = tuple([v.value for v in variables] for variables in groups)
        metrics = [v.value for v in model.metrics_variables]
        *state, losses = program(state, metrics, batches, count)
        for variables, values in zip(groups, state, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        return np.asarray(losses)[:count].tolist()

    return steps
