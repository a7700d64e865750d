"""Multi-head attention that composes position encodings."""

import itertools
import math

import keras
from keras import ops

from keras_posenc import encodings as position_encodings
from keras_posenc.encodings.diagonals import lines_of
from keras_posenc.grid import Grid
from keras_posenc.layers.attend import attend, attend_explicitly, forms_map
from keras_posenc.layers.initializer import part
from keras_posenc.positions import check_positions, consecutive
from keras_posenc.quantized import policy_of_part, with_quantized_parts


@keras.saving.register_keras_serializable(package="keras_posenc")
class PositionalAttention(keras.layers.Layer):
    """`keras.layers.MultiHeadAttention` with a list of position encodings.

    Project, let the encodings act, attend, merge. Without encodings it computes what Keras' layer
    computes, holds the same weights in the same order, and can take its place (but for its gate,
    sliding window and activity regularizer). Padded keys, by the Keras masks of `key` and `value`,
    are never attended to; padded queries are not treated specially.

    Args:
        num_heads: int. Heads H.
        key_dim: int. Size D of a query and key head.
        value_dim: int. Size of a value head; default `key_dim`.
        encodings: list of names, dicts or `Encoding` instances; see `keras_posenc.encodings.get`.
        dropout: float. Share of the attention weights dropped in training.
        use_bias: bool. Biases in the four projections.
        output_shape: int. Size of the output; default that of the query.
        attention_axes: None or 1: positions are counted along one axis.
        flash_attention: None (where it pays), True or False.
        kernel_initializer, bias_initializer: of the four projections.
        kernel_regularizer, bias_regularizer: likewise.
        kernel_constraint, bias_constraint: likewise.
        seed: int or None. Of the dropout.

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
        bias: tensor broadcastable to (B, H, Tq, Tk), added to the logits.
        return_attention_logits: bool. Return the logits as they enter the softmax too (RealFormer).
        cache: what `make_cache` or an earlier call returned. The keys and values are appended, the
            queries attend to all of them, and the new cache is returned too.
        tables: list of the tables for the encodings with `shared=True`, in their order, each as a
            `SharedTable` emits it.

    Returns:
        (B, Tq, output size); with scores, logits or a cache asked for, a tuple in that order.

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
        dropout=0.0,
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
        **kwargs,
    ):
        # Float ids must not be rounded to the compute dtype: bfloat16 cannot tell 257 from 256.
        super().__init__(autocast=False, **kwargs)
        for name, size in (
            ("num_heads", num_heads),
            ("key_dim", key_dim),
            ("value_dim", value_dim),
        ):
            if not (isinstance(size, int) and size > 0 or name == "value_dim" and size is None):
                raise ValueError(f"`{name}` must be a positive integer. Received: {size!r}")
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
        self.encodings = _checked([position_encodings.get(spec) for spec in encodings])
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
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None
        self.supports_masking = True

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        heads = (None, self.num_heads)
        self.query_dense = self._projection("query", query_shape, (*heads, self.key_dim))
        self.key_dense = self._projection("key", key_shape, (*heads, self.key_dim))
        self.value_dense = self._projection("value", value_shape, (*heads, self.value_dim))
        merged_shape = (*query_shape[:-1], self.num_heads, self.value_dim)
        output_size = self.output_size or query_shape[-1]
        self.output_dense = self._projection("attention_output", merged_shape, (None, output_size))
        self._build_encodings(query_shape, key_shape)
        self.built = True

    def _build_encodings(self, query_shape, key_shape):
        for encoding in self.encodings:
            if not encoding.built:
                shapes = [(*query_shape[:-1], self.num_heads, self.key_dim)]
                encoding.build(*shapes, *([key_shape] if encoding.overrides("features") else []))

    def _projection(self, name, input_shape, output_shape):
        merging = len(output_shape) == 2
        dense = keras.layers.EinsumDense(
            "bthd,hde->bte" if merging else "btd,dhe->bthe",
            output_shape=output_shape,
            bias_axes=("e" if merging else "he") if self.use_bias else None,
            kernel_initializer=part(self.kernel_initializer, f"{name}/kernel"),
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
        dense.build(input_shape)
        return dense

    def make_cache(self, batch_size, length):
        """An empty cache of `length` positions: keys, values, which are real, how many so far."""
        if any(e.overrides("features") and not e.built for e in self.encodings):
            raise ValueError(
                "What this layer keeps of a key is only known once it is built: call the layer, or "
                "its `build`, before `make_cache`."
            )
        shape = (batch_size, length, self.num_heads)
        key_size = self.key_dim + sum(encoding.feature_size for encoding in self.encodings)
        return (
            ops.zeros((*shape, key_size), self.compute_dtype),
            ops.zeros((*shape, self.value_dim), self.compute_dtype),
            ops.zeros((batch_size, length), "bool"),
            ops.zeros((), "int32"),
        )

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
    ):
        key = value if key is None else key
        query, value, key = (ops.cast(x, self.compute_dtype) for x in (query, value, key))
        q, k, v, merge = self._project(query, key, value)
        featured = [encoding for encoding in self.encodings if encoding.overrides("features")]
        features = [ops.cast(encoding.features(key), k.dtype) for encoding in featured]
        keep = _both(key_mask, value_mask)
        start = 0
        if cache is not None:
            # The cache holds a key and its features side by side.
            sizes = [self.key_dim, *(encoding.feature_size for encoding in featured)]
            k = ops.concatenate([k, *features], axis=-1) if features else k
            k, v, keep, start, cache = self._extend(cache, k, v, keep)
            if features:
                k, *features = ops.split(k, list(itertools.accumulate(sizes))[:-1], axis=-1)
        rows = consecutive(ops.shape(q)[1], start)[None]
        columns = consecutive(ops.shape(k)[1])[None]
        if query_order is not None and use_causal_mask:
            raise ValueError(
                "`query_order` and `key_order` say who may attend in place of the causal order: "
                "leave `use_causal_mask` off."
            )
        causal = query_order is None and (use_causal_mask or cache is not None)
        if causal:
            query_order, key_order = rows, columns
        self._check_order(query_order is not None, attention_mask is not None)
        grid = Grid(
            rows=rows if query_positions is None else _ids(query_positions, q, "query_positions"),
            columns=columns if key_positions is None else _ids(key_positions, k, "key_positions"),
            keep=keep,
            row_order=query_order,
            column_order=key_order,
            order_is_index=causal,
            mask=attention_mask,
        )
        features = dict(zip(featured, features, strict=True))
        tables = self._by_encoding(tables)
        grid = grid.replace(queries=q, keys=k, values=v, features=features, tables=tables)
        grid.ids_are_indices = query_positions is None and key_positions is None
        for encoding in self.encodings:
            grid = encoding.restrict(grid)
        dropout = self.dropout if training else 0.0
        explicit = return_attention_scores or return_attention_logits
        if explicit or forms_map(q, self.encodings, bias, dropout, self.flash_attention):
            grid = grid.replace(lines=lines_of(self.encodings, grid))
        for encoding in self.encodings:
            if encoding not in grid.lines:
                q, k = encoding.heads(q, k, grid)
        arguments = dict(
            grid=grid,
            scale=1 / math.sqrt(self.key_dim),
            encodings=self.encodings,
            bias=bias,
            dropout=dropout,
            drawn=self.seed_generator.next() if dropout else None,
        )
        if explicit:
            output, scores, logits = attend_explicitly(q, k, v, **arguments)
        else:
            output = attend(q, k, v, flash=self.flash_attention, training=training, **arguments)
            scores = logits = None
        extras = (
            scores if return_attention_scores else None,
            logits if return_attention_logits else None,
            cache,
        )
        extras = tuple(x for x in extras if x is not None)
        output = merge(output)
        return (output, *extras) if extras else output

    def _project(self, query, key, value):
        """The heads q, k, v, and what makes the attention output (B, Tq, H, Dv) the layer's."""
        q, k, v = self.query_dense(query), self.key_dense(key), self.value_dense(value)
        return q, k, v, self.output_dense

    def _check_order(self, ordered, masked):
        for encoding in self.encodings:
            if encoding.causal_only and not ordered and not masked:
                raise ValueError(
                    f"{type(encoding).__name__} is for causal attention: call the layer with "
                    "`use_causal_mask=True`, with a cache, or with an `attention_mask` that closes "
                    "the future."
                )

    def _by_encoding(self, tables):
        """dict, encoding -> the table that the call brings for it."""
        sharing = [encoding for encoding in self.encodings if encoding.shared]
        sizes = self.num_heads, self.key_dim
        wanted = [tuple(e.table_arguments(*sizes)["shape"]) for e in sharing]
        found = [tuple(table.shape) for table in tables or ()]
        if wanted != found:
            raise ValueError(
                "`tables` must hold a table for each encoding with `shared=True`, of the shapes "
                f"{wanted}, as `SharedTable` layers emit them. Received: {found}"
            )
        return dict(zip(sharing, tables or (), strict=True))

    def _extend(self, cache, k, v, keep):
        """Writes new keys and values behind those of the cache.

        The keys are kept as they were before `heads`: some encodings depend on the length.
        """
        keys, values, kept, start = cache
        batch, new = ops.shape(k)[:2]
        remedy = "The cache is full: make it longer, make_cache(batch_size, length)."
        check_positions(start + new - 1, keys.shape[1], remedy)
        keep = ops.ones((batch, new), "bool") if keep is None else ops.cast(keep, "bool")
        k = ops.slice_update(keys, (0, start, 0, 0), ops.cast(k, keys.dtype))
        v = ops.slice_update(values, (0, start, 0, 0), ops.cast(v, values.dtype))
        kept = ops.slice_update(kept, (0, start), keep)
        return k, v, kept, start, (k, v, kept, start + new)

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
        ordered = kwargs.get("use_causal_mask") or kwargs.get("query_order") is not None
        self._check_order(ordered or cache is not None, kwargs.get("attention_mask") is not None)
        self._by_encoding(kwargs.get("tables"))
        shape = self.compute_output_shape(query.shape, value.shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        keys = value.shape[1] if cache is None else cache[0].shape[1]
        scores = keras.KerasTensor(
            (query.shape[0], self.num_heads, query.shape[1], keys), dtype="float32"
        )
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
    names = [type(e).__name__ for e in encodings if e.overrides("normalize")]
    if len(names) > 1:
        raise ValueError(
            f"Only one encoding can turn logits into weights. Received: {', '.join(names)}"
        )
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


def _ids(ids, tokens, name):
    """Position ids with a batch dimension, as many as there are tokens, int32 or float32."""
    ids = ops.convert_to_tensor(ids)
    ids = ops.cast(ids, "int32" if keras.backend.is_int_dtype(ids.dtype) else "float32")
    ids = ids[None] if len(ids.shape) == 1 else ids
    if None not in (ids.shape[1], tokens.shape[1]) and ids.shape[1] != tokens.shape[1]:
        raise ValueError(
            f"`{name}` must have shape (T,), (B, T) or (B, T, axes) with T = {tokens.shape[1]}, "
            "one id a token. "
            f"Received: {ids.shape[1]} ids"
        )
    return ids


def _one_size(output_shape):
    """The output size, also from a tuple of one, as Keras' layer takes it."""
    if isinstance(output_shape, (list, tuple)) and len(output_shape) == 1:
        output_shape = output_shape[0]
    if output_shape is not None and not isinstance(output_shape, int):
        raise ValueError(f"`output_shape` must be one size. Received: {output_shape!r}")
    return output_shape
