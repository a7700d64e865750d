"""ALBERT: all layers share the weights of one block, or of a few."""

import dataclasses

from keras_posenc.checkpoints.names import decoder_copies
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.task_heads import heads
from keras_posenc.models.families.weight_rows import ATTENTION, FEED_FORWARD, like_bert

GOOGLE = "bert/encoder/transformer/group_{i}/inner_group_0"
HUGGINGFACE = "albert.encoder.albert_layer_groups.{i}.albert_layers.0"
# Layer -> its name in Google's blocks, and in Hugging Face's.
BLOCK = {
    f"{ATTENTION}/query": ("attention_1/self/query", "attention.query", "dense"),
    f"{ATTENTION}/key": ("attention_1/self/key", "attention.key", "dense"),
    f"{ATTENTION}/value": ("attention_1/self/value", "attention.value", "dense"),
    f"{ATTENTION}/attention_output": ("attention_1/output/dense", "attention.dense", "dense"),
    f"{ATTENTION}-Norm": ("LayerNorm", "attention.LayerNorm", "norm"),
    f"{FEED_FORWARD}/intermediate": ("ffn_1/intermediate/dense", "ffn", "dense"),
    f"{FEED_FORWARD}/output": ("ffn_1/intermediate/output/dense", "ffn_output", "dense"),
    f"{FEED_FORWARD}-Norm": ("LayerNorm_1", "full_layer_layer_norm", "norm"),
}
WEIGHTS = like_bert(
    classes={"albert": "Albert"},
    prefixes=("albert.", "bert.", ""),
    rows={
        **{layer: (f"{GOOGLE}/{google}", kind) for layer, (google, _, kind) in BLOCK.items()},
        "MLM-Dense": ("cls/predictions/transform/dense", "dense"),
    },
    huggingface={
        **{layer: f"{HUGGINGFACE}.{name}" for layer, (_, name, _) in BLOCK.items()},
        "Pooler-Dense": "albert.pooler",
        "NSP-Proba": "sop_classifier.classifier",
        "MLM-Dense": "predictions.dense",
        "MLM-Norm": "predictions.LayerNorm",
        "MLM-Bias": "predictions",
    },
    copies=decoder_copies("predictions"),
)


def configure(config):
    """Groups of layers share a block."""
    return dataclasses.replace(config, num_hidden_groups=config.num_hidden_groups or 1)


FAMILY = Family(
    name="albert",
    title="ALBERT",
    model_types=("albert",),
    weights=WEIGHTS,
    configure=configure,
    defaults={"hidden_act": "gelu_new", "embedding_size": 128, "embedding_mapping": True},
    required={"inner_group_num": (1, None)},
    rates={"classifier_dropout_prob": "dropout_rate"},
    without_type=True,
    heads=heads("Pooler-Dense"),
    paper="https://arxiv.org/abs/1909.11942",
)


def unshared(config):
    """A block for each layer, all filled from the only one."""
    if config.num_hidden_groups not in (None, 1):
        raise ValueError(
            "model='albert_unshared' fills all layers from one block. Received: "
            f"num_hidden_groups={config.num_hidden_groups}"
        )
    return dataclasses.replace(config, num_hidden_groups=None)


UNSHARED = dataclasses.replace(
    FAMILY,
    name="albert_unshared",
    title="ALBERT, unshared",
    compared="transformers",
    recognises=lambda values: False,
    configure=unshared,
    weights=dataclasses.replace(
        WEIGHTS,
        rows={n: (s.replace("group_{i}", "group_0"), k) for n, (s, k) in WEIGHTS.rows.items()},
        huggingface={
            n: s.replace("groups.{i}", "groups.0") for n, s in WEIGHTS.huggingface.items()
        },
    ),
)
