"""The layers that a `Config` asks for, in an encoder, a decoder or an encoder-decoder."""

from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.layers import activations
from keras_posenc.layers.experts import MixtureOfExperts
from keras_posenc.layers.feedforward import FeedForward
from keras_posenc.layers.norm import normalization
from keras_posenc.layers.token_embedding import TokenEmbedding


def token_embedding(config, initializer, name):
    """The table of tokens, whose logits it computes too."""
    return TokenEmbedding(
        config.vocab_size,
        config.embedding_size or config.hidden_size,
        pad_token_id=config.pad_token_id,
        embeddings_initializer=initializer,
        name=name,
    )


def attention(config, encodings, initializer, name, flash_attention=None):
    """The attention layer of one block."""
    head_norm = normalization(config.norm_type, config.layer_norm_eps) if config.head_norm else None
    return PositionalAttention(
        config.num_attention_heads,
        config.key_size,
        value_dim=config.value_size,
        num_key_value_heads=config.num_key_value_heads,
        output_shape=config.hidden_size,
        encodings=encodings,
        dropout=config.attention_dropout_rate,
        use_bias=config.attention_bias,
        flash_attention=flash_attention,
        head_norm=head_norm,
        kernel_initializer=initializer,
        name=name,
    )


def gated_attention_unit(config, encodings, initializer, name, flash_attention=None):
    """Attention and feed-forward of one block in one layer."""
    return GatedAttentionUnit(
        config.intermediate_size,
        key_size=config.key_size,
        activation=activations.get(config.hidden_act),
        normalization=config.gau_normalization,
        encodings=encodings,
        dropout=config.attention_dropout_rate,
        use_bias=config.attention_bias,
        flash_attention=flash_attention,
        kernel_initializer=initializer,
        name=name,
    )


def feed_forward(config, initializer, name):
    """The feed-forward layer of one block, or its mixture of experts."""
    if config.experts is not None:
        return MixtureOfExperts(
            config.intermediate_size, **config.experts, kernel_initializer=initializer, name=name
        )
    return FeedForward(
        config.intermediate_size,
        activations.get(config.hidden_act),
        use_bias=config.feed_forward_bias,
        kernel_initializer=initializer,
        name=name,
    )


def norm(config, name):
    """A norm of the config's kind."""
    return normalization(config.norm_type, config.layer_norm_eps, name=name)
