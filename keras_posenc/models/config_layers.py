"""The layers that a config asks for, and whether a checkpoint can hold as many."""

import dataclasses
import math
import warnings

from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.attention.layer import PositionalAttention
from keras_posenc.layers import activations
from keras_posenc.layers.experts import MixtureOfExperts
from keras_posenc.layers.feedforward import FeedForward
from keras_posenc.layers.norm import normalization
from keras_posenc.layers.token_embedding import TokenEmbedding
from keras_posenc.models.families import FAMILIES

# A config may ask for this much more than the file has. Then the report lists what is missing.
SLACK = 2**20  # numbers
LAYERS = 64


def check_size(config, loader):
    """Raises ValueError if a checkpoint cannot hold the model of a config by far.

    `loader`: `Loader` of the checkpoint.
    """
    checkpoint, blocks = loader.checkpoint, config.num_hidden_layers
    rows = FAMILIES[config.family].table(config).rows.values()
    if config.num_hidden_groups or not any("{i}" in str(row) for row in rows):  # shared by layers
        blocks = config.num_hidden_groups or 1
    elif blocks > len(checkpoint) + LAYERS:
        raise ValueError(
            f"num_hidden_layers={blocks} is more than {checkpoint} holds, which has "
            f"{len(checkpoint)} tensors. Is it the config of this checkpoint?"
        )
    embedding = config.embedding_size or config.hidden_size
    experts = (config.experts or {}).get("num_experts", 1)
    heads = config.num_attention_heads * config.value_size
    parts = {
        "vocab_size": config.vocab_size * embedding,
        "intermediate_size": blocks * experts * config.hidden_size * config.intermediate_size,
        "num_attention_heads": blocks * config.hidden_size * heads,
        "segment_vocab_size": config.segment_vocab_size * embedding,
    }
    if config.position_table:
        parts["max_position"] = config.max_position * embedding
    available = sum(math.prod(checkpoint.shape(name)) for name in checkpoint)
    for key, numbers in parts.items():
        if numbers > 2 * available + SLACK:
            raise ValueError(
                f"{key}={getattr(config, key)} asks for {numbers:,} numbers, and {checkpoint} "
                f"holds {available:,}. Is it the config of this checkpoint?"
            )


def fit_labels(config, loader, head):
    """The config with as many labels as the head in the checkpoint has, whatever it names itself.

    `loader`: `Loader` of the checkpoint. `head`: `TaskHead`, or the name of a task.
    """
    head = config.heads[head] if isinstance(head, str) else head
    if head.output == "Span-Output":
        return config
    rows = _rows(loader, f"{head.output}/bias") or _rows(loader, f"{head.output}/kernel")
    source = dict(config.source or {})
    named, count = source.get("id2label"), source.pop("num_labels", None)
    num_labels = len(named) if isinstance(named, dict) else count or 2
    if rows is None or rows == num_labels:
        return config
    if named is not None or count is not None:
        warnings.warn(
            f"The config names {num_labels} labels, and the head in {loader.checkpoint} has "
            f"{rows}: the head's size is used, with the labels LABEL_0 to LABEL_{rows - 1}. "
            "Correct `id2label` to give them names.",
            stacklevel=3,
        )
    labels = {str(i): f"LABEL_{i}" for i in range(rows)}
    source |= {"id2label": labels, "label2id": {name: int(i) for i, name in labels.items()}}
    return dataclasses.replace(config, source=source)


def _rows(loader, variable):
    """How many outputs a variable of a head has in the checkpoint, or None."""
    for place in loader.table.names(variable):
        if place.name in loader.checkpoint:
            shape = loader.checkpoint.shape(place.name)
            return shape[0 if place.transposed else -1] if shape else None
    return None


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
