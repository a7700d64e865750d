"""torch: several operations as one, and calls of layers without what Keras does around them.

See `keras_posenc.backend` for what each function does.
"""

import math

import torch
from keras import ops

from keras_posenc.backend import shared
from keras_posenc.backend.keras_names import has, is_recomputed, scope
from keras_posenc.backend.keras_names import tensor_of as numbers
from keras_posenc.backend.shared_pass import shared as once


def tracing():
    """Whether torch.compile or an export reads the program: it is for other values too."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def is_plain(layer, x):
    """Whether layer(x) computes layer.call(x) and nothing else.

    It does not where inputs or variables are cast, weights quantized or penalties added. Nor where
    results are computed again in the backward pass or laid out on devices. Hooks, another `call`
    set on the layer, and a program that is traced rule it out as well.
    """
    policy = layer.dtype_policy
    dtype = policy.compute_dtype
    return (
        has("scopes")
        and layer.built
        and isinstance(x, torch.Tensor)
        and (DTYPES.get(dtype) == x.dtype or not x.is_floating_point())
        and policy.variable_dtype == dtype
        and policy.quantization_mode is None
        and layer.activity_regularizer is None
        and not is_recomputed(layer)
        and not layer._forward_hooks
        and not layer._forward_pre_hooks
        and "call" not in layer.__dict__
        and not _is_within(x)
    )


def _is_within(x):
    """Whether something around all calls, now, changes what they compute."""
    if x.is_meta or scope("autocast_scope") is not None:
        return True
    return once(("around", x.device.type), (), lambda: _is_around(x.device.type))


def _is_around(device):
    """The same of what a pass does not change."""
    return (
        scope("stateless_scope") is not None
        or scope("distribution") is not None
        or torch.is_autocast_enabled(device)
        or torch.nn.modules.module._has_any_global_hook()
        or tracing()
    )


def _is_unknown(x):
    """Whether something is no tensor with numbers, or these are not those of later runs."""
    return not isinstance(x, torch.Tensor) or x.is_meta or tracing()


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
    kernel = numbers(kernel)
    size = math.prod(kernel.shape[:axes])
    rows, columns = x.reshape(-1, size), kernel.reshape(size, -1)
    if bias is None:
        y = torch.mm(rows, columns)
    else:
        y = torch.addmm(numbers(bias).reshape(-1), rows, columns)
    return y.reshape(*x.shape[: x.dim() - axes], *kernel.shape[axes:])


def layer_norm(x, gamma, beta, epsilon):
    """`shared.layer_norm`, without the casts of Keras."""
    scale, shift = (None if each is None else numbers(each) for each in (gamma, beta))
    return torch.nn.functional.layer_norm(x, x.shape[-1:], scale, shift, epsilon)


def rms_norm(x, gamma, offset, epsilon):
    """`shared.rms_norm` by torch's own."""
    if _is_unknown(x):
        return shared.rms_norm(x, gamma, offset, epsilon)
    scale = None if gamma is None else numbers(gamma)
    scale = scale + offset if gamma is not None and offset else scale
    return torch.nn.functional.rms_norm(x.float(), x.shape[-1:], scale, epsilon)


def rotate(x, cos, sin, layout):
    """`shared.rotate`, without the casts of Keras."""
    if _is_unknown(x):
        return shared.rotate(x, cos, sin, layout)
    pairs, numbers = cos.shape[-1], x.float()
    turned, rest = numbers[..., : 2 * pairs], numbers[..., 2 * pairs :]
    half = layout == "half"
    a, b = turned.chunk(2, -1) if half else turned.unflatten(-1, (pairs, 2)).unbind(-1)
    parts = a * cos - b * sin, b * cos + a * sin
    turned = torch.cat(parts, -1) if half else torch.stack(parts, -1).flatten(-2)
    return (torch.cat([turned, rest], -1) if rest.shape[-1] else turned).to(x.dtype)


def dot_product_attention(q, k, v, bias, mask, scale, is_causal, flash):
    """That of Keras copies q, k and v; on a CPU the kernel reads them as they are."""
    if tracing() or q.device.type != "cpu" or flash is not None:
        return shared.dot_product_attention(q, k, v, bias, mask, scale, is_causal, flash)
    if mask is not None:
        least = LEAST[q.dtype == torch.float16]
        bias = torch.where(mask, 0.0, least).to(q.dtype)
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


# What Keras adds to masked logits, by whether they are of float16.
LEAST = {False: -0.7 * 3.38953e38, True: -0.7 * 65500.0}


def overwrite(whole, start, x, axis):
    """`shared.write` of a tensor that nothing else reads, in place."""
    if tracing() or not isinstance(start, int) or torch.is_grad_enabled():
        return shared.write(whole, start, x, axis)
    if any(step == 0 and size > 1 for step, size in zip(whole.stride(), whole.shape, strict=True)):
        whole = whole.clone()  # repeated texts are one text in memory
    whole.narrow(axis, start, x.shape[axis]).copy_(x)
    return whole
