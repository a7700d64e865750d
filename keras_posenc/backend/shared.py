"""What the backends share: the list of traits, and functions that more than one of them uses."""

import contextlib
import dataclasses
import math

import keras
import numpy as np
from keras import ops
from keras.backend import standardize_dtype

from keras_posenc.backend.cuda_alone import (  # noqa: F401
    drop_features,
    inference_dtype,
    is_unmasked,
    kernels_drop,
    looked_at,
    moved_on,
    next_seed,
    number,
    unmasked,
)
from keras_posenc.backend.exports import (  # noqa: F401
    constant,
    exporting,
    exporting_free_sizes,
    is_exporting,
    saved_model_options,
)
from keras_posenc.backend.features import layer_norm, linear, rms_norm, rotate  # noqa: F401
from keras_posenc.backend.head_groups import by_rows_of_groups, repeated_heads
from keras_posenc.backend.jax_alone import (  # noqa: F401
    batch_shards,
    dropout_kernel,
    has_dropout_kernel,
    has_splash,
    over_batch,
    over_sequence,
    sequence_shards,
    splash,
    with_neighbours,
)

KERAS = tuple(int(part) for part in keras.__version__.split(".")[:2])
NAMES = (
    "SafeTrainer", "TRAITS", "adamw_step", "all_true", "apart", "await_calls", "batch_shards",
    "bind_keywords", "by_group", "cache_programs", "call_back", "check_floatx", "check_range",
    "choose", "clip", "constant", "cumsum", "device_count", "dot_product_attention",
    "drop_features", "dropout_kernel", "exact_product", "export_model", "exporting",
    "exporting_free_sizes", "fused_kernels", "gather", "gather_rows", "gelu", "gradient",
    "has_dropout_kernel", "has_kernel", "has_splash", "inference_dtype", "interpolate",
    "is_exporting", "is_plain", "is_traced", "is_unmasked", "keep_by_hash", "keeps_programs",
    "kernels_drop", "kernel_forms_map", "kernel_multiple", "launched_processes", "lay_out",
    "layer_norm", "linear", "log1p", "look_up", "looked_at", "map_blocks", "mesh_size", "moved_on",
    "next_seed", "number", "on_accelerator", "one_pass", "over_batch", "over_devices",
    "over_sequence", "overwrite", "pad", "platform", "processes", "product", "recomputed",
    "rms_norm", "rotate", "row_multiple", "runs_cudnn", "saved_model_options", "scan",
    "segment_sum", "sequence_shards", "splash", "split", "sum_over_replicas", "take",
    "take_along_axis", "take_last", "trace_any_shape", "train_steps", "unmasked", "update_slice",
    "weigh_values", "with_neighbours", "without_gradients", "write",
)  # fmt: skip


def cache_programs():
    """Keeps compiled programs on disk for later processes; returns the folder, or None."""
    return None


def without_gradients():
    """A context in which no operation is recorded for gradients."""
    return contextlib.nullcontext()


def bind_keywords(call, keywords):
    """The function `call`, with the keyword arguments where Keras would lose them."""
    return call


def trace_any_shape(model, on_batch):
    """Makes one program of a model's predictions for batches of every shape, where there would be
    one for that of the first batch and another.

    The batches will be dicts of int32, by input name; `on_batch`: given to `predict_on_batch`.
    """


def keeps_programs():
    """Whether compiled programs are kept for later processes."""
    return False


def check_floatx():
    """Raises ValueError where `keras.config.floatx()` would change integers."""


def row_multiple():
    """The number of which the rows of a batch must be a multiple; 1 where any batch will do."""
    return 1


def sum_over_replicas(x):
    """The sum of a tensor over the replicas that compute a step together, each with a part."""
    return x


def gather_rows(x):
    """The rows of a tensor on all replicas that compute a step together, in their order, and the
    number of rows before those of this replica."""
    return x, 0


def processes():
    """The rank of this process, and how many train and predict together; 0 and 1 of one alone."""
    return 0, 1


def launched_processes():
    """How many processes were launched as one job, whether or not they work together."""
    return 1


def gather(value):
    """A list of what this function is given in each process of `processes`, by rank.

    Every process has to call it.
    """
    return [value]


def device_count():
    """How many devices of the kind that Keras computes on this process has."""
    return 1


def over_devices(count):
    """A context in which models and batches are spread over so many devices."""
    raise NotImplementedError  # where `TRAITS.one_device` says why


@dataclasses.dataclass(frozen=True)
class Traits:
    """What was measured on a backend's CPU, and what its programs may do."""

    processes_apart: str = ""  # why several processes cannot train one model; "" if they can
    one_device: str = ""  # why a process uses one device; "" if it can use more
    # Operations run as they are called: no shape has a program to compile, and each call of a layer
    # costs time.
    eager: bool = False
    map_bytes: int = 32 * 2**20  # a larger float32 map is split into blocks of query rows
    # Bytes of a block's map. JAX and torch gain from a block that stays in cache, TensorFlow from
    # few blocks.
    block_bytes: int = 8 * 2**20
    # Number of runs of blocks, each of which leaves out the columns that the causal order masks;
    # each run is compiled separately.
    row_runs: int = 4
    chunked_sums: bool = False  # a running sum is faster as products with a triangle of ones
    # A map is written faster from pieces of a line than by reshaping.
    diagonals_in_pieces: bool = False
    # A block may read weights that are not among its arguments.
    closures_have_gradients: bool = False
    values_at_hand: bool = False  # reading the value of a scalar tensor costs nothing
    global_random_state: bool = True  # some random numbers come from a state that is not a variable
    drops_assertions: bool = False  # a compiled program may leave out the checks of its numbers
    batches_before_fit: int = 0  # batches that `fit` inspects to find out which axes vary
    calls_back_compiled: bool = True  # a compiled program can call a Python function
    writes_litert: bool = False  # Keras exports a model of any length to LiteRT
    writes_onnx: str = ""  # the package that ONNX files are written by
    splits_compiled: bool = True  # a compiled program splits rows by numbers that it computes
    fills_missing: bool = False  # a compiled program reads NaN for a row that a table does not have
    shape_price: int = 0  # tokens that MiniLM computes while a program for another shape is made
    priced_shapes: float = math.inf  # after so many shapes a program is for any


class SafeTrainer:
    """What a model inherits before `keras.Model`, so that its weights outlive a call that fails.

    `predict` may also be called from several threads. Where variables last, Keras needs no help.
    """


def product(x, y, equation=None):
    """x @ y, or their einsum; float32 of float16, where products above 65,504 are infinite."""
    if standardize_dtype(x.dtype) == "float16":
        x, y = ops.cast(x, "float32"), ops.cast(y, "float32")
    return ops.matmul(x, y) if equation is None else ops.einsum(equation, x, y)


def kernel_multiple(q):
    """The number of which the size of a head must be a multiple for the fused kernels."""
    return 1


def runs_cudnn(q):
    """Whether JAX has cuDNN compute attention of heads with a feature more.

    It takes no mask of the keys alone, and no bias or mask of odd lengths in training.
    """
    return False


def fused_kernels(q, k):
    """Within it, attention runs a kernel that does not materialise a large matrix, or fails."""
    return contextlib.nullcontext()


def exact_product(x, y):
    """x @ y, where an accelerator would round the factors to fewer bits."""
    return ops.matmul(x, y)


def all_true(mask):
    """Whether a mask (B, Tk) is known to be True everywhere, without waiting for its values."""
    return False


def lay_out(x):
    """Makes x contiguous in memory where that matters."""
    return x


def apart(x):
    """x computed by itself, where a kernel with what reads it would not compile."""
    return x


def one_pass(function, *arguments):
    """Calls function(*arguments), compiled into one program where the backend needs to be asked.

    `function`: a function of a module, not a closure: it is compiled once per kind of tensors.
    `arguments`: tensors and Python numbers.
    """
    return function(*arguments)


def update_slice(whole, start, x):
    """`ops.slice_update`, with a gradient."""
    return ops.slice_update(whole, start, x)


def is_plain(layer, x, casts=False):
    """Whether layer(x) may be computed as layer.call(x), which saves time where calls cost some."""
    return False


def dot_product_attention(q, k, v, bias, mask, scale, is_causal, flash, dropout=0.0, seed=None):
    """`keras.ops.dot_product_attention`, with no copies of q, k and v where that is possible.

    k and v may have fewer heads, each for a group of query heads. Weights are dropped where
    `kernels_drop`.
    """
    if q.shape[2] > k.shape[2] and q.shape[1] == 1:
        return by_rows_of_groups(dot_product_attention, q, k, v, bias, mask, scale, flash)
    k, v = (repeated_heads(x, q.shape[2]) for x in (k, v))
    return ops.dot_product_attention(
        q, k, v, bias=bias, mask=mask, scale=scale, is_causal=is_causal, flash_attention=flash
    )


def write(whole, start, x, axis):
    """`whole` with x from the place `start` of its tokens on, which are along `axis`."""
    places = [start if each == axis else 0 for each in range(len(whole.shape))]
    return ops.slice_update(whole, places, x)


def overwrite(whole, start, x, axis):
    """`write` of a tensor that nothing else reads, in place where the backend can."""
    return write(whole, start, x, axis)


def choose(condition, usual, other):
    """usual() or other(), which have the same shape."""
    return ops.cond(condition, usual, other)


def scan(step, carry, elements, reverse=False):
    """`ops.scan` of a function that returns the next carry, and an output of the carry's shape."""
    return ops.scan(step, carry, elements, reverse=reverse)


def recomputed(function):
    """A function of lists of tensors that keeps these alone, and is computed again backwards."""
    raise NotImplementedError


def call_back(function, *tensors):
    """Calls a Python function with NumPy arrays whenever the program gets here, in order."""
    function(*(ops.convert_to_numpy(x) for x in tensors))


def await_calls():
    """Waits for the calls of `call_back` that a program has left."""


def cumsum(x, reverse=False):
    """The running sum along the last axis, from its end if `reverse`."""
    return ops.flip(ops.cumsum(ops.flip(x, -1), -1), -1) if reverse else ops.cumsum(x, -1)


def log1p(x):
    """`ops.log1p`, also in programs for other runtimes."""
    return ops.log1p(x)


def clip(index, low, high):
    """`ops.clip` between numbers that may be free sizes of an export."""
    return ops.clip(index, low, high)


def take(x, index, axis):
    """`ops.take`, also at a length that is free in an export."""
    return ops.take(x, index, axis=axis)


def pad(x, sides, constant_values=0):
    """`ops.pad`, which torch.compile cannot read."""
    return ops.pad(x, sides, constant_values=constant_values)


def split(x, ends, axis):
    """`ops.split` at indices, which PyTorch would read from the device."""
    return ops.split(x, ends, axis)


def take_along_axis(x, index, axis):
    """That of `keras.ops` for an index of 0 and more, in programs of other sizes too."""
    return ops.take_along_axis(x, index, axis)


def look_up(table, ids):
    """Rows of a table (V, D) by ids from 0 to V - 1."""
    return ops.take(table, ids, axis=0)


def segment_sum(x, index, count):
    """Sums of the rows of x (N, D) whose index (N,) is 0, 1, ..., as (count, D)."""
    return ops.segment_sum(x, index, num_segments=count)


def interpolation_place(position, columns):
    """The index before a position among `columns`, and the weight of the index after."""
    lower = ops.floor(ops.minimum(ops.stop_gradient(position), columns - 2))
    index = ops.maximum(ops.cast(lower, "int32"), 0)  # also where it is not a number
    return index, ops.hard_tanh(position - lower)  # at most 1: one kernel forward, one backward


def interpolation(take_last):
    """The function `interpolate` by a backend's `take_last`."""

    def interpolate(table, position, training=False):
        """A table (..., P) at positions (..., Tk), at least 0, between its columns; P - 1 at most.

        The last position is one step past the last but one, so that what led there has a gradient.
        With `training`, compiling a program for these sizes is worthwhile.
        """
        columns = table.shape[-1]
        index, share = interpolation_place(position, columns)
        sizes = (*ops.shape(table)[:-1], columns - 1)
        first = [0] * len(sizes)
        steps = ops.slice(table, (*first[:-1], 1), sizes) - ops.slice(table, first, sizes)
        return take_last(table, index) + share * take_last(steps, index)

    return interpolate


@ops.custom_gradient
def gelu(x):
    """GELU by the error function, x Phi(x), keeping nothing but x for the backward pass.

    Keras' own keeps up to three more tensors of the inner size on TensorFlow, and takes 1.3 to 2
    times as long there and on JAX.
    """

    def gradient(*upstream, **named):
        (g,) = upstream or named.values()
        return g * (_phi(x) + x * (math.sqrt(0.5 / math.pi) * ops.exp(-0.5 * x * x)))

    return x * _phi(x), gradient


def _phi(x):
    """The normal distribution function."""
    return 0.5 + 0.5 * ops.erf(x * math.sqrt(0.5))


def example_inputs(model):
    """Zeros of the sizes of a model's inputs; 2 for a free one, as 1 may pass for a constant."""
    sizes = [[2 if n is None else n for n in x.shape] for x in model.inputs]
    return [ops.zeros(size, x.dtype) for size, x in zip(sizes, model.inputs, strict=True)]


def by_group(function, rows, counts, weights):
    """Computes function(rows of group g, weights of group g) for all groups.

    Here each group computes all rows; the backends compute each row once. `function`: function of
    rows (n, D) and a list of weights, to (n, E). It is hashable, and equal to another one that
    computes the same. `rows`: (M, D), those of group 0 first. `counts`: (G,) int32, the number of
    rows of each group. `weights`: list of tensors (G, ...). Returns (M, E).
    """
    groups = weights[0].shape[0]
    ends = ops.cumsum(counts)
    place = ops.arange(ops.shape(rows)[0], dtype="int32")[:, None]
    output = 0.0
    for group in range(groups):
        inside = (place >= ends[group] - counts[group]) & (place < ends[group])
        values = function(rows, [w[group] for w in weights])
        output = output + ops.where(inside, values, ops.zeros_like(values))
    return output


def mesh_size(axis):
    """Number of chips along an axis of the mesh of `keras.distribution`; 1 without it."""
    mesh = getattr(keras.distribution.distribution(), "device_mesh", None)
    if mesh is None or axis not in mesh.axis_names:
        return 1
    return mesh.shape[mesh.axis_names.index(axis)]


def check_keras(what, *version):
    """ImportError if Keras is older than a version, the first that does `what`."""
    if version > KERAS:
        raise ImportError(
            f"{what} by Keras {'.'.join(map(str, version))} and newer, and this is "
            f"{keras.__version__}: pip install -U keras"
        )


def export_model(model, path, format):
    """Writes a model as a file of a format of Keras' own export."""
    if format == "litert":
        check_keras("LiteRT files are written", 3, 15)
    model(example_inputs(model), training=False)  # Keras exports what was called
    model.export(path, format=format, verbose=False)


def train_steps(model):
    """A function (batches, count) -> losses: takes the first `count` of these training steps.

    `model`: a compiled `keras.Model` whose optimizer is built. Returns a function of `batches`, a
    tuple of arrays (K, B, ...) of inputs, targets and weights, and of `count`, an int up to K,
    which gives a list of the losses.
    """

    def steps(batches, count):
        losses = (model.train_on_batch(*(x[i] for x in batches)) for i in range(count))
        return [float(np.ravel(loss)[0]) for loss in losses]

    return steps
