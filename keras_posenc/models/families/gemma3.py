"""Gemma 3, also as EmbeddingGemma: local and global layers, norms on both sides of a sublayer."""

import dataclasses
import math

from keras_posenc.models.families.family import BIDIRECTIONAL, Family
from keras_posenc.models.families.llama import LLAMA_ALIASES, LLAMA_DEFAULTS
from keras_posenc.models.families.rope import GLOBAL, KEYS_OF_KINDS, LOCAL, layer_kinds, rotary
from keras_posenc.models.families.task_heads import last_token
from keras_posenc.models.families.weight_rows import ATTENTION, FEED_FORWARD, llama_block, table


def configure(config):
    """Five of six layers are local, with a rotary base of their own."""
    source, layers = config.source, config.num_hidden_layers
    every = source.get("sliding_window_pattern") or 6
    default = [LOCAL if (i + 1) % every else GLOBAL for i in range(layers)]
    kinds = layer_kinds(source, layers, default)
    window = {"name": "window", "window": _window(source, config.causal)}
    scale = math.sqrt(config.key_size / source.get("query_pre_attn_scalar", 256))
    temperature = [] if scale == 1 else [{"name": "temperature", "value": scale}]
    unscaled = dataclasses.replace(config, source={**source, "rope_scaling": None})
    local = rotary(unscaled, source.get("rope_local_base_freq") or 10000.0, kind=LOCAL)
    encodings = {
        LOCAL: [local, *temperature, window],
        GLOBAL: [rotary(config, source.get("rope_theta") or 1e6, kind=GLOBAL), *temperature],
    }
    return dataclasses.replace(
        config,
        hidden_act=[config.hidden_act, "linear"],
        embedding_scale=math.sqrt(config.hidden_size),
        encodings=tuple(encodings[kind] for kind in kinds),
    )


def _window(source, causal):
    """The keys that a token of a local layer sees to one side, with its own.

    The two keys that make attention bidirectional count the window in ways of their own.
    """
    window = source.get("sliding_window", 4096)
    if source.get(BIDIRECTIONAL):
        window = window // 2 + 1
    alone = not causal and not source.get(BIDIRECTIONAL)
    return window + (alone or source.get("is_causal") is False)


FAMILY = Family(
    name="gemma3",
    title="Gemma 3",
    model_types=("gemma3_text",),
    weights=table(
        {
            "Embedding-Token": ("@embed_tokens", "table"),
            **llama_block(),
            f"{ATTENTION}-Output-Norm": ("@layers.{i}.post_attention_layernorm", "norm"),
            f"{FEED_FORWARD}-Norm": ("@layers.{i}.pre_feedforward_layernorm", "norm"),
            f"{FEED_FORWARD}-Output-Norm": ("@layers.{i}.post_feedforward_layernorm", "norm"),
            f"{ATTENTION}/query_norm": ("@layers.{i}.self_attn.q_norm", "norm"),
            f"{ATTENTION}/key_norm": ("@layers.{i}.self_attn.k_norm", "norm"),
            "Final-Norm": ("@norm", "norm"),
            "Sequence-Output": ("score", "dense"),
        },
        prefixes=("model.", ""),
        copies={"Embedding-Token/embeddings": ["lm_head.weight"]},
        classes={"gemma3_text": "Gemma3"},
        endings={
            "ForMaskedLM": "ForCausalLM",
            "Model": "TextModel",
            "ForSequenceClassification": "TextForSequenceClassification",
        },
    ),
    configure=configure,
    aliases={**LLAMA_ALIASES, "hidden_activation": "hidden_act"},
    defaults={
        **LLAMA_DEFAULTS,
        "hidden_act": "gelu_pytorch_tanh",
        "max_position": 131072,
        "attention_head_size": 256,
        "norm": "both",
        "norm_type": "rms_norm_plus_one",
        "head_norm": True,
        "tie_word_embeddings": True,
        "causal": True,
    },
    keys=(
        "layer_types",
        "sliding_window",
        "sliding_window_pattern",
        "query_pre_attn_scalar",
        BIDIRECTIONAL,
        "rope_local_base_freq",
        "rope_theta",
        *KEYS_OF_KINDS,
    ),
    required={
        "attn_logit_softcapping": (None,),
        "final_logit_softcapping": (None,),
        "partial_rotary_factor": (1, None),
    },
    heads=last_token(),
    positions="rotary, local and global base; windows",
    paper="https://arxiv.org/abs/2509.20354",
)
