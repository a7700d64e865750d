"""Qwen3, also as an embedding model: causal, grouped keys, normalised heads."""

import dataclasses

from keras_posenc.models.families.eurobert import LLAMA_ALIASES, LLAMA_DEFAULTS
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.rope import ROPE_KEYS, rotary
from keras_posenc.models.families.task_heads import last_token
from keras_posenc.models.families.weight_rows import ATTENTION, llama_block, table


def configure(config):
    """Rotary positions, and a gated unit."""
    kinds = config.source.get("layer_types") or []
    if config.source.get("use_sliding_window") or set(kinds) - {"full_attention"}:
        raise ValueError("Qwen3's sliding window is not supported: no published model uses it.")
    return dataclasses.replace(
        config,
        hidden_act=[config.hidden_act, "linear"],
        encodings=(rotary(config),),
    )


FAMILY = Family(
    name="qwen3",
    title="Qwen3",
    model_types=("qwen3",),
    weights=table(
        "qwen3",
        {
            "Embedding-Token": ("@embed_tokens", "table"),
            **llama_block(),
            f"{ATTENTION}/query_norm": ("@layers.{i}.self_attn.q_norm", "norm"),
            f"{ATTENTION}/key_norm": ("@layers.{i}.self_attn.k_norm", "norm"),
            "Final-Norm": ("@norm", "norm"),
            "MLM-Output": ("lm_head", "dense"),
            "Sequence-Output": ("score", "dense"),
        },
        prefixes=("model.", ""),
        copies={"Embedding-Token/embeddings": []},
        classes={"qwen3": "Qwen3"},
        endings={"ForMaskedLM": "ForCausalLM"},
    ),
    configure=configure,
    aliases=LLAMA_ALIASES,
    defaults={
        **LLAMA_DEFAULTS,
        "max_position": 32768,
        "pad_token_id": None,
        "attention_head_size": 128,
        "head_norm": True,
        "causal": True,
    },
    keys=("use_sliding_window", "layer_types", *ROPE_KEYS),
    # Of a window that `configure` refuses.
    required={"tie_word_embeddings": (True, False, None), "sliding_window": None},
    heads=last_token(),
    positions="rotary, causal",
    paper="https://arxiv.org/abs/2505.09388",
)
