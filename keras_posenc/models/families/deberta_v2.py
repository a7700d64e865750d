"""DeBERTa v2 and v3, mDeBERTa and CamemBERTav2: one table of distances, projected in each layer."""

import dataclasses

from keras_posenc.checkpoints.names import decoder_copies
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.task_heads import TASK_ROWS, heads
from keras_posenc.models.families.weight_rows import (
    attention,
    bert_embeddings,
    feed_forward,
    mlm,
    table,
)

BLOCK = "@encoder.layer.{i}"
PROJECTIONS = "self.query_proj self.key_proj self.value_proj output.dense"


def configure(config):
    """The table's rows go through the projections of keys and queries, as content does."""
    source = config.source
    if config.embedding_size not in (None, config.hidden_size):
        raise ValueError(
            f"DeBERTa's `embedding_size` must be its `hidden_size`, {config.hidden_size}, as in "
            f"all published v2 and v3. Received: embedding_size={config.embedding_size}"
        )
    terms = source.get("pos_att_type") or []
    terms = terms.lower().split("|") if isinstance(terms, str) else terms
    # Without tables, too, the logits are divided as if they were sums of all terms.
    encodings = ({"name": "temperature", "value": (1 + len(terms)) ** -0.5},) if terms else ()
    if source.get("relative_attention") and terms:
        if not source.get("share_att_key"):
            raise ValueError(
                "DeBERTa's tables with projections of their own are not supported: "
                "`share_att_key` must be true, as in all published v2 and v3."
            )
        reach = source.get("max_relative_positions", -1)
        reach = reach if reach > 0 else config.max_position
        # It is written, because a longer table of positions does not change it.
        config = dataclasses.replace(config, source=source | {"max_relative_positions": reach})
        buckets = source.get("position_buckets", -1)
        buckets, terms = buckets if buckets > 0 else None, [term.strip() for term in terms]
        deberta = {"name": "deberta", "max_distance": reach, "released": True, "shared": True}
        encodings = ({**deberta, "buckets": buckets, "terms": terms},)
    return dataclasses.replace(
        config,
        position_table=bool(source.get("position_biased_input", True)),
        # The new head multiplies by the token table, whatever the config has.
        tie_word_embeddings=config.tie_word_embeddings or source.get("legacy") is False,
        table_norm="layer_norm" in str(source.get("norm_rel_ebd", "none")),
        encodings=encodings,
    )


def weights(config=None):
    """The names of the weights; those of the head differ if the config has `legacy`: false."""
    new = config is not None and config.source.get("legacy") is False
    return NEW if new else LEGACY


def task_heads(config=None):
    """The activation of the first token's dense layer is the config's."""
    source = {} if config is None else config.source or {}
    return heads(activation=source.get("pooler_hidden_act", "gelu"))


HEADS = (
    mlm(
        "lm_predictions.lm_head.dense", "lm_predictions.lm_head.LayerNorm", "lm_predictions.lm_head"
    ),
    mlm(
        "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions"
    ),
)
LEGACY, NEW = (
    table(
        {
            **bert_embeddings(),
            "Embedding-Position-Shared-0": ("@encoder.rel_embeddings", "shared_table"),
            "Embedding-Position-Shared-0-Norm": ("@encoder.LayerNorm", "norm"),
            **attention(BLOCK, "attention", PROJECTIONS, "attention.output.LayerNorm"),
            **feed_forward(BLOCK, "intermediate.dense", "output.dense", "output.LayerNorm"),
            **TASK_ROWS,
            "Sequence-Dense": ("pooler.dense", "dense"),
            **{layer: [row, other[layer]] for layer, row in head.items()},
        },
        prefixes=("deberta.", ""),
        copies=decoder_copies("cls.predictions"),
        unused={
            "*encoder.rel_embeddings.weight": "not read without terms",
            "*encoder.LayerNorm.*": "not read without terms",
            "mask_predictions.*": "a task's head",
            "pooler.dense.*": "a task's head",
            "deberta.embeddings.position_embeddings.weight": "not asked for",
        },
        classes={"deberta-v2": "DebertaV2"},
    )
    for head, other in (HEADS[::-1], HEADS)
)

FAMILY = Family(
    name="deberta_v2",
    title="DeBERTa v2, v3",
    model_types=("deberta-v2",),
    weights=weights,
    configure=configure,
    defaults={"hidden_act": "gelu", "segment_vocab_size": 0, "layer_norm_eps": 1e-7},
    keys=(
        "relative_attention",
        "max_relative_positions",
        "position_buckets",
        "position_biased_input",
        "pos_att_type",
        "share_att_key",
        "norm_rel_ebd",
        "pooler_hidden_act",
        "legacy",
    ),
    # Its dense layer is square, so that this is the hidden size.
    required={"conv_kernel_size": (0, None), "pooler_hidden_size": None},
    heads=task_heads,
    positions="DeBERTa's buckets",
    paper="https://arxiv.org/abs/2111.09543",
)
