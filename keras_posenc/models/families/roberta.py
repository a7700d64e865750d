"""RoBERTa, XLM-RoBERTa and CamemBERT: BERT with positions that start behind the padding id."""

import dataclasses

from keras_posenc.checkpoints.names import BERT, ROBERTA
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.task_heads import heads

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


def configure(config):
    """BERT in Google's layout; fairseq's positions if Hugging Face's config has them."""
    return behind_padding(config) if config.model_type in FAIRSEQ_TYPES else config


def weights(config=None):
    """The names of the weights; Google's layout has BERT's."""
    return ROBERTA if config is None or config.padded_positions else BERT


def task_heads(config=None):
    """The heads of RoBERTa; Google's layout has BERT's."""
    return heads() if config is None or config.padded_positions else heads("Pooler-Dense")


FAMILY = Family(
    name="roberta",
    title="RoBERTa",
    model_types=FAIRSEQ_TYPES,
    weights=weights,
    configure=configure,
    without_type=True,
    heads=task_heads,
    positions="table, padding not counted",
    paper="https://arxiv.org/abs/1907.11692",
)
