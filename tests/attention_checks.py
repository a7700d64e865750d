"""Attention as it was drawn, compared with the reference: outputs, scores, logits and gradients."""

import dataclasses
import math
import re
import traceback
import unittest.mock

import keras
import numpy as np
import oracles_attention
from keras import ops

from keras_posenc import GatedAttentionUnit, PositionalAttention, SharedTable, backend
from keras_posenc.attention import choose
from keras_posenc.attention.key_values import Overwritten
from keras_posenc.attention.shortcuts import attend_last, attend_whole
from keras_posenc.encodings import ENCODINGS
from keras_posenc.maps.attention_dropout import drop_weights


def made(case):
    """The layer, with weights that are nowhere neutral."""
    arguments = dict(case.layer, seed=5)
    if arguments.get("head_norm"):
        arguments["head_norm"] = keras.layers.RMSNormalization()
    keras.utils.set_random_seed(case.seed % 2**31)
    if "gated unit" in case:
        del arguments["num_heads"]
        size = arguments.pop("key_dim")
        layer = GatedAttentionUnit(arguments.pop("value_dim", size), size, **arguments)
        layer.build(case.call["query"].shape)
        randomize(layer, np.random.default_rng(case.seed))
        return layer
    layer = PositionalAttention(**arguments)
    shapes = [case.call[name].shape for name in ("query", "value")]
    layer.build(*shapes, case.call["key"].shape if "key" in case.call else None)
    randomize(layer, np.random.default_rng(case.seed))
    return layer


def randomize(layer, rng):
    """Draws weights that are nowhere neutral."""
    for weight in layer.trainable_variables:
        scale = 0.35 if weight.shape and len(weight.shape) == 3 else 0.25
        value = ops.convert_to_numpy(ops.cast(weight, "float32"))
        new = value + scale * rng.normal(size=value.shape)
        is_kernel = weight.path.split("/")[-2:][-1] == "kernel" and len(value.shape) == 3
        weight.assign(scale * rng.normal(size=value.shape) if is_kernel else new)


def reference(layer, values, call, kept=None):
    """The oracle's answer for a layer whose weights have these values, by path."""

    def of(part):
        return [values[weight.path] for weight in part.trainable_variables]

    if isinstance(layer, GatedAttentionUnit):
        weights = {"unit": of(layer.input_dense), "output": of(layer.output_dense)}
        parts = ("scale", "offset") if layer.use_bias else ("scale",)
        for side in ("query", "key"):
            weights[side] = [values[getattr(layer, f"{side}_{part}").path] for part in parts]
    else:
        sides = ("query", "key", "value", "output")
        weights = {side: of(getattr(layer, f"{side}_dense")) for side in sides}
    if layer.use_gate:
        weights["gate"] = of(layer.gate_dense)
    if layer.head_norm:
        weights["norms"] = [_rms(*of(norm)) for norm in (layer.query_norm, layer.key_norm)]
    names, encodings = {encoding: name for name, encoding in ENCODINGS.items()}, []
    for encoding in layer.encodings:
        arguments = encoding.get_config()
        if hasattr(encoding, "inner"):
            arguments["inner"] = encoding.inner.get_config()
        named = {w.name: values[w.path] for w in encoding.trainable_variables}
        encodings.append((names[type(encoding)], arguments, named))
    names = "num_heads", "key_dim", "value_dim", "sliding_window"
    arguments = {name: getattr(layer, name) for name in names}
    return oracles_attention.attention(arguments, encodings, weights, call, kept)


def values_of(layer):
    """dict, path of a weight -> float64."""
    arrays = ((w.path, ops.convert_to_numpy(ops.cast(w, "float32"))) for w in layer.weights)
    return {path: array.astype("float64") for path, array in arrays}


def _rms(scale):
    return lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale


def tensors(call):
    found, seen = {}, {}
    for name, value in call.items():
        if isinstance(value, np.ndarray):
            value = seen.setdefault(id(value), ops.convert_to_tensor(value))
        if name == "tables":
            value = [ops.convert_to_tensor(table) for table in value]
        found[name] = value
    return found


def named(case, given):
    """The arguments of a call as the layer of the case calls them."""
    if "gated unit" not in case:
        return given
    names = {"query": "inputs", "query_positions": "positions"}
    names["value_mask"] = ["mask", "inputs_mask"][case.seed % 2]
    return {names.get(name, name): x for name, x in given.items() if name != "value"}


def along(x, start, stop, more=0):
    """The tokens [start, stop) of ids (T,), (B, T) or (B, T, axes), with copies of the last."""
    axis = min(len(x.shape) - 1, 1)
    part = x[start:stop] if axis == 0 else x[:, start:stop]
    if not more:
        return part
    return ops.concatenate([part, *[part[-1:] if axis == 0 else part[:, -1:]] * more], axis=axis)


def parts_of(case):
    """The calls of the reference, one a step of the cache."""
    if case.steps is None:
        return [case.call]
    parts = []
    for start, stop in case.steps:
        part = dict(case.call, start=start)
        for name in ("query", "query_positions", "query_order"):
            if part.get(name) is not None:
                part[name] = along(part[name], start, stop)
        for name in ("key", "value", "key_positions", "key_order", "value_mask", "key_mask"):
            if part.get(name) is not None:
                part[name] = along(part[name], 0, stop)
        for name in ("attention_mask", "bias"):
            if part.get(name) is not None:
                part[name] = _cells(part[name], start, stop)
        parts.append(part)
    return parts


def _cells(x, start, stop):
    rows = x if x.shape[-2] == 1 else x[..., start:stop, :]
    return rows if x.shape[-1] == 1 else rows[..., :stop]


ROOM = 3


def decoded(case, layer, call, weigh=None):
    """The outputs of all steps, and their scores and logits where requested."""
    cache = layer.make_cache(len(case.call["query"]), case.call["value"].shape[1] + ROOM)
    cache = Overwritten(*cache) if "cache in place" in case else cache
    outputs, others = [], []
    for start, stop in case.steps:
        part = dict(call)
        same = part["value"] is part["query"]
        for name in ("query", "key", "value", "query_positions", "query_order", "query_mask"):
            if part.get(name) is not None:
                part[name] = along(part[name], start, stop)
        part["value"] = part["query"] if same else part["value"]
        for name in ("value_mask", "key_mask"):
            if part.get(name) is not None:
                part[name] = part[name][:, start:stop]
        for name in ("key_positions", "key_order"):
            if part.get(name) is not None:
                part[name] = along(part[name], 0, None, ROOM)
        for name in ("attention_mask", "bias"):
            if part.get(name) is not None:
                x = part[name]
                x = x if x.shape[-2] == 1 else x[..., start:stop, :]
                if x.shape[-1] > 1:
                    x = ops.concatenate([x, *[x[..., -1:]] * ROOM], axis=-1)
                part[name] = x
        part["cache"] = cache
        found = shortcut(case, layer, part, attend_last)
        found = layer(**named(case, part)) if found is None else found
        outputs.append(found[0])
        others.append([x[..., :stop] for x in found[1:-1]])
        cache = found[-1]
    return outputs, others


def shortcut(case, layer, call, attend):
    """What is computed without the work of a call, or None."""
    if "shortcuts" not in case or keras.backend.backend() != "torch":
        return None
    others = {name: x for name, x in call.items() if name not in ("query", "value", "key")}
    alone = call["query"] is call["value"] and call.get("key") is None
    return attend(layer, call["query"], others) if alone else None


class Sizes:
    """Sizes at which paths change, for a time."""

    def __init__(self, blocks, kernel):
        self.patches = []
        if blocks:
            sizes = {"map_bytes": 0, "block_bytes": 4096}
            traits = dataclasses.replace(backend.TRAITS, **sizes)
            self.patches += [unittest.mock.patch.object(backend, "TRAITS", traits)]
            self.patches += [unittest.mock.patch.object(choose, "IN_KERNEL", (0, 4096))]
            self.patches += [unittest.mock.patch.object(choose, "FEWEST_ROWS", 3)]
        if kernel:
            self.patches += [unittest.mock.patch.object(backend, "has_kernel", lambda *_: True)]

    def __enter__(self):
        for patch in self.patches:
            patch.start()

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()


class Refused(Exception):
    """An error of ours that names what is wrong."""


def check(case, gradients=True):
    """Raises AssertionError where ours is not the reference, `Refused` where it is refused."""
    with Sizes("blocks" in case, "kernel" in case):
        try:
            layer = case.made = made(case)
            outputs, others, found = ours(case, layer, gradients)
        except (ValueError, TypeError) as error:
            if _is_ours(error):
                raise Refused(_words(error)) from error
            raise
    values = values_of(layer)
    kept = None
    if layer.dropout and case.call.get("training"):
        seeds = keras.random.SeedGenerator(5).next()
        shape = len(case.call["query"]), layer.num_heads, case.call["query"].shape[1]
        ones = ops.ones((*shape, case.call["value"].shape[1]))
        kept = ops.convert_to_numpy(drop_weights(ones, layer.dropout, seeds)).astype("float64")
    parts = parts_of(case)
    for number, (part, output, other) in enumerate(zip(parts, outputs, others, strict=True)):
        expected, weights, logits, mask = reference(case.made, values, part, kept)
        close(case, output, expected, f"output {number}")
        if other:
            close(case, other[0], weights, "weights")
            stretch = np.where(mask, logits, 0)
            close(case, np.where(mask, other[1], 0), stretch, "logits")
    if found is None or not case.precise:
        return
    check_gradients(case, values, parts[0], kept, found)


def check_gradients(case, values, call, kept, found):
    """Finite differences of the reference along a direction to which each tensor adds as much."""
    rng = np.random.default_rng(case.seed + 1)
    loss_of = loss_weights(case, reference(case.made, values, call, kept)[0].shape)
    sizes = {name: np.linalg.norm(gradient) for name, gradient in found.items()}
    # What is nothing but rounding, such as the gradient of a bias of keys, must not be made great.
    least, direction = max(1e-3, 0.01 * max(sizes.values())), {}
    for name, gradient in found.items():
        direction[name] = rng.normal(size=gradient.shape) / max(sizes[name], least)
    total = sum(float(np.sum(found[name] * each)) for name, each in direction.items())

    def loss(step):
        moved = {name: each + step * direction[name] for name, each in values.items()}
        x = dict(call)
        for name in ("query", "key", "value"):
            if name in direction:
                x[name] = np.asarray(call[name], "float64") + step * direction[name]
        if call["value"] is call["query"]:
            x["value"] = x["query"]
        if "tables" in call:
            x["tables"] = [
                np.asarray(table, "float64") + step * direction[f"table {n}"]
                for n, table in enumerate(call["tables"])
            ]
        return float(np.sum(reference(case.made, moved, x, kept)[0] * loss_of))

    # The parts are of about 1, so this is some thousandths of what one of them adds.
    most = 3e-3 * math.sqrt(len(direction)) + 2e-3 * abs(total)
    differences = []
    for h in (1e-5, 1e-6, 1e-7):  # a kink may lie within the first
        differences.append((loss(h) - loss(-h)) / (2 * h))
        if abs(differences[-1] - total) <= most:
            return
    raise AssertionError(f"gradients: {total} for {differences}, more than {most:.2g} apart")


def loss_weights(case, shape):
    return np.random.default_rng(case.seed + 2).normal(size=shape).astype("float32")


def ours(case, layer, gradients):
    """(outputs of the steps, scores and logits of each, gradients by name or None)."""
    call = tensors(case.call)
    if case.steps is not None:
        outputs, others = decoded(case, layer, call)
        return list(map(to_numpy, outputs)), [list(map(to_numpy, x)) for x in others], None
    if "free lengths" in case:
        output = in_graph(case, layer)
        return [output], [[]], None
    if (found := shortcut(case, layer, call, attend_whole)) is not None:
        return [to_numpy(found)], [[]], None
    if gradients and case.precise and layer.trainable_variables:
        output, others, found = GRADIENTS[keras.backend.backend()](case, layer, call)
        return [output], [others], found
    found = layer(**named(case, call))
    found = list(found) if isinstance(found, tuple) else [found]
    return [to_numpy(found[0])], [[to_numpy(x) for x in found[1:]]], None


def in_graph(case, layer):
    """What a model of free lengths predicts."""
    arrays = {n: x for n, x in case.call.items() if isinstance(x, np.ndarray)}
    inputs, seen, given = {}, {}, dict(case.call)
    for name, x in arrays.items():
        if x.ndim == 1 or name == "attention_mask" and x.ndim == 2 or name == "bias" and x.ndim < 4:
            given[name] = ops.convert_to_tensor(x)  # without an axis of texts
            continue
        if len(x) == 1:
            x = np.repeat(x, len(case.call["query"]), 0)
        if id(arrays[name]) not in seen:
            free = [
                None if 0 < axis and n > 1 and axis < (2 if "mask" not in name else 9) else n
                for axis, n in enumerate(x.shape)
            ][1:]
            if name in ("query", "key", "value"):
                free = [None, x.shape[-1]]
            dtype = str(x.dtype)
            seen[id(arrays[name])] = keras.Input(tuple(free), dtype=dtype, name=name), x
        inputs[name] = given[name] = seen[id(arrays[name])][0]
    for n, encoding in enumerate(layer.hooks.shared if "tables" in given else ()):
        table = SharedTable(encoding, layer.num_heads, layer.key_dim)
        given["tables"] = [*given["tables"][:n], table(given["query"]), *given["tables"][n + 1 :]]
        table.table.assign(case.call["tables"][n])
    unique = list(seen.values())
    model = keras.Model([i for i, _ in unique], layer(**named(case, given)))
    found = model.predict([x for _, x in unique], verbose=0, batch_size=8)
    return np.asarray(found)


def inputs_of(case, call):
    """The tensors of a call that have gradients, by name."""
    names = ["query"]
    names += ["value"] if case.call["value"] is not case.call["query"] else []
    names += ["key"] if "key" in case.call else []
    tables = {f"table {n}": table for n, table in enumerate(call.get("tables", ()))}
    return {name: call[name] for name in names} | tables


def with_inputs(case, call, inputs):
    """The arguments of the layer with these inputs."""
    given = {**call, **{name: x for name, x in inputs.items() if not name.startswith("table ")}}
    if case.call["value"] is case.call["query"]:
        given["value"] = given["query"]
    if "tables" in call:
        given["tables"] = [inputs[f"table {n}"] for n in range(len(call["tables"]))]
    return named(case, given)


def _torch(case, layer, call):
    import torch

    inputs = {name: x.clone().requires_grad_() for name, x in inputs_of(case, call).items()}
    found = layer(**with_inputs(case, call, inputs))
    found = list(found) if isinstance(found, tuple) else [found]
    weights = ops.convert_to_tensor(loss_weights(case, tuple(found[0].shape)))
    total = torch.sum(found[0] * weights)
    variables = {w.path: w.value for w in layer.trainable_variables}
    names, values = zip(*(inputs | variables).items(), strict=True)
    if not total.requires_grad:
        gradients = [None] * len(values)
    else:
        gradients = torch.autograd.grad(total, values, allow_unused=True)
    gradients = [
        torch.zeros_like(v) if g is None else g for g, v in zip(gradients, values, strict=True)
    ]
    found = [x.detach() for x in found]
    return (
        to_numpy(found[0]),
        list(map(to_numpy, found[1:])),
        dict(zip(names, map(to_numpy, gradients), strict=True)),
    )


def _tensorflow(case, layer, call):
    import tensorflow as tf

    inputs = inputs_of(case, call)
    with tf.GradientTape() as tape:
        for x in inputs.values():
            tape.watch(x)
        found = layer(**with_inputs(case, call, inputs))
        found = list(found) if isinstance(found, tuple) else [found]
        total = tf.reduce_sum(found[0] * loss_weights(case, tuple(found[0].shape)))
    variables = {w.path: w.value for w in layer.trainable_variables}
    names, values = zip(*(inputs | variables).items(), strict=True)
    gradients = tape.gradient(total, values, unconnected_gradients="zero")
    gradients = [to_numpy(tf.convert_to_tensor(g)) for g in gradients]
    return (
        to_numpy(found[0]),
        list(map(to_numpy, found[1:])),
        dict(zip(names, gradients, strict=True)),
    )


def _jax(case, layer, call):
    import jax

    trainable = [v.value for v in layer.trainable_variables]
    others = [v.value for v in layer.non_trainable_variables]
    inputs = inputs_of(case, call)

    def loss(weights, inputs):
        given = with_inputs(case, call, inputs)
        found, _ = layer.stateless_call(weights, others, **given)
        found = list(found) if isinstance(found, tuple) else [found]
        weights = loss_weights(case, tuple(found[0].shape))
        return (found[0] * weights).sum(), found

    step = jax.jit(jax.grad(loss, (0, 1), has_aux=True))
    (of_weights, of_inputs), found = step(trainable, inputs)
    names = [w.path for w in layer.trainable_variables]
    gradients = dict(of_inputs) | dict(zip(names, of_weights, strict=True))
    gradients = {name: to_numpy(x) for name, x in gradients.items()}
    return to_numpy(found[0]), list(map(to_numpy, found[1:])), gradients


GRADIENTS = {"torch": _torch, "tensorflow": _tensorflow, "jax": _jax}


def to_numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def close(case, found, expected, what):
    assert found.shape == expected.shape, f"{what}: {found.shape} for {expected.shape}"
    assert np.isfinite(found).all(), f"{what}: not finite"
    error = np.abs(found - expected)
    if case.precise:
        most = 3e-4 * (1 + np.abs(expected))
        assert (error <= most).all(), f"{what}: off by {error.max():.3g}"
        return
    spread = max(float(np.sqrt(np.mean(expected**2))), 0.1)
    error = float(np.sqrt(np.mean(error**2))) / spread
    assert error <= 0.06, f"{what}: off by {error:.3g} of its size"


def _words(error):
    """The beginning of an error, without what Keras adds."""
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    lines = [line for line in text.splitlines() if line and not line.startswith("Exception enc")]
    return " ".join(lines)[:400]


def _is_ours(error):
    """Whether an error was raised on purpose: by this package, or by Keras in its name."""
    frames = traceback.extract_tb(error.__traceback__)
    return "keras_posenc" in frames[-1].filename and "raise" in (frames[-1].line or "")
