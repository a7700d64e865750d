"""GTE v1.5 and multilingual, arctic-embed-m-v2: BERT with rotary positions and a gated unit."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.rope import ROPE_KEYS, rotary
from keras_posenc.models.families.task_heads import TASK_ROWS, heads
from keras_posenc.models.families.weight_rows import (
    bert_embeddings,
    feed_forward,
    mlm,
    packed_attention,
    table,
)


def configure(config):
    """What these files call "ntk" is Su Jianlin's fixed base, or the mixed one with `mixed_b`."""
    encoding = rotary(config, base=10000.0 if config.model_type == "new" else 160000.0)
    scaling = encoding.get("scaling")
    if scaling and scaling["rope_type"] == "ntk":
        b = scaling.get("mixed_b")
        kind = {"rope_type": "su_fixed"} if b is None else {"rope_type": "su_mixed", "b": b}
        encoding["scaling"] = {**kind, "factor": scaling["factor"]}
    return dataclasses.replace(
        config, hidden_act=[config.hidden_act, "linear"], encodings=(encoding,)
    )


FAMILY = Family(
    name="gte",
    title="GTE",
    model_types=("gte", "new"),
    weights=table(
        {
            **bert_embeddings("Embedding-Position"),
            **packed_attention(
                "@encoder.layer.{i}", "attention.qkv_proj", "attention.o_proj", "attn_ln"
            ),
            **feed_forward(
                "@encoder.layer.{i}",
                {"packed": "mlp.up_gate_proj", "activated": 1},
                "mlp.down_proj",
                "mlp_ln",
            ),
            "Pooler-Dense": ("@pooler.dense", "dense"),
            **TASK_ROWS,
            **mlm("lm_head.dense", "lm_head.norm", "lm_head.decoder"),
        },
        prefixes=("new.", "gte.", ""),
        copies={"Embedding-Token/embeddings": ["lm_head.decoder.weight"]},
        classes={"gte": "Gte", "new": "New"},
    ),
    configure=configure,
    defaults={
        "hidden_act": "gelu",
        "max_position": 8192,
        "segment_vocab_size": 1,
        "feed_forward_bias": "output",
        "mlm_act": "gelu",
        "position_table": False,
    },
    keys=ROPE_KEYS,
    required={
        "layer_norm_type": ("layer_norm", None),
        "position_embedding_type": ("rope", "rotary", None),
        "logn_attention_scale": (False, None),
    },
    heads=heads("Pooler-Dense"),
    positions="rotary, Su's fixed base",
    compared="transformers, and its published code",
    paper="https://arxiv.org/abs/2407.19669",
)
