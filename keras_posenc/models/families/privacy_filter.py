"""OpenAI's privacy filter: local layers with sinks, and a mixture of experts; it tags tokens."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.llama import LLAMA_ALIASES, LLAMA_DEFAULTS
from keras_posenc.models.families.rope import ROPE_KEYS, rotary
from keras_posenc.models.families.task_heads import TOKENS
from keras_posenc.models.families.weight_rows import ATTENTION, FEED_FORWARD, attention, table

BLOCK = "@layers.{i}"
# What transformers takes for a file without `rope_parameters`.
YARN = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def configure(config):
    """Every layer sees a radius to both sides, and each head may attend to nothing."""
    source = config.source
    return dataclasses.replace(
        config,
        encodings=(
            rotary(config, 150000.0, layout="interleaved", default=YARN),
            "sink_logits",
            {"name": "window", "window": source.get("sliding_window", 128) + 1},
        ),
        experts={
            "num_experts": source.get("num_local_experts", source.get("num_experts", 128)),
            "experts_per_token": source.get("num_experts_per_tok", 4),
            "slope": source.get("swiglu_alpha", 1.702),
            "offset": 1.0,
            "limit": source.get("swiglu_limit", 7.0),
        },
    )


FAMILY = Family(
    name="privacy_filter",
    title="OpenAI privacy filter",
    model_types=("openai_privacy_filter",),
    weights=table(
        {
            "Embedding-Token": ("@embed_tokens", "table"),
            **attention(BLOCK, "self_attn", "q_proj k_proj v_proj o_proj", "input_layernorm"),
            f"{ATTENTION}/encoding_1": (f"{BLOCK}.self_attn", "sinks"),
            FEED_FORWARD: [(f"{BLOCK}.mlp.experts", "experts"), (f"{BLOCK}.mlp.router", "router")],
            f"{FEED_FORWARD}-Norm": (f"{BLOCK}.post_attention_layernorm", "norm"),
            "Final-Norm": ("@norm", "norm"),
            "Token-Output": ("score", "dense"),
        },
        prefixes=("model.", ""),
        classes={"openai_privacy_filter": "OpenAIPrivacyFilter"},
    ),
    configure=configure,
    aliases=LLAMA_ALIASES,
    defaults={
        **LLAMA_DEFAULTS,
        "layer_norm_eps": 1e-5,
        "max_position": 131072,
        "attention_head_size": 64,
        "attention_bias": True,
        "num_key_value_heads": 2,
        "pad_token_id": 199999,
    },
    keys=(
        "num_local_experts",
        "num_experts",
        "num_experts_per_tok",
        "swiglu_alpha",
        "swiglu_limit",
        "sliding_window",
        *ROPE_KEYS,
    ),
    # Of the training of a router.
    required={"router_aux_loss_coef": None, "output_router_logits": None},
    heads={"token_classification": TOKENS},
    positions="rotary with YaRN; windows and sinks",
    paper="https://huggingface.co/openai/privacy-filter",
)
