"""Draws combinations of all that attention takes, and compares each with the reference in NumPy.

    python tests/attention_draws.py --seconds 3600 --seed 1    # prints what fails
    python tests/attention_draws.py --seed 1 --only "12: cope + causal (short)"    # one again
    python tests/attention_draws.py --table    # which pairs of options met, or are refused

A case has two to six options: of the constructor, of the call, encodings with some of their
arguments, lengths around the bounds at which the code chooses another path. Which pairs of options
have met is counted, and the next case is of pairs that have not.
"""

import argparse
import collections
import dataclasses
import itertools
import math
import os
import re
import sys
import time
import traceback
import unittest.mock

import keras
import numpy as np
import oracles_attention
from keras import ops

from keras_posenc import PositionalAttention, backend
from keras_posenc.attention import choose
from keras_posenc.encodings import ENCODINGS, get
from keras_posenc.maps.attention_dropout import drop_weights

LENGTHS = {
    "short": (1, 2, 3, 5, 8, 13, 17, 21, 33),
    "middle": (63, 64, 65, 66, 100, 127, 128, 129, 130, 150, 193),
    "long": (255, 256, 257, 270, 320, 383, 384, 385, 400, 450),
    "longest": (511, 512, 513, 600, 1023, 1024, 1025),
}
BUCKETS = {"num_buckets": 8, "max_distance": 20}
# What each encoding is drawn with.
ARGUMENTS = {
    "alibi": [{}, {"learned": True}, {"direction": "symmetric"}, {"direction": (1.0, 0.5)},
              {"direction": "one_sided"}],
    "content_bias": [{"max_distance": 3, "size": 2}, {"max_distance": 9, "bidirectional": False},
                     {}],
    "cope": [{"npos_max": n, "gate": gate, "scaling": scaling, "bidirectional": both}
             for n in (3, 8) for gate in ("query_key", "separate_keys", "values")
             for scaling in ("after", "before") for both in (False, True)],
    "dape": [{}, {"bias": "t5", "bias_arguments": BUCKETS, "units": 3},
             {"bias": "fire", "bias_arguments": {"units": 3}, "units": 3}, {"bias": "log_cpb"}],
    "deberta": [{"max_distance": 8, "buckets": 4}, {"max_distance": 20, "terms": ["c2p"]},
                {"max_distance": 5, "released": True}, {"max_distance": 6, "terms": ["p2c"]}],
    "dual_chunk": [{"chunk_size": 10, "local_size": 3}, {"chunk_size": 70, "local_size": 20}],
    "fire": [{"units": 3, "length": 4}, {}],
    "forget_gate": [{}, {"bidirectional": True}],
    "kerple": [{}, {"kind": "power"}, {"kind": "power", "power": 1.5}],
    "log_cpb": [{}, {"units": 3, "train_length": 9, "bound": None}],
    "log_n": [{}, {"train_length": 4, "clipped": True}, {"train_length": 9, "variant": "yarn"},
              {"variant": "softmax_plus"}],
    "nezha": [{"max_distance": 3}, {"values": False}, {"max_distance": 5, "released": True}],
    "path": [{"rank": 3}, {"rank": 2, "kernel_size": 1}],
    "pope": [{}, {"base": 50.0}],
    "rerope": [{"window": 5}, {"window": 3, "leak": 4.0, "layout": "half"}],
    "rotary": [{}, {"layout": "half", "rotary_dim": 4}, {"use_bias": True}, {"learned": True},
               {"use_bias": "shared"}, {"use_bias": "scalar"}, {"rotary_dim": 0.5},
               {"scaling": {"rope_type": "linear", "factor": 2.0}},
               {"scaling": {"rope_type": "yarn", "factor": 4.0,
                            "original_max_position_embeddings": 16}},
               {"scaling": {"rope_type": "dynamic", "factor": 2.0,
                            "original_max_position_embeddings": 12}}],
    "rotary_bias": [{}, {"size": 4, "base": 100.0}],
    "sandwich": [{}, {"size": 6, "base": 100.0}],
    "selective": [{}],
    "self_extend": [{"group_size": 2, "window": 3}, {"group_size": 5, "window": 33}],
    "shaw": [{"max_distance": 3}, {"values": False}],
    "sink_logits": [{}],
    "squared_relu": [{}],
    "ssmax": [{}, {"train_length": 4, "use_bias": True}],
    "stick_breaking": [{}],
    "string": [{"shift": 4, "window": 1}, {"shift": 60, "window": 20}],
    "t5": [BUCKETS, {"num_buckets": 4, "max_distance": 5, "bidirectional": False}],
    "temperature": [{"value": 1.3}, {"kind": "learned", "value": 0.7}, {"kind": "yarn", "value": 4},
                    {"kind": "llama4", "value": 3}],
    "transformer_xl": [{}, {"size": 6}],
    "window": [{"window": 3}, {"window": 5, "sinks": 2}, {"window": 4, "global_tokens": 2},
               {"window": 70}, {"window": 20, "sinks": 3, "global_tokens": 1}],
    "xpos": [{"scale_base": 64.0}, {"layout": "half"}],
}  # fmt: skip
# Options of one group exclude each other.
GROUPS = {
    "ids": ("ids far away", "ids with gaps", "falling ids", "shuffled ids", "fractional ids",
            "ids on axes", "ids of queries alone"),
    "order": ("causal", "orders"),
    "mask": ("mask (Tq, Tk)", "mask (B, Tq, Tk)", "mask (B, H, Tq, Tk)"),
    "precision": ("mixed_bfloat16", "mixed_float16", "bfloat16"),
    "kernel": ("no kernel", "kernel"),
    "keys": ("other keys", "values apart"),
    "path": ("scores", "free lengths"),
}  # fmt: skip
OTHERS = (
    "padding", "bias", "cache", "training", "dropout", "blocks", "gate", "value_dim",
    "grouped heads", "head norm", "no biases", "output size", "sliding window",
)  # fmt: skip
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
OPTIONS = [*ENCODINGS, *GROUP_OF, *OTHERS]
# Pairs that are refused, and the words.
REFUSED = {
    **{(name, "ids on axes"): "axes" for name in (
        "alibi", "content_bias", "dape", "deberta", "kerple", "log_cpb", "nezha", "pope", "rerope",
        "rotary_bias", "sandwich", "self_extend", "shaw", "sliding window", "string", "t5",
        "transformer_xl", "window", "xpos", "dual_chunk", "fire",
    )},
    ("orders", "path"): "leave `query_order` out",
    ("other keys", "selective"): "the whole sequence in one call",
    ("cache", "selective"): "the whole sequence in one call",
    ("packed", "cache"): "without a cache",
    ("packed", "other keys"): "`key_positions` must have shape",
    ("sliding window", "window"): "Two windows",
    ("sink_logits", "squared_relu"): "which SquaredReLU replaces",
    ("sink_logits", "stick_breaking"): "which StickBreaking replaces",
    ("squared_relu", "stick_breaking"): "Only one encoding",
}  # fmt: skip
# (B, H, D): a head of each size, groups.
SHAPES = ((1, 2, 8), (2, 4, 6), (3, 2, 4), (2, 6, 8), (1, 3, 8))
FEATURES = 10


def exclude(one, other):
    """Whether a case never has both options."""
    return one in GROUP_OF and GROUP_OF[one] == GROUP_OF.get(other)


@dataclasses.dataclass
class Case:
    """A layer and its call, drawn of a generator.

    Attributes:
        options: tuple of str.
        layer: dict, the arguments of the constructor.
        call: dict, NumPy arguments of the call.
        steps: list of (start, stop) of a cache, or None.
        graph, blocks, kernel: bool. Whether a model of free lengths is called, whether maps are cut
            into blocks of few rows, and whether a kernel is used where none is faster.
        seed: int, of the weights.
    """

    options: tuple
    layer: dict
    call: dict
    steps: list
    graph: bool
    blocks: bool
    kernel: bool
    seed: int

    @property
    def precise(self):
        return self.layer.get("dtype", "float32") == "float32"


def draw(rng, options, lengths):
    """A `Case` of these options."""
    chosen = set(options)
    batch, heads, size = SHAPES[rng.integers(len(SHAPES))]
    length = int(rng.choice(LENGTHS[lengths]))
    encodings = [
        {"name": name, **ARGUMENTS[name][rng.integers(len(ARGUMENTS[name]))]}
        for name in rng.permutation([name for name in options if name in ENCODINGS])
    ]
    axes = 2 if "ids on axes" in chosen else 1
    for spec in encodings:
        if spec["name"] == "rotary" and axes == 2:
            spec.pop("rotary_dim", None), spec.update(sections=[1, size // 2 - 1])
        if spec["name"] == "shaw" and "value_dim" in chosen:
            spec["value_dim"] = 5
    layer = {"num_heads": heads, "key_dim": size, "encodings": encodings}
    if "value_dim" in chosen:
        layer["value_dim"] = 5
    if "grouped heads" in chosen:
        layer["num_key_value_heads"] = 1 if heads == 3 else heads // 2
    if "head norm" in chosen:
        layer["head_norm"] = True
    if "gate" in chosen:
        layer["use_gate"] = True
    if "no biases" in chosen:
        layer["use_bias"] = [False, "input"][rng.integers(2)]
    if "output size" in chosen:
        layer["output_shape"] = 7
    if "sliding window" in chosen:
        layer["sliding_window"] = int(rng.choice([1, 2, 6, 17, 64, 70, 130]))
    if "dropout" in chosen:
        layer["dropout"] = 0.3
    if "no kernel" in chosen:
        layer["flash_attention"] = False
    for name in chosen & set(GROUPS["precision"]):
        layer["dtype"] = name
    call = _call(rng, chosen, batch, heads, length, encodings)
    steps = None
    if "cache" in chosen:
        cuts = sorted({int(x) for x in rng.integers(1, length + 1, 3)} | {0, length})
        steps = list(itertools.pairwise(cuts))
    graph = "free lengths" in chosen
    seed = int(rng.integers(2**31))
    return Case(
        tuple(options), layer, call, steps, graph, "blocks" in chosen, "kernel" in chosen, seed
    )


def _call(rng, chosen, batch, heads, length, encodings):
    def numbers(count, features=FEATURES):
        return rng.normal(size=(batch, count, features)).astype("float32")

    x = numbers(length)
    num_keys = length
    call = {"query": x, "value": x}
    if "other keys" in chosen:
        num_keys = max(1, length + int(rng.choice([-3, -1, 0, 1, 2, 7, 64])))
        call["value"] = numbers(num_keys, 6)
    if "values apart" in chosen:
        call |= {"key": numbers(num_keys, 7), "value": numbers(num_keys, 9)}
    if "padding" in chosen:
        keep = np.ones((batch, num_keys), bool)
        for row in keep:
            count = int(rng.integers(num_keys))
            row[slice(count) if rng.random() < 0.5 else slice(num_keys - count, None)] = False
            row[rng.integers(num_keys)] |= rng.random() < 0.9
        call["value_mask"] = keep
        if rng.random() < 0.3 and "key" in call:
            call["key_mask"] = np.ones_like(keep)
    if "causal" in chosen:
        call["use_causal_mask"] = True
    if "orders" in chosen:
        most = int(rng.choice([2, 5, max(2, length)]))
        orders = np.sort(rng.integers(0, most, (batch, num_keys)), 1).astype("int32")
        orders = orders if rng.random() < 0.6 else rng.permutation(orders, axis=1)
        of_queries = (
            orders
            if num_keys == length and rng.random() < 0.8
            else rng.integers(0, most, (batch, length)).astype("int32")
        )
        call |= {"query_order": of_queries, "key_order": orders}
    ids = next((name for name in GROUPS["ids"] if name in chosen), None)
    if "packed" in chosen:
        starts = np.zeros((batch, length), bool)
        starts[:, 0] = True
        starts[:, rng.integers(0, length, 3)] = True
        index = np.arange(length, dtype="int32")
        call["query_positions"] = index - np.maximum.accumulate(np.where(starts, index, 0), axis=1)
        call["query_positions"] = call["query_positions"].astype("int32")
        call["packed"] = True
    elif ids:
        call |= _ids(rng, ids, batch, length, num_keys, call["value"] is x)
    shape = batch, heads, length, num_keys
    for name, axes in zip(GROUPS["mask"], ((2, 3), (0, 2, 3), (0, 1, 2, 3)), strict=True):
        if name in chosen:
            sizes = [1 if rng.random() < 0.15 else shape[axis] for axis in axes]
            call["attention_mask"] = rng.random(sizes) < rng.choice([0.1, 0.5, 0.9])
    if "bias" in chosen:
        sizes = [1 if rng.random() < 0.3 else size for size in shape][int(rng.integers(3)) :]
        call["bias"] = rng.normal(size=sizes).astype("float32")
    if "scores" in chosen:
        call |= {"return_attention_scores": True, "return_attention_logits": True}
    if chosen & {"training", "dropout"} and not chosen & {"free lengths", "cache"}:
        call["training"] = True
    needs_order = any(get(spec).causal_only for spec in encodings) and not chosen & {
        "causal",
        "orders",
        "cache",
    }
    if needs_order:
        call["use_causal_mask"] = True
    return call


def _ids(rng, kind, batch, length, num_keys, same):
    rows = batch if rng.random() < 0.7 else 1

    def made(count):
        index = np.tile(np.arange(count), (rows, 1))
        if kind == "ids far away":
            return index + int(rng.choice([1, 100, 3000, 60000]))
        if kind == "ids with gaps":
            return np.cumsum(rng.integers(0, 4, (rows, count)), 1)
        if kind == "falling ids":
            return index[:, ::-1]
        if kind in ("shuffled ids", "ids of queries alone"):
            return rng.permuted(index, axis=1)
        if kind == "ids on axes":
            return np.stack([index // 4, index % 4], -1)
        return np.cumsum(rng.uniform(0.3, 1.8, (rows, count)), 1)

    dtype = "float32" if kind == "fractional ids" else "int32"
    found = {"query_positions": made(length).astype(dtype)}
    if kind != "ids of queries alone" and (not same or rng.random() < 0.2):
        keys = found["query_positions"] if num_keys == length else made(num_keys)
        found["key_positions"] = keys.astype(dtype)
    return found


# --- Ours, and the reference ---


def made(case):
    """The layer, with weights that are nowhere neutral."""
    arguments = dict(case.layer)
    if arguments.get("head_norm"):
        arguments["head_norm"] = keras.layers.RMSNormalization()
    keras.utils.set_random_seed(case.seed % 2**31)
    layer = PositionalAttention(**arguments, seed=5)
    shapes = [case.call[name].shape for name in ("query", "value")]
    layer.build(*shapes, case.call["key"].shape if "key" in case.call else None)
    rng = np.random.default_rng(case.seed)
    for weight in layer.trainable_variables:
        scale = 0.35 if weight.shape and len(weight.shape) == 3 else 0.25
        value = ops.convert_to_numpy(ops.cast(weight, "float32"))
        new = value + scale * rng.normal(size=value.shape)
        is_kernel = weight.path.split("/")[-2:][-1] == "kernel" and len(value.shape) == 3
        weight.assign(scale * rng.normal(size=value.shape) if is_kernel else new)
    return layer


def reference(layer, values, call, kept=None):
    """The oracle's answer for a layer whose weights have these values, by path."""

    def of(part):
        return [values[weight.path] for weight in part.trainable_variables]

    weights = {
        name: of(getattr(layer, f"{name}_dense")) for name in ("query", "key", "value", "output")
    }
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
    arguments = {name: getattr(layer, name) for name in ("num_heads", "key_dim", "sliding_window")}
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
        found[name] = value
    return found


def parts_of(case):
    """The calls of the reference, one a step of the cache."""
    if case.steps is None:
        return [case.call]
    parts = []
    for start, stop in case.steps:
        part = dict(case.call, start=start)
        for name in ("query", "query_positions", "query_order"):
            if part.get(name) is not None:
                part[name] = part[name][:, start:stop]
        for name in ("key", "value", "key_positions", "key_order", "value_mask", "key_mask"):
            if part.get(name) is not None:
                part[name] = part[name][:, :stop]
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
    outputs, others = [], []
    for start, stop in case.steps:
        part = dict(call)
        same = part["value"] is part["query"]
        for name in ("query", "key", "value", "query_positions", "query_order"):
            if part.get(name) is not None:
                part[name] = part[name][:, start:stop]
        part["value"] = part["query"] if same else part["value"]
        for name in ("value_mask", "key_mask"):
            if part.get(name) is not None:
                part[name] = part[name][:, start:stop]
        for name in ("key_positions", "key_order"):
            if part.get(name) is not None:
                x = part[name]
                part[name] = ops.concatenate([x, *[x[:, -1:]] * ROOM], axis=1)
        for name in ("attention_mask", "bias"):
            if part.get(name) is not None:
                x = part[name]
                x = x if x.shape[-2] == 1 else x[..., start:stop, :]
                if x.shape[-1] > 1:
                    x = ops.concatenate([x, *[x[..., -1:]] * ROOM], axis=-1)
                part[name] = x
        found = layer(**part, cache=cache)
        outputs.append(found[0])
        others.append([x[..., :stop] for x in found[1:-1]])
        cache = found[-1]
    return outputs, others


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
    with Sizes(case.blocks, case.kernel):
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
    if case.graph:
        output = in_graph(case, layer)
        return [output], [[]], None
    if gradients and case.precise and layer.trainable_variables:
        output, others, found = GRADIENTS[keras.backend.backend()](case, layer, call)
        return [output], [others], found
    found = layer(**call)
    found = list(found) if isinstance(found, tuple) else [found]
    return [to_numpy(found[0])], [[to_numpy(x) for x in found[1:]]], None


def in_graph(case, layer):
    """What a model of free lengths predicts."""
    arrays = {n: x for n, x in case.call.items() if isinstance(x, np.ndarray)}
    inputs, seen, given = {}, {}, dict(case.call)
    for name, x in arrays.items():
        if name == "attention_mask" and x.ndim == 2 or name == "bias" and x.ndim < 4:
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
    unique = list(seen.values())
    model = keras.Model([i for i, _ in unique], layer(**given))
    found = model.predict([x for _, x in unique], verbose=0, batch_size=8)
    return np.asarray(found)


def names_of(case):
    names = ["query"]
    names += ["value"] if case.call["value"] is not case.call["query"] else []
    return names + (["key"] if "key" in case.call else [])


def _torch(case, layer, call):
    import torch

    inputs = {}
    for name in names_of(case):
        inputs[name] = call[name].clone().requires_grad_()
    given = call | inputs
    if case.call["value"] is case.call["query"]:
        given["value"] = given["query"]
    found = layer(**given)
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

    inputs = {name: call[name] for name in names_of(case)}
    with tf.GradientTape() as tape:
        for x in inputs.values():
            tape.watch(x)
        found = layer(**call)
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
    inputs = {name: call[name] for name in names_of(case)}
    plain = {n: x for n, x in call.items() if n not in ("query", "key", "value")}

    def loss(weights, inputs):
        given = plain | inputs
        if "value" not in inputs:
            given["value"] = given["query"]
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


# --- Which options meet ---


class Pairs:
    """Counts how often two options have met, except those that are refused.

    Args:
        rng: of the cases.

    Attributes:
        met: Counter of frozensets of two options.
    """

    def __init__(self, rng):
        self.rng, self.met, self.tries = rng, collections.Counter(), collections.Counter()
        self.all = [
            frozenset(pair)
            for pair in itertools.combinations(OPTIONS, 2)
            if not exclude(*pair) and not refused(*pair)
        ]

    def missing(self):
        return [pair for pair in self.all if not self.met[pair]]

    def options(self):
        """Two to six options, with as many pairs as possible that have not met."""
        missing = self.missing() or self.all
        fewest = min(self.tries[pair] for pair in missing)
        missing = [pair for pair in missing if self.tries[pair] == fewest]
        chosen = sorted(missing[self.rng.integers(len(missing))])
        self.tries[frozenset(chosen)] += 1
        # A pair that was refused in company is tried alone.
        for _ in range(int(self.rng.integers(5)) if fewest < 2 else 0):
            fits = [
                option
                for option in self.rng.permutation(OPTIONS)
                if not any(
                    option == each or exclude(option, each) or refused(option, each)
                    for each in chosen
                )
            ][:12]
            if not fits:
                break
            new = [
                sum(not self.met[frozenset((option, each))] for each in chosen) for option in fits
            ]
            chosen.append(fits[int(np.argmax(new))])
        return [str(each) for each in chosen]

    def count(self, options):
        self.met.update(map(frozenset, itertools.combinations(options, 2)))


def refused(one, other):
    """The words in which a pair of options is refused, or None."""
    return REFUSED.get((one, other)) or REFUSED.get((other, one))


def case_of(seed, number, options, lengths):
    """The case of a seed and its number."""
    return draw(np.random.default_rng([seed, number]), options, lengths)


def run(seed, seconds=math.inf, most=math.inf, report=print, every=1, long=0.15, until_met=False):
    """Draws and checks cases; returns (number of cases, failures, `Pairs`, refusals).

    Args:
        seconds, most: bounds of the time and of the number of cases.
        every: int. The gradients of every so many are compared.
        long: float. Share of cases of more than 256 tokens.
        until_met: bool. Stop when all pairs have met.
    """
    rng = np.random.default_rng(seed)
    pairs, failures, number, start = Pairs(rng), [], 0, time.monotonic()
    messages, kinds = collections.Counter(), list(LENGTHS)
    shares = [0.9 - long, 0.1, long * 0.8, long * 0.2]
    while time.monotonic() - start < seconds and number < most:
        if until_met and not pairs.missing():
            break
        options, lengths = pairs.options(), str(rng.choice(kinds, p=shares))
        number += 1
        try:
            check(case_of(seed, number, options, lengths), number % every == 0)
            pairs.count(options)
        except Refused as error:
            messages[str(error)] += 1
        except Exception as error:
            line = f"{number}: {' + '.join(options)} ({lengths}): {type(error).__name__} {error}"
            failures.append(line[:600])
            report(line[:600])
    return number, failures, pairs, messages


def table(pairs):
    """The lines of a table of how often options met."""
    lines = [f"{len(pairs.all) - len(pairs.missing())} of {len(pairs.all)} pairs have met"]
    for option in OPTIONS:
        counts = [pairs.met[pair] for pair in pairs.all if option in pair]
        closed = [other for other in OPTIONS if refused(option, other)]
        lines.append(
            f"{option:22} {sum(c > 0 for c in counts):3} of {len(counts):3} met, {sum(counts):5} "
            f"times; refused: {', '.join(closed) or '-'}"
        )
    return lines


def seed_of_the_day():
    """The seed in the environment, SEED, or the number of the day."""
    return int(os.environ.get("SEED", time.time() // 86400))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", help="the beginning of a line of a case that failed")
    parser.add_argument("--long", type=float, default=0.15, help="share of long cases")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--messages", action="store_true")
    arguments = parser.parse_args()
    seed = seed_of_the_day() if arguments.seed is None else arguments.seed
    print(f"seed {seed}")
    if arguments.only:
        number, options, lengths = re.match(r"(\d+): (.*) \((\w+)\)", arguments.only).groups()
        case = case_of(seed, int(number), options.split(" + "), lengths)
        print(case.layer, {n: getattr(x, "shape", x) for n, x in case.call.items()}, case.steps)
        return check(case)
    number, failures, pairs, messages = run(seed, arguments.seconds, long=arguments.long)
    missing = [" + ".join(sorted(pair)) for pair in pairs.missing()]
    print(f"{number} cases, {len(failures)} wrong, {len(missing)} pairs have not met")
    for line in table(pairs) if arguments.table else []:
        print(line)
    for message, count in messages.most_common() if arguments.messages else []:
        print(count, message)
    for pair in missing if len(missing) < 99 else []:
        print("not met:", pair)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
