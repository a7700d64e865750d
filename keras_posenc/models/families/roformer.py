"""RoFormer: BERT with rotary positions in place of the table."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.rope import ROPE_KEYS, rotary
from keras_posenc.models.families.weight_rows import like_bert


def configure(config):
    """Rotary pairs are adjacent features."""
    return dataclasses.replace(config, encodings=(rotary(config, layout="interleaved"),))


WEIGHTS = like_bert(
    "roformer",
    classes={"roformer": "RoFormer"},
    prefixes=("roformer.", "bert.", ""),
    rows={"Embedding-Position": None},
    huggingface={"Embedding-Mapping": "roformer.embeddings_project"},
    unused={"*encoder.embed_positions.weight": "sines"},
)

FAMILY = Family(
    name="roformer",
    title="RoFormer",
    model_types=("roformer",),
    weights=WEIGHTS,
    configure=configure,
    defaults={"hidden_act": "gelu", "max_position": 1536, "position_table": False},
    keys=ROPE_KEYS,
    required={"rotary_value": (False, None)},
    without_type=True,
    rescales=False,
    positions="rotary, neighbouring features",
    paper="https://arxiv.org/abs/2104.09864",
)
