"""Model families: each is a function Config -> Config and a table of weight names."""

import collections
import dataclasses

from keras_posenc.checkpoints import names

# model_type in Hugging Face's configs whose positions start behind the padding id.
FAIRSEQ_TYPES = ("roberta", "xlm-roberta", "camembert")


def bert(config):
    """BERT as published, and the Chinese models of the same architecture (RoBERTa-wwm, ...)."""
    return _refuse_types(config, "bert", (None, "bert"))


def roberta(config):
    """RoBERTa: BERT itself in Google's layout; with fairseq's positions if Hugging Face's config
    says so."""
    if config.model_type not in FAIRSEQ_TYPES:
        return _refuse_types(config, "roberta", (None, "bert", *FAIRSEQ_TYPES))
    if config.pad_token_id is None:
        raise ValueError("RoBERTa counts positions from its padding id: give `pad_token_id`.")
    offset = config.pad_token_id + 1
    return dataclasses.replace(
        config,
        position_offset=offset,
        max_position=config.max_position - offset,
        padded_positions=True,
    )


def _refuse_types(config, family, types):
    if config.model_type not in types:
        belongs = next((k for k in FAMILIES if k == config.model_type), None)
        belongs = "roberta" if config.model_type in FAIRSEQ_TYPES else belongs
        remedy = f"give model={belongs!r}" if belongs else f"there are {sorted(FAMILIES)}"
        raise ValueError(
            f"model={family!r} cannot hold a checkpoint of model_type {config.model_type!r}: "
            f"{remedy}."
        )
    return config


Family = collections.namedtuple("Family", ["configure", "weights"])

FAMILIES = {
    "bert": Family(bert, names.BERT),
    "roberta": Family(roberta, names.BERT),
}


def weight_table(family, config):
    """The weight names of a family; fairseq's RoBERTa has a table of its own."""
    return names.ROBERTA if config.padded_positions else FAMILIES[family].weights
