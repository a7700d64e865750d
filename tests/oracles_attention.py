"""Attention with all that it takes, by the papers, in float64 NumPy; nothing of ours here.

`attention` has the arguments of `PositionalAttention` and of its call. A function per encoding and
place, those of `oracles_places`, reads and changes a `Matrix`; all cells are computed,
whatever is masked, and nothing is cut, folded or fused.
"""

import math

import numpy as np
from oracles import softmax
from oracles_places import BIASES, CLOSED, HEADS, NORMALIZED, SCORES, VALUES, product, sigmoid

FAR = -1e30


class Matrix:
    """The attention matrix in the making.

    Attributes:
        q, k, v: (B, T, H, D), as the encodings so far have changed them; `first` q and k as they
            were projected.
        size: int. D of the softmax scale.
        states, of_keys: (B, Tq, E) and (B, Tk, E), the hidden states behind them.
        rows, columns: (B, T) or (B, T, A) ids.
        index: (Tq,), the column of each query's token in a sequence that both are of.
        keep: (B, Tk) bool, False where a key is padding.
        given: (B, H, Tq, Tk) bool, the mask of the call.
        document: (B, Tk), where the document of a token begins, or None.
        by_index: bool. The causal order is that of the index.
        cached: bool. The keys come from a cache.
        open: (B, H, Tq, Tk) bool.
        more: terms of the logits that later factors of the queries scale; `bias`: that none does.
        decay: (B, Tq, Tk, F), factors of the products of the first F features, or None.
    """

    def __init__(self, **attributes):
        self.more, self.bias, self.decay = 0.0, 0.0, None
        self.__dict__.update(attributes)
        self.first = self.q, self.k
        self.heads = self.q.shape[2]

    @property
    def distance(self):
        return self.rows[:, :, None] - self.columns[:, None]

    @property
    def same(self):
        """(B, Tq, Tk) bool: the key is the query's."""
        if self.by_index:
            same = self.index[:, None] == np.arange(self.k.shape[1])
            return np.broadcast_to(same, (len(self.k), *same.shape))
        return self.distance == 0

    @property
    def visible(self):
        """(B, H, Tq, 1): how many keys a query sees."""
        return self.open.sum(-1, keepdims=True)

    def scale(self, factor):
        """Multiplies the queries as they are now by a factor, broadcastable to (B, H, Tq, 1)."""
        self.q = self.q * np.moveaxis(np.atleast_1d(factor) + np.zeros((1, 1, 1, 1)), 1, 2)
        self.more = self.more * factor

    def met(self, f, g):
        """(B, H, Tq, Tk): feature f of the queries times feature g of the keys, with the decay."""
        cells = np.einsum("bih,bjh->bhij", self.q[..., f], self.k[..., g])
        near = self.decay is not None and f < self.decay.shape[-1]
        return cells * self.decay[:, None, ..., f] if near else cells

    def products(self):
        """(B, H, Tq, Tk): q_i k_j / sqrt(D)."""
        if self.decay is None:
            return product(self.q, self.k) / math.sqrt(self.size)
        return sum(self.met(f, f) for f in range(self.q.shape[-1])) / math.sqrt(self.size)


def attention(arguments, encodings, weights, call, kept=None):
    """(output, weights, logits, mask) of a layer's call.

    Args:
        arguments: dict, those of the constructor.
        encodings: list of (name, dict of arguments, dict of weights).
        weights: dict, those of the projections: of "query", "key", "value", "output", "gate" a list
            of kernel and bias; of "norms" the function of the heads of queries and of keys. A gated
            unit has "unit" and "output", and of "query" and "key" a list of scale and offset.
        call: dict, the arguments of the call, NumPy. With `start`, the queries follow so many keys,
            as from a cache. `tables` are those of the encodings that are `shared`, in their order.
        kept: (B, H, Tq, Tk), what the weights are multiplied by in dropout.
    """
    call = {name: value for name, value in call.items() if value is not None}
    x, value = np.asarray(call["query"], "float64"), np.asarray(call["value"], "float64")
    key = np.asarray(call.get("key", value), "float64")
    heads, size = arguments["num_heads"], arguments["key_dim"]

    def projected(name, x):
        kernel, *bias = weights[name]
        found = np.einsum("btd,dhe->bthe", x, kernel) + (bias[0] if bias else 0)
        return np.repeat(found, heads // found.shape[2], axis=2)

    keep = padding(call, key)
    states = np.where(keep[..., None], key, 0)
    if "unit" in weights:
        gate, _, q = parts_of_unit(projected("unit", x), arguments["value_dim"], *weights["query"])
        _, v, k = parts_of_unit(projected("unit", key), arguments["value_dim"], *weights["key"])
    else:
        q, k, v = projected("query", x), projected("key", key), projected("value", value)
        gate = sigmoid(projected("gate", x)) if "gate" in weights else 1.0
    tables = iter(call.get("tables", ()))
    for name, a, w in encodings:
        if a.get("shared"):
            w |= shared(name, np.asarray(next(tables), "float64"), projected)
    if "norms" in weights:
        of_queries, of_keys = weights["norms"]
        q, k = of_queries(q), of_keys(k)
    k, v = (np.where(keep[..., None, None], each, 0) for each in (k, v))
    rows, columns, index, by_index, seen, document = places(call, x, key)
    given = np.ones((1, 1, 1, 1), bool)
    if "attention_mask" in call:
        given = np.asarray(call["attention_mask"], bool)
        given = given[:, None] if given.ndim == 3 else given[(None,) * (4 - given.ndim)]
    shape = len(x), heads, x.shape[1], key.shape[1]
    given = np.broadcast_to(given, shape)
    m = Matrix(
        q=q, k=k, v=v, size=size, states=x, of_keys=states, rows=rows, columns=columns, index=index,
        keep=keep, given=given, document=document, by_index=by_index, cached="start" in call,
        open=given & seen[:, None] & keep[:, None, None],
    )  # fmt: skip
    if arguments.get("sliding_window"):
        near = np.abs(m.distance) < arguments["sliding_window"]
        m.open = m.open & near[:, None]
    for places_of in (CLOSED, HEADS, BIASES):
        for name, a, w in encodings:
            if name in places_of:
                places_of[name](m, a, w)
    logits = m.products() + m.more + m.bias + call.get("bias", 0.0)
    for name, a, w in encodings:
        if name in SCORES:
            logits = SCORES[name](m, logits, a, w)
    shares = normalized(m, logits, encodings)
    used = shares if kept is None else shares * kept
    output = (used @ v.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
    for name, a, w in encodings:
        if name in VALUES:
            output = output + VALUES[name](m, used, a, w)
    output = output * m.open.any(-1)[..., None].swapaxes(1, 2)
    output = output * gate
    kernel, *bias = weights["output"]
    output = np.einsum("bthd,hde->bte", output, kernel) + (bias[0] if bias else 0)
    return output, shares * m.open.any(-1, keepdims=True), logits, m.open


def parts_of_unit(x, units, scale, offset=0.0):
    """The gate, the values and the queries or keys of a gated unit; silu is its activation."""
    u, v, z = np.split(x * sigmoid(x), [units, 2 * units], -1)
    return u, v, z * scale + offset


def shared(name, table, projected):
    """The weights that an encoding makes of a shared table; DeBERTa's rows are hidden states."""
    if name == "deberta":
        of = {side: projected(side, table[None])[0] for side in ("key", "query")}
        return {f"{side}_table": rows for side, rows in of.items()}
    return {{"t5": "table", "cope": "embeddings"}[name]: table}


def padding(call, key):
    keep = np.ones(key.shape[:2], bool)
    for name in ("key_mask", "value_mask"):
        keep = keep & np.asarray(call.get(name, True), bool)
    return keep


def places(call, x, key):
    """Ids of rows and columns, index, whether that is the order, and what may be seen by these."""
    (batch, num_rows, _), num_columns = x.shape, key.shape[1]
    start, cached = call.get("start", 0), "start" in call
    index, column = start + np.arange(num_rows), np.arange(num_columns)
    rows, columns = call.get("query_positions"), call.get("key_positions")
    if columns is None and not cached and (call["value"] is call["query"] or call.get("packed")):
        columns = rows
    has_ids = rows is not None or columns is not None

    def ids(given, default):
        given = np.asarray(default if given is None else given, "float64")
        given = given[None] if given.ndim == 1 else given
        return np.broadcast_to(given, (batch, *given.shape[1:]))

    rows, columns = ids(rows, index), ids(columns, column)
    by_index = "query_order" not in call and (cached or call.get("use_causal_mask", False))
    seen, document = np.ones((batch, num_rows, num_columns), bool), None
    if "query_order" in call:
        later, earlier = (np.asarray(call[f"{x}_order"]) for x in ("query", "key"))
        seen = seen & (earlier[:, None] <= later[:, :, None])
    elif by_index:
        by_index = bool(cached or not has_ids or num_rows == num_columns)
        order = (index[None], column[None]) if by_index else (rows, columns)
        seen = seen & (order[1][:, None] <= order[0][:, :, None])
    if call.get("packed"):
        document = column - columns
        seen = seen & (document[:, None] == (index - rows)[:, :, None])
    return rows, columns, index, by_index, seen, document


def normalized(m, logits, encodings):
    """The weights (B, H, Tq, Tk) of the keys."""
    for name, _, _ in encodings:
        if name in NORMALIZED:
            return NORMALIZED[name](m, logits)
    logits = np.where(m.open, logits, FAR)
    sinks = [w["logits"] for name, _, w in encodings if name == "sink_logits"]
    for sink in sinks:
        more = np.broadcast_to(sink[:, None, None], (*logits.shape[:3], 1))
        logits = np.concatenate([logits, more], -1)
    return softmax(logits)[..., : logits.shape[-1] - len(sinks)] * m.open
