"""NeoBERT: RMS pre-norms, rotary positions, gated units, projections packed by head."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.llama import LLAMA_DEFAULTS
from keras_posenc.models.families.rope import ROPE_KEYS, rotary
from keras_posenc.models.families.weight_rows import feed_forward, packed_attention, table

BLOCK = "@transformer_encoder.{i}"


def configure(config):
    """The inner size is two thirds of the file's, rounded up to a multiple of 8."""
    act = config.hidden_act
    return dataclasses.replace(
        config,
        intermediate_size=8 * -(-(2 * config.intermediate_size // 3) // 8),
        hidden_act=["silu" if act in ("SwiGLU", "swiglu") else act, "linear"],
        encodings=(rotary(config, layout="interleaved"),),
    )


FAMILY = Family(
    name="neobert",
    title="NeoBERT",
    model_types=("neobert",),
    weights=table(
        {
            "Embedding-Token": ("@encoder", "table"),
            **packed_attention(BLOCK, "qkv", "wo", "attention_norm", by_head=True),
            **feed_forward(BLOCK, {"packed": "ffn.w12", "activated": 0}, "ffn.w3", "ffn_norm"),
            "Final-Norm": ("@layer_norm", "norm"),
            "MLM-Output": ("decoder", "dense"),
            "MLM-Bias": ("decoder", "bias"),
        },
        prefixes=("model.", ""),
        unused={"*freqs_cis": "buffer"},
        classes={"neobert": "NeoBERT"},
        endings={"ForMaskedLM": "LMHead", "Model": ""},
    ),
    configure=configure,
    aliases={"norm_eps": "layer_norm_eps", "max_length": "max_position"},
    defaults={**LLAMA_DEFAULTS, "max_position": 4096, "mlm_bias": True},
    keys=ROPE_KEYS,
    rescales=False,
    positions="rotary, neighbouring features",
    compared="its published code",
    paper="https://arxiv.org/abs/2502.19587",
)
