"""RoBERTa, XLM-RoBERTa and CamemBERT, whose positions start behind the padding id; MPNet."""

import dataclasses

from keras_posenc.checkpoints.names import BERT, ROBERTA, decoder_copies
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.task_heads import TASK_ROWS_OF_ROBERTA, heads
from keras_posenc.models.families.weight_rows import (
    attention,
    bert_embeddings,
    feed_forward,
    mlm,
    table,
)

FAIRSEQ_TYPES = ("roberta", "xlm-roberta", "camembert")


def behind_padding(config):
    """The config with positions of real tokens only, that start behind the padding id."""
    if config.pad_token_id is None:
        raise ValueError("RoBERTa counts positions from its padding id: give `pad_token_id`.")
    offset = config.pad_token_id + 1
    return dataclasses.replace(
        config,
        position_offset=offset,
        max_position=config.max_position - offset,
        padded_positions=True,
    )


def like_fairseq(config):
    """BERT in Google's layout; fairseq's positions and head if Hugging Face's config has them."""
    if config.model_type not in FAIRSEQ_TYPES:
        return config
    pad, act = config.source.get("pad_token_id", 1), config.mlm_act or "gelu"
    return behind_padding(dataclasses.replace(config, pad_token_id=pad, mlm_act=act))


def weights(config=None):
    """The names of the weights; Google's layout has BERT's."""
    return ROBERTA if config is None or config.padded_positions else BERT


def task_heads(config=None):
    """The heads of RoBERTa; Google's layout has BERT's."""
    return heads() if config is None or config.padded_positions else heads("Pooler-Dense")


ROBERTA_FAMILY = Family(
    name="roberta",
    title="RoBERTa",
    model_types=FAIRSEQ_TYPES,
    weights=weights,
    configure=like_fairseq,
    without_type=True,
    heads=task_heads,
    positions="table, padding not counted",
    paper="https://arxiv.org/abs/1907.11692",
)


BLOCK = "@encoder.layer.{i}"


def with_buckets(config):
    """The table starts behind the padding id; the bias depends on distances."""
    buckets = config.source.get("relative_attention_num_buckets", 32)
    bias = {"name": "t5", "num_buckets": buckets, "shared": True}
    return dataclasses.replace(behind_padding(config), encodings=(bias,))


MPNET = Family(
    name="mpnet",
    title="MPNet",
    model_types=("mpnet",),
    weights=table(
        {
            **bert_embeddings("Embedding-Segment"),
            "Embedding-Position-Shared-0": ("@encoder.relative_attention_bias", "shared_table"),
            **attention(BLOCK, "attention.attn", "q k v o", "attention.LayerNorm"),
            **feed_forward(BLOCK, "intermediate.dense", "output.dense", "output.LayerNorm"),
            "Pooler-Dense": ("@pooler.dense", "dense"),
            **TASK_ROWS_OF_ROBERTA,
            **mlm("lm_head.dense", "lm_head.layer_norm", "lm_head"),
        },
        prefixes=("mpnet.", ""),
        copies=decoder_copies("lm_head"),
        classes={"mpnet": "MPNet"},
    ),
    configure=with_buckets,
    defaults={"hidden_act": "gelu", "segment_vocab_size": 0, "pad_token_id": 1, "mlm_act": "gelu"},
    keys=("relative_attention_num_buckets",),
    required={"pad_token_id": (1, None)},  # its positions are behind 1, whatever the config has
    heads=heads(),
    positions="table, padding not counted; T5's buckets",
    paper="https://arxiv.org/abs/2004.09297",
)
