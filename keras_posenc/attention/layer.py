"""Multi-head attention that composes position encodings."""

import math
from collections.abc import Sequence

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc import encodings as position_encodings
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Constraint, Encodings, Initializer, Regularizer
from keras_posenc.attention.call import Call, check_call, check_features, listed, taking
from keras_posenc.attention.choose import attend
from keras_posenc.attention.key_values import Memory, empty_cache
from keras_posenc.attention.rules import Hooks, Rules
from keras_posenc.backend.head_groups import repeated_heads
from keras_posenc.backend.seeding import without_tensorflow
from keras_posenc.keras_support.configured import Configured
from keras_posenc.keras_support.nested_layers import (
    applied,
    built,
    called,
    initializer_of_part,
    policy_of_part,
    with_quantized_parts,
)
from keras_posenc.maps.attention_dropout import ATTENTION_DROPOUT, drawn_once
from keras_posenc.maps.grid import Content


@keras.saving.register_keras_serializable(package="keras_posenc")
class PositionalAttention(Configured, keras.layers.Layer):
    """`keras.layers.MultiHeadAttention` with a list of position encodings.

    Project, let the encodings act, attend, merge. Without encodings it computes what Keras' layer
    computes, holds the same weights in the same order, and can take its place (except for its
    activity regularizer). Padded keys, by the Keras masks of `key` and `value`, are never attended
    to; padded queries are not treated specially. A query that sees no key at all gets weights and
    heads of zero, so its output is the bias of the last projection.

    Args:
        num_heads: int. Heads H.
        key_dim: int. Size D of a query and key head.
        value_dim: int. Size of a value head; default `key_dim`.
        num_key_value_heads: int. Heads of the keys and values. Each serves H / num_key_value_heads
            query heads, and is cached once for all of them. Default: H.
        head_norm: layer or None. Normalises each head of queries and keys (B, T, H, D) before the
            encodings act, such as `keras.layers.RMSNormalization()`. Queries and keys each get
            their own copy of it.
        encodings: list. Names, dicts or `Encoding` instances; see `keras_posenc.encodings.get`.
        dropout: float. Fraction of the attention weights dropped in training.
        use_bias: bool, or "input" for biases in the projections of queries, keys and values alone.
        output_shape: int. Size of the output; default that of the query.
        attention_axes: None or 1: positions are counted along one axis.
        flash_attention: bool or None. None: the library chooses. True: a fused kernel, or an error.
            False: no fused kernel, as after `keras.config.disable_flash_attention()`. Then the
            attention matrix is materialised. PyTorch's fused kernels have no second derivatives;
            the matrix has.
        kernel_initializer, bias_initializer: Initializers of the four projections.
        kernel_regularizer, bias_regularizer: Regularizers of the four projections.
        kernel_constraint, bias_constraint: Constraints of the four projections.
        seed: int or None. Seed of the dropout.
        use_gate: bool. Multiply the attended values by sigmoid(W_g x), with x the query, before the
            last projection.
        sliding_window: int or None. A query attends only to keys whose position is less than this
            far from its position, on either side, at the cost of that window; other encodings
            still act. It is short for `Window` in `encodings`.

    Call arguments:
        query: (B, Tq, E).
        value: (B, Tk, E).
        key: (B, Tk, E); default `value`.
        attention_mask: (Tq, Tk), (B, Tq, Tk) or (B, H, Tq, Tk), True where it may attend.
        return_attention_scores: bool. Return the weights (B, H, Tq, Tk) too.
        use_causal_mask: bool. No query attends to a later key. That is a key with a higher index
            if there are as many queries as keys, or no ids, or a cache. Else it has a higher id.
        query_positions: (Tq,) or (B, Tq) ids of the queries. Default: consecutive, after the cache.
        key_positions: (Tk,) or (B, Tk) ids of the keys (of the whole cache, when there is one; a
            key that is cached keeps the id that it had when it was written).
            Ids on A axes have shape (B, T, A).
            Default: the query's for self-attention without a cache, else consecutive.
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

    Example:

    >>> layer = PositionalAttention(num_heads=2, key_dim=16)
    >>> x = np.random.normal(size=(1, 10, 32))
    >>> layer(x, x).shape
    (1, 10, 32)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        encodings: Encodings = (),
        dropout: float = ATTENTION_DROPOUT,
        use_bias: bool | str = True,
        output_shape: int | Sequence[int] | None = None,
        attention_axes: int | Sequence[int] | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        seed: int | None = None,
        num_key_value_heads: int | None = None,
        head_norm: keras.layers.Layer | None = None,
        use_gate: bool = False,
        sliding_window: int | None = None,
        **kwargs,
    ):
        backend.check_floatx()
        # Float ids must not be rounded to the compute dtype: in bfloat16, 257 equals 256.
        super().__init__(autocast=False, **kwargs)
        self.num_heads = checks.whole("num_heads", num_heads)
        self.key_dim = checks.whole("key_dim", key_dim)
        value_dim = key_dim if value_dim is None else value_dim
        self.value_dim = checks.whole("value_dim", value_dim)
        shared_heads = num_heads if num_key_value_heads is None else num_key_value_heads
        self.num_key_value_heads = checks.whole("num_key_value_heads", shared_heads)
        if num_heads % shared_heads:
            raise ValueError(
                f"`num_key_value_heads` must divide the {num_heads} heads. "
                f"Received: {num_key_value_heads}"
            )
        checks.number("dropout", dropout, least=0, below=1)
        if attention_axes not in (None, 1, (1,), [1]):
            raise ValueError(
                f"Positions are counted along one axis, so `attention_axes` must be None or 1. "
                f"Received: {attention_axes}"
            )
        if sliding_window is not None:
            sliding_window = checks.whole("sliding_window", sliding_window)
        self.use_gate, self.sliding_window = bool(use_gate), sliding_window
        checks.instance("head_norm", head_norm, (keras.layers.Layer, dict, type(None)), "a layer")
        with without_tensorflow():
            self.head_norm = keras.saving.serialize_keras_object(head_norm) if head_norm else None
            self.query_norm, self.key_norm = (self._head_norm(name) for name in ("query", "key"))
            self.encodings = [self._encoding(spec) for spec in listed(encodings)]
        for i, encoding in enumerate(self.encodings):
            encoding.name = f"encoding_{i}"  # a name that lasts, for saved weights
            encoding.check_head_size(key_dim)
        self.hooks = Hooks(self.encodings)
        self.dropout = dropout
        self.use_bias = checks.choice("use_bias", use_bias, (True, False, "input"))
        self.output_size = _one_size(output_shape)
        self.flash_attention = flash_attention
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.seed = seed
        self.widths = {}
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None
        self.supports_masking = True

    def _encoding(self, spec):
        """The encoding of a spec; in a layer of float32 it is one of float32, whatever is usual."""
        usual = keras.config.dtype_policy().name == "float32"
        differs = self.dtype_policy.name == "float32" and not usual
        if differs and isinstance(spec, str):
            spec = {"name": spec}
        if differs and isinstance(spec, dict) and "class_name" not in spec:
            spec = {"dtype": "float32", **spec}
        return position_encodings.get(spec)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        shapes = {"query": query_shape, "key": key_shape, "value": value_shape}
        check_features(type(self).__name__, **shapes)
        heads, key_heads = (None, self.num_heads), (None, self.num_key_value_heads)
        self.query_dense = self._projection("query", query_shape, (*heads, self.key_dim))
        self.key_dense = self._projection("key", key_shape, (*key_heads, self.key_dim))
        if self.use_gate:
            gate_shape = *heads, self.value_dim
            self.gate_dense = self._projection("gate", query_shape, gate_shape, "sigmoid")
        self.value_dense = self._projection("value", value_shape, (*key_heads, self.value_dim))
        merged_shape = (*query_shape[:-1], self.num_heads, self.value_dim)
        output_size = self.output_size or query_shape[-1]
        self.output_dense = self._projection("attention_output", merged_shape, (None, output_size))
        for norm in (self.query_norm, self.key_norm) if self.head_norm else ():
            built(self, norm, (*query_shape[:-1], self.num_heads, self.key_dim))
        self._build_encodings(query_shape, key_shape)
        self.widths = {role: shape[-1] for role, shape in shapes.items()}
        self.built = True

    def _build_encodings(self, query_shape, key_shape):
        for encoding in self.hooks.projected:
            width = encoding.table_arguments(self.num_heads, self.key_dim)["shape"][-1]
            found = query_shape[-1], key_shape[-1]
            if found != (width, width):
                raise ValueError(
                    f"The shared table of {type(encoding).__name__} has {width} features, "
                    "`num_heads` x `key_dim`, and is projected as queries and keys are, so these "
                    f"must have {width}, too: change `key_dim`, or leave `shared` out. Received: "
                    f"queries of {found[0]} and keys of {found[1]}"
                )
        for encoding in self.encodings:
            if not encoding.built:
                shapes = [(*query_shape[:-1], self.num_heads, self.key_dim)]
                shapes += [key_shape] if encoding in self.hooks.features else []
                shapes += [query_shape] if encoding in self.hooks.query_features else []
                built(self, encoding, *shapes)

    def _projection(self, name, input_shape, output_shape, activation=None):
        merging = len(output_shape) == 2
        biased = self.use_bias is True if merging else bool(self.use_bias)
        dense = keras.layers.EinsumDense(
            "bthd,hde->bte" if merging else "btd,dhe->bthe",
            output_shape=output_shape,
            activation=activation,
            bias_axes=("e" if merging else "he") if biased else None,
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
        norm = keras.saving.deserialize_keras_object({**self.head_norm, "config": config})
        norm.supports_masking = True  # else Keras warns that the mask of the queries is lost
        return norm

    def make_cache(self, batch_size, length):
        """Makes an empty key-value cache, to be passed as the argument `cache` of a call.

        Args:
            batch_size: int, B.
            length: int. Number of positions that it has room for.

        Returns:
            A tuple of tensors: keys, values, padding mask and number of keys so far.
        """
        if not all(encoding.built for encoding in self.hooks.features):
            raise ValueError(
                "What this layer keeps of a key is only known once it is built: call the layer, or "
                "its `build`, before `make_cache`."
            )
        served = self.num_heads // self.num_key_value_heads
        added = sum(encoding.feature_size for encoding in self.encodings)
        sizes = self.num_key_value_heads, self.key_dim + served * added, self.value_dim
        return empty_cache(batch_size, length, *sizes, self.compute_dtype)

    def __call__(self, query, value, *args, **kwargs):
        # Not in `call` alone: Keras makes two tensors of one array, or of one that is cast twice.
        if query is value and all(kwargs.get(x) is None for x in ("cache", "key_positions")):
            if kwargs.get("query_positions") is not None:
                kwargs["key_positions"] = kwargs["query_positions"]
        return super().__call__(query, value, *args, **kwargs)

    def rematerialized_call(self, layer_call, *args, **kwargs):
        layer_call = backend.bind_keywords(layer_call, kwargs)
        again = super().rematerialized_call(layer_call, *args, **kwargs)
        return drawn_once(layer_call, again, self.dropout and kwargs.get("training"))

    @taking(Call)
    def call(self, *args, **kwargs):
        call = Call(*args, **kwargs)
        check_call(call, self)
        query = ops.cast(call.query, self.compute_dtype)
        key, value = (
            query if x is call.query else ops.cast(x, self.compute_dtype)
            for x in (call.key, call.value)
        )
        q, k, v, merge = self._project(query, key, value)
        queries, hooks = q, self.hooks
        if call.cache is not None and hooks.at_writing:
            grid = call.grid_to_write(q, k)
            for encoding in hooks.at_writing:
                q, k = encoding.heads(q, k, grid)
            hooks = hooks.after_writing()
        memory, new_cache = self._remember(call, key, k, v)
        k, v = memory.keys, memory.values
        if hooks.reads_keys or self.num_key_value_heads % backend.mesh_size("model"):
            k, v = (repeated_heads(x, self.num_heads) for x in (k, v))
        tables = self._tables(call) if call.tables else {}
        of_queries = {e: e.query_features(query) for e in hooks.query_features}
        content = Content(queries, None, None, memory.features, of_queries, tables)
        grid = call.grid(q, memory, content, self.sliding_window)
        rules = self._rules(call, hooks)
        output, scores, logits = attend(q, k, v, grid, rules, call.with_map)
        return call.result(merge(output), scores, logits, new_cache)

    def _project(self, query, key, value):
        """The heads q, k, v, and what makes the attention output (B, Tq, H, Dv) the layer's."""
        q, k = applied(self.query_dense, query), applied(self.key_dense, key)
        v = applied(self.value_dense, value)
        if self.head_norm:
            q, k = called(self.query_norm, q), called(self.key_norm, k)
        if not self.use_gate:
            return q, k, v, self._merge
        gate = applied(self.gate_dense, query)
        return q, k, v, lambda attended: self._merge(gate * attended)

    def _merge(self, attended):
        """The layer's output of heads (B, T, H, Dv)."""
        return applied(self.output_dense, attended, axes=2)

    def _remember(self, call, states, k, v):
        """The `Memory` that the queries attend to, and the cache that holds it, if there is one."""
        features = {e: ops.cast(e.features(states), k.dtype) for e in self.hooks.features}
        memory, cache = Memory(k, v, features, call.key_padding()).cleaned(), call.cache
        if cache is not None:  # all of it was cleaned when it was written
            by_cell = call.attention_mask is not None or call.bias is not None
            whole = call.with_map or by_cell or bool(self.hooks.scan)  # which counts the columns
            memory, cache = memory.after(cache, whole=whole)
        return memory, cache

    def _rules(self, call, hooks):
        """The `Rules` of a call, with dropout in training."""
        bias = call.bias
        if bias is not None:  # with an axis of rows and one of columns, to be cut
            bias = ops.convert_to_tensor(bias)
            bias = ops.reshape(bias, (*[1] * (4 - len(bias.shape)), *ops.shape(bias)))
        flash = self.flash_attention
        if flash is None:
            flash = keras.config.is_flash_attention_enabled()  # None, or False once disabled
        drops = {"dropout": self.dropout, "draws": self.seed_generator} if call.training else {}
        return Rules(hooks, 1 / math.sqrt(self.key_dim), bias, flash=flash, **drops)

    def _tables(self, call):
        """dict, encoding -> its table, as keys and as queries (2, P, H, D) where `projected`."""
        tables = dict(zip(self.hooks.shared, call.tables, strict=True))
        for encoding in self.hooks.projected:
            rows = ops.cast(tables[encoding], self.compute_dtype)[None]
            as_keys = repeated_heads(self.key_dense(rows), self.num_heads)
            tables[encoding] = ops.concatenate([as_keys, self.query_dense(rows)])
        return tables

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return (*query_shape[:-1], self.output_size or query_shape[-1])

    def compute_output_spec(self, *args, **kwargs):
        call = Call(*args, **kwargs)
        check_call(call, self)
        shape = self.compute_output_shape(call.query.shape, call.value.shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        sizes = call.query.shape[0], self.num_heads, call.query.shape[1], call.num_keys
        scores, cache = keras.KerasTensor(sizes, dtype="float32"), call.cache
        if cache is not None:
            cache = tuple(keras.KerasTensor(x.shape, x.dtype) for x in cache)
        return call.result(output, scores, scores, cache)

    def get_config(self):
        config = {
            **super().get_config(),
            "encodings": [_unbuilt(e) for e in self.encodings],
            "output_shape": self.output_size,
        }
        parts = [getattr(self, name) for name in dir(self) if name.endswith("_dense")]
        return with_quantized_parts(config, self, parts)


def _unbuilt(encoding):
    """Serialised to be built again by its attention layer, so that its weights keep their paths."""
    config = keras.saving.serialize_keras_object(encoding)
    config.pop("build_config", None)
    return config


def _one_size(output_shape):
    """The output size, also from a tuple of one, as Keras' layer takes it."""
    if isinstance(output_shape, (list, tuple)) and len(output_shape) == 1:
        output_shape = output_shape[0]
    if output_shape is not None and not isinstance(output_shape, int):
        raise ValueError(f"`output_shape` must be one size. Received: {output_shape!r}")
    return output_shape
