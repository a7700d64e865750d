"""ModernBERT (also gte-modernbert, granite-embedding r2 and mmBERT): local and global layers."""

import dataclasses

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.rope import GLOBAL, KEYS_OF_KINDS, LOCAL, layer_kinds, rotary
from keras_posenc.models.families.task_heads import TASK_ROWS, TaskHead
from keras_posenc.models.families.weight_rows import feed_forward, mlm, packed_attention, table


def configure(config):
    """Every third layer is global, with a rotary base of its own; the others are local."""
    source, layers = config.source, config.num_hidden_layers
    every = source.get("global_attn_every_n_layers", 3)
    default = [LOCAL if i % every else GLOBAL for i in range(layers)]
    kinds = layer_kinds(source, layers, default)
    bases = {LOCAL: source.get("local_rope_theta"), GLOBAL: source.get("global_rope_theta")}
    window = {"name": "window", "window": source.get("local_attention", 128) // 2 + 1}
    encodings = {
        LOCAL: [rotary(config, bases[LOCAL] or 10000.0, kind=LOCAL), window],
        GLOBAL: [rotary(config, bases[GLOBAL] or 160000.0, kind=GLOBAL)],
    }
    return dataclasses.replace(
        config,
        hidden_act=[config.hidden_act, "linear"],
        norm_type="layer_norm" if source.get("norm_bias") else "layer_norm_without_bias",
        mlm_dense=True if source.get("classifier_bias") else "without_bias",
        encodings=tuple(encodings[kind] for kind in kinds),
    )


def heads(config=None):
    """Every task's head goes through what the MLM head does: a dense layer and a norm."""
    source = {} if config is None else config.source or {}
    head = TaskHead(
        "Sequence-Output",
        pooling=source.get("classifier_pooling", "cls"),
        dense="MLM-Dense",
        activation=source.get("classifier_activation", "gelu"),
        dense_bias=bool(source.get("classifier_bias")),
        norm="MLM-Norm",
    )
    return {
        "sequence_classification": head,
        "token_classification": dataclasses.replace(head, output="Token-Output", pooling=None),
        "question_answering": dataclasses.replace(head, output="Span-Output", pooling=None),
    }


FAMILY = Family(
    name="modernbert",
    title="ModernBERT",
    model_types=("modernbert",),
    weights=table(
        {
            "Embedding-Token": ("@embeddings.tok_embeddings", "table"),
            "Embedding-Norm": ("@embeddings.norm", "norm"),
            **packed_attention("@layers.{i}", "attn.Wqkv", "attn.Wo", "attn_norm"),
            **feed_forward(
                "@layers.{i}", {"packed": "mlp.Wi", "activated": 0}, "mlp.Wo", "mlp_norm"
            ),
            "Final-Norm": ("@final_norm", "norm"),
            **mlm("head.dense", "head.norm", "decoder"),
            **TASK_ROWS,
            "Span-Output": ("classifier", "dense"),
        },
        prefixes=("model.", ""),
        copies={"Embedding-Token/embeddings": ["decoder.weight"]},
        classes={"modernbert": "ModernBert"},
    ),
    configure=configure,
    aliases={
        "hidden_activation": "hidden_act",
        "norm_eps": "layer_norm_eps",
        "attention_dropout": "attention_dropout_rate",
        "mlp_dropout": "dropout_rate",
        "mlp_bias": "feed_forward_bias",
        "decoder_bias": "mlm_bias",
        "classifier_activation": "mlm_act",
    },
    defaults={
        "hidden_act": "gelu",
        "max_position": 8192,
        "segment_vocab_size": 0,
        "layer_norm_eps": 1e-5,
        "pad_token_id": 50283,
        "norm": "pre",
        "attention_bias": False,
        "feed_forward_bias": False,
        "mlm_act": "gelu",
        "position_table": False,
    },
    keys=(
        "layer_types",
        "global_attn_every_n_layers",
        "global_rope_theta",
        "local_rope_theta",
        "local_attention",
        "norm_bias",
        "classifier_bias",
        "classifier_pooling",
        *KEYS_OF_KINDS,
    ),
    rates={"embedding_dropout": "dropout_rate", "classifier_dropout": "dropout_rate"},
    heads=heads,
    positions="rotary, local and global base; windows",
    paper="https://arxiv.org/abs/2412.13663",
)
