"""NEZHA: BERT with sines of the clipped distance in keys and values."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.weight_rows import like_bert


def configure(config):
    """The released weights read the sines at distance + k, and ignore the `embedding_size` that
    their configs have."""
    reach = config.source.get("max_relative_position", 64)
    nezha = {"name": "nezha", "max_distance": reach, "released": True}
    return dataclasses.replace(config, embedding_size=None, encodings=(nezha,))


FAMILY = Family(
    name="nezha",
    title="NEZHA",
    model_types=("nezha",),
    weights=like_bert(
        "nezha",
        classes={"nezha": "Nezha"},
        prefixes=("nezha.", "bert.", ""),
        rows={"Embedding-Position": None},
        unused={"*relative_positions_encoding*": "sines"},
    ),
    configure=configure,
    defaults={"hidden_act": "gelu", "position_table": False},
    keys=("max_relative_position",),
    without_type=True,
    positions="clipped distance, sines in keys and values",
    compared="its published code",
    paper="https://arxiv.org/abs/1909.00204",
)
