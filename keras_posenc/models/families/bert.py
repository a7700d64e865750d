"""The original BERT, and the Chinese models of the same architecture (RoBERTa-wwm, ...)."""

from keras_posenc.checkpoints.names import BERT
from keras_posenc.models.families.family import Family
from keras_posenc.models.families.task_heads import heads

FAMILY = Family(
    name="bert",
    title="BERT",
    model_types=("bert",),
    weights=BERT,
    without_type=True,
    heads=heads("Pooler-Dense"),
    compared="transformers, and bert4keras",
    paper="https://arxiv.org/abs/1810.04805",
)
