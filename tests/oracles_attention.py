"""What attention with one encoding gives, by the papers, in float64 NumPy; nothing of ours here.

`ORACLES` has a function of `Given` for every name of an encoding, whatever its arguments are.
"""

import dataclasses
import math

import numpy as np
import oracles
import oracles_bias
import oracles_contextual
import oracles_relative
import oracles_rotary
import oracles_scale


@dataclasses.dataclass
class Given:
    """What attention was given, all in float64.

    Attributes:
        q, k, v: (B, T, H, D), the projected queries, keys and values.
        states: (B, T, E), the hidden states behind them.
        ids: (B, T) positions, or (B, T, axes).
        keep: (B, T) bool, False where a key is padding.
        causal: bool.
        weights: dict, name of a weight of the encoding -> array.
        arguments: dict, the config of the encoding.
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    states: np.ndarray
    ids: np.ndarray
    keep: np.ndarray
    causal: bool
    weights: dict
    arguments: dict

    @property
    def heads(self):
        return self.q.shape[2]

    @property
    def distance(self):
        """(B, T, T): i - j."""
        return self.ids[:, :, None] - self.ids[:, None]

    @property
    def cells(self):
        """(B, H, T, T) bool: who may be seen."""
        length = len(self.keep[0])
        seen = np.tri(length, dtype=bool) if self.causal else np.ones((length, length), bool)
        cells = seen & self.keep[:, None, None, :]
        return np.repeat(cells, self.heads, axis=1)

    @property
    def visible(self):
        """(B, 1, T, 1): how many keys a query sees, 1 where there are none."""
        return np.maximum(self.cells[:, :1].sum(-1, keepdims=True), 1)

    @property
    def products(self):
        """(B, H, T, T): q_i k_j / sqrt(D)."""
        return oracles_rotary.product(self.q, self.k) / math.sqrt(self.q.shape[-1])

    def attended(self, logits, cells=None):
        cells = self.cells if cells is None else cells
        return self.mixed(oracles.softmax(np.where(cells, logits, -1e30)))

    def mixed(self, weights):
        return np.einsum("bhij,bjhd->bihd", weights, self.v)

    def biased(self, bias_of_ids):
        """Attention with the bias (H, T, T) that a function of the ids (T,) of each text tells."""
        return self.attended(self.products + np.stack([bias_of_ids(ids) for ids in self.ids]))


def softplus(x):
    return np.log1p(np.exp(x))


# --- Biases of the distance ---


def alibi(given):
    direction, heads = given.arguments["direction"], given.heads
    one_sided = direction == "one_sided"
    left, right = (1, 1) if isinstance(direction, str) else direction
    slopes = oracles_bias.slopes(heads // 2) * 2 if one_sided else oracles_bias.slopes(heads)
    if given.arguments["learned"]:
        slopes = softplus(given.weights["slopes"])
    r, cells = given.distance[:, None], given.cells
    if one_sided:
        first = np.arange(heads)[:, None, None] < heads // 2
        cells = cells & np.where(first, r >= 0, r <= 0)
    lengths = np.where(r >= 0, left * r, -right * r)
    return given.attended(given.products - np.reshape(slopes, (-1, 1, 1)) * lengths, cells)


def sandwich(given):
    size, base = given.arguments["size"], given.arguments["base"]
    return given.biased(lambda ids: oracles_bias.sandwich(given.heads, ids, ids, size, base))


def rotary_bias(given):
    a, b, base = given.weights["a"], given.weights["b"], given.arguments["base"]
    return given.biased(lambda ids: oracles_bias.rotary_bias(a, b, ids, ids, base))


def kerple(given):
    a, p = softplus(given.weights["a"]), given.weights.get("p")
    if given.arguments["kind"] == "log":
        return given.biased(lambda ids: oracles_bias.kerple_log(softplus(p), a, ids, ids))
    fixed = given.arguments["power"]
    p = np.full(len(a), fixed) if fixed else 2 * oracles_contextual.sigmoid(p)
    return given.biased(lambda ids: oracles_bias.kerple_power(p, a, ids, ids))


def t5(given):
    table, both = given.weights["table"], given.arguments["bidirectional"]
    longest = given.arguments["max_distance"]

    def bias(ids):
        whole = ids.astype(int)
        return oracles_bias.t5(table, whole, whole, both, longest)

    return given.biased(bias)


def fire(given):
    w = given.weights
    network = (w["w"][None], w["u"], w["v"], w["d"])
    c, length = softplus(w["c"]), given.arguments["length"] * softplus(w["threshold"])
    return given.biased(lambda ids: oracles_bias.fire(network, c, length, ids, ids))


def log_cpb(given):
    network = [given.weights[name] for name in "wuv"]
    constants = [given.arguments[name] for name in ("scale", "train_length", "bound")]
    return given.biased(lambda ids: oracles_bias.log_cpb(network, *constants, ids, ids))


# --- Vectors of the distance ---


def shaw(given):
    tables = given.weights["key_table"], given.weights.get("value_table")
    return oracles_relative.shaw(
        given.q, given.k, given.v, given.distance, *tables, allowed=given.cells
    )


def nezha(given):
    n, values = given.arguments["max_distance"], None
    first = 0 if given.arguments["released"] else -n
    keys = oracles_relative.nezha_table(n, given.q.shape[-1], first)
    if given.arguments["values"]:
        values = oracles_relative.nezha_table(n, given.v.shape[-1], first)
    return oracles_relative.shaw(
        given.q, given.k, given.v, given.distance, keys, values, given.cells
    )


def transformer_xl(given):
    learned = [given.weights[name] for name in ("content_bias", "position_bias", "kernel")]
    return oracles_relative.transformer_xl(
        given.q, given.k, given.v, given.distance, *learned, allowed=given.cells
    )


def deberta(given):
    buckets, farthest = given.arguments["buckets"], given.arguments["max_distance"]

    def bucket(r):
        return oracles_relative.deberta_bucket(r, buckets, farthest) if buckets else r

    tables = given.weights.get("key_table"), given.weights.get("query_table")
    released = given.arguments["released"]
    return oracles_relative.deberta(
        given.q, given.k, given.v, given.distance, *tables, bucket, released, given.cells
    )


# --- Rotations ---


def frequencies(size, base, scaling, length):
    """(theta, factor of cosine and sine), of a text of `length` positions."""
    theta = oracles_rotary.ladder(size, base)
    if not scaling:
        return theta, 1.0
    kind, s = scaling["rope_type"], scaling["factor"]
    if kind == "linear":
        return theta / s, 1.0
    n = scaling["original_max_position_embeddings"]
    if kind == "dynamic":
        stretch = max(1.0, s * length / n - (s - 1))
        return oracles_rotary.ladder(size, base * stretch ** (size / (size - 2))), 1.0
    if kind == "longrope":
        divisors = scaling["long_factor" if length > n else "short_factor"]
        return theta / divisors, math.sqrt(1 + math.log(s) / math.log(n))
    assert kind == "yarn", kind

    def pair_that_turns(times):
        return size * math.log(n / (2 * math.pi * times)) / (2 * math.log(base))

    low = max(math.floor(pair_that_turns(32)), 0)
    high = min(math.ceil(pair_that_turns(1)), size - 1)
    ramp = np.clip((np.arange(size // 2) - low) / max(high - low, 0.001), 0, 1)
    return theta * (1 - ramp) + theta / s * ramp, 0.1 * math.log(s) + 1


def turning(given):
    """(q, k, theta, factor): with their learned biases, and how fast each text's pairs turn."""
    arguments, w = given.arguments, given.weights
    size = arguments["rotary_dim"] or given.q.shape[-1]
    pair = w.get("query_bias", w.get("bias", 0.0)), w.get("key_bias", w.get("bias", 0.0))
    ids = given.ids if given.ids.ndim == 2 else given.ids.max(-1)
    lengths = np.where(given.keep, ids, 0).max(-1) + 1
    found = [frequencies(size, arguments["base"], arguments["scaling"], n) for n in lengths]
    theta = np.stack([theta for theta, _ in found])[:, None] * np.exp(w.get("log_factors", 0.0))
    return given.q + pair[0], given.k + pair[1], theta, found[0][1]


def rotary(given):
    q, k, theta, factor = turning(given)
    ids, sections = given.ids, given.arguments["sections"]
    if sections:
        axes = [axis for axis, size in enumerate(sections) for _ in range(size)]
        if given.arguments["section_order"] == "round_robin":
            turns = range(max(sections))
            axes = [axis for n in turns for axis, size in enumerate(sections) if n < size]
        ids = ids[..., axes]
    turned = [
        oracles_rotary.rotary(x, ids, theta, given.arguments["layout"], factor) for x in (q, k)
    ]
    return given.attended(oracles_rotary.product(*turned) / math.sqrt(q.shape[-1]))


def at_distances(given, distance, factor=None):
    """Attention whose rotations are by the distances (B, T, T) given."""
    q, k, theta, _ = turning(given)
    layout = given.arguments["layout"]
    logits = oracles_rotary.at_distances(q, k, distance, theta[0, 0], layout, factor)
    return given.attended(logits / math.sqrt(q.shape[-1]))


def rerope(given):
    window, leak = given.arguments["window"], given.arguments["leak"]
    return at_distances(given, oracles_rotary.rectified(given.distance, window, leak))


def self_extend(given):
    group, window = given.arguments["group_size"], given.arguments["window"]

    def grouped(later, earlier):
        return later // group - earlier // group + window - window // group

    return remapped(given, grouped, lambda later, earlier: later - earlier >= window)


def string(given):
    shift, window = given.arguments["shift"], given.arguments["window"]
    return remapped(
        given,
        lambda later, earlier: later - earlier - shift + window,
        lambda later, earlier: later - earlier >= shift,
    )


def dual_chunk(given):
    most = given.arguments["chunk_size"]
    size = most - given.arguments["local_size"]

    def between(later, earlier):
        of_next = np.minimum(later % size + size, most)
        of_query = np.where(later // size - earlier // size == 1, of_next, min(2 * size - 1, most))
        return of_query - earlier % size

    return remapped(given, between, lambda later, earlier: later // size > earlier // size)


def remapped(given, distance, far):
    """Attention at the distances of a function of the later and the earlier id, where far."""
    i, j = given.ids[:, :, None], given.ids[:, None]
    later, earlier = np.maximum(i, j), np.minimum(i, j)
    size = np.where(far(later, earlier), distance(later, earlier), later - earlier)
    return at_distances(given, np.sign(i - j) * size)


def xpos(given):
    count = (given.arguments["rotary_dim"] or given.q.shape[-1]) // 2
    constants = given.arguments["scale_base"], given.arguments["gamma"]
    factor = oracles_rotary.xpos_factor(given.distance, count, *constants)
    return at_distances(given, given.distance, factor)


def pope(given):
    """The real part of a product of complex numbers, for each feature."""
    size = given.q.shape[-1]
    theta = given.arguments["base"] ** (-np.arange(size) / size)
    turn = np.exp(1j * given.ids[..., None] * theta)[:, :, None]
    q = softplus(given.q) * turn
    k = softplus(given.k) * turn * np.exp(1j * given.weights["phases"])
    logits = np.einsum("bihd,bjhd->bhij", q, k.conj()).real
    return given.attended(logits / math.sqrt(size))


# --- Factors of the logits ---


def log_n(given):
    arguments = [given.arguments[name] for name in ("train_length", "variant", "clipped")]
    factor = np.vectorize(lambda n: oracles_scale.log_n(n, *arguments))(given.visible)
    return given.attended(given.products * factor)


def ssmax(given):
    scale, bias = given.weights["scale"], given.weights.get("bias", np.zeros(given.heads))
    factor = scale[:, None, None] * np.log(given.visible) + bias[:, None, None]
    return given.attended(given.products * factor)


def temperature(given):
    kind, value = given.arguments["kind"], given.arguments["value"]
    factor = value
    if kind == "learned":
        factor = softplus(given.weights["softplus_temperature"])[:, None, None]
    elif kind == "llama4":
        others = given.arguments["slope"], given.arguments["offset"]
        factor = np.vectorize(lambda p: oracles_scale.llama4(p, value, *others))(given.ids)
        factor = factor[:, None, :, None]
    else:
        assert kind == "constant", kind
    return given.attended(given.products * factor)


# --- What reads the content ---


def cope(given):
    q, w, arguments = given.q, given.weights, given.arguments
    met = {"query_key": given.k, "values": given.v}.get(arguments["gate"])
    if met is None:
        met = np.einsum("bte,ehd->bthd", given.states, w["kernel"])
    root = math.sqrt(q.shape[-1])
    gates = oracles_contextual.sigmoid(oracles_rotary.product(q, met) / root) * given.cells
    if arguments["bidirectional"]:
        positions = oracles_contextual.two_sided_positions(gates)
    else:
        positions = oracles_contextual.cope_positions(gates)
    first = 1 - arguments["npos_max"] if arguments["bidirectional"] else 0
    bias = oracles_contextual.cope_bias(q, w["embeddings"], positions, first)
    bias = bias if arguments["scaling"] == "after" else bias / root
    return given.attended(given.products + bias)


def dape(given):
    """The network of DAPE, one position of the matrix at a time."""
    inner = dict(given.arguments["bias_arguments"])
    if given.arguments["bias"] == "kerple":
        a, p = (softplus(given.weights[name]) for name in "ap")
        bias = np.stack([oracles_bias.kerple_log(p, a, ids, ids) for ids in given.ids])
    else:
        assert given.arguments["bias"] == "t5", given.arguments
        whole = given.ids.astype(int)
        how = inner["bidirectional"], inner["max_distance"]
        bias = np.stack([oracles_bias.t5(given.weights["table"], ids, ids, *how) for ids in whole])
    w, u, v = (given.weights[f"dape_{name}"] for name in "wuv")
    logits = given.products + bias
    for b, i, j in np.ndindex(logits[:, 0].shape):
        seen = np.concatenate([given.products[b, :, i, j], bias[b, :, i, j]]) @ w + u
        logits[b, :, i, j] += np.where(seen > 0, seen, 0.01 * seen) @ v
    return given.attended(logits)


def content_bias(given):
    reach, profiles = given.arguments["max_distance"], given.weights["profiles"]
    mixed = np.einsum("bie,ehs->bihs", given.states, given.weights["kernel"])
    logits = given.products
    for b, h, i, j in np.ndindex(logits.shape):
        r = int(given.distance[b, i, j])
        if given.arguments["bidirectional"] and abs(r) < reach:
            logits[b, h, i, j] += mixed[b, i, h] @ profiles[:, r + reach - 1]
        elif not given.arguments["bidirectional"] and 0 <= r < reach:
            logits[b, h, i, j] += mixed[b, i, h] @ profiles[:, r]
    return given.attended(logits)


def forget_gate(given):
    gates = np.tensordot(given.states, given.weights["kernel"], 1) + given.weights["bias"]
    both = given.arguments["bidirectional"]
    sums = oracles_contextual.forgotten_to_both_sides if both else oracles_contextual.forgotten
    return given.attended(given.products + sums(oracles_contextual.sigmoid(gates), given.keep))


def path(given):
    w, b = oracles_contextual.reflections(given.states, given.keep, given.weights)
    products = oracles_contextual.reflected(given.q, given.k, w, b)
    return given.attended(products / np.sqrt(given.q.shape[-1]))


def selective(given):
    masked = oracles_contextual.selected(given.products, given.cells)
    return given.attended(given.products - masked[:, None])


# --- Other rules than softmax over all keys ---


def squared_relu(given):
    return given.mixed(oracles_contextual.squared_relu(given.products, given.cells))


def sink_logits(given):
    sinks = np.broadcast_to(given.weights["logits"][:, None, None], (*given.cells.shape[:3], 1))
    logits = np.where(given.cells, given.products, -1e30)
    return given.mixed(oracles.softmax(np.concatenate([logits, sinks], -1))[..., :-1])


def stick_breaking(given):
    return given.mixed(oracles_contextual.broken_stick(given.products, given.cells))


def window(given):
    near = np.abs(given.distance) < given.arguments["window"]
    first = given.ids < given.arguments["global_tokens"]
    from_anywhere = first | (given.ids < given.arguments["sinks"])
    seen = near | from_anywhere[:, None] | first[:, :, None]
    return given.attended(given.products, given.cells & seen[:, None])


ORACLES = {
    "alibi": alibi,
    "content_bias": content_bias,
    "cope": cope,
    "dape": dape,
    "deberta": deberta,
    "dual_chunk": dual_chunk,
    "fire": fire,
    "forget_gate": forget_gate,
    "kerple": kerple,
    "log_cpb": log_cpb,
    "log_n": log_n,
    "nezha": nezha,
    "path": path,
    "pope": pope,
    "rerope": rerope,
    "rotary": rotary,
    "rotary_bias": rotary_bias,
    "sandwich": sandwich,
    "selective": selective,
    "self_extend": self_extend,
    "shaw": shaw,
    "sink_logits": sink_logits,
    "squared_relu": squared_relu,
    "ssmax": ssmax,
    "stick_breaking": stick_breaking,
    "string": string,
    "t5": t5,
    "temperature": temperature,
    "transformer_xl": transformer_xl,
    "window": window,
    "xpos": xpos,
}
