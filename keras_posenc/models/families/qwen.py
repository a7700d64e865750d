"""Qwen2, Qwen2.5 and Qwen3, also as embedding models: rotary, grouped keys, causal or not."""

import dataclasses

from keras_posenc.models.families.llama import CAUSAL, LLAMA, TIED, llama_table, with_rotary
from keras_posenc.models.families.rope import ROPE_KEYS
from keras_posenc.models.families.weight_rows import ATTENTION


def configure(config):
    """Rotary positions; a window is refused."""
    kinds = config.source.get("layer_types") or []
    if config.source.get("use_sliding_window") or set(kinds) - {"full_attention"}:
        title = {"qwen2": "Qwen2", "qwen3": "Qwen3"}[config.family]
        raise ValueError(f"{title}'s sliding window is not supported: no published model uses it.")
    return with_rotary(config)


QWEN2 = dataclasses.replace(
    LLAMA,
    name="qwen2",
    title="Qwen2",
    model_types=("qwen2",),
    bidirectional=(),
    weights=llama_table("qwen2", {"qwen2": "Qwen2"}),
    configure=configure,
    defaults={**CAUSAL, "max_position": 32768, "attention_bias": "input"},
    keys=("use_sliding_window", "layer_types", *ROPE_KEYS),
    # Of a window that `configure` refuses.
    required={**TIED, "sliding_window": None},
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
    weights=llama_table(
        "qwen3", {"qwen3": "Qwen3", "bidirectional_pplx_qwen3": "PPLXQwen3"}, NORMS
    ),
    defaults={
        **CAUSAL,
        "max_position": 32768,
        "attention_head_size": 128,
        "head_norm": True,
    },
    paper="https://arxiv.org/abs/2505.09388",
)
