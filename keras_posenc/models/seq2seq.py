"""The original encoder-decoder Transformer, with any encodings in its attention layers."""

import dataclasses
import functools
import re

import keras
from keras import ops

from keras_posenc.arguments import checks
from keras_posenc.attention.key_values import Overwritten
from keras_posenc.layers.block import Block, block_parts
from keras_posenc.layers.dropout import Dropout
from keras_posenc.layers.norm import normalization
from keras_posenc.models import config_layers
from keras_posenc.models.config import Config
from keras_posenc.models.model import TransformerModel
from keras_posenc.positions.sinusoidal import SinusoidalPositionEmbedding

SELF, CROSS = "MultiHeadSelfAttention", "MultiHeadCrossAttention"


def build_encoder_decoder(
    vocab_size,
    hidden_size=512,
    num_hidden_layers=6,
    num_attention_heads=8,
    intermediate_size=2048,
    hidden_act="relu",
    dropout_rate=0.1,
    attention_dropout_rate=None,
    layer_norm_eps=1e-6,
    initializer_range=None,
    pad_token_id=0,
    absolute_positions=True,
    encodings=(),
    decoder_encodings=None,
    cross_encodings=(),
    name=None,
):
    """Builds an encoder-decoder Transformer, which maps a source sequence to a target sequence.

    Every sublayer f is LayerNorm(x + Dropout(f(x))). One table E is shared three times: source and
    target tokens enter as sqrt(d) E[token] + p[position], and the decoder's features x become the
    logits x E^T. Padding is masked in source and target, and the decoder is causal. The defaults
    are the published base model.

    Args:
        vocab_size: int. Size of the vocabulary that source and target share.
        hidden_size: int. d, even.
        num_hidden_layers: int. Number of blocks, each in the encoder and in the decoder.
        num_attention_heads: int.
        intermediate_size: int. Inner size of the feed-forward layers.
        hidden_act: activation of the feed-forward layers, or a list for gated ones.
        dropout_rate: float. Dropout of the embeddings and of every sublayer's output.
        attention_dropout_rate: float. Dropout of the attention weights; default that of `Config`.
        layer_norm_eps: float.
        initializer_range: float. Standard deviation of new weights; default d^-0.5, which gives
            embeddings and logits about unit variance.
        pad_token_id: int. The id of the padding token.
        absolute_positions: bool. Whether to add sinusoidal position embeddings.
        encodings: list of encodings of the self-attention layers; see `keras_posenc.encodings`.
        decoder_encodings: those of the decoder's self-attention; default `encodings`.
        cross_encodings: those of the attention from target to source. The positions of both start
            at 0.
        name: str. Name of the model.

    Returns:
        A functional `keras.Model` from [`source_ids` (B, S), `target_ids` (B, T)] to logits (B, T,
        V). Target inputs begin with a start token; the logits at each position predict the next
        token. `Generator` generates with it.

    Example:

    >>> model = build_encoder_decoder(100, hidden_size=32, num_hidden_layers=2,
    ...     num_attention_heads=2, intermediate_size=64, encodings=["rotary"])
    >>> loss = SmoothedSparseCategoricalCrossentropy(0.1, from_logits=True, ignore_class=0)
    >>> model.compile(keras.optimizers.Adam(Noam(32, 400), 0.9, 0.98, 1e-9), loss)
    >>> source, target = np.array([[7, 8, 9, 2]]), np.array([[1, 9, 8, 7, 2]])
    >>> history = model.fit([source, target[:, :-1]], target[:, 1:], verbose=0)

    Reference: [Attention Is All You Need](https://arxiv.org/abs/1706.03762); the shared table is
    from [Using the Output Embedding](https://arxiv.org/abs/1608.05859).
    """
    config = Config(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=num_hidden_layers,
        num_attention_heads=num_attention_heads,
        intermediate_size=intermediate_size,
        hidden_act=hidden_act,
        dropout_rate=dropout_rate,
        attention_dropout_rate=attention_dropout_rate,
        layer_norm_eps=layer_norm_eps,
        pad_token_id=pad_token_id,
    )
    deviation = config.hidden_size**-0.5 if initializer_range is None else initializer_range
    config = dataclasses.replace(config, initializer_range=deviation)
    checks.whole("num_hidden_layers", num_hidden_layers)
    layers = _embedding_layers(config, absolute_positions)
    decoder_encodings = encodings if decoder_encodings is None else decoder_encodings
    for i in range(num_hidden_layers):
        layers += _block_layers(config, f"Encoder-{i}", {SELF: encodings})
        attention = {SELF: decoder_encodings, CROSS: cross_encodings}
        layers += _block_layers(config, f"Decoder-{i}", attention)
    parts = EncoderDecoder(layers)
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    logits = parts.decode(target_ids, parts.encode(source_ids))
    return TransformerModel([source_ids, target_ids], logits, name=name)


class EncoderDecoder:
    """The layers of an encoder-decoder by name, and its forward pass on symbolic or real tensors.

    `layers`: the layers of `build_encoder_decoder`, or `model.layers` of a loaded model. `depth`:
    int. Number of decoder blocks.
    """

    def __init__(self, layers):
        self.layers = {layer.name: layer for layer in layers}
        numbers = [re.fullmatch(r"Decoder-(\d+)-FeedForward", name) for name in self.layers]
        self.depth = sum(number is not None for number in numbers)
        if not self.depth or "Embedding-Token" not in self.layers:
            raise ValueError(
                "The model has no decoder: give a model that `build_encoder_decoder` made."
            )

    def encode(self, source_ids):
        """Encodes source ids (B, S) to features (B, S, d), with a Keras mask of the real tokens."""
        x = self._embed(source_ids, "Encoder-Embedding")
        for i in range(self.depth):
            block = Block(f"Encoder-{i}", self.layers)
            x = block.add(x, SELF, lambda layer, x: layer(x, x))
            x = block.add(x, "FeedForward")
        return x

    def decode(self, target_ids, memory):
        """Maps target ids (B, T) and memory (B, S, d) to logits (B, T, V) of each next token."""
        x = self._embed(target_ids, "Decoder-Embedding")
        for i in range(self.depth):
            block = Block(f"Decoder-{i}", self.layers)
            x = block.add(x, SELF, lambda layer, x: layer(x, x, use_causal_mask=True))
            x = block.add(x, CROSS, lambda layer, x: layer(x, memory))
            x = block.add(x, "FeedForward")
        return self.layers["Embedding-Token"](x, reverse=True)

    def make_caches(self, batch_size, source_length, target_length):
        """Returns empty caches for `step`: per block one of the target and one of the source."""
        lengths = {SELF: target_length, CROSS: source_length}
        return [
            tuple(
                Overwritten(*self.layers[f"Decoder-{i}-{kind}"].make_cache(batch_size, length))
                for kind, length in lengths.items()
            )
            for i in range(self.depth)
        ]

    def step(self, target_ids, place, caches, memory, memory_mask):
        """Decodes one more token per sequence, using the caches of the earlier ones.

        Args:
            target_ids: (B, 1).
            place: int or scalar tensor. Position of the token.
            caches: from `make_caches`, or from the previous step.
            memory: (B, S, d) at the first step, which caches its keys and values; (B, 0, d) later.
            memory_mask: (B, S), or (B, 0), bool.

        Returns:
            Logits (B, V), and the new caches.
        """
        x = self._embed(target_ids, "Decoder-Embedding", offset=place)
        here = ops.reshape(ops.cast(place, "int32"), (1,))
        later = []
        for i, (self_cache, cross_cache) in enumerate(caches):
            block = Block(f"Decoder-{i}", self.layers)
            of_source = {
                "value_mask": memory_mask,
                "cache": cross_cache,
                "query_positions": here,
                # Without these orders a cache implies causal attention.
                "query_order": ops.zeros((1, 1), "int32"),
                "key_order": ops.zeros((1, ops.shape(cross_cache.key_mask)[1]), "int32"),
            }
            x, self_cache = block.add(
                x, SELF, lambda layer, x, cache=self_cache: layer(x, x, cache=cache)
            )
            x, cross_cache = block.add(
                x, CROSS, lambda layer, x, options=of_source: layer(x, memory, **options)
            )
            x = block.add(x, "FeedForward")
            later.append((self_cache, cross_cache))
        return self.layers["Embedding-Token"](x, reverse=True)[:, 0], later

    def _embed(self, ids, name, offset=0):
        x = self.layers["Embedding-Scale"](self.layers["Embedding-Token"](ids))
        if "Embedding-Position" in self.layers:
            x = self.layers["Embedding-Position"](x, offset=offset)
        dropout = self.layers.get(f"{name}-Dropout")
        return x if dropout is None else dropout(x)


def _embedding_layers(config, absolute_positions):
    layers = [
        config_layers.token_embedding(config, _initializer(config), "Embedding-Token"),
        keras.layers.Rescaling(config.hidden_size**0.5, name="Embedding-Scale"),
    ]
    if absolute_positions:
        layers.append(SinusoidalPositionEmbedding(config.hidden_size, name="Embedding-Position"))
    names = ("Encoder-Embedding", "Decoder-Embedding")
    return [*layers, *(layer for name in names for layer in _dropout(config, name))]


def _block_layers(config, prefix, attentions):
    """The layers of one block: attention layers, given as kind -> encodings, and feed-forward."""

    def attention(name, encodings):
        return config_layers.attention(config, encodings, _initializer(config), name)

    def feed_forward(name):
        return config_layers.feed_forward(config, _initializer(config), name)

    sublayers = {k: functools.partial(attention, encodings=e) for k, e in attentions.items()}
    sublayers["FeedForward"] = feed_forward
    norm = functools.partial(normalization, config.norm_type, config.layer_norm_eps)
    block = Block(prefix, {}, block_parts(sublayers, norm, dropout=config.dropout_rate))
    block.make()
    return list(block.layers.values())


def _dropout(config, name):
    """A dropout layer, or none if the rate is 0."""
    rate = config.dropout_rate
    return [Dropout(rate, name=f"{name}-Dropout")] if rate else []


def _initializer(config):
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)
