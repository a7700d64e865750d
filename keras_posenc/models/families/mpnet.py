"""MPNet: RoBERTa's table of positions, and T5's bias from one table for all layers."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.roberta import behind_padding
from keras_posenc.models.families.task_heads import heads
from keras_posenc.models.families.weight_rows import (
    TASK_ROWS,
    attention,
    bert_embeddings,
    feed_forward,
    mlm,
    table,
)

EMBEDDINGS = bert_embeddings()
del EMBEDDINGS["Embedding-Segment"]
BLOCK = "@encoder.layer.{i}"


def configure(config):
    """The table starts behind the padding id; the bias depends on distances."""
    buckets = config.source.get("relative_attention_num_buckets", 32)
    bias = {"name": "t5", "num_buckets": buckets, "shared": True}
    return dataclasses.replace(behind_padding(config), encodings=(bias,))


FAMILY = Family(
    name="mpnet",
    title="MPNet",
    model_types=("mpnet",),
    weights=table(
        "mpnet",
        {
            **EMBEDDINGS,
            "Embedding-Position-Shared-0": ("@encoder.relative_attention_bias", "shared_table"),
            **attention(f"{BLOCK}.attention", "attn.q", "attn.k", "attn.v", "attn.o", "LayerNorm"),
            **feed_forward(BLOCK, "intermediate.dense", "output.dense", "output.LayerNorm"),
            "Pooler-Dense": ("@pooler.dense", "dense"),
            **TASK_ROWS,
            "Sequence-Dense": ("classifier.dense", "dense"),
            "Sequence-Output": ("classifier.out_proj", "dense"),
            **mlm("lm_head.dense", "lm_head.layer_norm", "lm_head"),
        },
        prefixes=("mpnet.", ""),
        copies={
            "Embedding-Token/embeddings": ["lm_head.decoder.weight"],
            "MLM-Bias/bias": ["lm_head.decoder.bias"],
        },
        classes={"mpnet": "MPNet"},
    ),
    configure=configure,
    defaults={
        "hidden_act": "gelu",
        "segment_vocab_size": 0,
        "pad_token_id": 1,
        "mlm_act": "gelu",
    },
    keys=("relative_attention_num_buckets",),
    heads=heads(),
    positions="table, padding not counted; T5's buckets",
    paper="https://arxiv.org/abs/2004.09297",
)
