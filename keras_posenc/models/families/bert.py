"""BERT (and Chinese models of its architecture: RoBERTa-wwm, ...), ELECTRA, NEZHA, DistilBERT."""

import dataclasses

from keras_posenc.checkpoints.names import BERT
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.task_heads import TASK_ROWS, heads
from keras_posenc.models.families.weight_rows import (
    attention,
    bert_embeddings,
    feed_forward,
    like_bert,
    mlm,
    table,
)

BERT_FAMILY = Family(
    name="bert",
    title="BERT",
    model_types=("bert",),
    weights=BERT,
    without_type=True,
    heads=heads("Pooler-Dense"),
    compared="transformers, and bert4keras",
    paper="https://arxiv.org/abs/1810.04805",
)


ELECTRA = Family(
    name="electra",
    title="ELECTRA",
    model_types=("electra",),
    weights=like_bert(
        classes={"electra": "Electra"},
        root="electra",
        prefixes=("electra.", ""),
        rows={
            "Embedding-Mapping": ("electra/embeddings_project", "dense"),
            "Pooler-Dense": None,
            "NSP-Proba": None,
            "Sequence-Dense": ("classifier/dense", "dense"),
            "Sequence-Output": ("classifier/out_proj", "dense"),
            "MLM-Dense": ("generator_predictions/dense", "dense"),
            "MLM-Norm": ("generator_predictions/LayerNorm", "norm"),
            "MLM-Bias": ("generator_lm_head", "bias"),
            "Discriminator-Dense": ("discriminator_predictions/dense", "dense"),
            "Discriminator-Proba": ("discriminator_predictions/dense_1", "dense"),
        },
        huggingface={"Discriminator-Proba": "discriminator_predictions.dense_prediction"},
        unused={"sequence_summary.*": "the head of multiple choice"},
        heads=(*BERT.heads, "Discriminator-Dense", "Discriminator-Proba"),
        copies={
            "Embedding-Token/embeddings": ["generator_lm_head.weight"],
            "MLM-Bias/bias": ["generator_predictions/output_bias"],
        },
    ),
    defaults={
        "hidden_act": "gelu",
        "embedding_size": 128,
        "mlm_act": "gelu",
        "layer_norm_eps": 1e-12,
    },
    heads=heads(activation="gelu"),
    paper="https://arxiv.org/abs/2003.10555",
)


def clipped(config):
    """The released weights read the sines at distance + k, and ignore the `embedding_size` that
    their configs have."""
    reach = config.source.get("max_relative_position", 64)
    nezha = {"name": "nezha", "max_distance": reach, "released": True}
    return dataclasses.replace(config, embedding_size=None, encodings=(nezha,))


NEZHA = Family(
    name="nezha",
    title="NEZHA",
    model_types=("nezha",),
    weights=like_bert(
        classes={"nezha": "Nezha"},
        prefixes=("nezha.", "bert.", ""),
        rows={"Embedding-Position": None},
        unused={"*relative_positions_encoding*": "sines"},
    ),
    configure=clipped,
    defaults={"hidden_act": "gelu", "position_table": False},
    keys=("max_relative_position",),
    without_type=True,
    positions="clipped distance, sines in keys and values",
    compared="its published code",
    paper="https://arxiv.org/abs/1909.00204",
)


BLOCK = "@transformer.layer.{i}"

DISTILBERT = Family(
    name="distilbert",
    title="DistilBERT",
    model_types=("distilbert",),
    weights=table(
        {
            **bert_embeddings("Embedding-Segment"),
            **attention(BLOCK, "attention", "q_lin k_lin v_lin out_lin", "sa_layer_norm"),
            **feed_forward(BLOCK, "ffn.lin1", "ffn.lin2", "output_layer_norm"),
            **TASK_ROWS,
            "Sequence-Dense": ("pre_classifier", "dense"),
            **mlm("vocab_transform", "vocab_layer_norm", "vocab_projector"),
        },
        prefixes=("distilbert.", ""),
        copies={"Embedding-Token/embeddings": ["vocab_projector.weight"]},
        unused={"pre_classifier.*": "a task's head"},
        classes={"distilbert": "DistilBert"},
    ),
    aliases={
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
        "dropout": "dropout_rate",
        "attention_dropout": "attention_dropout_rate",
    },
    defaults={"hidden_act": "gelu", "segment_vocab_size": 0},
    rates={"seq_classif_dropout": "dropout_rate", "qa_dropout": "dropout_rate"},
    # Its sines are stored in the table all the same.
    required={"sinusoidal_pos_embds": None},
    heads=heads(activation="relu"),
    paper="https://arxiv.org/abs/1910.01108",
)
