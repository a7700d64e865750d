"""From a `Config` to a functional graph, layer by layer, under bert4keras's layer names."""

import dataclasses
import functools

import keras
from keras import ops

from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.attention.shared_table import SharedTable
from keras_posenc.layers import activations
from keras_posenc.layers.dropout import Dropout
from keras_posenc.layers.embedding import AddTo, BiasAdd, TokenEmbedding
from keras_posenc.layers.feedforward import FeedForward
from keras_posenc.layers.norm import ConditionalLayerNormalization
from keras_posenc.positions import PaddedPositionIds
from keras_posenc.positions.stretched import STRETCHES, position_embedding
from keras_posenc.sublayers import Stored


@dataclasses.dataclass(frozen=True)
class Options:
    """What is built around the weights; every field is a keyword of `build_transformer_model`."""

    application: str = "encoder"
    stretch: str | None = None
    alpha: float | None = None
    kept_rows: int | None = None
    stretched_position: int | None = None
    encodings: tuple = ()  # a list of specs for every layer
    absolute_positions: bool = True
    position_ids: object = None
    with_pool: bool | str = False
    with_nsp: bool | str = False
    with_mlm: bool | str = False
    custom_position_ids: bool = False
    sequence_length: int | None = None
    shared_segment_embeddings: bool = False
    residual_attention_scores: bool = False
    attention_caches: dict | None = None
    layer_norm_cond: object = None
    layer_norm_cond_hidden_size: int | None = None
    layer_norm_cond_hidden_act: str = "linear"
    additional_input_layers: object = None
    layers: dict | None = None
    stored: object = None  # function (name, shape) -> array or None, the checkpoint's
    prefix: str = ""
    name: str | None = None


class Transformer:
    """A transformer as a functional model, with its layers at hand.

    Attributes:
        config: `Config` it was built from.
        family: str. Name of its model family.
        model: the `keras.Model`.
        inputs: list of its inputs. outputs: one tensor, or the list of the heads' tensors.
        layers: dict, layer name (without the prefix) -> layer; `layers=` of another model shares
            them.
        account: `Account` of the weights loaded, or None.
    """

    def __init__(self, config, options, family):
        self.config = config
        self.options = options
        self.family = family
        self.account = None
        self.layers = dict(options.layers or {})
        self._built()

    # --- Graph ---

    def _built(self):
        self.inputs = self._make_inputs()
        self.ids = self._position_ids()
        self.tables = []  # (config, tensor)
        x = self._embed()
        scores = None
        for i in range(self.config.num_hidden_layers):
            x, scores = self._block(x, i, scores)
        self.outputs = self._heads(x)
        extra = self.options.additional_input_layers
        extra = [] if extra is None else extra if isinstance(extra, (list, tuple)) else [extra]
        extra = [getattr(layer, "output", layer) for layer in extra]
        self.model = keras.Model([*self.inputs, *extra], self.outputs, name=self.options.name)
        self.model.transformer = self

    def _make_inputs(self):
        def ids(name):
            shape = (self.options.sequence_length,)
            return keras.Input(shape, dtype="int32", name=self.options.prefix + name)

        self.token_ids = ids("token_ids")
        self.segment_ids = ids("segment_ids") if self.config.segment_vocab_size else None
        self.position_ids = ids("position_ids") if self.options.custom_position_ids else None
        every = (self.token_ids, self.segment_ids, self.position_ids)
        return [x for x in every if x is not None]

    def _embed(self):
        config = self.config
        size = config.embedding_size or config.hidden_size
        tokens = self._layer(
            TokenEmbedding,
            "Embedding-Token",
            input_dim=config.vocab_size,
            output_dim=size,
            pad_token_id=config.pad_token_id,
            embeddings_initializer=self._initializer("Embedding-Token/embeddings"),
        )
        x = tokens(self.token_ids)
        if self.segment_ids is not None:
            x = self._layer(AddTo, "Embedding-Token-Segment")([x, self._segments(size)])
        if self.options.absolute_positions:
            x = self._absolute_positions(x, size)
        x = self._normalize(x, "Embedding-Norm")
        x = self._drop(x, "Embedding-Dropout")
        if size != config.hidden_size:
            x = self._dense("Embedding-Mapping", config.hidden_size)(x)
        return x

    def _absolute_positions(self, x, size):
        positions = self._layer(
            position_embedding,
            "Embedding-Position",
            input_dim=self.config.max_position,
            output_dim=size,
            stretch=self.options.stretch,
            alpha=self.options.alpha,
            kept_rows=self.options.kept_rows,
            max_position=self.options.stretched_position,
            embeddings_initializer=self._initializer("Embedding-Position/embeddings"),
        )
        if not isinstance(positions, STRETCHES[self.options.stretch]):
            raise ValueError(
                f"`layers` brings a {type(positions).__name__}, which is not what "
                f"stretch={self.options.stretch!r} needs: leave Embedding-Position out of `layers`."
            )
        return positions(x, self.ids)

    def _segments(self, size):
        if self.options.shared_segment_embeddings:
            return self.layers["Embedding-Token"](self.segment_ids)
        table = self._layer(
            keras.layers.Embedding,
            "Embedding-Segment",
            input_dim=self.config.segment_vocab_size,
            output_dim=size,
            embeddings_initializer=self._initializer("Embedding-Segment/embeddings"),
        )
        return table(self.segment_ids)

    def _position_ids(self):
        """The ids given as an input, or made of the tokens; None for 0, 1, 2, ..."""
        if self.position_ids is not None:
            return self.position_ids
        if self.options.position_ids is not None:
            given = self.options.position_ids
            make = functools.partial(_copied, given)
            layer = self._layer(make, "Embedding-Position-Ids")
            return layer(self.token_ids)
        if not self.config.padded_positions:
            return None
        pad = self.config.pad_token_id
        layer = self._layer(PaddedPositionIds, "Embedding-Position-Ids", pad_token_id=pad)
        return layer(self.token_ids)

    def _block(self, x, i, scores):
        config, name = self.config, f"Transformer-{i}-MultiHeadSelfAttention"
        attention = self._layer(
            PositionalAttention,
            name,
            num_heads=config.num_attention_heads,
            key_dim=config.key_size,
            value_dim=config.value_size,
            output_shape=config.hidden_size,
            encodings=self.options.encodings[i] if self.options.encodings else (),
            dropout=config.attention_dropout_rate,
            kernel_initializer=self._initializer(name),
        )
        arguments = self._who_attends(x)
        if attention.encodings and self.ids is not None:
            arguments.update(query_positions=self.ids, key_positions=self.ids)
        if tables := [self._table(e) for e in attention.encodings if e.shared]:
            arguments["tables"] = tables
        keys, values = self._cached(x, name)
        if self.options.residual_attention_scores:
            out, scores = attention(
                x, values, keys, bias=scores, return_attention_logits=True, **arguments
            )
        else:
            out = attention(x, values, keys, **arguments)
        out = self._drop(out, f"{name}-Dropout")
        x = self._normalize(self._layer(AddTo, f"{name}-Add")([x, out]), f"{name}-Norm")

        name = f"Transformer-{i}-FeedForward"
        feed_forward = self._layer(
            FeedForward,
            name,
            units=config.intermediate_size,
            activation=activations.get(config.hidden_act),
            kernel_initializer=self._initializer(name),
        )
        out = self._drop(feed_forward(x), f"{name}-Dropout")
        x = self._normalize(self._layer(AddTo, f"{name}-Add")([x, out]), f"{name}-Norm")
        return x, scores

    def _who_attends(self, x):
        """Causal for a language model; for UniLM the prompt sees itself, the answer its past
        too."""
        if self.options.application == "lm":
            return {"use_causal_mask": True}
        if self.options.application == "unilm":
            order = ops.cumsum(self.segment_ids, axis=1)
            return {"query_order": order, "key_order": order}
        return {}

    def _table(self, encoding):
        """The table that all encodings of this config share."""
        config = {k: v for k, v in encoding.get_config().items() if k != "name"}
        for known, table in self.tables:
            if known == config:
                return table
        layer = self._layer(
            SharedTable,
            f"Embedding-Position-Shared-{len(self.tables)}",
            encoding=encoding,
            num_heads=self.config.num_attention_heads,
            key_dim=self.config.key_size,
        )
        self.tables.append((config, layer(self.token_ids)))
        return self.tables[-1][1]

    def _cached(self, x, name):
        """What keys and values are made of: the block's input, behind its `attention_caches`."""
        caches = self.options.attention_caches or {}
        if name not in caches:
            return x, x
        return [
            self._layer(keras.layers.Concatenate, f"{name}-Cached-{part}", axis=1)([cache, x])
            for part, cache in zip(("Key", "Value"), caches[name], strict=True)
        ]

    # --- Heads ---

    def _heads(self, x):
        options, outputs = self.options, []
        if options.with_pool or options.with_nsp:
            activation = _activation(options.with_pool, "tanh")
            pooled = self._dense("Pooler-Dense", self.config.hidden_size, activation)(x[:, 0])
            if options.with_nsp:
                pooled = self._dense("NSP-Proba", 2, _activation(options.with_nsp, "softmax"))(
                    pooled
                )
            outputs.append(pooled)
        if options.with_mlm:
            size = self.config.embedding_size or self.config.hidden_size
            act = activations.get(self.config.hidden_act)
            x = self._dense("MLM-Dense", size, act[0] if isinstance(act, list) else act)(x)
            x = self._normalize(x, "MLM-Norm")
            x = self.layers["Embedding-Token"](x, reverse=True)
            x = self._layer(BiasAdd, "MLM-Bias")(x)
            activation = _activation(options.with_mlm, "softmax")
            x = self._layer(keras.layers.Activation, "MLM-Activation", activation=activation)(x)
            outputs.append(x)
        if not outputs:
            return x
        return outputs[0] if len(outputs) == 1 else outputs

    # --- Parts ---

    def _layer(self, make, name, **arguments):
        """The layer of this name: one given in `layers`, else a new one."""
        if name not in self.layers:
            self.layers[name] = make(**arguments, name=self.options.prefix + name)
        return self.layers[name]

    def _dense(self, name, units, activation=None):
        return self._layer(
            keras.layers.Dense,
            name,
            units=units,
            activation=activation,
            kernel_initializer=self._initializer(f"{name}/kernel"),
        )

    def _drop(self, x, name):
        if not self.config.dropout_rate:
            return x
        return self._layer(Dropout, name, rate=self.config.dropout_rate)(x)

    def _normalize(self, x, name):
        options, epsilon = self.options, self.config.layer_norm_eps
        if options.layer_norm_cond is None:
            return self._layer(keras.layers.LayerNormalization, name, epsilon=epsilon)(x)
        layer = self._layer(
            ConditionalLayerNormalization,
            name,
            epsilon=epsilon,
            hidden_size=options.layer_norm_cond_hidden_size,
            hidden_act=options.layer_norm_cond_hidden_act,
            kernel_initializer=self._initializer(),
        )
        return layer(x, options.layer_norm_cond)

    def _initializer(self, name=None):
        """Of the weight, or the layer of weights, of this name in a checkpoint; None: in none."""
        if self.options.stored is None or name is None:
            return keras.initializers.TruncatedNormal(stddev=self.config.initializer_range)
        return Stored(self.config.initializer_range, self.options.stored, name)


def _copied(layer, name):
    """A layer of the same config under another name."""
    return type(layer).from_config({**layer.get_config(), "name": name})


def _activation(choice, default):
    """The activation of a head that was asked for by True, by a name or by a function."""
    return choice if isinstance(choice, str) or callable(choice) else default
