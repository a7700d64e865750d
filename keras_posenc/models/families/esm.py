"""ESM-2: protein language models, pre-norm, with rotary positions."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.rope import rotary
from keras_posenc.models.families.task_heads import TASK_ROWS_OF_ROBERTA, TOKENS, heads
from keras_posenc.models.families.weight_rows import attention, feed_forward, mlm, table

BLOCK = "@encoder.layer.{i}"
PROJECTIONS = "self.query self.key self.value output.dense"


def configure(config):
    """Rotary positions; the embedding of the mask token may be zero, the others scaled by that."""
    source = config.source
    zeroed = None
    if source.get("token_dropout"):
        zeroed = source.get("mask_token_id")
        if zeroed is None:
            raise ValueError("`token_dropout` of ESM needs the `mask_token_id` in the config.")
    return dataclasses.replace(config, zeroed_token_id=zeroed, encodings=(rotary(config),))


FAMILY = Family(
    name="esm",
    title="ESM-2",
    model_types=("esm",),
    weights=table(
        {
            "Embedding-Token": ("@embeddings.word_embeddings", "table"),
            **attention(BLOCK, "attention", PROJECTIONS, "attention.LayerNorm"),
            **feed_forward(BLOCK, "intermediate.dense", "output.dense", "LayerNorm"),
            "Final-Norm": ("@encoder.emb_layer_norm_after", "norm"),
            "Pooler-Dense": ("@pooler.dense", "dense"),
            **TASK_ROWS_OF_ROBERTA,
            **mlm("lm_head.dense", "lm_head.layer_norm", "lm_head"),
        },
        prefixes=("esm.", ""),
        copies={"Embedding-Token/embeddings": ["lm_head.decoder.weight"]},
        unused={
            "*contact_head.*": "the head of contacts",
            "*rotary_embeddings.inv_freq": "buffer",
            "*embeddings.position_embeddings.weight": "not read with rotary positions",
        },
        classes={"esm": "Esm"},
    ),
    configure=configure,
    defaults={
        "hidden_act": "gelu",
        "max_position": 1026,
        "segment_vocab_size": 0,
        "pad_token_id": 1,
        "norm": "pre",
        "embedding_norm": False,
        "mlm_act": "gelu",
        "position_table": False,
    },
    keys=("token_dropout", "rope_theta"),
    required={
        "position_embedding_type": ("rotary",),
        "emb_layer_norm_before": (False, None),
        "is_folding_model": (False, None),
        "esmfold_config": None,
        "vocab_list": None,
    },
    heads={
        "sequence_classification": heads()["sequence_classification"],
        "token_classification": TOKENS,
    },
    positions="rotary",
    paper="https://doi.org/10.1126/science.ade2574",
)
