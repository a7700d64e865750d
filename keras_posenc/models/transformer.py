"""From a `Config` to a functional graph, layer by layer, under bert4keras's layer names."""

import functools

import keras
from keras import ops

from keras_posenc.attention.shared_table import SharedTable
from keras_posenc.keras_support.nested_layers import Stored
from keras_posenc.layers import activations
from keras_posenc.layers.block import Block, block_parts
from keras_posenc.layers.dropout import Dropout
from keras_posenc.layers.norm import ConditionalLayerNormalization, normalization
from keras_posenc.layers.short_convolution import ShortConvolution
from keras_posenc.layers.token_embedding import AddTo, BiasAdd, IdEmbedding, MaskTokenDropout
from keras_posenc.models import config_layers
from keras_posenc.models.heads import add_head
from keras_posenc.models.model import TransformerModel
from keras_posenc.positions import PaddedPositionIds
from keras_posenc.positions.stretched import STRETCHES, position_embedding

ATTENTION = "MultiHeadSelfAttention"
CONVOLUTION = "ShortConvolution"
UNIT = "GatedAttentionUnit"


class Transformer:
    """A transformer as a functional model, with access to its layers.

    A subclass changes the graph by overriding `embed`, `block` or `heads`. It makes its layers with
    `layer`, so that they can be shared and filled from a checkpoint. `build_transformer_model` uses
    the class of the `Family` (see `register_family`). These methods can be called again on an
    existing transformer, to build another graph of its layers, for example without some blocks.

    Args:
        config: `Config`.
        options: `Options`.
        family: str. Name of the model family.
        table: `Table` of the names of the weights in checkpoints, or None.

    Attributes:
        config, options, family, table: The arguments.
        model: `keras.Model`. The functional model.
        inputs: list. Its inputs.
        outputs: One tensor, or the list of the heads' tensors.
        token_ids, segment_ids, position_ids: The inputs; None if there is no such input.
        ids: Tensor of position ids, or None for 0, 1, 2, ...
        layers: dict. Maps the name of a layer (without the prefix) to the layer. Pass it as
            `layers=` to share them with another model.
        account: `Account` or None. The weight-mapping report.

    Example:

    >>> class WithoutNorm(Transformer):
    ...     def embed(self):
    ...         return self.layer(keras.layers.Embedding, "Embedding-Token", input_dim=40,
    ...             output_dim=16, embeddings_initializer=self.initializer())(self.token_ids)
    """

    def __init__(self, config, options, family, table=None):
        self.config = config
        self.options = options
        self.family = family
        self.table = table
        self.account = None
        self.layers = dict(options.layers or {})
        self.inputs = self._make_inputs()
        self.ids = self._position_ids()
        self.tables = []  # (config, tensor)
        x = self.embed()
        scores = None
        for i in range(self.config.num_hidden_layers):
            x, scores = self.block(x, i, scores)
        if self.config.norm != "post":
            x = self.normalize(x, "Final-Norm")
        self.outputs = self.heads(x)
        extra = self.options.additional_input_layers
        extra = [] if extra is None else extra if isinstance(extra, (list, tuple)) else [extra]
        extra = [getattr(layer, "output", layer) for layer in extra]
        self.model = TransformerModel(
            [*self.inputs, *extra], self.outputs, name=self.options.name, transformer=self
        )

    # --- Graph ---

    def _make_inputs(self):
        def ids(name):
            shape = (self.options.sequence_length,)
            return keras.Input(shape, dtype="int32", name=self.options.prefix + name)

        self.token_ids = ids("token_ids")
        self.segment_ids = ids("segment_ids") if self.config.segment_vocab_size else None
        self.position_ids = ids("position_ids") if self.options.custom_position_ids else None
        every = (self.token_ids, self.segment_ids, self.position_ids)
        return [x for x in every if x is not None]

    def embed(self):
        """Computes the embeddings (B, T, D) of `token_ids`, `segment_ids` and `ids`."""
        config = self.config
        size = config.embedding_size or config.hidden_size
        x = self.layer(
            config_layers.token_embedding,
            "Embedding-Token",
            config=config,
            initializer=self.initializer("Embedding-Token/embeddings"),
        )(self.token_ids)
        if config.zeroed_token_id is not None:
            x = self.layer(
                MaskTokenDropout,
                "Embedding-Token-Dropout",
                mask_token_id=config.zeroed_token_id,
                pad_token_id=config.pad_token_id,
            )([x, self.token_ids])
        if config.embedding_scale is not None:
            scale = config.embedding_scale
            x = self.layer(keras.layers.Rescaling, "Embedding-Scale", scale=scale)(x)
        if self.segment_ids is not None:
            x = self.layer(AddTo, "Embedding-Token-Segment")([x, self._segments(size)])
        if self.options.absolute_positions:
            x = self._absolute_positions(x, size)
        if config.embedding_norm:
            x = self.normalize(x, "Embedding-Norm")
        x = self.drop(x, "Embedding-Dropout")
        if size != config.hidden_size or config.embedding_mapping:
            x = self.dense("Embedding-Mapping", config.hidden_size)(x)
        return x

    def _absolute_positions(self, x, size):
        extension = self.options.extension
        stretch = extension and extension.table
        positions = self.layer(
            position_embedding,
            "Embedding-Position",
            input_dim=self.config.max_position,
            output_dim=size,
            stretch=stretch,
            alpha=extension and extension.alpha,
            kept_rows=extension and extension.kept_rows,
            max_position=self.options.max_position,
            embeddings_initializer=self.initializer("Embedding-Position/embeddings"),
        )
        if not isinstance(positions, STRETCHES[stretch]):
            raise ValueError(
                f"`layers` brings a {type(positions).__name__}, which is not what "
                f"{str(extension)!r} needs: leave Embedding-Position out of `layers`."
            )
        return positions(x, self.ids)

    def _segments(self, size):
        if self.options.shared_segment_embeddings:
            return self.layers["Embedding-Token"](self.segment_ids)
        return self.layer(
            IdEmbedding,
            "Embedding-Segment",
            input_dim=self.config.segment_vocab_size,
            output_dim=size,
            embeddings_initializer=self.initializer("Embedding-Segment/embeddings"),
        )(self.segment_ids)

    def _position_ids(self):
        """The ids given as an input, or made of the tokens; None for 0, 1, 2, ..."""
        if self.position_ids is not None:
            return self.position_ids
        make = functools.partial(PaddedPositionIds, pad_token_id=self.config.pad_token_id)
        if self.options.position_ids is not None:
            make = functools.partial(_copied, self.options.position_ids)
        elif not self.config.padded_positions:
            return None
        return self.layer(make, "Embedding-Position-Ids")(self.token_ids)

    def block(self, x, i, scores=None):
        """Applies block i.

        Args:
            x: (B, T, D).
            i: int, from 0 on.
            scores: logits of the previous block, (B, H, T, T), with `residual_attention_scores`.

        Returns:
            (B, T, D), and the logits of this block or None.
        """
        config, options, cond = self.config, self.options, self.options.layer_norm_cond
        groups = config.num_hidden_groups
        number = i if groups is None else i * groups // config.num_hidden_layers
        block_name = f"Transformer-{number}"
        gau = config.block == "gau"
        kind = UNIT if gau else ATTENTION
        if config.convolutions and config.convolutions[i]:
            kind = CONVOLUTION
        path = f"{block_name}-{kind}"

        def mix(name):
            initializer = self.initializer(path)
            if kind == CONVOLUTION:
                size = config.convolutions[i]
                return ShortConvolution(size, kernel_initializer=initializer, name=name)
            make = config_layers.gated_attention_unit if gau else config_layers.attention
            encodings = options.encodings[i] if options.encodings else ()
            return make(config, encodings, initializer, name, options.flash_attention)

        def feed_forward(name):
            initializer = self.initializer(f"{block_name}-FeedForward")
            return config_layers.feed_forward(config, initializer, name)

        if options.encodings and kind != CONVOLUTION and path in self.layers:
            _check_shared(self.layers[path], mix(path), i)
        sublayers = {kind: mix} if gau else {kind: mix, "FeedForward": feed_forward}
        parts = block_parts(sublayers, self._norm, config.norm, config.dropout_rate)
        if i == 0 and config.norm == "pre" and config.embedding_norm:
            del parts[f"{kind}-Norm"]  # the features come out of a norm
        block = Block(block_name, self.layers, parts, config.norm, options.prefix)
        condition = () if cond is None else (cond,)
        attend = functools.partial(self._attend, path=path, scores=scores)
        x = block.add(x, kind, None if kind == CONVOLUTION else attend, condition)
        x, scores = x if isinstance(x, tuple) else (x, None)
        return (x if gau else block.add(x, "FeedForward", condition=condition)), scores

    def _attend(self, attention, x, path, scores):
        arguments = self._mask_arguments()
        if (attention.encodings or self.options.packed) and self.ids is not None:
            queries = "positions" if self.config.block == "gau" else "query_positions"
            arguments.update({queries: self.ids, "key_positions": self.ids})
        if self.options.packed:
            arguments["packed"] = True
        if tables := [self._table(e) for e in attention.encodings if e.shared]:
            arguments["tables"] = tables
        if self.options.residual_attention_scores:
            arguments.update(bias=scores, return_attention_logits=True)
        if self.config.block == "gau":
            return attention(x, **arguments)
        keys, values = self._cached(x, path)
        return attention(x, values, keys, **arguments)

    def _mask_arguments(self):
        """Causal for a language model; for UniLM the prompt sees itself, the answer its past
        too."""
        if self.options.application == "unilm":
            order = ops.cumsum(self.segment_ids, axis=1)
            return {"query_order": order, "key_order": order}
        causal = self.config.causal or self.options.application == "lm"
        return {"use_causal_mask": True} if causal else {}

    def _table(self, encoding):
        """The table that all encodings of this config share."""
        config = {k: v for k, v in encoding.get_config().items() if k != "name"}
        for known, table in self.tables:
            if known == config:
                return table
        name = f"Embedding-Position-Shared-{len(self.tables)}"
        table = self.layer(
            SharedTable,
            name,
            encoding=encoding,
            num_heads=self.config.num_attention_heads,
            key_dim=self.config.key_size,
        )(self.token_ids)
        if self.config.table_norm:
            table = self.drop(self.normalize(table, f"{name}-Norm"), f"{name}-Dropout")
        self.tables.append((config, table))
        return self.tables[-1][1]

    def _cached(self, x, name):
        """What keys and values are made of: the block's input, behind its `attention_caches`."""
        caches = self.options.attention_caches or {}
        if name not in caches:
            return x, x
        return [
            self.layer(keras.layers.Concatenate, f"{name}-Cached-{part}", axis=1)([cache, x])
            for part, cache in zip(("Key", "Value"), caches[name], strict=True)
        ]

    # --- Heads ---

    def heads(self, x):
        """Computes the outputs of the model: the features x (B, T, D), or the heads on them."""
        options, outputs = self.options, []
        if options.with_pool or options.with_nsp:
            activation = _activation(options.with_pool, "tanh")
            pooled = self.dense("Pooler-Dense", self.config.hidden_size, activation)(x[:, 0])
            if options.with_nsp:
                activation = _activation(options.with_nsp, "softmax")
                pooled = self.dense("NSP-Proba", 2, activation)(pooled)
            outputs.append(pooled)
        if options.with_discriminator:
            act = activations.get(self.config.hidden_act)
            replaced = self.dense("Discriminator-Dense", self.config.hidden_size, act)(x)
            act = _activation(options.with_discriminator, "sigmoid")
            outputs.append(self.dense("Discriminator-Proba", 1, act)(replaced))
        if options.with_mlm:
            x = self._token_logits(x)
            activation = _activation(options.with_mlm, "softmax")
            x = self.layer(keras.layers.Activation, "MLM-Activation", activation=activation)(x)
            outputs.append(x)
        if options.head is not None:
            count = 2 if options.head.output == "Span-Output" else len(self.config.label_names)
            outputs.append(add_head(options.head, x, count, self))
        if not outputs:
            return x
        return outputs[0] if len(outputs) == 1 else outputs

    def _token_logits(self, x):
        config = self.config
        if config.mlm_dense:
            size = config.embedding_size or config.hidden_size
            act = activations.get(config.mlm_act or config.hidden_act)
            act = act[0] if isinstance(act, list) else act
            x = self.dense("MLM-Dense", size, act, config.mlm_dense != "without_bias")(x)
            x = self.normalize(x, "MLM-Norm")
        if config.tie_word_embeddings:
            x = self.layers["Embedding-Token"](x, reverse=True)
        else:
            x = self.dense("MLM-Output", config.vocab_size, use_bias=False)(x)
        return self.layer(BiasAdd, "MLM-Bias")(x) if config.mlm_bias else x

    # --- Parts ---

    def layer(self, make, name, **arguments):
        """Returns the layer of this name: the one in `layers`, else a new one.

        Args:
            make: function of `name` and `arguments` that makes the layer.
            name: str, without the prefix.
            **arguments: further arguments of `make`.

        Returns:
            A layer.
        """
        if name not in self.layers:
            self.layers[name] = make(**arguments, name=self.options.prefix + name)
        return self.layers[name]

    def dense(self, name, units, activation=None, use_bias=True):
        """Returns the `keras.layers.Dense` of this name."""
        return self.layer(
            keras.layers.Dense,
            name,
            units=units,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=self.initializer(f"{name}/kernel"),
        )

    def normalize(self, x, name):
        """Applies the norm of this name, of the config's kind, to x."""
        cond = self.options.layer_norm_cond
        layer = self.layer(self._norm, name)
        return layer(x) if cond is None else layer(x, cond)

    def initializer(self, name=None):
        """Returns the initializer of a weight, or of the weights of a layer.

        Args:
            name: str. Its name in checkpoints; None for a weight that no checkpoint has.

        Returns:
            A Keras initializer.
        """
        if self.options.stored is None or name is None:
            return keras.initializers.TruncatedNormal(stddev=self.config.initializer_range)
        return Stored(self.config.initializer_range, self.options.stored, name)

    def drop(self, x, name, rate=None):
        """Applies dropout, by default at the config's rate; a rate of 0 has no layer."""
        rate = self.config.dropout_rate if rate is None else rate
        return self.layer(Dropout, name, rate=rate)(x) if rate else x

    def _norm(self, name):
        config, options = self.config, self.options
        if options.layer_norm_cond is None:
            return normalization(config.norm_type, config.layer_norm_eps, name=name)
        return ConditionalLayerNormalization(
            epsilon=config.layer_norm_eps,
            hidden_size=options.layer_norm_cond_hidden_size,
            hidden_act=options.layer_norm_cond_hidden_act,
            kernel_initializer=self.initializer(),
            name=name,
        )


def _copied(layer, name):
    """A layer of the same config under another name."""
    return type(layer).from_config({**layer.get_config(), "name": name})


def _activation(choice, default):
    """The activation of a head that was asked for by True, by a name or by a function."""
    return choice if isinstance(choice, str) or callable(choice) else default


def _check_shared(layer, wanted, i):
    """Refuses other encodings of a block than its layer has, which is that of an earlier block or
    was given."""
    has, asked = map(_encodings_of, (layer, wanted))
    if has != asked:
        raise ValueError(
            f"`encodings` of block {i} must be those of its layer {layer.name}, which is shared: "
            f"{[each['class_name'] for each in has]}. Received: "
            f"{[each['class_name'] for each in asked]}"
        )


def _encodings_of(layer):
    found = []
    for each in layer.get_config()["encodings"]:
        config = {k: v for k, v in each["config"].items() if k not in ("name", "dtype")}
        found.append({"class_name": each["class_name"], "config": config})
    return found
