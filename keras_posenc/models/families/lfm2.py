"""LFM2: short convolutions in most blocks, rotary attention in the others; causal."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.llama import CAUSAL
from keras_posenc.models.families.rope import GLOBAL, ROPE_KEYS, layer_kinds, rotary
from keras_posenc.models.families.weight_rows import (
    ATTENTION,
    CONVOLUTION,
    attention,
    feed_forward,
    table,
)

BLOCK = "@layers.{i}"


def configure(config):
    """Which blocks have a convolution, and how wide the feed-forward layers are."""
    source, layers = config.source, config.num_hidden_layers
    places = source.get("full_attn_idxs")
    default = [GLOBAL if places is None or i in places else "conv" for i in range(layers)]
    kinds = layer_kinds(source, layers, default, "conv")
    size = source.get("conv_L_cache", 3)
    return dataclasses.replace(
        config,
        hidden_act=["silu", "linear"],
        intermediate_size=_inner_size(config.intermediate_size, source),
        convolutions=tuple(size if kind == "conv" else 0 for kind in kinds),
        encodings=(rotary(config, 1e6),),
    )


def _inner_size(size, source):
    """Two thirds of the size in the file, times a factor, rounded up to a multiple."""
    if not source.get("block_auto_adjust_ff_dim", True):
        return size
    size, factor = int(2 * size / 3), source.get("block_ffn_dim_multiplier", 1.0)
    if factor is None:
        return size
    multiple = source.get("block_multiple_of", 256)
    return -(-int(factor * size) // multiple) * multiple


FAMILY = Family(
    name="lfm2",
    title="LFM2",
    model_types=("lfm2",),
    weights=table(
        {
            "Embedding-Token": ("@embed_tokens", "table"),
            **attention(BLOCK, "self_attn", "q_proj k_proj v_proj out_proj", "operator_norm"),
            f"{ATTENTION}/query_norm": (f"{BLOCK}.self_attn.q_layernorm", "norm"),
            f"{ATTENTION}/key_norm": (f"{BLOCK}.self_attn.k_layernorm", "norm"),
            CONVOLUTION: (f"{BLOCK}.conv.conv", "short_convolution"),
            f"{CONVOLUTION}/gates": (f"{BLOCK}.conv.in_proj", "dense"),
            f"{CONVOLUTION}/output": (f"{BLOCK}.conv.out_proj", "dense"),
            f"{CONVOLUTION}-Norm": (f"{BLOCK}.operator_norm", "norm"),
            **feed_forward(
                BLOCK, ("feed_forward.w1", "feed_forward.w3"), "feed_forward.w2", "ffn_norm"
            ),
            "Final-Norm": ("@embedding_norm", "norm"),
            "MLM-Output": ("lm_head", "dense"),
        },
        prefixes=("model.", ""),
        classes={"lfm2": "Lfm2"},
        endings={"ForMaskedLM": "ForCausalLM"},
    ),
    configure=configure,
    aliases={"norm_eps": "layer_norm_eps"},
    older={"tie_embedding": "tie_word_embeddings", "block_ff_dim": "intermediate_size"},
    defaults={
        **CAUSAL,
        "layer_norm_eps": 1e-5,
        "max_position": 128000,
        "num_key_value_heads": 8,
        "pad_token_id": 0,
        "head_norm": True,
        "tie_word_embeddings": True,
    },
    keys=(
        "layer_types",
        "full_attn_idxs",
        "conv_L_cache",
        "block_auto_adjust_ff_dim",
        "block_ffn_dim_multiplier",
        "block_multiple_of",
        *ROPE_KEYS,
    ),
    required={"conv_bias": (False, None)},
    positions="rotary, causal; short convolutions",
    paper="https://arxiv.org/abs/2511.23404",
)
