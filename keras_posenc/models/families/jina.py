"""jina-embeddings v2 (ALiBi, a gated unit) and v3 (rotary positions)."""

import dataclasses

from keras_posenc.checkpoints.names import decoder_copies
from keras_posenc.files.untrusted import quote
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.rope import ROPE_KEYS, rotary
from keras_posenc.models.families.task_heads import TASK_ROWS_OF_ROBERTA, heads
from keras_posenc.models.families.weight_rows import (
    attention,
    bert_embeddings,
    feed_forward,
    mlm,
    packed_attention,
    table,
)

PROJECTIONS = "self.query self.key self.value output.dense"


def looking_both_ways(config):
    """ALiBi is symmetric; the inner matrix of the gated unit has no bias."""
    act = {"geglu": "gelu", "reglu": "relu"}.get(config.source.get("feed_forward_type"))
    if act is None:
        raise ValueError(
            "jina v2 has feed_forward_type 'geglu' or 'reglu'. "
            f"Received: {quote(config.source.get('feed_forward_type'))}"
        )
    return dataclasses.replace(
        config,
        hidden_act=[act, "linear"],
        mlm_act=config.mlm_act or "gelu",
        encodings=({"name": "alibi", "direction": "symmetric"},),
    )


V2 = Family(
    name="jina_v2",
    title="jina v2",
    model_types=("bert", "jina_bert"),
    recognises=lambda values: (
        values.get("model_type") in ("bert", "jina_bert")
        and values.get("position_embedding_type") == "alibi"
    ),
    weights=table(
        {
            **bert_embeddings("Embedding-Position"),
            **attention(
                "@encoder.layer.{i}", "attention", PROJECTIONS, "attention.output.LayerNorm"
            ),
            **feed_forward(
                "@encoder.layer.{i}.mlp",
                {"packed": "gated_layers", "activated": 0},
                "wo",
                "layernorm",
            ),
            "Pooler-Dense": ("@pooler.dense", "dense"),
            **mlm(
                "cls.predictions.transform.dense",
                "cls.predictions.transform.LayerNorm",
                "cls.predictions",
            ),
        },
        prefixes=("", "bert."),
        copies=decoder_copies("cls.predictions"),
        classes={"bert": "JinaBert", "jina_bert": "JinaBert"},
    ),
    configure=looking_both_ways,
    defaults={"hidden_act": "gelu", "feed_forward_bias": "output", "position_table": False},
    keys=("feed_forward_type",),
    required={"position_embedding_type": ("alibi",)},
    positions="ALiBi to both sides",
    compared="its published code",
    paper="https://arxiv.org/abs/2310.19923",
)


def rotating(config):
    """The file's number of positions counts the padding id, although there is no table."""
    base = float(config.source.get("rotary_emb_base") or 20000.0)
    return dataclasses.replace(config, encodings=(rotary(config, base=base),))


def with_originals(rows):
    """The rows, with the names that tensors have beside the adapters of their tasks."""
    kinds = {"dense": "original", "table": "original_table"}
    return {
        layer: [row, (f"{row[0]}.parametrizations", kinds[row[1]], *row[2:])]
        if row[1] in kinds
        else row
        for layer, row in rows.items()
    }


V3 = Family(
    name="jina_v3",
    title="jina v3",
    model_types=("jina_embeddings_v3",),
    recognises=lambda values: (
        values.get("model_type") == "jina_embeddings_v3"
        or values.get("model_type") == "xlm-roberta"
        and values.get("position_embedding_type") == "rotary"
    ),
    weights=table(
        with_originals(
            {
                "Embedding-Token": ("@embeddings.word_embeddings", "table"),
                "Embedding-Segment": ("@embeddings.token_type_embeddings", "table"),
                "Embedding-Norm": ("@emb_ln", "norm"),
                **packed_attention("@encoder.layers.{i}", "mixer.Wqkv", "mixer.out_proj", "norm1"),
                **feed_forward("@encoder.layers.{i}", "mlp.fc1", "mlp.fc2", "norm2"),
                "Pooler-Dense": ("@pooler.dense", "dense"),
                **mlm("lm_head.dense", "lm_head.layer_norm", "lm_head"),
            }
        )
        | TASK_ROWS_OF_ROBERTA,
        prefixes=("roberta.", ""),
        copies=decoder_copies("lm_head"),
        unused={"*.parametrizations.weight.0.lora_*": "an adapter of a task"},
        classes={"jina_embeddings_v3": "JinaEmbeddingsV3", "xlm-roberta": "XLMRobertaLoRA"},
    ),
    configure=rotating,
    defaults={
        "hidden_act": "gelu",
        "max_position": 8194,
        "segment_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "pad_token_id": 1,
        "mlm_act": "gelu",
        "position_table": False,
    },
    keys=("rotary_emb_base", *ROPE_KEYS),
    required={"position_embedding_type": ("rotary", "rope", "absolute", None)},
    heads=heads(),
    positions="rotary",
    paper="https://arxiv.org/abs/2409.10173",
)
