"""Multi-head attention that composes position encodings."""

import math

import keras
from keras import ops

from keras_posenc import encodings as position_encodings
from keras_posenc.attention.cells import Rules
from keras_posenc.attention.checks import (
    check_attention_mask,
    check_features,
    check_lengths,
    check_list,
    checked_mask,
    listed,
)
from keras_posenc.attention.choose import attend
from keras_posenc.attention.geometry import grid_of_call
from keras_posenc.attention.memory import Memory, empty_cache
from keras_posenc.maps.dropout import ATTENTION_DROPOUT
from keras_posenc.sublayers import (
    built,
    initializer_of_part,
    policy_of_part,
    with_quantized_parts,
)


@keras.saving.register_keras_serializable(package="keras_posenc")
class PositionalAttention(keras.layers.Layer):
    """`keras.layers.MultiHeadAttention` with a list of position encodings.

    Project, let the encodings act, attend, merge. Without encodings it computes what Keras' layer
    computes, holds the same weights in the same order, and can take its place (except for its gate,
    sliding window and activity regularizer). Padded keys, by the Keras masks of `key` and `value`,
    are never attended to; padded queries are not treated specially. A query that sees no key at all
    gets weights and heads of zero, so its output is the bias of the last projection.

    Args:
        num_heads: int. Heads H.
        key_dim: int. Size D of a query and key head.
        value_dim: int. Size of a value head; default `key_dim`.
        num_key_value_heads: int. Heads of the keys and values, each of which serves H /
            num_key_value_heads heads of the queries; default H.
        head_norm: None, or a layer that normalises each head of queries and keys (B, T, H, D)
            before the encodings act, such as `keras.layers.RMSNormalization()`; both get a copy of
            their own.
        encodings: list of names, dicts or `Encoding` instances; see `keras_posenc.encodings.get`.
        dropout: float. Share of the attention weights dropped in training.
        use_bias: bool. Biases in the four projections.
        output_shape: int. Size of the output; default that of the query.
        attention_axes: None or 1: positions are counted along one axis.
        flash_attention: None: the library chooses. True: a fused kernel, or an error. False: none,
            as after `keras.config.disable_flash_attention()`; the attention matrix is materialised,
            and on PyTorch has second derivatives, which its kernels lack.
        kernel_initializer, bias_initializer: initializers of the four projections.
        kernel_regularizer, bias_regularizer: regularizers of the four projections.
        kernel_constraint, bias_constraint: constraints of the four projections.
        seed: int or None. Seed of the dropout.

    Call arguments:
        query: (B, Tq, E).
        value: (B, Tk, E).
        key: (B, Tk, E); default `value`.
        attention_mask: (Tq, Tk), (B, Tq, Tk) or (B, H, Tq, Tk), True where it may attend.
        return_attention_scores: bool. Return the weights (B, H, Tq, Tk) too.
        use_causal_mask: bool. No query attends to a later key.
        query_positions: (Tq,) or (B, Tq) ids of the queries. Default: consecutive, after the cache.
        key_positions: (Tk,) or (B, Tk) ids of the keys (of the whole cache, when there is one).
            Ids on A axes have shape (B, T, A).
            Default: the query's for self-attention, else consecutive.
        query_order, key_order: (B, T) integers: a query attends to keys of no later order. A causal
            map whose order is not the index; UniLM passes running sums of segment ids.
        packed: bool. A row of the batch holds several documents, one behind the other: in each the
            ids, `query_positions` of (B, T), start again at 0 and count on, and a query attends to
            its own document alone. For self-attention.
        bias: tensor broadcastable to (B, H, Tq, Tk), added to the logits.
        return_attention_logits: bool. Return the logits as they enter the softmax too (RealFormer).
        cache: what `make_cache` or an earlier call returned. The keys and values are appended, the
            queries attend to all of them, and the new cache is returned too.
        tables: list of the tables for the encodings with `shared=True`, in their order, each as a
            `SharedTable` emits it.

    Returns:
        (B, Tq, output size); with scores, logits or a cache requested, a tuple in that order.

    Raises:
        TypeError: on an encoding of an unknown kind.
        ValueError: on an invalid argument; on an encoding for causal attention in a call that is
            not causal; on position ids, masks or inputs whose shapes do not fit; on `packed` in a
            call without ids, with a cache, or with an encoding that reads the length.

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16)
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        encodings=(),
        dropout=ATTENTION_DROPOUT,
        use_bias=True,
        output_shape=None,
        attention_axes=None,
        flash_attention=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        seed=None,
        num_key_value_heads=None,
        head_norm=None,
        **kwargs,
    ):
        # Float ids must not be rounded to the compute dtype: bfloat16 cannot tell 257 from 256.
        super().__init__(autocast=False, **kwargs)
        for name, size, default in (
            ("num_heads", num_heads, num_heads),
            ("key_dim", key_dim, key_dim),
            ("value_dim", value_dim, key_dim),
            ("num_key_value_heads", num_key_value_heads, num_heads),
        ):
            size = default if size is None else size
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"`{name}` must be a positive integer. Received: {size!r}")
        if num_heads % (num_key_value_heads or 1):
            raise ValueError(
                f"`num_key_value_heads` must divide the {num_heads} heads. "
                f"Received: {num_key_value_heads}"
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be at least 0 and below 1. Received: {dropout}")
        if attention_axes not in (None, 1, (1,), [1]):
            raise ValueError(
                f"Positions are counted along one axis, so `attention_axes` must be None or 1. "
                f"Received: {attention_axes}"
            )
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim or key_dim
        self.num_key_value_heads = num_key_value_heads or num_heads
        self.head_norm = keras.saving.serialize_keras_object(head_norm) if head_norm else None
        self.query_norm, self.key_norm = (self._head_norm(name) for name in ("query", "key"))
        self.encodings = _checked([self._encoding(spec) for spec in listed(encodings)])
        self.dropout = dropout
        self.use_bias = use_bias
        self.output_size = _one_size(output_shape)
        self.flash_attention = flash_attention
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.seed = seed
        self._widths = {}
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None
        self.supports_masking = True

    def _encoding(self, spec):
        """The encoding of a spec; in a layer of float32 it is one of float32, whatever is usual."""
        usual = keras.config.dtype_policy().name == "float32"
        own = self.dtype_policy.name == "float32" and not usual
        if own and isinstance(spec, str):
            spec = {"name": spec}
        if own and isinstance(spec, dict) and "class_name" not in spec:
            spec = {"dtype": "float32", **spec}
        return position_encodings.get(spec)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        shapes = {"query": query_shape, "value": value_shape, "key": key_shape}
        check_features(type(self).__name__, **shapes)
        heads, kept = (None, self.num_heads), (None, self.num_key_value_heads)
        self.query_dense = self._projection("query", query_shape, (*heads, self.key_dim))
        self.key_dense = self._projection("key", key_shape, (*kept, self.key_dim))
        self.value_dense = self._projection("value", value_shape, (*kept, self.value_dim))
        merged_shape = (*query_shape[:-1], self.num_heads, self.value_dim)
        output_size = self.output_size or query_shape[-1]
        self.output_dense = self._projection("attention_output", merged_shape, (None, output_size))
        for norm in (self.query_norm, self.key_norm) if self.head_norm else ():
            built(self, norm, (*query_shape[:-1], self.num_heads, self.key_dim))
        self._build_encodings(query_shape, key_shape)
        widths = query_shape[-1], key_shape[-1], value_shape[-1]
        self._widths = dict(zip(("query", "key", "value"), widths, strict=True))
        self.built = True

    def _build_encodings(self, query_shape, key_shape):
        for encoding in self.encodings:
            if not encoding.built:
                shapes = [(*query_shape[:-1], self.num_heads, self.key_dim)]
                shapes += [key_shape] if encoding.overrides("features") else []
                built(self, encoding, *shapes)

    def _projection(self, name, input_shape, output_shape):
        merging = len(output_shape) == 2
        dense = keras.layers.EinsumDense(
            "bthd,hde->bte" if merging else "btd,dhe->bthe",
            output_shape=output_shape,
            bias_axes=("e" if merging else "he") if self.use_bias else None,
            kernel_initializer=initializer_of_part(self.kernel_initializer, f"{name}/kernel"),
            bias_initializer=self.bias_initializer.clone(),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            dtype=policy_of_part(self, name),
            name=name,
        )
        # This layer handles the mask; else Keras warns that the projection loses it.
        dense.supports_masking = True
        return built(self, dense, input_shape)

    def _head_norm(self, name):
        """The norm of the heads of the queries or keys, a copy of the one that was given."""
        if self.head_norm is None:
            return None
        name = f"{name}_norm"
        config = {**self.head_norm["config"], "name": name, "dtype": policy_of_part(self, name)}
        return keras.saving.deserialize_keras_object({**self.head_norm, "config": config})

    def make_cache(self, batch_size, length):
        """Makes an empty key-value cache, for the argument `cache` of a call.

        Args:
            batch_size: int, B.
            length: int. Number of positions that it has room for.

        Returns:
            A tuple of tensors: keys, values, padding mask and number of keys so far.

        Raises:
            ValueError: if the layer is not built, and an encoding adds features to the keys.
        """
        if any(e.overrides("features") and not e.built for e in self.encodings):
            raise ValueError(
                "What this layer keeps of a key is only known once it is built: call the layer, or "
                "its `build`, before `make_cache`."
            )
        key_size = self.key_dim + sum(encoding.feature_size for encoding in self.encodings)
        sizes = self.num_heads, key_size, self.value_dim
        return empty_cache(batch_size, length, *sizes, self.compute_dtype)

    def __call__(self, query, value, *args, **kwargs):
        # Decided here: in `call` Keras has made two tensors of one array, or of one cast twice.
        alone = kwargs.get("key_positions") is None and kwargs.get("cache") is None
        if query is value and alone and kwargs.get("query_positions") is not None:
            kwargs["key_positions"] = kwargs["query_positions"]
        return super().__call__(query, value, *args, **kwargs)

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        query_positions=None,
        key_positions=None,
        query_order=None,
        key_order=None,
        bias=None,
        return_attention_logits=False,
        cache=None,
        tables=None,
        packed=False,
    ):
        self._check_packed(packed, query_positions, cache)
        if packed and key_positions is None:
            key_positions = query_positions
        query, key, value = self._inputs(query, value, key)
        keep = _both(
            *(checked_mask(type(self).__name__, mask, key) for mask in (key_mask, value_mask))
        )
        q, k, v, merge = self._project(query, key, value)
        memory, new_cache = self._remember(key, k, v, keep, cache)
        positions, orders = (query_positions, key_positions), (query_order, key_order)
        sizes = q.shape[0], self.num_heads, q.shape[1], memory.keys.shape[1]
        check_attention_mask(type(self).__name__, attention_mask, *sizes)
        who, tables = (use_causal_mask, attention_mask), self._tables(tables)
        grid = grid_of_call(q, memory, positions, orders, *who, tables, bool(training), packed)
        self._check_order(grid.row_order is not None, grid.mask is not None)
        rules = self._rules(q, memory.keys, bias, training)
        requested = return_attention_scores, return_attention_logits, cache is not None
        k, v, with_map = memory.keys, memory.values, any(requested[:2])
        output, scores, logits = attend(q, k, v, grid, rules, with_map)
        extras = zip((scores, logits, new_cache), requested, strict=True)
        extras = [extra for extra, wanted in extras if wanted]
        output = merge(output)
        return (output, *extras) if extras else output

    def _inputs(self, query, value, key):
        """The query, the key and the value in the compute dtype, of the widths that were built."""
        inputs = {"query": query, "key": value if key is None else key, "value": value}
        self._check_widths(**inputs)
        check_lengths(type(self).__name__, inputs["key"], value)
        return [ops.cast(x, self.compute_dtype) for x in inputs.values()]

    def _check_widths(self, **inputs):
        """TensorFlow would fold another width into the batch."""
        for name, x in inputs.items():
            built = self._widths.get(name, x.shape[-1])
            if x.shape[-1] != built:
                raise ValueError(
                    f"{type(self).__name__} was built for a `{name}` of {built} features: make "
                    f"another layer for other sizes. Received: {x.shape[-1]} features"
                )

    def _remember(self, key, k, v, mask, cache):
        """The `Memory` that the queries attend to, and the cache that holds it, if there is one."""
        featured = [encoding for encoding in self.encodings if encoding.overrides("features")]
        features = {e: ops.cast(e.features(key), k.dtype) for e in featured}
        memory = Memory(k, v, features, mask)
        if cache is not None:
            memory, cache = memory.after(cache)
        return memory.cleaned(), cache

    def _rules(self, q, k, bias, training):
        """The `Rules` of a call, with the cells to drop in training."""
        if bias is not None:  # with an axis of rows and one of columns, to be cut
            bias = ops.convert_to_tensor(bias)
            bias = ops.reshape(bias, (*[1] * (4 - len(bias.shape)), *ops.shape(bias)))
        flash = self.flash_attention
        if flash is None:
            flash = keras.config.is_flash_attention_enabled()  # None, or False once disabled
        rules = Rules(tuple(self.encodings), 1 / math.sqrt(self.key_dim), bias, flash=flash)
        if training and self.dropout:
            rules = rules.dropping(self.dropout, q, k, self.seed_generator.next())
        return rules

    def _project(self, query, key, value):
        """The heads q, k, v, and what makes the attention output (B, Tq, H, Dv) the layer's."""
        q, k, v = self.query_dense(query), self.key_dense(key), self.value_dense(value)
        if self.head_norm:
            q, k = self.query_norm(q), self.key_norm(k)
        if self.num_key_value_heads < self.num_heads:
            served = self.num_heads // self.num_key_value_heads
            k, v = (ops.repeat(x, served, axis=2) for x in (k, v))
        return q, k, v, self.output_dense

    def _check_order(self, ordered, masked):
        for encoding in self.encodings:
            if encoding.causal_only and not ordered and not masked:
                raise ValueError(
                    f"{type(encoding).__name__} is for causal attention: call the layer with "
                    "`use_causal_mask=True`, with a cache, or with an `attention_mask` that closes "
                    "the future."
                )

    def _check_packed(self, packed, query_positions, cache):
        if not packed:
            return
        if query_positions is None or cache is not None:
            raise ValueError(
                "`packed` rows hold documents that begin where `query_positions` are 0: call the "
                "layer with these ids, and without a cache."
            )
        for encoding in self.encodings:
            if encoding.reads_length:
                raise ValueError(
                    f"{type(encoding).__name__} with these arguments depends on the length of the "
                    "text, and a `packed` row holds several: leave `packed` off, and give each "
                    "text a row of its own."
                )

    def _by_encoding(self, tables):
        """dict, encoding -> the table that the call brings for it."""
        sharing = [encoding for encoding in self.encodings if encoding.shared]
        sizes = self.num_heads, self.key_dim
        shapes = [tuple(e.table_arguments(*sizes)["shape"]) for e in sharing]
        received = [tuple(table.shape) for table in tables or ()]
        if received != shapes:
            raise ValueError(
                "`tables` must hold a table for each encoding with `shared=True`, of the shapes "
                f"{shapes}, as `SharedTable` layers emit them. Received: {received}"
            )
        return dict(zip(sharing, tables or (), strict=True))

    def _tables(self, tables):
        """dict, encoding -> its table, as keys and as queries (2, P, H, D) where `projected`."""
        tables = self._by_encoding(tables)
        for encoding in tables:
            if encoding.projected:
                rows = ops.cast(tables[encoding], self.compute_dtype)[None]
                heads = [self.key_dense(rows), self.query_dense(rows)]
                tables[encoding] = ops.concatenate(heads)
        return tables

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return (*query_shape[:-1], self.output_size or query_shape[-1])

    def compute_output_spec(
        self,
        query,
        value,
        *args,
        return_attention_scores=False,
        return_attention_logits=False,
        cache=None,
        **kwargs,
    ):
        key = args[0] if args else kwargs.get("key")
        self._check_widths(query=query, value=value)
        check_lengths(type(self).__name__, value if key is None else key, value)
        for name in ("key_mask", "value_mask"):
            checked_mask(type(self).__name__, kwargs.get(name), value if key is None else key)
        self._check_packed(kwargs.get("packed"), kwargs.get("query_positions"), cache)
        ordered = kwargs.get("use_causal_mask") or kwargs.get("query_order") is not None
        self._check_order(ordered or cache is not None, kwargs.get("attention_mask") is not None)
        self._by_encoding(kwargs.get("tables"))
        shape = self.compute_output_shape(query.shape, value.shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        keys = value.shape[1] if cache is None else cache[0].shape[1]
        sizes = query.shape[0], self.num_heads, query.shape[1], keys
        check_attention_mask(type(self).__name__, kwargs.get("attention_mask"), *sizes)
        scores = keras.KerasTensor(sizes, dtype="float32")
        extras = [scores] * (return_attention_scores + return_attention_logits)
        if cache is not None:
            extras.append(tuple(keras.KerasTensor(x.shape, x.dtype) for x in cache))
        return (output, *extras) if extras else output

    def get_config(self):
        config = {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "encodings": [_unbuilt(e) for e in self.encodings],
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_size,
            "flash_attention": self.flash_attention,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
            "seed": self.seed,
            "num_key_value_heads": self.num_key_value_heads,
            "head_norm": self.head_norm,
        }
        parts = [getattr(self, name) for name in dir(self) if name.endswith("_dense")]
        return with_quantized_parts(config, self, parts)


def _checked(encodings):
    """The encodings, of which one at most may replace the softmax, under names that last.

    Each is told whether others change the heads behind it.
    """
    for i, encoding in enumerate(encodings):
        encoding.name = f"encoding_{i}"
        encoding.heads_follow = any(e.overrides("heads") for e in encodings[i + 1 :])
    check_list(encodings)
    return encodings


def _unbuilt(encoding):
    """Serialised to be built again by its attention layer, so that its weights keep their paths."""
    config = keras.saving.serialize_keras_object(encoding)
    config.pop("build_config", None)
    return config


def _both(mask, other):
    """Where both masks are True; None stands for True everywhere."""
    if mask is None or other is None:
        return other if mask is None else mask
    return ops.logical_and(mask, other)


def _one_size(output_shape):
    """The output size, also from a tuple of one, as Keras' layer takes it."""
    if isinstance(output_shape, (list, tuple)) and len(output_shape) == 1:
        output_shape = output_shape[0]
    if output_shape is not None and not isinstance(output_shape, int):
        raise ValueError(f"`output_shape` must be one size. Received: {output_shape!r}")
    return output_shape
