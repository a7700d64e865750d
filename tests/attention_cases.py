"""Options of attention, alone and together, as the arguments of a layer and of its call."""

import dataclasses
import itertools

import numpy as np

from keras_posenc.encodings import ENCODINGS, get

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
    "keys": ("other keys", "values apart", "prefix", "gated unit"),
    "path": ("scores", "free lengths", "shortcuts"),
    "cache": ("cache", "cache in place"),
}  # fmt: skip
OTHERS = (
    "padding", "query mask", "shared tables", "bias", "training", "dropout", "blocks", "gate",
    "value_dim", "grouped heads", "head norm", "no biases", "output size", "sliding window",
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
    **{(keys, "selective"): "the whole sequence in one call"
       for keys in ("other keys", "prefix", *GROUPS["cache"])},
    **{("packed", cache): "without a cache" for cache in GROUPS["cache"]},
    **{("packed", keys): "`key_positions` must have shape" for keys in ("other keys", "prefix")},
    **{("gated unit", name): f"A gated unit has .*leave `{argument}` out" for name, argument in (
        ("gate", "use_gate"), ("grouped heads", "num_key_value_heads"), ("head norm", "head_norm"),
    )},
    ("sliding window", "window"): "Two windows",
    ("sink_logits", "squared_relu"): "which SquaredReLU replaces",
    ("sink_logits", "stick_breaking"): "which StickBreaking replaces",
    ("squared_relu", "stick_breaking"): "Only one encoding",
}  # fmt: skip
# A prefix stands before all queries, where a cache begins; the queries of a unit are its keys.
WITHOUT = [{"prefix", cache} for cache in GROUPS["cache"]] + [{"gated unit", "query mask"}]
# What has a table that several layers may share.
SHARED = ("t5", "cope", "deberta")
# (B, H, D): a head of each size, groups.
SHAPES = ((1, 2, 8), (2, 4, 6), (3, 2, 4), (2, 6, 8), (1, 3, 8))
FEATURES = 10


def exclude(one, other):
    """Whether a case never has both options."""
    alike = one in GROUP_OF and GROUP_OF[one] == GROUP_OF.get(other)
    return alike or {one, other} in WITHOUT


@dataclasses.dataclass
class Case:
    """A layer and its call, drawn of a generator.

    Attributes:
        options: tuple of str.
        layer: dict, the arguments of the constructor.
        call: dict, NumPy arguments of the call.
        steps: list of (start, stop) of a cache, or None.
        options: of these, whether a gated unit is called, a model of free lengths, or what is
            shorter than a call; whether maps are cut into blocks of few rows, and whether a kernel
            is used where none is faster.
        seed: int, of the weights.
    """

    options: tuple
    layer: dict
    call: dict
    steps: list
    seed: int

    def __contains__(self, option):
        return option in self.options

    @property
    def precise(self):
        return self.layer.get("dtype", "float32") == "float32"


def draw(rng, options, lengths):
    """A `Case` of these options."""
    chosen = set(options)
    batch, heads, size = SHAPES[rng.integers(len(SHAPES))]
    heads = 1 if "gated unit" in chosen else heads
    length = int(rng.choice(LENGTHS[lengths]))
    names = [name for name in options if name in ENCODINGS]
    if "shared tables" in chosen and not {*SHARED} & chosen:
        names.append(["t5", "cope"][rng.integers(2)] if "ids on axes" not in chosen else "cope")
    encodings = [
        {"name": name, **ARGUMENTS[name][rng.integers(len(ARGUMENTS[name]))]}
        for name in rng.permutation(names)
    ]
    axes = 2 if "ids on axes" in chosen else 1
    for spec in encodings:
        if spec["name"] == "rotary" and axes == 2:
            spec.pop("rotary_dim", None), spec.update(sections=[1, size // 2 - 1])
        if spec["name"] == "shaw" and "value_dim" in chosen:
            spec["value_dim"] = 5
        if "shared tables" in chosen and spec["name"] in SHARED:
            # DeBERTa's table is projected, and a unit has no projections of that kind.
            spec["shared"] = spec["name"] != "deberta" or "gated unit" not in chosen
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
    if "gated unit" in chosen:
        exclusive = {"log_n", "squared_relu", "stick_breaking", "sink_logits"} & chosen
        kinds = ["softmax"] if exclusive else ["softmax", "softmax_plus", "squared_relu"]
        layer["normalization"] = kinds[rng.integers(len(kinds))]
    call = _call(rng, chosen, layer, batch, length)
    steps = None
    if chosen & {*GROUPS["cache"]}:
        cuts = sorted({int(x) for x in rng.integers(1, length + 1, 3)} | {0, length})
        steps = list(itertools.pairwise(cuts))
    return Case(tuple(options), layer, call, steps, int(rng.integers(2**31)))


def _call(rng, chosen, layer, batch, length):
    heads, size, encodings = layer["num_heads"], layer["key_dim"], layer["encodings"]
    projects = any(spec["name"] == "deberta" and spec.get("shared") for spec in encodings)

    def numbers(count, features=FEATURES):
        features = heads * size if projects else features
        return rng.normal(size=(batch, count, features)).astype("float32")

    x = numbers(length)
    num_keys = length
    call = {"query": x, "value": x}
    if "other keys" in chosen:
        num_keys = max(1, length + int(rng.choice([-3, -1, 0, 1, 2, 7, 64])))
        call["value"] = numbers(num_keys, 6)
    if "prefix" in chosen:
        num_keys = length + int(rng.choice([1, 2, 7, 64]))
        call["value"] = np.concatenate([numbers(num_keys - length), x], 1)
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
    if "query mask" in chosen:
        call["query_mask"] = rng.random((batch, length)) < 0.7
    if "cache in place" in chosen and "padding" not in chosen:
        call["value_mask"] = np.ones((batch, num_keys), bool)
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
    elif "prefix" in chosen and rng.random() < 0.8:
        index = np.arange(num_keys, dtype="int32")
        call |= {"query_positions": index[num_keys - length :], "key_positions": index}
    shape = batch, heads, length, num_keys
    for name, axes in zip(GROUPS["mask"], ((2, 3), (0, 2, 3), (0, 1, 2, 3)), strict=True):
        if name in chosen:
            sizes = [1 if rng.random() < 0.15 else shape[axis] for axis in axes]
            call["attention_mask"] = rng.random(sizes) < rng.choice([0.1, 0.5, 0.9])
    if "bias" in chosen:
        sizes = [1 if rng.random() < 0.3 else size for size in shape][int(rng.integers(3)) :]
        call["bias"] = rng.normal(size=sizes).astype("float32")
    shared = [get(spec) for spec in encodings if spec.get("shared")]
    if shared:
        shapes = [each.table_arguments(heads, size)["shape"] for each in shared]
        call["tables"] = [0.3 * rng.normal(size=shape).astype("float32") for shape in shapes]
    if "scores" in chosen:
        call |= {"return_attention_scores": True, "return_attention_logits": True}
    if chosen & {"training", "dropout"} and not chosen & {
        "free lengths",
        "shortcuts",
        *GROUPS["cache"],
    }:
        call["training"] = True
    needs_order = any(get(spec).causal_only for spec in encodings) and not chosen & {
        "causal",
        "orders",
        *GROUPS["cache"],
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
    if rows == 1 and kind != "ids on axes" and rng.random() < 0.5:
        alone = {id(ids): ids[0] for ids in found.values()}  # one array for both, as it was
        return {name: alone[id(ids)] for name, ids in found.items()}
    return found
