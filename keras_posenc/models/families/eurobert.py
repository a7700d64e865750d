"""EuroBERT: Llama's block with bidirectional attention."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.llama import LLAMA_ALIASES, LLAMA_DEFAULTS, TIED, with_rotary
from keras_posenc.models.families.rope import ROPE_KEYS
from keras_posenc.models.families.weight_rows import llama_block, table


def configure(config):
    """The logits of tokens have a bias where the feed-forward layers have one."""
    return dataclasses.replace(with_rotary(config), mlm_bias=bool(config.feed_forward_bias))


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
    required={**TIED, "classifier_pooling": None},
    positions="rotary",
    paper="https://arxiv.org/abs/2503.05500",
)
