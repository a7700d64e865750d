"""What each encoding does to the attention matrix, by the papers, in float64 NumPy.

A function takes the `Matrix` of `oracles_attention`, the arguments of the encoding and its weights.
The tables say in which order they act.
"""

import math

import numpy as np
import oracles_bias
import oracles_contextual
import oracles_relative
import oracles_rotary
import oracles_scale


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def product(q, k):
    """(B, H, Tq, Tk) inner products."""
    return q.transpose(0, 2, 1, 3) @ k.transpose(0, 2, 3, 1)


# --- What is closed ---


def window(m, a, w):
    near = np.abs(m.distance) < a["window"]
    first = a["global_tokens"]
    near = near | (m.columns < max(a["sinks"], first))[:, None] | (m.rows < first)[:, :, None]
    m.open = m.open & near[:, None]


def one_side(m, a, w):
    if a["direction"] == "one_sided":
        left = (np.arange(m.heads) < m.heads // 2)[:, None, None]
        r = m.distance[:, None]
        m.open = m.open & np.where(left, r >= 0, r <= 0)


CLOSED = {"window": window, "alibi": one_side}

# --- What changes queries and keys, or adds to the logits there ---


def alibi_heads(m, a, w):
    if a["direction"] in ("causal", "one_sided"):
        sides = np.where(np.arange(m.heads) < m.heads // 2, 1, -1)
        sides = sides if a["direction"] == "one_sided" else 1
        m.more = m.more - (slopes(m, a, w) * sides)[:, None, None] * m.distance[:, None]


def slopes(m, a, w):
    if a["learned"]:
        return softplus(w["slopes"])
    if a["direction"] == "one_sided":
        return np.array(oracles_bias.slopes(m.heads // 2) * 2)
    return np.array(oracles_bias.slopes(m.heads))


def sandwich(m, a, w):
    size, r = a["size"], m.distance
    total = sum(np.cos(r * a["base"] ** (-2 * c / size)) for c in range(size // 2))
    ratio = 8 * np.arange(1, m.heads + 1) / m.heads
    m.more = m.more + (total - size / 2)[:, None] / ratio[:, None, None]


def rotary_bias(m, a, w):
    """a_h' R_-r b_h, of complex numbers."""
    left, right = (oracles_rotary.pairs(w[name], "interleaved") for name in "ab")
    turns = oracles_rotary.ladder(2 * left.shape[-1], a["base"])
    for c, theta in enumerate(turns):
        met = left[:, c] * right[:, c].conj()
        turn = np.exp(1j * m.distance * theta)
        m.more = m.more + (met[:, None, None] * turn[:, None]).real


def forget_gate_heads(m, a, w):
    if not a["bidirectional"]:
        m.more = m.more + forgotten(m, a, w)[0]


def forgotten(m, a, w):
    """[ln f_j+1 + ... + ln f_i] (B, H, Tq, Tk), and of g to the other side if there are such."""
    gates = np.tensordot(m.of_keys, w["kernel"], 1) + w["bias"]
    gates = gates.reshape(*gates.shape[:2], m.heads, -1)
    logs = np.where(m.keep[..., None, None], -softplus(-gates), 0).cumsum(1).transpose(3, 0, 2, 1)
    return logs[..., m.index, None] - logs[..., None, :]


def turning(m, a, w):
    """(pairs,) or (B, 1, pairs): how far each pair turns by position; factor of the features."""
    size = a["rotary_dim"] or m.size
    size = int(size * m.size) if isinstance(size, float) else size
    ids = m.columns if m.columns.ndim == 2 else m.columns.max(-1)
    lengths = np.where(m.keep, ids, 0).max(-1) + 1
    found = [oracles_rotary.frequencies(size, a["base"], a["scaling"], n) for n in lengths]
    theta = np.stack([theta for theta, _ in found])[:, None] * np.exp(w.get("log_factors", 0.0))
    return theta, found[0][1]


def rotary(m, a, w):
    pair = w.get("query_bias", w.get("bias", 0.0)), w.get("key_bias", w.get("bias", 0.0))
    theta, factor = turning(m, a, w)
    turned = []
    for x, bias, ids in zip((m.q, m.k), pair, (m.rows, m.columns), strict=True):
        x = np.concatenate([x[..., : m.size] + bias, x[..., m.size :]], -1)
        turned.append(oracles_rotary.rotary(x, by_pair(ids, a), theta, a["layout"], factor))
    m.q, m.k = turned


def by_pair(ids, a):
    if not a["sections"] or ids.ndim == 2:  # one id turns all pairs
        return ids
    axes = [axis for axis, size in enumerate(a["sections"]) for _ in range(size)]
    if a["section_order"] == "round_robin":
        rounds = range(max(a["sections"]))
        axes = [axis for n in rounds for axis, size in enumerate(a["sections"]) if n < size]
    return ids[..., axes]


def xpos(m, a, w):
    rotary(m, a, w)
    count = turning(m, a, w)[0].shape[-1]
    # Far in the future, where nobody looks, a factor may be anything.
    r = np.maximum(m.distance, -20 * a["scale_base"])
    factor = oracles_rotary.xpos_factor(r, count, a["scale_base"], a["gamma"])
    shape = (*factor.shape[:-1], 2 * count)
    twice = np.stack([factor, factor], -1 if a["layout"] == "interleaved" else -2).reshape(shape)
    if m.decay is not None:
        wide, narrow = sorted([twice, m.decay], key=lambda x: -x.shape[-1])
        twice = wide.copy()
        twice[..., : narrow.shape[-1]] *= narrow
    m.decay = twice


def pope(m, a, w):
    theta = a["base"] ** (-np.arange(m.size) / m.size)

    def polar(x, angle):
        length = softplus(x)
        return np.concatenate([length * np.cos(angle), length * np.sin(angle)], -1)

    angles = [(ids[..., None] * theta)[:, :, None] for ids in (m.rows, m.columns)]
    m.q, m.k = polar(m.q, angles[0]), polar(m.k, angles[1] + w["phases"])


def transformer_xl_heads(m, a, w):
    """(q_i + u) k_j + (q_i + v) W s(i - j)."""
    q, kernel = m.first[0] + w["position_bias"], w["kernel"]
    half = len(kernel) // 2
    sines, cosines = (np.einsum("bihd,shd->bhis", q, x) for x in (kernel[:half], kernel[half:]))
    for c in range(half):
        angle = (m.distance * 10000 ** (-c / half))[:, None]
        met = sines[..., c, None] * np.sin(angle) + cosines[..., c, None] * np.cos(angle)
        m.more = m.more + met / math.sqrt(m.size)
    head = m.q[..., : m.size] + w["content_bias"]
    m.q = np.concatenate([head, m.q[..., m.size :]], -1)


def deberta_heads(m, a, w):
    m.scale(1 / math.sqrt(1 + len(a["terms"])))


def log_n(m, a, w):
    m.scale(
        np.vectorize(
            lambda n: oracles_scale.log_n(n, a["train_length"], a["variant"], a["clipped"])
        )(m.visible)
    )


def ssmax(m, a, w):
    bias = w.get("bias", np.zeros(m.heads))
    log = np.log(np.maximum(m.visible, 1))
    m.scale(w["scale"][:, None, None] * log + bias[:, None, None])


def temperature(m, a, w):
    kind, value = a["kind"], a["value"]
    if kind == "constant":
        return m.scale(value)
    if kind == "learned":
        return m.scale(softplus(w["softplus_temperature"])[:, None, None])
    if kind == "yarn":
        return m.scale((0.1 * math.log(max(value, 1)) + 1) ** 2)
    factor = np.vectorize(lambda p: oracles_scale.llama4(p, value, a["slope"], a["offset"]))
    return m.scale(factor(m.rows)[:, None, :, None])


HEADS = {
    "alibi": alibi_heads,
    "deberta": deberta_heads,
    "dual_chunk": rotary,
    "forget_gate": forget_gate_heads,
    "log_n": log_n,
    "pope": pope,
    "rerope": rotary,
    "rotary": rotary,
    "rotary_bias": rotary_bias,
    "sandwich": sandwich,
    "self_extend": rotary,
    "ssmax": ssmax,
    "string": rotary,
    "temperature": temperature,
    "transformer_xl": transformer_xl_heads,
    "xpos": xpos,
}

# --- Biases ---


def by_distance(m, function):
    """function(distances (N,)) -> (H, N), in every cell."""
    found, index = np.unique(m.distance, return_inverse=True)
    return np.moveaxis(function(found)[:, index.reshape(m.distance.shape)], 0, 1)


def alibi(m, a, w):
    if a["direction"] in ("causal", "one_sided"):
        return
    left, right = (1, 1) if isinstance(a["direction"], str) else a["direction"]
    r = m.distance[:, None]
    m.bias = m.bias - slopes(m, a, w)[:, None, None] * np.where(r >= 0, left * r, -right * r)


def kerple_of(m, a, w):
    scale, r = softplus(w["a"]), np.abs(m.distance)[:, None]
    if a["kind"] == "log":
        return -softplus(w["p"])[:, None, None] * np.log1p(scale[:, None, None] * r)
    p = np.full(m.heads, a["power"]) if a["power"] else 2 * sigmoid(w["p"])
    return -scale[:, None, None] * r ** p[:, None, None]


def t5_of(m, a, w):
    def bias(distances):
        how = a["bidirectional"], a["num_buckets"], a["max_distance"]
        return w["table"][[oracles_bias.t5_bucket(int(r), *how) for r in distances]].T

    return by_distance(m, bias)


def fire_of(m, a, w):
    c, length = softplus(w["c"]), a["length"] * softplus(w["threshold"])
    reach = np.log(c * np.maximum(m.rows, length) + 1)[..., None]
    x = np.log(c * np.abs(m.distance) + 1) / reach
    total = 0.0
    for first, second, out in zip(w["w"], w["u"], w["v"], strict=True):
        hidden = np.maximum(x * first + second, 0)[:, None]
        total = total + hidden * out[:, None, None]
    return total + w["d"][:, None, None]


def log_cpb_of(m, a, w):
    def bias(distances):
        longest = math.log(1 + a["scale"] * a["train_length"])
        x = np.sign(distances) * np.log(1 + a["scale"] * np.abs(distances)) / longest
        found = (np.maximum(x[:, None] * w["w"] + w["u"], 0) @ w["v"]).T
        return found if a["bound"] is None else a["bound"] * sigmoid(found)

    return by_distance(m, bias)


def adding(function):
    def add(m, a, w):
        m.bias = m.bias + function(m, a, w)

    return add


def clipped(m, a):
    reach = a["max_distance"]
    return np.clip(-np.round(m.distance).astype(int), -reach, reach) + reach


def shaw_rows(m, a, w, name, size):
    if "released" in a:
        first = 0 if a["released"] else -a["max_distance"]
        return oracles_relative.nezha_table(a["max_distance"], size, first)
    return w[name]


def shaw_of(m, a, w):
    table = shaw_rows(m, a, w, "key_table", m.size)
    met = np.einsum("bihd,cd->bhic", m.first[0], table) / math.sqrt(m.size)
    return np.take_along_axis(met, clipped(m, a)[:, None], -1)


def content_bias_of(m, a, w):
    mixed = np.einsum("bie,ehs->bhis", m.states, w["kernel"]) @ w["profiles"]
    index = np.round(m.distance).astype(int)
    index = index + (a["max_distance"] - 1 if a["bidirectional"] else 0)
    known = (index >= 0) & (index < mixed.shape[-1])
    met = np.take_along_axis(mixed, np.where(known, index, 0)[:, None], -1)
    return np.where(known[:, None], met, 0)


def deberta_of(m, a, w):
    def rows(table, distance):
        found, index = np.unique(np.round(distance).astype(int), return_inverse=True)
        half = len(table) // 2
        if a["buckets"]:
            how = a["buckets"], a["max_distance"]
            found = np.array([oracles_relative.deberta_bucket(r, *how) for r in found])
        return np.clip(found + half, 0, 2 * half - 1)[index.reshape(distance.shape)][:, None]

    total, (q, k) = 0.0, m.first
    scale = math.sqrt((1 + len(a["terms"])) * m.size)
    if "c2p" in a["terms"]:
        table = w["key_table"]
        met = np.einsum("bihd,chd->bhic", q, table)
        total = total + np.take_along_axis(met, rows(table, m.distance), -1)
    if "p2c" in a["terms"]:
        table = w["query_table"]
        met = np.einsum("bjhd,chd->bhcj", k, table)
        side = m.distance if a["released"] else -m.distance
        total = total + np.take_along_axis(met, rows(table, side), -2)
    return total / scale


def forget_gate(m, a, w):
    if a["bidirectional"]:
        before, after = forgotten(m, a, w)
        m.bias = m.bias + np.where(m.index[:, None] >= np.arange(m.k.shape[1]), before, -after)


BIASES = {
    "alibi": alibi,
    "content_bias": adding(content_bias_of),
    "deberta": adding(deberta_of),
    "fire": adding(fire_of),
    "forget_gate": forget_gate,
    "kerple": adding(kerple_of),
    "log_cpb": adding(log_cpb_of),
    "nezha": adding(shaw_of),
    "path": oracles_contextual.path,
    "shaw": adding(shaw_of),
    "t5": adding(t5_of),
}

# --- What reads the logits ---


def cope(m, logits, a, w):
    q, root = m.first[0], math.sqrt(m.size)
    met = logits
    if a["gate"] != "query_key":
        other = m.v
        if a["gate"] == "separate_keys":
            other = np.einsum("bte,ehd->bthd", m.of_keys, w["kernel"])
        met = product(q, other) / root
    gates = np.where(m.open, sigmoid(np.where(m.open, met, 0)), 0)

    def from_right(x):
        return x[..., ::-1].cumsum(-1)[..., ::-1]

    first, last = 0, a["npos_max"] - 1
    if a["bidirectional"]:
        r, first = m.distance[:, None], -last
        before, after = from_right(gates * (r >= 0)), (gates * (r <= 0)).cumsum(-1)
        position = np.where(r >= 0, before, -after)
    else:
        position = from_right(gates)
    at = np.clip(position, first, last) - first
    scores = np.einsum("bihd,dp->bhip", q, w["embeddings"])
    low = np.minimum(np.floor(at).astype(int), scores.shape[-1] - 2)
    below, above = (np.take_along_axis(scores, low + n, -1) for n in (0, 1))
    bias = below + (at - low) * (above - below)
    return logits + (bias if a["scaling"] == "after" else bias / root)


def dape(m, logits, a, w):
    """The network reads, of each cell, the logits and the bias of all heads; a closed head is 0."""
    logits = np.where(m.open, logits, 0)
    kinds = {"kerple": kerple_of, "t5": t5_of, "fire": fire_of, "log_cpb": log_cpb_of}
    bias = kinds[a["bias"]](m, a["inner"], w)
    bias = np.broadcast_to(bias, logits.shape)
    total = logits + bias
    for unit, shift, out in zip(w["dape_w"].T, w["dape_u"], w["dape_v"], strict=True):
        of_logits, of_bias = np.split(unit, 2)
        seen = np.einsum("bhij,h->bij", logits, of_logits) + shift
        seen = seen + np.einsum("bhij,h->bij", bias, of_bias)
        total = total + np.where(seen > 0, seen, 0.01 * seen)[:, None] * out[:, None, None]
    return total


def replaced(distance, far):
    """A score with the distances r'(later, earlier) where far(later, earlier), to both sides."""

    def score(m, logits, a, w):
        i, j = m.rows[:, :, None], m.columns[:, None]
        later, earlier = np.maximum(i, j), np.minimum(i, j)
        size = np.where(far(a, later, earlier), distance(a, later, earlier), later - earlier)
        more = np.sign(i - j) * size - (i - j)
        theta, _ = turning(m, a, w)
        count = theta.shape[-1]
        for c in range(count):
            f, g = (2 * c, 2 * c + 1) if a["layout"] == "interleaved" else (c, c + count)
            angle = (more * theta[..., c][..., None])[:, None]
            same, crossed = m.met(f, f) + m.met(g, g), m.met(f, g) - m.met(g, f)
            turned = same * (np.cos(angle) - 1) + crossed * np.sin(angle)
            logits = logits + turned / math.sqrt(m.size)
        return logits

    return score


def between_chunks(a, later, earlier):
    most, size = a["chunk_size"], a["chunk_size"] - a["local_size"]
    of_next = np.minimum(later % size + size, most)
    of_query = np.where(later // size - earlier // size == 1, of_next, min(2 * size - 1, most))
    return of_query - earlier % size


def chunks_apart(a, later, earlier):
    size = a["chunk_size"] - a["local_size"]
    return later // size > earlier // size


def grouped(a, later, earlier):
    group, window = a["group_size"], a["window"]
    return later // group - earlier // group + window - window // group


def rectified(a, later, earlier):
    beyond = (later - earlier - a["window"]) / a["leak"] if a["leak"] else 0
    return a["window"] + beyond


def beyond_window(a, later, earlier):
    return later - earlier >= a["window"]


def selective(m, logits, a, w):
    """What queries before in head 0 made of a key, except of their first keys and of their own."""
    seen = m.open[:, 0]
    first = np.argmax(seen, -1)[..., None] == np.arange(seen.shape[-1])
    masking = seen & ~first & ~m.same & m.keep[:, :, None]
    masked = np.where(masking, np.maximum(logits[:, 0], 0), 0)
    return logits - (masked.cumsum(1) - masked)[:, None]


SCORES = {
    "cope": cope,
    "dape": dape,
    "dual_chunk": replaced(between_chunks, chunks_apart),
    "rerope": replaced(rectified, beyond_window),
    "selective": selective,
    "self_extend": replaced(grouped, beyond_window),
    "string": replaced(
        lambda a, later, earlier: later - earlier - a["shift"] + a["window"],
        lambda a, later, earlier: later - earlier >= a["shift"],
    ),
}

# --- Other rules than softmax, and terms of the output ---


def stick_breaking(m, logits):
    """Going back from the query, every open key but its own takes its share of what is left."""
    open_ = m.open & ~m.same[:, None]
    weights, left = np.zeros(logits.shape), np.ones(logits.shape[:3])
    for j in reversed(range(logits.shape[-1])):
        share = np.where(open_[..., j], sigmoid(logits[..., j]), 0)
        weights[..., j] = left * share
        left = left * (1 - share)
    return weights


def squared_relu(m, logits):
    return np.where(m.open, np.maximum(logits, 0) ** 2, 0) / np.maximum(m.visible, 1)


NORMALIZED = {"stick_breaking": stick_breaking, "squared_relu": squared_relu}


def shaw_values(m, used, a, w):
    if not a["values"]:
        return 0.0
    table, index = shaw_rows(m, a, w, "value_table", m.v.shape[-1]), clipped(m, a)[:, None]
    classes = [np.sum(used * (index == c), -1) for c in range(len(table))]
    return np.einsum("cbhi,cd->bihd", np.stack(classes), table)


VALUES = {"nezha": shaw_values, "shaw": shaw_values}
# Whatever their arguments are, nothing else is there to compute.
KNOWN = {*CLOSED, *HEADS, *BIASES, *SCORES, *NORMALIZED, *VALUES, "sink_logits"}
