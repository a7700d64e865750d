"""EuroBERT: Llama's block with bidirectional attention."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.rope import ROPE_KEYS, rotary
from keras_posenc.models.families.weight_rows import llama_block, table

LLAMA_ALIASES = {
    "rms_norm_eps": "layer_norm_eps",
    "attention_dropout": "attention_dropout_rate",
    "head_dim": "attention_head_size",
    "mlp_bias": "feed_forward_bias",
}
LLAMA_DEFAULTS = {
    "hidden_act": "silu",
    "segment_vocab_size": 0,
    "layer_norm_eps": 1e-6,
    "norm": "pre",
    "norm_type": "rms_norm",
    "embedding_norm": False,
    "attention_bias": False,
    "feed_forward_bias": False,
    "mlm_dense": False,
    "mlm_bias": False,
    "tie_word_embeddings": False,
    "position_table": False,
}


def configure(config):
    """Rotary positions, and a gated unit."""
    return dataclasses.replace(
        config,
        hidden_act=[config.hidden_act, "linear"],
        mlm_bias=bool(config.feed_forward_bias),
        encodings=(rotary(config),),
    )


FAMILY = Family(
    name="eurobert",
    title="EuroBERT",
    model_types=("eurobert",),
    weights=table(
        "eurobert",
        {
            "Embedding-Token": ("@embed_tokens", "table"),
            **llama_block(),
            "Final-Norm": ("@norm", "norm"),
            "MLM-Output": ("lm_head", "dense"),
            "MLM-Bias": ("lm_head", "bias"),
        },
        prefixes=("model.", ""),
        classes={"eurobert": "EuroBert"},
    ),
    configure=configure,
    aliases=LLAMA_ALIASES,
    defaults={**LLAMA_DEFAULTS, "max_position": 8192, "layer_norm_eps": 1e-5},
    keys=ROPE_KEYS,
    # A head of labels is not built.
    required={"tie_word_embeddings": (True, False, None), "classifier_pooling": None},
    positions="rotary",
    paper="https://arxiv.org/abs/2503.05500",
)
