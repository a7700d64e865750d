"""DistilBERT: BERT of half the layers, without segments and pooler."""

from keras_posenc.models.families.family import Family
from keras_posenc.models.families.task_heads import heads
from keras_posenc.models.families.weight_rows import (
    TASK_ROWS,
    attention,
    bert_embeddings,
    feed_forward,
    mlm,
    table,
)

EMBEDDINGS = bert_embeddings()
del EMBEDDINGS["Embedding-Segment"]
BLOCK = "@transformer.layer.{i}"

FAMILY = Family(
    name="distilbert",
    title="DistilBERT",
    model_types=("distilbert",),
    weights=table(
        "distilbert",
        {
            **EMBEDDINGS,
            **attention(
                f"{BLOCK}",
                "attention.q_lin",
                "attention.k_lin",
                "attention.v_lin",
                "attention.out_lin",
                "sa_layer_norm",
            ),
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
