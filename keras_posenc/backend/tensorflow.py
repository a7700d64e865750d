"""TensorFlow. See `keras_posenc.backend` for what each function does."""

import functools
import json
import math
import os

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_posenc.backend import shared, tensorflow_replicas, weighing
from keras_posenc.backend.shared import *  # noqa: F403

__all__ = shared.NAMES

TRAITS = shared.Traits(
    processes_apart="with TensorFlow, Keras cannot read their batches (keras #20329, #20585)",
    block_bytes=48 * 2**20,
    writes_litert=True,
    writes_onnx="tf2onnx",
    chunked_sums=True,
    diagonals_in_pieces=True,
    global_random_state=False,
    drops_assertions=True,
    splits_compiled=False,
    batches_before_fit=2,
    calls_back_compiled=False,
    shape_price=4096,
    priced_shapes=2,
)


gather_rows = tensorflow_replicas.gather_rows
row_multiple = tensorflow_replicas.row_multiple
sum_over_replicas = tensorflow_replicas.sum_over_replicas

# Number of devices -> the one strategy of the process that is over so many.
STRATEGIES = {}


def by_group(function, rows, counts, weights):
    """`shared.by_group` with each row computed once, which XLA has no operation for."""
    weights = [tf.unstack(ops.convert_to_tensor(w)) for w in weights]
    parts = tf.split(rows, counts, num=len(weights[0]))
    outputs = map(function, parts, map(list, zip(*weights, strict=True)))
    return tf.concat(list(outputs), 0)


class SafeTrainer(shared.SafeTrainer):
    """Keras gives the whole of such a batch to each replica of a `tf.distribute` strategy, and
    counts its rows as often. Here each replica gets its share, as it does in `fit`, and its mean
    loss counts by its part of the weights: Keras counts the means of all replicas alike."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training=training)
        return tensorflow_replicas.weigh_loss(loss, self.loss, y_pred, sample_weight)

    def train_on_batch(self, x, y=None, sample_weight=None, *args, **kwargs):
        x, y, sample_weight = self._shares(x, y, sample_weight)
        return super().train_on_batch(x, y, sample_weight, *args, **kwargs)

    def test_on_batch(self, x, y=None, sample_weight=None, *args, **kwargs):
        x, y, sample_weight = self._shares(x, y, sample_weight)
        return super().test_on_batch(x, y, sample_weight, *args, **kwargs)

    def predict_on_batch(self, x):
        return super().predict_on_batch(*self._shares(x))

    def _shares(self, *arrays):
        strategy = self.distribute_strategy
        count = strategy.num_replicas_in_sync
        if count == 1:
            return arrays
        if len(arrays) > 1:  # Keras builds from the batch, and parts of it have no shapes
            self._maybe_symbolic_build(data_batch=arrays)

        def share(array):
            parts = np.array_split(array, count)
            part = lambda context: tf.convert_to_tensor(  # noqa: E731
                parts[context.replica_id_in_sync_group]
            )
            return strategy.experimental_distribute_values_from_function(part)

        share_of = lambda array: None if array is None else share(array)  # noqa: E731
        return keras.tree.map_structure(share_of, arrays)


def trace_any_shape(model, on_batch):
    model.make_predict_function()
    # XLA compiles each shape, and replicas get other structures.
    several = model.distribute_strategy.num_replicas_in_sync > 1
    if not (model.run_eagerly or model.jit_compile or several):
        batch = {x.name: tf.TensorSpec(x.shape, "int32") for x in model.inputs}
        model.predict_function.get_concrete_function([(batch,) if on_batch else batch])


def platform(x):
    devices = (kind for kind in ("TPU", "GPU") if tf.config.list_logical_devices(kind))
    return next(devices, "CPU").lower()


def on_accelerator(x):
    return platform(x) != "cpu"


def launched_processes():
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    return max(1, sum(len(cluster.get(job, ())) for job in ("chief", "worker")))


def device_count():
    return max(1, len(tf.config.list_physical_devices("GPU")))


def over_devices(count):
    gpus = len(tf.config.list_physical_devices("GPU"))
    if gpus and count > gpus:
        raise ValueError(f"`devices` must be at most {gpus}, the number of GPUs. Received: {count}")
    # Collective operations of a second strategy would be taken for those of the first.
    if not STRATEGIES:
        if not gpus:
            _divide_processor(count)
        names = [f"{'GPU' if gpus else 'CPU'}:{n}" for n in range(count)]
        STRATEGIES[count] = tf.distribute.MirroredStrategy(names)
    if count not in STRATEGIES:
        (first,) = STRATEGIES
        raise ValueError(
            f"`devices` must be the same in all calls of a process, or 1, with TensorFlow: {first} "
            f"before. Received: {count}; start a new process."
        )
    return STRATEGIES[count].scope()


def _divide_processor(count):
    """Makes as many logical devices of the processor, to try out what runs on several GPUs."""
    (processor, *_) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * count
    try:
        if tf.config.get_logical_device_configuration(processor) != parts:
            tf.config.set_logical_device_configuration(processor, parts)
    except RuntimeError:  # TensorFlow has begun to compute
        raise ValueError(
            "`devices` must be 1 on a machine without a GPU, except in the first call of a "
            f"process, which divides the processor. Received: {count}; start a new process."
        ) from None


def is_traced(x):
    return hasattr(x, "graph")


def check_range(ids, bound, check, message):
    """The ids, behind an assertion that 0 <= id < bound. XLA drops it."""
    in_range = tf.reduce_all(tf.logical_and(ids >= 0, ids < bound))
    with tf.control_dependencies([tf.debugging.Assert(in_range, [message, ids])]):
        return tf.identity(ids)


def call_back(function, *tensors):
    """Calls a Python function with NumPy arrays whenever the program gets here, in order."""
    tf.numpy_function(function, tensors, [])


def one_pass(function, *arguments):
    """`shared.one_pass`, in a graph on a CPU as a program of XLA.

    Not where TensorFlow sees a GPU, whose plugin may not know XLA, nor outside of a graph, where
    each length of text would be compiled again.
    """
    if not tf.executing_eagerly() and not on_accelerator(arguments[0]):
        function = _compiled(function)
    return function(*arguments)


@functools.cache
def _compiled(function):
    return tf.function(function, autograph=False, jit_compile=True)


def update_slice(whole, start, x):
    """`ops.slice_update`, which has no gradient on TensorFlow."""

    @tf.custom_gradient
    def updated(whole, x):
        def gradient(upstream):
            of_whole = ops.slice_update(upstream, start, tf.zeros_like(x))
            return of_whole, ops.slice(upstream, start, ops.shape(x))

        return ops.slice_update(whole, start, x), gradient

    return updated(whole, x)


def choose(condition, usual, other):
    """usual() or other(), which have the same shape.

    TensorFlow 2.21 cannot run a conditional in a loop, since its graph optimizer fails. It can run
    a loop of zero or one iterations.
    """
    turns = tf.cast(tf.logical_not(condition), "int32")
    _, result = tf.while_loop(
        lambda turn, _: turn < turns,
        lambda turn, _: (turn + 1, other()),
        (0, usual()),
        maximum_iterations=1,
    )
    return result


def scan(step, carry, elements, reverse=False):
    """`shared.scan`, step by step where their number is known.

    XLA has no gradient of a loop whose turns TensorFlow does not bound.
    """
    if elements.shape[0] is None:
        return shared.scan(step, carry, elements, reverse)
    outputs = []
    for element in tf.unstack(elements)[:: -1 if reverse else 1]:
        carry, output = step(carry, element)
        outputs.append(output)
    return carry, tf.stack(outputs[:: -1 if reverse else 1])


def cumsum(x, reverse=False):
    """The running sum along the last axis, from its end if `reverse`."""
    return tf.cumsum(x, axis=-1, reverse=reverse)


def log1p(x):
    """`ops.log1p`, which tf2onnx does not know."""
    return tf.math.log(1 + x) if shared.is_exporting() else tf.math.log1p(x)


def take_last(table, index):
    """As on PyTorch."""
    index = ops.broadcast_to(index, (*ops.shape(table)[:-1], ops.shape(index)[-1]))
    index = index + _first_of_rows(table)

    @tf.custom_gradient
    def taken(table):
        def gradient(upstream):
            sums = tf.math.unsorted_segment_sum(upstream, index, tf.size(table))
            return tf.reshape(sums, tf.shape(table))

        return _numbers(tf.reshape(table, [-1]), index), gradient

    return taken(table)


def _numbers(flat, index):
    """By index in the flattened table: `tf.gather` takes four times as long on a CPU."""
    return tf.gather_nd(flat, tf.expand_dims(index, -1))


def _first_of_rows(table):
    """(..., 1) int32: where each row of a table begins in the flattened one."""
    *outer, columns = ops.shape(table)
    return columns * ops.reshape(ops.arange(math.prod(outer), dtype="int32"), (*outer, 1))


def interpolate(table, position, training=False):
    """`shared.interpolation`; in training each direction is a single loop, except for the sums by
    index, which XLA would add up one by one."""
    if not training:
        return shared.interpolation(take_last)(table, position)
    columns, first = table.shape[-1], _first_of_rows(table)

    @tf.custom_gradient
    def interpolated(table, position):
        arguments = tf.reshape(table, [-1]), first, position, columns

        def gradient(upstream):
            index, of_lower, of_upper, of_position = one_pass(
                _interpolation_gradients, upstream, *arguments
            )
            sums = tf.math.unsorted_segment_sum(of_lower, index, tf.size(table))
            sums += tf.math.unsorted_segment_sum(of_upper, index + 1, tf.size(table))
            return tf.reshape(sums, tf.shape(table)), of_position

        return one_pass(_interpolation, *arguments), gradient

    return interpolated(table, position)


def _interpolation(flat, first, position, columns):
    _, lower, step, share = _neighbours(flat, first, position, columns)
    return lower + share * step


def _interpolation_gradients(upstream, flat, first, position, columns):
    """The index, and the gradients of the two numbers there and of the position."""
    index, _, step, share = _neighbours(flat, first, position, columns)
    of_upper = upstream * share
    of_position = ops.where(position <= columns - 1, upstream * step, 0.0)
    return index, upstream - of_upper, of_upper, of_position


def _neighbours(flat, first, position, columns):
    """The index in the flattened table, the number there, the step to the next, and its share."""
    index, share = shared.interpolation_place(position, columns)
    index = first + index
    lower = _numbers(flat, index)
    return index, lower, _numbers(flat, index + 1) - lower, share


def keep_by_hash(weights, rate, hashes):
    """`weighing.keep_by_hash`, whose gradient chooses by the same bits, formed again: no map of
    them is kept."""

    @tf.custom_gradient
    def dropped(weights):
        def chosen(x):
            return one_pass(_chosen, x, rate, *hashes)

        return chosen(weights), chosen

    return dropped(weights)


def _chosen(weights, rate, *hashes):
    return weighing.keep_by_hash(weights, rate, hashes)


def weigh_values(logits, mask, v, dropout, hashes, output=None, keep_logits=False):
    """As on PyTorch; `output` is the saved one, when only its gradient is needed."""
    ceiling = weighing.ceiling_of(mask)

    @tf.custom_gradient
    def weighed(logits, v):
        logits = logits if ceiling is None else tf.minimum(logits, ceiling)
        weights, result = weighing.softmax(logits), output
        if result is None:
            used = keep_by_hash(weights, dropout, hashes) if dropout else weights
            result = weighing.weighed(tf.cast(used, v.dtype), v)

        def gradient(upstream):
            arguments = weights, result, v, upstream, dropout, hashes
            return weighing.gradients(*arguments, one_pass)

        return result, gradient

    return weighed(logits, v)


def map_blocks(block, stacked, whole, carry, output_shape, dtype):
    """As on PyTorch, by loops forward and backward that are not differentiated: no map is saved.

    In the backward pass a block is given its output, too.
    """
    inputs, cut = [tf.convert_to_tensor(x) for x in (*stacked, *whole)], len(stacked)
    count = tf.shape(stacked[0])[0]
    # Only tensors of floats have gradients; the others are read from outside.
    floats = [i for i, x in enumerate(inputs) if x.dtype.is_floating]
    carry_shapes = [x.shape for x in carry]

    def array(dtype, shape):
        return tf.TensorArray(dtype, count, infer_shape=False, element_shape=shape)

    def loop(body, *first):
        def step(i, *state):
            return i + 1, *body(i, *state)

        state = tf.while_loop(
            lambda i, *_: i < count, step, (tf.constant(0), *first), parallel_iterations=1
        )
        return state[1:]

    @tf.custom_gradient
    def mapped(*float_inputs):
        tensors = list(inputs)
        for i, x in zip(floats, float_inputs, strict=True):
            tensors[i] = x

        def inputs_of(i):
            """The block's inputs in iteration i of the loop."""
            return [*(x[i] for x in tensors[:cut]), *(tf.identity(x) for x in tensors[cut:])]

        def forward(i, outputs, *state):
            x = inputs_of(i)
            carries, now = state[: len(carry)], state[len(carry) :]
            output, then = block(x[:cut], x[cut:], now)
            carries = [a.write(i, c) for a, c in zip(carries, now, strict=True)]
            return outputs.write(i, output), *carries, *map(tf.ensure_shape, then, carry_shapes)

        carries = [array(x.dtype, x.shape) for x in carry]
        outputs, *carries = loop(forward, array(dtype, output_shape), *carries, *carry)
        outputs = outputs.stack()
        carries = [x.stack() for x in carries[: len(carry)]]

        def gradients(upstream):
            of_parts = [i for i in floats if i < cut]
            of_whole = [i for i in floats if i >= cut]

            def backward(turn, *state):
                i = count - 1 - turn
                x, now = inputs_of(i), [x[i] for x in carries]
                of_carry, state = state[: len(carry)], state[len(carry) :]
                sources = [*(x[j] for j in floats), *now]
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(sources)
                    output, then = block(x[:cut], x[cut:], now, outputs[i])
                grads = tape.gradient(
                    [output, *then], sources, [upstream[i], *of_carry], unconnected_gradients="zero"
                )
                of_carry = map(tf.ensure_shape, grads[len(floats) :], carry_shapes)
                grads = dict(zip(floats, grads, strict=False))
                arrays, sums = state[: len(of_parts)], state[len(of_parts) :]
                arrays = [a.write(i, grads[j]) for a, j in zip(arrays, of_parts, strict=True)]
                sums = [
                    tf.ensure_shape(total + grads[j], total.shape)
                    for total, j in zip(sums, of_whole, strict=True)
                ]
                return *of_carry, *arrays, *sums

            totals = loop(
                backward,
                *map(tf.zeros_like, carry),
                *(array(inputs[i].dtype, inputs[i].shape[1:]) for i in of_parts),
                *(tf.zeros_like(tensors[i]) for i in of_whole),
            )[len(carry) :]
            arrays, sums = totals[: len(of_parts)], totals[len(of_parts) :]
            return *(a.stack() for a in arrays), *sums

        return outputs, gradients

    return mapped(*[inputs[i] for i in floats])


recomputed = tf.recompute_grad


def gradient(function, x, differentiable):
    """The gradient of function(x), a scalar, by x."""
    x = tf.convert_to_tensor(x)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x, unconnected_gradients="zero")


def has_kernel(q, biased):
    """Whether a fused attention kernel is worth using, for logits with or without a bias."""
    return False


def kernel_forms_map(q, padded):
    """Whether the kernel materialises the map of all heads."""
    return False


def adamw_step(optimizer, gradients, variables, learning_rate, decays):
    """One step of `keras.optimizers.AdamW` by TensorFlow's fused kernel; whether it was done
    here."""
    if optimizer.amsgrad:
        return False
    (gradient,), (variable,), (decay,) = gradients, variables, decays
    m, v = optimizer.moments(variable)
    if decay:
        optimizer.decay(variable, learning_rate, decay)
    step = tf.cast(ops.convert_to_tensor(optimizer.iterations) + 1, m.dtype)
    beta_1, beta_2 = tf.cast(optimizer.beta_1, m.dtype), tf.cast(optimizer.beta_2, m.dtype)
    tf.raw_ops.ResourceApplyAdam(
        var=(variable.value if isinstance(variable, keras.Variable) else variable).handle,
        m=m.handle,
        v=v.handle,
        beta1_power=tf.pow(beta_1, step),
        beta2_power=tf.pow(beta_2, step),
        lr=tf.cast(learning_rate, m.dtype),
        beta1=beta_1,
        beta2=beta_2,
        epsilon=tf.cast(optimizer.epsilon, m.dtype),
        grad=tf.cast(tf.convert_to_tensor(gradient), m.dtype),
    )
    return True


def gelu(x):
    """`shared.gelu`; for LiteRT, which has no error function, the form that it knows as one
    operation."""
    return tf.nn.gelu(x) if shared.is_exporting("litert") else shared.gelu(x)
