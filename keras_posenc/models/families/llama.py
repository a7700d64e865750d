"""Llama, Mistral, Ministral 3, Qwen and EuroBERT: causal, or models in which all tokens see all."""

import dataclasses

from keras_posenc.files.untrusted import quote
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.rope import ROPE_KEYS, rotary
from keras_posenc.models.families.task_heads import TASK_ROWS, TOKENS, TaskHead, last_token
from keras_posenc.models.families.weight_rows import ATTENTION, llama_block, table

LLAMA_ALIASES = {
    "rms_norm_eps": "layer_norm_eps",
    "attention_dropout": "attention_dropout_rate",
    "head_dim": "attention_head_size",
    "mlp_bias": "feed_forward_bias",
}
# Of pre-norm blocks without biases, as Llama's and T5's.
WITHOUT_BIASES = {
    "segment_vocab_size": 0,
    "layer_norm_eps": 1e-6,
    "norm": "pre",
    "norm_type": "rms_norm",
    "embedding_norm": False,
    "attention_bias": False,
    "feed_forward_bias": False,
    "mlm_dense": False,
    "mlm_bias": False,
    "position_table": False,
}
LLAMA_DEFAULTS = {"hidden_act": "silu", **WITHOUT_BIASES, "tie_word_embeddings": False}
CAUSAL = {**LLAMA_DEFAULTS, "pad_token_id": None, "causal": True}


def llama_table(classes, rows=None):
    """The names of the weights of a family with Llama's blocks.

    `classes`: as in `Table`. `rows`: dict, further rows.
    """
    return table(
        {
            "Embedding-Token": ("@embed_tokens", "table"),
            **llama_block(),
            **(rows or {}),
            "Final-Norm": ("@norm", "norm"),
            "MLM-Output": ("lm_head", "dense"),
            "Sequence-Output": ("score", "dense"),
            "Token-Output": ("score", "dense"),
        },
        prefixes=("model.", "transformer.", ""),
        classes=classes,
        endings={"ForMaskedLM": "ForCausalLM"},
    )


def with_rotary(config, *encodings, **rope):
    """Rotary positions, and a gated unit."""
    return dataclasses.replace(
        config,
        hidden_act=[config.hidden_act, "linear"],
        encodings=(rotary(config, **rope), *encodings),
    )


def windowed(config, *encodings, **rope):
    """Mistral's layers see a window; one that does not count the token's side counts one more."""
    window = config.source.get("sliding_window", 4096 if config.family == "mistral" else None)
    if window is not None:
        window = {"name": "window", "window": window + (not config.causal)}
        encodings = (*encodings, window)
    return with_rotary(config, *encodings, **rope)


# What transformers takes for a file without `rope_parameters`.
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "llama_4_scaling_beta": 0.1,
}


def scaled(config):
    """Ministral's queries grow with the logarithm of their position."""
    rope = config.source.get("rope_scaling") or config.source.get("rope_parameters") or YARN
    slope, length = "llama_4_scaling_beta", "original_max_position_embeddings"
    if slope not in rope or length not in rope:
        raise ValueError(
            f"Ministral 3 needs `rope_parameters` with `{slope}` and `{length}`. "
            f"Received: {quote(rope)}"
        )
    read = {"default": YARN, "read": (slope,)}
    value = rotary(config, **read)["scaling"].get(length, rope[length])  # by a key outside of it
    scale = {"name": "temperature", "kind": "llama4", "value": value, "offset": 0}
    return windowed(config, {**scale, "slope": rope[slope]}, **read)


LLAMA = Family(
    name="llama",
    title="Llama",
    model_types=("llama", "llama_bidirec"),
    bidirectional=("llama_bidirec",),
    weights=llama_table({"llama": "Llama", "llama_bidirec": "LlamaBidirectional"}),
    configure=with_rotary,
    aliases=LLAMA_ALIASES,
    defaults={**CAUSAL, "max_position": 2048},
    keys=ROPE_KEYS,
    # Of NVIDIA's embedding models, which pool the features outside of the model.
    required={"pooling": None, "temperature": None},
    heads={**last_token(), "token_classification": TOKENS},
    positions="rotary, causal",
    paper="https://arxiv.org/abs/2302.13971",
)
MISTRAL = dataclasses.replace(
    LLAMA,
    name="mistral",
    title="Mistral",
    model_types=("mistral",),
    bidirectional=(),
    weights=llama_table({"mistral": "Mistral"}),
    configure=windowed,
    defaults={**CAUSAL, "max_position": 131072, "num_key_value_heads": 8},
    keys=("sliding_window", *ROPE_KEYS),
    required={},
    positions="rotary, causal; a window",
    paper="https://arxiv.org/abs/2310.06825",
)
MINISTRAL = dataclasses.replace(
    MISTRAL,
    name="ministral3",
    title="Ministral 3",
    model_types=("ministral3",),
    weights=llama_table({"ministral3": "Ministral3"}),
    configure=scaled,
    defaults={
        **MISTRAL.defaults,
        "max_position": 262144,
        "attention_head_size": 128,
        "layer_norm_eps": 1e-5,
        "pad_token_id": 11,
    },
    positions="rotary with YaRN, causal; a temperature that grows with the position",
    paper="https://arxiv.org/abs/2601.08584",
)


def without_window(config):
    """Rotary positions; a window is refused."""
    kinds = config.source.get("layer_types") or []
    if config.source.get("use_sliding_window") or set(kinds) - {"full_attention"}:
        title = config.family.title()
        raise ValueError(f"{title}'s sliding window is not supported: no published model uses it.")
    return with_rotary(config)


QWEN2 = dataclasses.replace(
    LLAMA,
    name="qwen2",
    title="Qwen2",
    model_types=("qwen2",),
    bidirectional=(),
    weights=llama_table({"qwen2": "Qwen2"}),
    configure=without_window,
    defaults={**CAUSAL, "max_position": 32768, "attention_bias": "input"},
    keys=("use_sliding_window", "layer_types", *ROPE_KEYS),
    # Of a window that `without_window` refuses.
    required={"sliding_window": None},
    paper="https://arxiv.org/abs/2407.10671",
)
NORMS = {
    f"{ATTENTION}/query_norm": ("@layers.{i}.self_attn.q_norm", "norm"),
    f"{ATTENTION}/key_norm": ("@layers.{i}.self_attn.k_norm", "norm"),
}
QWEN3 = dataclasses.replace(
    QWEN2,
    name="qwen3",
    title="Qwen3",
    model_types=("qwen3", "bidirectional_pplx_qwen3"),
    bidirectional=("bidirectional_pplx_qwen3",),
    weights=llama_table({"qwen3": "Qwen3", "bidirectional_pplx_qwen3": "PPLXQwen3"}, NORMS),
    defaults={**CAUSAL, "max_position": 32768, "attention_head_size": 128, "head_norm": True},
    paper="https://arxiv.org/abs/2505.09388",
)


def with_bias(config):
    """The logits of tokens have a bias where the feed-forward layers have one."""
    return dataclasses.replace(with_rotary(config), mlm_bias=bool(config.feed_forward_bias))


def heads(config=None):
    """Logits of the features' mean, of the first token's, or the mean of all tokens' logits."""
    pooling = (config and config.source or {}).get("classifier_pooling", "late")
    late = pooling == "late"
    pooling = {"bos": "cls", "late": "mean"}.get(pooling, pooling)
    text = TaskHead("Sequence-Output", pooling, "Sequence-Dense", "gelu", late=late)
    return {"sequence_classification": text, "token_classification": TOKENS}


EUROBERT = Family(
    name="eurobert",
    title="EuroBERT",
    model_types=("eurobert",),
    weights=table(
        {
            "Embedding-Token": ("@embed_tokens", "table"),
            **llama_block(),
            "Final-Norm": ("@norm", "norm"),
            "MLM-Output": ("lm_head", "dense"),
            "MLM-Bias": ("lm_head", "bias"),
            **TASK_ROWS,
            "Sequence-Dense": ("dense", "dense"),
        },
        prefixes=("model.", ""),
        classes={"eurobert": "EuroBert"},
    ),
    configure=with_bias,
    aliases=LLAMA_ALIASES,
    defaults={**LLAMA_DEFAULTS, "max_position": 8192, "layer_norm_eps": 1e-5},
    keys=("classifier_pooling", *ROPE_KEYS),
    heads=heads,
    positions="rotary",
    paper="https://arxiv.org/abs/2503.05500",
)
