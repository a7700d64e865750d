"""ELECTRA: BERT's encoder behind small embeddings, with a generator's or a discriminator's head."""

from keras_posenc.checkpoints.names import TASK_LAYERS
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.task_heads import heads
from keras_posenc.models.families.weight_rows import like_bert

FAMILY = Family(
    name="electra",
    title="ELECTRA",
    model_types=("electra",),
    weights=like_bert(
        "electra",
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
        huggingface={
            "Span-Output": "qa_outputs",
            "Discriminator-Proba": "discriminator_predictions.dense_prediction",
        },
        heads=(
            "MLM-Dense",
            "MLM-Norm",
            "MLM-Bias",
            "Discriminator-Dense",
            "Discriminator-Proba",
            "Embedding-Segment",
            "Embedding-Position",
            *TASK_LAYERS,
        ),
        copies={
            "Embedding-Token/embeddings": ["generator_lm_head.weight"],
            "MLM-Bias/bias": ["generator_predictions/output_bias"],
        },
    ),
    aliases={},
    defaults={
        "hidden_act": "gelu",
        "embedding_size": 128,
        "mlm_act": "gelu",
        "layer_norm_eps": 1e-12,
    },
    heads=heads(activation="gelu"),
    paper="https://arxiv.org/abs/2003.10555",
)
