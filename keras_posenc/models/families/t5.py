"""The encoder of T5, T5 v1.1 and mT5: buckets of distances, one table for all layers."""

import dataclasses
import math

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.llama import WITHOUT_BIASES
from keras_posenc.models.families.weight_rows import attention, feed_forward, table


def configure(config):
    """The logits are not divided by sqrt(D), and the bias depends on distances."""
    source, act = config.source, config.hidden_act
    if config.model_type == "mt5" and not {"feed_forward_proj", "hidden_act"} & source.keys():
        act = "gated-gelu"
    gated = act.startswith("gated-")
    act = act.removeprefix("gated-")
    act = "gelu_new" if gated and act == "gelu" else act
    bias = {
        "name": "t5",
        "num_buckets": source.get("relative_attention_num_buckets", 32),
        "max_distance": source.get("relative_attention_max_distance", 128),
        "shared": True,
    }
    temperature = {"name": "temperature", "value": math.sqrt(config.key_size)}
    return dataclasses.replace(
        config, hidden_act=[act, "linear"] if gated else act, encodings=(temperature, bias)
    )


def weights(config=None):
    """The names of the weights; a plain feed-forward layer has one inner matrix."""
    gated = config is not None and isinstance(config.hidden_act, list)
    return GATED if gated else PLAIN


def _table(inner):
    first, second = "@encoder.block.{i}.layer.0", "@encoder.block.{i}.layer.1"
    bias = "@encoder.block.0.layer.0.SelfAttention.relative_attention_bias"
    return table(
        {
            "Embedding-Token": [("@shared", "table"), ("encoder.embed_tokens", "table")],
            "Embedding-Position-Shared-0": (bias, "shared_table"),
            **attention(first, "SelfAttention", "q k v o", "layer_norm"),
            **feed_forward(second, inner, "DenseReluDense.wo", "layer_norm"),
            "Final-Norm": ("@encoder.final_layer_norm", "norm"),
        },
        prefixes=("", "transformer."),
        unused=dict.fromkeys(("decoder.*", "transformer.decoder.*"), "the decoder")
        | dict.fromkeys(("lm_head.weight", "classification_head.*"), "the decoder's head"),
        classes={"t5": "T5Encoder", "mt5": "MT5Encoder"},
    )


PLAIN = _table("DenseReluDense.wi")
GATED = _table(("DenseReluDense.wi_0", "DenseReluDense.wi_1"))

FAMILY = Family(
    name="t5",
    title="T5 encoder",
    model_types=("t5", "mt5"),
    weights=weights,
    configure=configure,
    aliases={
        "d_model": "hidden_size",
        "d_kv": "attention_head_size",
        "d_ff": "intermediate_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "feed_forward_proj": "hidden_act",
        "layer_norm_epsilon": "layer_norm_eps",
        "dropout_rate": "dropout_rate",
    },
    defaults={"hidden_act": "relu", **WITHOUT_BIASES},
    keys=("relative_attention_num_buckets", "relative_attention_max_distance"),
    # Of a whole model the encoder is read.
    required={"is_encoder_decoder": None},
    positions="T5's buckets",
    paper="https://arxiv.org/abs/1910.10683",
)
