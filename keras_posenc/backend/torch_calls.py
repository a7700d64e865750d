"""torch: several operations as one, and calls of layers without what Keras does around them.

See `keras_posenc.backend` for what each function does.
"""

import torch
from keras import ops
from torch.nn.modules import module as hooks
from torch.utils.weak import WeakTensorKeyDictionary

from keras_posenc.backend import shared, torch_cuda
from keras_posenc.backend.keras_names import has, plain_dtypes, scope
from keras_posenc.backend.keras_names import tensor_of as numbers
from keras_posenc.backend.shared_pass import shared as once
from keras_posenc.backend.shared_pass import this_pass
from keras_posenc.backend.torch_host import is_unmasked

torch.compiler.assume_constant_result(has)  # it makes layers to find out


def tracing():
    """Whether the program is for other values too: of torch.compile, an export or torch.func."""
    read = torch.compiler.is_compiling() or torch._C._is_tracing()
    return read or torch._C._are_functorch_transforms_active()


def _exported():
    """Whether a program is read for another runtime, not by torch.compile or torch.func."""
    read = torch.compiler.is_dynamo_compiling() or torch._C._are_functorch_transforms_active()
    return tracing() and not read


def is_plain(layer, x, casts=False):
    """Whether layer(x) computes layer.call(x) and nothing else.

    It does not where inputs are cast, weights quantized or penalties added. Nor where results are
    computed again in the backward pass or laid out on devices. Hooks, another `call` or `forward`
    set on the layer, and a program that is exported rule it out as well.

    `casts`: bool. The caller reads no variables, or casts them to the dtype of x. Otherwise a
    variable of another dtype has to be cast by the scope around the call.
    """
    if not isinstance(x, torch.Tensor) or x.is_meta:
        return False
    known = this_pass()
    known = {} if known is None else known
    if "around" not in known:  # not by `once`: this is asked of each layer
        known["around"] = _is_around(x.device.type)
    if known["around"] or (dtypes := plain_dtypes(layer)) is None:
        return False
    dtype, of_variables = dtypes
    if DTYPES.get(dtype) != x.dtype and x.is_floating_point():
        return False
    if not casts:
        of_scope = getattr(scope("autocast_scope"), "dtype", None)
        if dtype != of_scope and (of_scope is not None or dtype != of_variables):
            return False
    hooked = layer._forward_hooks or layer._forward_pre_hooks
    hooked = hooked or layer._backward_hooks or layer._backward_pre_hooks
    return not (hooked or "call" in layer.__dict__ or "forward" in layer.__dict__)


def _is_around(device):
    """Whether something around all calls, which a pass does not change, changes their results."""
    return (
        not has("scopes")
        or scope("stateless_scope") is not None
        or scope("distribution") is not None
        or torch.is_autocast_enabled(device)
        or hooks._global_forward_pre_hooks
        or hooks._global_forward_hooks
        or hooks._global_backward_pre_hooks
        or hooks._global_backward_hooks
        or _exported()
    )


def number(x, known=None):
    """A scalar tensor as a number of Python, or itself where that is for the program's runs.

    It is read once, unless it is `known`: a GPU would be waited for each time.
    """
    if not isinstance(x, torch.Tensor):
        return int(x)
    if x.is_meta or tracing():
        return x
    version = None if x.is_inference() else x._version
    if getattr(x, "_number", (None, None))[0] != (version,):
        x._number = (version,), int(x) if known is None else known
    return x._number[1]


def moved_on(start, count, unmasked):
    """start + count keys, known as a number if `start` is, and whether none of them is masked."""
    after = start + count
    if not tracing() and hasattr(start, "_number") and isinstance(count, int):
        known = number(start)
        number(after, known + count)
        after._has_no_padding = unmasked and (known == 0 or is_unmasked(start))
    return after


def all_true(mask):
    """Whether a mask is True everywhere: one that is costs a pass over the map, and bars the
    kernels for the causal order.

    To ask an accelerator would be to wait for it, and a program that is being traced is for other
    masks too.
    """
    mask = mask if isinstance(mask, torch.Tensor) else ops.convert_to_tensor(mask)
    known = getattr(mask, "_all_true", None)
    if known is not None or tracing() or torch_cuda.on_cuda(mask) or mask.device.type != "cpu":
        return bool(known)
    return bool(torch.all(mask))


def looked_at(mask, known=None):
    """A mask whose `all_true` is right from here on, also on an accelerator; `known` is True if
    the mask is True everywhere."""
    if not (tracing() or mask.is_meta):
        mask._all_true = bool(torch.all(mask)) if known is None else known
    return mask


DTYPES = {name: getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16")}


def by_group(function, rows, counts, weights):
    """`shared.by_group` with each row computed once."""
    if tracing() or rows.is_meta or not len(rows):
        return shared.by_group(function, rows, counts, weights)
    weights = [ops.convert_to_tensor(w).unbind() for w in weights]
    parts = zip(rows.split(counts.tolist()), zip(*weights, strict=True), strict=True)
    return torch.cat([function(part, list(each)) for part, each in parts if len(part)])


def linear(x, kernel, bias, axes):
    """`shared.linear` as one product; a bias that is added to it is a pass of its own."""
    kernel = cast(kernel, x.dtype)
    sizes = kernel.shape[axes:]
    x, kernel = x.flatten(-axes), kernel.flatten(0, axes - 1).flatten(1)  # of one axis, no calls
    if bias is None:
        y = torch.matmul(x, kernel)
    else:
        y = torch.addmm(cast(bias, x.dtype).flatten(), x.reshape(-1, len(kernel)), kernel)
    return y if bias is None and len(sizes) == 1 else y.view(*x.shape[:-1], *sizes)


def layer_norm(x, gamma, beta, epsilon):
    """`shared.layer_norm`, without the casts of Keras: torch sums in float32."""
    scale, shift = (None if each is None else cast(each, x.dtype) for each in (gamma, beta))
    return torch.layer_norm(x, x.shape[-1:], scale, shift, epsilon)


def rms_norm(x, gamma, offset, epsilon):
    """`shared.rms_norm` by torch's own, which sums in float32."""
    scale = None if gamma is None else cast(gamma, x.dtype)
    scale = scale + offset if gamma is not None and offset else scale
    return torch.nn.functional.rms_norm(x, x.shape[-1:], scale, epsilon)


def _both_halves(cos, sin):
    return torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)


def cast(variable, dtype):
    """The numbers of a variable, or of a tensor, in another dtype.

    Where none has a gradient, they are cast once for all passes until the variable changes. What is
    written into its `.data` has no version, and is not seen as a change.
    """
    global trained
    x = numbers(variable)
    if torch.is_grad_enabled():
        if torch.compiler.is_compiling():
            trained = True  # a program can set this, and take nothing out
        else:  # some optimizers write without a new version
            CASTS.pop(x, None)
    if x.dtype == dtype:
        return x
    alone = torch.is_grad_enabled() or tracing() or x.is_inference()
    if alone or not isinstance(x, torch.nn.Parameter):
        return x.to(dtype)
    if trained:
        CASTS.clear()
        trained = False
    version = x._version, x.data_ptr(), x.device, dtype
    known, found = CASTS.get(x, (None, None))
    if known != version:
        found = x.to(dtype)
        CASTS[x] = version, found
    return found


# A tensor -> its version, and its numbers in another dtype.
CASTS = WeakTensorKeyDictionary()
trained = False  # whether a compiled program has computed gradients since the last of them


def rotate(x, cos, sin, layout):
    """`shared.rotate`, without the casts of Keras."""
    if not isinstance(x, torch.Tensor):  # of an encoding that is called alone
        x = ops.convert_to_tensor(x)
    pairs = cos.shape[-1]
    if layout == "half" and x.shape[-1] == 2 * pairs:
        cos, sin = once("both halves", (cos, sin), lambda: _both_halves(cos, sin))
        return torch.add(x * cos, x.roll(pairs, -1) * sin).to(x.dtype)
    numbers = x.float()
    turned, rest = numbers[..., : 2 * pairs], numbers[..., 2 * pairs :]
    half = layout == "half"
    a, b = turned.chunk(2, -1) if half else turned.unflatten(-1, (pairs, 2)).unbind(-1)
    parts = a * cos - b * sin, b * cos + a * sin
    turned = torch.cat(parts, -1) if half else torch.stack(parts, -1).flatten(-2)
    return (torch.cat([turned, rest], -1) if rest.shape[-1] else turned).to(x.dtype)


def dot_product_attention(q, k, v, bias, mask, scale, is_causal, flash, dropout=0.0, seed=None):
    """That of Keras copies q, k and v; here the kernel reads them as they are."""
    by_rows = q.shape[1] == 1 < q.shape[2] // k.shape[2] and not (dropout or flash)
    if torch_cuda.on_cuda(q) and not by_rows:
        arguments = bias, mask, scale, is_causal, flash, dropout, seed
        return torch_cuda.attention(q, k, v, *arguments)
    if _exported() or flash is not None or q.device.type not in ("cpu", "cuda"):
        return shared.dot_product_attention(q, k, v, bias, mask, scale, is_causal, flash)
    if mask is not None:
        bias = torch_cuda.additive(mask, q.dtype)
    (batch, rows, heads, size), few = q.shape, k.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if heads > few and rows == 1:  # `by_rows_of_groups`, whose operations of Keras cost a tenth
        q = q.reshape(batch, few, heads // few, size)
        if bias is not None and bias.shape[1] > 1:
            bias = bias.reshape(len(bias), few, heads // few, bias.shape[-1])
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias, scale=scale)
        return found.reshape(batch, 1, heads, v.shape[-1])
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, is_causal=is_causal, scale=scale, enable_gqa=heads > few
    ).transpose(1, 2)


def overwrite(whole, start, x, axis):
    """`shared.write` of a tensor that nothing else reads, in place."""
    if _exported() or torch.is_grad_enabled() or not (tracing() or isinstance(start, int)):
        return shared.write(whole, start, x, axis)
    if any(step == 0 and size > 1 for step, size in zip(whole.stride(), whole.shape, strict=True)):
        whole = whole.clone()  # repeated texts are one text in memory
    if isinstance(start, int):
        whole.narrow(axis, start, x.shape[axis]).copy_(x)
        return whole
    return whole.index_copy_(axis, start + torch.arange(x.shape[axis], device=x.device), x)
