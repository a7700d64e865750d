"""What a call of attention brings: its arguments, their checks, and the grid that they make."""

import dataclasses
import inspect
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments.hints import Tensor
from keras_posenc.maps.columns import slice_axis
from keras_posenc.maps.grid import Grid
from keras_posenc.positions import consecutive


@dataclasses.dataclass(eq=False)
class Call:
    """The arguments of `PositionalAttention.call`, whose signature it is.

    `num_keys`: int or None. Number of keys to attend to: those of the cache, if there is one.
    `with_map`: bool. The attention map is requested.
    """

    query: Tensor
    value: Tensor
    key: Tensor | None = None
    query_mask: Tensor | None = None
    value_mask: Tensor | None = None
    key_mask: Tensor | None = None
    attention_mask: Tensor | None = None
    return_attention_scores: bool = False
    training: bool | None = None
    use_causal_mask: bool = False
    query_positions: Tensor | None = None
    key_positions: Tensor | None = None
    query_order: Tensor | None = None
    key_order: Tensor | None = None
    bias: Tensor | None = None
    return_attention_logits: bool = False
    cache: tuple | None = None
    tables: Sequence[Tensor] | None = None
    packed: bool = False

    def __post_init__(self):
        if self.key is None:
            self.key = self.value
        alone = self.packed or self.query is self.value and self.cache is None
        if alone and self.key_positions is None:
            self.key_positions = self.query_positions
        self.num_keys = (self.key if self.cache is None else self.cache[2]).shape[1]
        self.with_map = self.return_attention_scores or self.return_attention_logits

    def key_padding(self):
        """The mask of the keys, (B, Tk), by those of `key` and `value`, or None."""
        if self.key_mask is None or self.value_mask is None:
            return self.value_mask if self.key_mask is None else self.key_mask
        return ops.logical_and(self.key_mask, self.value_mask)

    def result(self, output, scores, logits, cache):
        """The output, in a tuple with what else is requested."""
        extras = [scores] if self.return_attention_scores else []
        extras += [logits] if self.return_attention_logits else []
        extras += [cache] if self.cache is not None else []
        return (output, *extras) if extras else output

    def grid_to_write(self, q, k):
        """The `Grid` of the queries and keys (B, T, H, D) of this call, which a cache follows."""
        start, count = backend.number(self.cache[3]), ops.shape(k)[1]
        key_positions = as_ids(self.key_positions, None)
        if key_positions is None:
            key_positions = consecutive(count, start)[None]
        else:
            key_positions = slice_axis(key_positions, 1, start, count)
        query_positions = self.query_positions
        if query_positions is None:
            query_positions = consecutive(ops.shape(q)[1], start)
        return Grid(as_ids(query_positions, None), key_positions)

    def grid(self, q, memory, content, window=None):
        """Makes the `Grid` of queries (B, Tq, H, D) over a `Memory`, with a `Content`."""
        cached = memory.start is not None
        num_keys = ops.shape(memory.keys)[1]  # fewer than `self.num_keys` in a cache that has room
        query_index = consecutive(ops.shape(q)[1], memory.start if cached else 0)[None]
        key_index = consecutive(num_keys)[None]
        has_ids = self.query_positions is not None or self.key_positions is not None
        query_positions = as_ids(self.query_positions, query_index)
        key_positions = as_ids(self.key_positions, key_index)
        query_order, key_order = self.query_order, self.key_order
        if cached:
            key_positions = key_positions[:, :num_keys]
            key_order = key_order if key_order is None else key_order[:, :num_keys]
        causal = query_order is None and (self.use_causal_mask or cached)
        # With a few queries and other keys, only the positions determine which keys are earlier.
        as_many = _as_many(q, memory.keys, self.query_positions is self.key_positions)
        if as_many is None and len(query_positions.shape) > 2:
            as_many = True  # ids on several axes have no order
        by_index = causal and bool(cached or not has_ids or as_many)
        if causal:
            query_order = query_index if by_index else query_positions
            key_order = key_index if by_index else key_positions
        if causal and not by_index and as_many is None:
            as_many = ops.equal(ops.shape(q)[1], num_keys)
            query_order = ops.where(as_many, query_index, query_positions)
            key_order = ops.where(as_many, key_index, key_positions)
        grid = Grid(
            query_positions=query_positions,
            key_positions=key_positions,
            key_mask=memory.key_mask,
            query_order=query_order,
            key_order=key_order,
            order_is_index=by_index,
            rows_are_last=by_index and _is_last(q, memory.start, num_keys),
            attention_mask=self.attention_mask,
            query_index=query_index if self.packed else None,
            key_index=key_index if self.packed else None,
            ids_are_indices=self.packed or not has_ids,
            training=bool(self.training),
            window=window,
            content=content,
        )
        if causal and not by_index:
            grid.check_one_axis()
        return grid


def taking(arguments):
    """Gives a `call` the signature and hints of a class of its arguments, such as `Call`.

    Keras reads the names of the arguments from it, and so which of them are masks.
    """

    def with_signature(call):
        layer = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        fields = inspect.signature(arguments).parameters.values()
        call.__signature__ = inspect.Signature([layer, *fields])
        call.__annotations__ = dict(arguments.__annotations__)
        return call

    return with_signature


def _as_many(q, keys, same):
    """Whether there are as many queries as keys; None if only the program's runs know."""
    lengths = q.shape[1], keys.shape[1]
    unknown = lengths == (None, None) and not same
    return None if unknown else lengths[0] == lengths[1]


def _is_last(q, start, num_keys):
    """Whether the only query is known to be that of the last key."""
    return isinstance(start, int) and q.shape[1] == 1 and start == num_keys - 1


def as_ids(ids, index):
    """Position ids with a batch dimension, int32 or float32; by default the index."""
    if ids is None:
        return index
    ids = ops.convert_to_tensor(ids)
    ids = ops.cast(ids, "int32" if keras.backend.is_int_dtype(ids.dtype) else "float32")
    return ids[None] if len(ids.shape) == 1 else ids


def check_call(call, layer):
    """Raises ValueError for arguments that contradict each other or the layer.

    Only shapes and types are read, so that it is the same with and without numbers. `layer`: a
    `PositionalAttention`.
    """
    name = type(layer).__name__
    _check_inputs(name, call, layer.widths)
    for mask in (call.key_mask, call.value_mask):
        if mask is not None:
            _check_padding(name, mask, call.key)
    if call.query_order is not None or call.key_order is not None:
        _check_order(call)
    elif not (call.use_causal_mask or call.cache or call.attention_mask is not None):
        for encoding in layer.hooks.causal_only:
            raise ValueError(
                f"{type(encoding).__name__} is for causal attention: call the layer with "
                "`use_causal_mask=True`, with a cache, or with an `attention_mask` that closes "
                "the future."
            )
    if call.packed:
        _check_packed(call, layer.encodings)
    if call.query_positions is not None or call.key_positions is not None:
        _check_positions(call)
    if call.attention_mask is not None:
        sizes = call.query.shape[0], layer.num_heads, call.query.shape[1], call.num_keys
        _check_attention_mask(name, call.attention_mask, *sizes)
    if call.tables or layer.hooks.shared:
        _check_tables(call.tables, layer)


def _check_inputs(name, call, widths):
    for role, width in widths.items():
        found = getattr(call, role).shape[-1]
        if found != width:  # TensorFlow would fold it into the batch
            raise ValueError(
                f"{name} was built for a `{role}` of {width} features: make another layer for "
                f"other sizes. Received: {found} features"
            )
    keys, values = call.key.shape[1], call.value.shape[1]
    if None not in (keys, values) and keys != values:
        # torch's kernels would read values that there are not.
        raise ValueError(
            f"{name}: a key has a value each. Received: {keys} keys and {values} values"
        )
    queries = call.query.shape[1]
    by_index = call.cache is not None and call.query_order is None
    if by_index and None not in (queries, keys) and keys < queries:
        raise ValueError(
            f"{name}: a cache counts its keys, and each query has the index of one: give a key per "
            f"query, or orders. Received: {queries} queries and {keys} keys"
        )


def _check_padding(name, mask, key):
    """On torch a mask that closes nothing is left out, whatever its shape."""
    wanted, shape = tuple(key.shape[:2]), _shape(mask)
    fits = len(shape) == 2 and all(
        size in (None, other) or other is None or (size, axis) == (1, 0)
        for axis, (size, other) in enumerate(zip(shape, wanted, strict=True))
    )
    if not fits:
        raise ValueError(
            f"{name}: a mask of the keys has one bool a key, {wanted}; what depends on the query "
            f"is an `attention_mask`. Received a mask of the shape {shape}"
        )


def _check_order(call):
    if call.query_order is None or call.key_order is None:
        name = "key_order" if call.query_order is None else "query_order"
        raise ValueError(
            "`query_order` and `key_order` must be given together, or neither. Received: "
            f"`{name}` alone"
        )
    if call.use_causal_mask:
        raise ValueError(
            "`query_order` and `key_order` replace the causal order: leave `use_causal_mask` off. "
            "Received: use_causal_mask=True"
        )


def _check_positions(call):
    for name, count in (("query_positions", call.query.shape[1]), ("key_positions", call.num_keys)):
        ids = getattr(call, name)
        if ids is None:
            continue
        shape = _shape(ids)
        texts = (call.query if name == "query_positions" else call.key).shape[0]
        if len(shape) > 1 and texts is not None and shape[0] not in (None, 1, texts):
            raise ValueError(
                f"`{name}` must have ids of one text or of as many as there are, {texts}. "
                f"Received: ids of {shape[0]}"
            )
        length = shape[-1] if len(shape) == 1 else (*shape, None, None)[1]
        if None not in (length, count) and length != count:
            raise ValueError(
                f"`{name}` must have shape (T,), (B, T) or (B, T, axes) with T = {count}, "
                f"one id a token. Received: {length} ids"
            )


def _check_packed(call, encodings):
    if call.query_positions is None or call.cache is not None:
        raise ValueError(
            "`packed` rows hold documents that begin where `query_positions` are 0: call the "
            "layer with these ids, and without a cache."
        )
    for encoding in encodings:
        if encoding.reads_length:
            raise ValueError(
                f"{type(encoding).__name__} with these arguments depends on the length of the "
                "text, and a `packed` row holds several: leave `packed` off, and give each "
                "text a row of its own."
            )
    both = call.query_positions, call.key_positions
    shapes, dtypes = [_shape(ids) for ids in both], [_dtype(ids) for ids in both]
    shapes = [(1, *shape) if len(shape) == 1 else shape for shape in shapes]
    alike = len(shapes[0]) == len(shapes[1]) == 2 and shapes[0][1] == shapes[1][1]
    if not alike or not all(map(keras.backend.is_int_dtype, dtypes)):
        raise ValueError(
            "`packed` rows need ids that count the tokens of each document, whole numbers (B, T), "
            f"as many for the keys as for the queries. Received: {shapes[0]} and {shapes[1]}, "
            f"{dtypes[0]}"
        )


def _check_attention_mask(name, mask, *sizes):
    """A mask is (Tq, Tk), (B, Tq, Tk) or (B, H, Tq, Tk); sizes are None where unknown."""
    wanted, shape = {2: sizes[2:], 3: (sizes[0], *sizes[2:]), 4: sizes}, tuple(mask.shape)
    wanted = wanted.get(len(shape))
    if wanted is None or not all(map(_fits, shape, wanted)):
        raise ValueError(
            f"{name}: an `attention_mask` is (Tq, Tk), (B, Tq, Tk) or (B, H, Tq, Tk), for "
            f"{sizes}. Received: one of the shape {shape}"
        )


def _fits(size, wanted):
    return size in (None, 1) or not isinstance(wanted, int) or size == wanted


def _check_tables(tables, layer):
    sizes = layer.num_heads, layer.key_dim
    shapes = [tuple(e.table_arguments(*sizes)["shape"]) for e in layer.hooks.shared]
    received = [tuple(table.shape) for table in tables or ()]
    if received != shapes:
        raise ValueError(
            "`tables` must hold a table for each encoding with `shared=True`, of the shapes "
            f"{shapes}, as `SharedTable` layers emit them. Received: {received}"
        )


def _shape(x):
    return tuple(x.shape if hasattr(x, "shape") else np.shape(x))


def _dtype(x):
    return keras.backend.standardize_dtype(x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype)


def listed(encodings):
    """The encodings, or TypeError if they are no list: a name would be read by its letters."""
    if not isinstance(encodings, (list, tuple)):
        raise TypeError(
            f"`encodings` is a list of names, dicts or encodings. Received: {encodings!r}"
        )
    return encodings


def check_features(name, **shapes):
    """Raises ValueError unless these shapes are of features (B, T, D)."""
    for role, shape in shapes.items():
        if len(shape) != 3:
            raise ValueError(f"{name} takes features (B, T, D). Received: `{role}` {tuple(shape)}")
