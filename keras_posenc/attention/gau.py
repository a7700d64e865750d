"""The gated attention unit: attention and feed-forward layer in one."""

import dataclasses
import itertools
from collections.abc import Sequence

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Activation, Encodings, Tensor
from keras_posenc.attention.call import check_features, listed, taking
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.keras_support.nested_layers import applied

# normalization -> the encodings that implement it, appended to those of the user.
NORMALIZATIONS = {
    "softmax": [],
    "softmax_plus": [{"name": "log_n", "train_length": 512, "variant": "softmax_plus"}],
    "squared_relu": ["squared_relu"],
}


@dataclasses.dataclass(eq=False)
class UnitCall:
    """The arguments of `GatedAttentionUnit.call`, whose signature it is."""

    inputs: Tensor
    mask: Tensor | None = None
    inputs_mask: Tensor | None = None  # the name that Keras gives it if there is a second tensor
    attention_mask: Tensor | None = None
    return_attention_scores: bool = False
    training: bool | None = None
    use_causal_mask: bool = False
    positions: Tensor | None = None
    key_positions: Tensor | None = None
    query_order: Tensor | None = None
    key_order: Tensor | None = None
    bias: Tensor | None = None
    return_attention_logits: bool = False
    cache: tuple | None = None
    tables: Sequence[Tensor] | None = None
    packed: bool = False

    def of_attention(self):
        """The arguments of `PositionalAttention.call`, with queries that are also the keys."""
        given = dict(vars(self))
        inputs, mask, inputs_mask = (given.pop(x) for x in ("inputs", "mask", "inputs_mask"))
        given["key_mask"] = inputs_mask if mask is None else mask
        given["query_positions"] = given.pop("positions")
        return {"query": inputs, "value": inputs, **given}


@keras.saving.register_keras_serializable(package="keras_posenc")
class GatedAttentionUnit(PositionalAttention):
    """Single-head attention with a gated output, replacing attention and feed-forward layer.

    The unit computes

        u, v, z = split(f(x W)),   q = a z + b,   k = c z + d,
        y = (u * (A v)) W_o,       A = normalize(q.k / sqrt(s)).

    `u` and `v` have `units` features, and z has s = `key_size`. The scales a, c and the offsets b,
    d are learned. Position encodings act on q, k and the logits as in `PositionalAttention`, with
    one head. The additive bias of the paper is not included: add "rotary_bias" to `encodings`.

    Args:
        units: int. Size of u and v, usually twice that of the input.
        key_size: int. Size s of q and k.
        activation: str or callable. The activation f.
        normalization: str. How logits become weights, with n the number of visible keys: "softmax",
            "softmax_plus" (softmax of the logits times ln max(n, 16) / ln 512) or "squared_relu"
            (max(logit, 0)^2 / n).
        encodings: list. Names, dicts or `Encoding` instances.
        **kwargs: Arguments of `PositionalAttention`: `dropout`, `use_bias`, `output_shape`,
            `flash_attention`, `sliding_window`, initializers, regularizers, constraints and `seed`.
            `use_bias=False` removes the offsets, too.

    Call arguments:
        inputs: (B, T, E).
        mask: (B, T) bool, False on padding. Set by Keras.
        positions: (T,) or (B, T) ids. Default: consecutive, continuing the cache.
        key_positions: ids of all keys in the cache, if there is one. Default: consecutive.
        attention_mask, use_causal_mask, query_order, key_order, bias, cache, tables, packed,
            return_attention_scores, return_attention_logits: as in `PositionalAttention`.

    Returns:
        (B, T, E); if scores, logits or a cache are requested, a tuple in that order.

    Example:

    >>> layer = GatedAttentionUnit(128, key_size=32, normalization="squared_relu")
    >>> layer(np.random.normal(size=(1, 10, 64))).shape
    (1, 10, 64)

    Reference: [Transformer Quality in Linear Time](https://arxiv.org/abs/2202.10447).
    """

    def __init__(
        self,
        units: int,
        key_size: int = 128,
        activation: Activation = "silu",
        normalization: str = "softmax",
        encodings: Encodings = (),
        **kwargs,
    ):
        checks.choice("normalization", normalization, NORMALIZATIONS)
        units, key_size = checks.whole("units", units), checks.whole("key_size", key_size)
        for name in ("head_norm", "num_key_value_heads"):
            if kwargs.get(name) is not None:
                raise ValueError(
                    f"A gated unit has one head: leave `{name}` out. Received: {kwargs[name]!r}"
                )
        if kwargs.pop("use_gate", False):
            raise ValueError(
                "A gated unit has a gate, u, in the place of that of attention: leave `use_gate` "
                "out. Received: True"
            )
        encodings = [*listed(encodings), *NORMALIZATIONS[normalization]]
        super().__init__(1, key_size, value_dim=units, encodings=encodings, **kwargs)
        for encoding in self.hooks.projected:
            raise ValueError(
                f"A gated unit has no projection of keys for a table of {type(encoding).__name__}: "
                "leave `shared` out. Received: shared=True"
            )
        self.units = units
        self.key_size = key_size
        self.activation = keras.activations.get(activation)
        self.normalization = normalization

    def build(self, inputs_shape):
        check_features(type(self).__name__, inputs=inputs_shape)
        size = 2 * self.units + self.key_size
        self.input_dense = self._projection("input", inputs_shape, (None, 1, size))
        merged_shape = (*inputs_shape[:-1], 1, self.units)
        output_size = self.output_size or inputs_shape[-1]
        self.output_dense = self._projection("attention_output", merged_shape, (None, output_size))
        for head in ("query", "key"):
            self._add_scale_and_offset(head)
        self._build_encodings(inputs_shape, inputs_shape)
        self.widths = {"query": inputs_shape[-1]}
        self.built = True

    def _add_scale_and_offset(self, head):
        kinds = {"scale": "ones"} | ({"offset": "zeros"} if self.use_bias else {})
        for kind, initializer in kinds.items():
            name = f"{head}_{kind}"
            setattr(self, name, self.add_weight((self.key_size,), initializer, name=name))

    def __call__(self, inputs, *args, **kwargs):
        # Skips the `__call__` of PositionalAttention, which takes a query and a value.
        return keras.layers.Layer.__call__(self, inputs, *args, **kwargs)

    @taking(UnitCall)
    def call(self, *args, **kwargs):
        return super().call(**UnitCall(*args, **kwargs).of_attention())

    def _project(self, query, key, value):
        projected = self.activation(applied(self.input_dense, query))
        ends = (self.units, 2 * self.units)
        if backend.is_exporting():  # on torch, the sizes of a split are not known there
            parts = itertools.pairwise((0, *ends, None))
            u, v, z = (projected[..., slice(*part)] for part in parts)
        else:  # gradients of slices are slow on TensorFlow
            u, v, z = backend.split(projected, list(ends), -1)
        q, k = (z * ops.cast(x, z.dtype) for x in (self.query_scale, self.key_scale))
        if self.use_bias:
            q, k = q + ops.cast(self.query_offset, q.dtype), k + ops.cast(self.key_offset, k.dtype)
        return q, k, v, lambda attended: self._merge(u * attended)

    def compute_output_shape(self, inputs_shape, *others):
        return super().compute_output_shape(inputs_shape, inputs_shape)

    def compute_output_spec(self, *args, **kwargs):
        return super().compute_output_spec(**UnitCall(*args, **kwargs).of_attention())

    def get_config(self):
        config = super().get_config()
        of_heads = "num_heads", "key_dim", "value_dim", "num_key_value_heads"
        for name in (*of_heads, "head_norm", "use_gate"):
            del config[name]
        added = len(NORMALIZATIONS[self.normalization])
        return {
            **config,
            "activation": keras.activations.serialize(self.activation),
            "encodings": config["encodings"][: len(config["encodings"]) - added],
        }
