"""torch. See `keras_posenc.backend` for what each function does."""

import contextlib
import dataclasses
import functools
import os
import warnings
from collections.abc import Callable

import numpy as np
import torch
from keras import ops

from keras_posenc.backend import shared, weighing
from keras_posenc.backend.shared import *  # noqa: F403
from keras_posenc.backend.torch_calls import (
    all_true,  # noqa: F401
    by_group,  # noqa: F401
    dot_product_attention,  # noqa: F401
    is_plain,  # noqa: F401
    layer_norm,  # noqa: F401
    linear,  # noqa: F401
    looked_at,  # noqa: F401
    moved_on,  # noqa: F401
    number,  # noqa: F401
    overwrite,  # noqa: F401
    rms_norm,  # noqa: F401
    rotate,  # noqa: F401
    tracing,
)
from keras_posenc.backend.torch_cuda import (
    capability,
    drop_features,  # noqa: F401
    fused_alone,
    inference_dtype,  # noqa: F401
    kernels_drop,  # noqa: F401
    next_seed,  # noqa: F401
    on_cuda,
    steps_done,
)
from keras_posenc.backend.torch_host import SafeTrainer, is_unmasked, unmasked  # noqa: F401

__all__ = shared.NAMES

TRAITS = shared.Traits(
    writes_onnx="onnxscript",
    processes_apart="with PyTorch, Keras up to 3.15 trains a model of its own in each",
    one_device="with PyTorch, Keras up to 3.15 computes on one device per process",
    eager=True,
    row_runs=8,
    values_at_hand=True,
)

# Bytes of a float32 matrix that a kernel on a GPU must not materialise.
LARGE = 128 * 2**20
# Weights of e^-69 are 1e-30: their products with gradients of 1e-8 are numbers as any others.
SMALL = 69.0


def platform(x):
    kind = x.device.type
    return "gpu" if on_cuda(x) else {"cpu": "cpu", "xla": "tpu"}.get(kind, "gpu")


def on_accelerator(x):
    return platform(x) != "cpu"


def bind_keywords(call, keywords):
    # What Keras 3.12 computes once more, it calls without them.
    return functools.partial(call, **keywords)


def launched_processes():
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return int(os.environ.get("WORLD_SIZE", 1))


def device_count():
    return max(1, torch.cuda.device_count())


def is_traced(x):
    return getattr(x, "is_meta", False) or tracing()


def check_range(ids, bound, check, message):
    """The ids: there is nothing to ask of a tensor without numbers."""
    return ids


def lay_out(x):
    """x contiguous, once, or each product with it would copy it."""
    return x.contiguous()


def constant(x, dtype):
    return torch.as_tensor(x, dtype=getattr(torch, dtype), device=ops.zeros(()).device)


def cumsum(x, reverse=False):
    """The running sum along the last axis, from its end if `reverse`."""
    return torch.flip(torch.cumsum(torch.flip(x, [-1]), -1), [-1]) if reverse else x.cumsum(-1)


def clip(index, low, high):
    """`ops.clip` between numbers that may be free sizes of an export, which Keras would fix."""
    return torch.clamp(index, low, high)


def pad(x, sides, constant_values=0):
    flat = [count for side in reversed(sides) for count in side]
    return torch.nn.functional.pad(x, flat, value=constant_values)


def split(x, ends, axis):
    return torch.tensor_split(x, ends, axis)


def take(x, index, axis):
    """`ops.take`, without a squeeze that ONNX refuses at other lengths than that of the example."""
    x = ops.convert_to_tensor(x)
    taken = torch.index_select(x, axis, index.long().ravel())
    return taken.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def take_along_axis(x, index, axis):
    shape = [b if a == 1 else a for a, b in zip(x.shape, index.shape, strict=True)]
    x, index = (
        each.expand(*shape[:axis], each.shape[axis], *shape[axis + 1 :]) for each in (x, index)
    )
    return torch.gather(x, axis, index.long())


def look_up(table, ids):
    """`shared.look_up` by one kernel; `ops.take` also serves ids below 0."""
    return torch.nn.functional.embedding(ids, ops.convert_to_tensor(table))


def segment_sum(x, index, count):
    """Sums of the rows of x (N, D) whose index (N,) is 0, 1, ..., as (count, D).

    `keras.ops.segment_sum` repeats the index for each column, which in ONNX takes memory of N^2.
    """
    index = index.long()[:, None].expand(x.shape)  # takes no memory
    return x.new_zeros((count, x.shape[1])).scatter_add(0, index, x)


def take_last(table, index):
    """Looks up a table (..., C) at the index (..., Tk), integers from 0 to C - 1.

    `keras.ops.take_along_axis` checks every index again.
    """
    index = index.long()  # before it is spread, which takes no memory
    return torch.gather(table, -1, index.expand(*table.shape[:-1], index.shape[-1]))


interpolate = shared.interpolation(take_last)


def _close(logits, ceiling, keep_logits):
    """`weighing.close`, in place where it may be, with no pass over the map for its gradient."""
    # On a CPU a minimum is four times as fast as a choice over heads that share their cells.
    if tracing() or not (torch.is_grad_enabled() and logits.requires_grad):
        return torch.minimum(logits, ceiling)
    return Closed.apply(logits, ceiling, keep_logits)


class Closed(torch.autograd.Function):
    """Logits of at most `ceiling`, -1e9 in masked positions: a softmax gives weights of 0 no
    gradient."""

    @staticmethod
    def forward(context, logits, ceiling, keep_logits):
        if keep_logits:
            return torch.minimum(logits, ceiling)
        context.mark_dirty(logits)
        return torch.minimum(logits, ceiling, out=logits)

    @staticmethod
    def backward(_, upstream):
        return upstream, None, None


def keep_by_hash(weights, rate, hashes):
    """`weighing.keep_by_hash` by the gradient of a threshold: what comes in unless an input is at
    most -x.

    Comparing and choosing are two passes over the map, and slow ones. This kernel does both in one,
    on the product's bits read as a float32. Half of all bits are not negative, and 2^23 of the
    negative ones are no number and count as above.
    """
    if weights.dtype != torch.float32 or rate > 0.49:
        return weighing.keep_by_hash(weights, rate, hashes)
    threshold = np.array((0.5 - rate) * 2**32 - 2**23).astype("int32").view("float32")
    bits = weighing.bits_of(hashes).view(torch.float32)
    return torch.ops.aten.threshold_backward(weights, bits, -float(threshold))


def weigh_values(logits, mask, v, dropout, hashes, output=None, keep_logits=False):
    """softmax(logits) v, (B, H, Tq, Dv), over the unmasked positions; v, (B, H / G, Dv, Tk), is
    already divided by 1 - dropout. `keep_logits` leaves the logits to another reader.
    """
    if mask is not None:
        logits = _close(logits, weighing.ceiling_of(mask), keep_logits)
    # On a CPU, products with numbers below 1e-38 take five times as long. Replacing such weights by
    # 0 changes nothing. The last row shows whether a matrix has such weights.
    if platform(logits) == "cpu" and not tracing():
        row = logits.detach()[..., -1, :]
        below = torch.amax(row, -1, keepdim=True) - row
        if torch.any((below > SMALL) & (below < -weighing.CLOSED / 10)):
            logits = WithoutSmall.apply(logits)
    weights = weighing.softmax(logits)
    used = keep_by_hash(weights, dropout, hashes) if dropout else weights
    return weighing.weighed(used.to(v.dtype), v)


class WithoutSmall(torch.autograd.Function):
    """Logits less the largest of their row, and -1e9 where a weight is below e^-SMALL."""

    @staticmethod
    def forward(_, logits):
        logits = logits - torch.amax(logits, -1, keepdim=True)
        return torch.nn.functional.threshold_(logits, -SMALL, -1e9)

    @staticmethod
    def backward(_, upstream):
        # A softmax sees no shift, and gives cells of no weight no gradient.
        return upstream


def map_blocks(block, stacked, whole, carry, output_shape, dtype):
    """Computes block(stacked[i], whole, carry), i = 0 .. N - 1: outputs (N, B, H, rows, D).

    Tensors that the block reads but does not get as arguments have no gradient, nor has the carry.

    `block`: function of three lists of tensors, and the `number` of the block, that returns an
    output and the carry of the next. Block i reads element i of `stacked`, and all of `whole`.
    """
    if torch.compiler.is_compiling():
        return _checkpointed(block, stacked, whole, carry)
    blocks, inputs = _Blocks(block, len(stacked), stacked[0].shape[0]), [*stacked, *whole]
    if not tracing() and torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return Recomputed.apply(blocks, carry, *inputs)
    return blocks.run(inputs, carry)[0]


@dataclasses.dataclass(frozen=True)
class _Blocks:
    """Blocks over a list of inputs: those that are stacked, then those that all blocks read."""

    block: Callable
    stacked: int
    count: int

    def inputs_of(self, i, inputs):
        """The parts of block i and the whole inputs; None stays."""
        parts = [None if x is None else x[i] for x in inputs[: self.stacked]]
        return parts, inputs[self.stacked :]

    def run(self, inputs, carry):
        """The outputs, and the carry that each block got."""
        outputs, carries = None, []
        for i in range(self.count):
            carries.append(carry)
            output, carry = self.block(*self.inputs_of(i, inputs), carry, number=i)
            if outputs is None:
                outputs = output.new_empty((self.count, *output.shape))
            outputs[i].copy_(output)
        return outputs, carries

    def differentiable_gradients(self, inputs, carry, needed, upstream):
        """The gradients of the inputs as a graph, which keeps the maps of all blocks."""
        # One input may be made of another: each is to get what reaches it alone.
        inputs = [x.view_as(x) if n else x for x, n in zip(inputs, needed, strict=True)]
        sources = [x for x, n in zip(inputs, needed, strict=True) if n]
        outputs, _ = self.run(inputs, carry)
        grads = iter(
            torch.autograd.grad(
                outputs, sources, upstream, create_graph=True, materialize_grads=True
            )
        )
        return [next(grads) if n else None for n in needed]


def _autocast(device):
    """The settings with which `torch.autocast` computes a block again as it is computed now."""
    device = device if torch.amp.is_autocast_available(device) else "cpu"
    enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    return {"device_type": device, "dtype": dtype, "enabled": enabled, "cache_enabled": False}


class Recomputed(torch.autograd.Function):
    """Between two blocks nothing that lasts is made but the carry: in the gap that a map leaves it
    would take its place from the next, and the process grow by all maps.
    """

    @staticmethod
    def forward(context, blocks, carry, *inputs):
        outputs, carries = blocks.run(inputs, carry)
        context.blocks, context.autocast = blocks, _autocast(inputs[0].device.type)
        context.save_for_backward(*inputs, *(x for carry in carries for x in carry))
        return outputs

    @staticmethod
    def backward(context, upstream):
        blocks, saved = context.blocks, context.saved_tensors
        needed = context.needs_input_grad[2:]
        inputs, carries = saved[: len(needed)], list(saved[len(needed) :])
        if torch.is_grad_enabled():  # for a second derivative
            carry = carries[: len(carries) // blocks.count]
            with torch.autocast(**context.autocast):
                grads = blocks.differentiable_gradients(inputs, carry, needed, upstream)
            return None, None, *grads
        grads = [torch.zeros_like(x) if n else None for x, n in zip(inputs, needed, strict=True)]
        of_carry = [torch.zeros_like(x) for x in carries[: len(carries) // blocks.count]]
        for i in reversed(range(blocks.count)):
            parts, whole = ([x.detach() for x in some] for some in blocks.inputs_of(i, inputs))
            carry = [carries.pop().detach().requires_grad_() for _ in of_carry][::-1]
            inner = zip([*parts, *whole], needed, strict=True)
            sources = [x.requires_grad_() for x, n in inner if n]
            with torch.enable_grad(), torch.autocast(**context.autocast):
                output, carried_on = blocks.block(parts, whole, carry, number=i)
            # What depends on none of the sources has no gradient to give.
            pairs = zip([output, *carried_on], [upstream[i], *of_carry], strict=True)
            pairs = [(x, of_x) for x, of_x in pairs if x.requires_grad]
            gradients = torch.autograd.grad(
                [x for x, _ in pairs],
                [*sources, *carry],
                [of_x for _, of_x in pairs],
                allow_unused=True,
                materialize_grads=True,
            )
            of_carry = gradients[len(sources) :]
            totals = [x for some in blocks.inputs_of(i, grads) for x in some if x is not None]
            for total, more in zip(totals, gradients, strict=False):
                total += more
        return None, None, *grads


def _checkpointed(block, stacked, whole, carry):
    """`map_blocks` by what torch can compile."""
    from torch.utils.checkpoint import checkpoint

    def run(*inputs):
        if not torch.is_grad_enabled():
            return block(*inputs)
        return checkpoint(block, *inputs, use_reentrant=False, preserve_rng_state=False)

    outputs = []
    # One gradient for all parts; the gradient of a slice would fill a whole tensor.
    for parts in zip(*(torch.unbind(x) for x in stacked), strict=True):
        output, carry = run(parts, whole, carry)
        outputs.append(output)
    return torch.stack(outputs)


def recomputed(function):
    """As on JAX."""
    from torch.utils.checkpoint import checkpoint

    return functools.partial(checkpoint, function, use_reentrant=False)


def gradient(function, x, differentiable):
    """The gradient of function(x), a scalar, by x; as a graph if `differentiable`."""
    graph = differentiable and torch.is_grad_enabled()
    x = ops.convert_to_tensor(x)
    with torch.enable_grad():
        # A tensor of its own: another path from x to the function's tensors does not count.
        x = x.view_as(x) if graph and x.requires_grad else x.detach().requires_grad_()
        y = function(x)
        (gradient,) = torch.autograd.grad(y, [x], create_graph=graph, materialize_grads=True)
    return gradient


def has_kernel(q, biased):
    """Whether a fused attention kernel is worth using, for logits with or without a bias."""
    # Keras adds no bias in it before 3.14, and a mask in float16 is one.
    if shared.KERAS < (3, 14):
        return not biased and q.dtype != torch.float16
    # On a CPU it has no gradient for a bias, and torch keeps whole maps in its place.
    return not biased or on_accelerator(q) or not torch.is_grad_enabled()


def kernel_multiple(q):
    return 8 if on_cuda(q) else 1


def kernel_forms_map(q, padded):
    """Whether the kernel materialises the map of all heads."""
    if not on_cuda(q):
        return False
    if q.dtype == torch.bfloat16:
        return capability(q) < (8, 0)
    return q.dtype not in (torch.float16, torch.float32)


def fused_kernels(q, k):
    """Within it, torch's kernel that materialises the matrix is not taken for a large one."""
    if not on_cuda(q) or kernel_forms_map(q, False):
        return contextlib.nullcontext()
    batch, rows, heads = q.shape[:3]
    if 4 * batch * heads * rows * k.shape[1] <= LARGE:
        return contextlib.nullcontext()
    return fused_alone()


def without_gradients():
    """A context in which no operation is recorded for gradients."""
    return torch.no_grad()


def gelu(x):
    """GELU by the error function, by torch's fused kernel."""
    return torch.nn.functional.gelu(x)


def adamw_step(optimizer, gradients, variables, learning_rate, decays):
    """One step of `keras.optimizers.AdamW` by torch's fused kernel; whether it was done here."""
    if optimizer.amsgrad:
        return False
    done = ops.convert_to_tensor(optimizer.iterations)
    # torch divides sqrt(v) by this root before it adds epsilon, Keras does not.
    root = (1 - optimizer.beta_2 ** (steps_done(done) + 1)) ** 0.5
    # A number where it is at hand: to ask an accelerator would be to wait for it.
    rate = ops.convert_to_tensor(learning_rate).to(torch.float32)
    rate = rate if on_accelerator(done) else float(rate)
    step = (done + 1).to(torch.float32)
    kinds = [(decay, x.dtype) for decay, x in zip(decays, variables, strict=True)]
    for kind in dict.fromkeys(kinds):
        chosen = [i for i, each in enumerate(kinds) if each == kind]
        moments = [optimizer.moments(variables[i]) for i in chosen]
        with torch.no_grad():
            torch._fused_adamw_(
                [variables[i].value for i in chosen],
                [gradients[i].to(m.dtype) for i, (m, _) in zip(chosen, moments, strict=True)],
                [m for m, _ in moments],
                [v for _, v in moments],
                [],
                [step] * len(chosen),
                amsgrad=False,
                beta1=optimizer.beta_1,
                beta2=optimizer.beta_2,
                lr=rate,
                weight_decay=kind[0],
                eps=optimizer.epsilon / root,
                maximize=False,
            )
            # The kernel leaves the versions, by which copies of weights know that they are old.
            for i in chosen:
                torch.autograd.graph.increment_version(variables[i].value)
    return True


def export_model(model, path, format):
    """Writes a model as an ONNX file; Keras' own way fails where a length is free."""
    shared.check_keras("ONNX files are written on torch", 3, 15)  # before, free axes were fixed
    free = torch.export.Dim.DYNAMIC
    axes = [{i: free for i, n in enumerate(x.shape) if n is None} for x in model.inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        program = torch.onnx.export(
            _Positional(model).eval(),
            tuple(shared.example_inputs(model)),
            input_names=[x.name for x in model.inputs],
            dynamic_shapes=(tuple(axes),),
            dynamo=True,
            verbose=False,
        )
        program.save(path)


class _Positional(torch.nn.Module):
    """A model whose inputs are arguments."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(list(inputs), training=False)
