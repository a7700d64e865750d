"""Imports every module that registers a class, so that Keras can load the models saved with it."""

# ruff: noqa: F401

from keras_posenc import nested_layers
from keras_posenc.attention import gau, layer, log_n, shared_table
from keras_posenc.encodings import (
    bias,
    conditioned,
    contextual,
    dape,
    deberta,
    forgetting,
    log_cpb,
    normalizers,
    path,
    pope,
    relative,
    remapped,
    rerope,
    rotary,
    scale,
    separable,
    sinks,
    transformer_xl,
    window,
    xpos,
)
from keras_posenc.layers import (
    activations,
    dropout,
    experts,
    feedforward,
    norm,
    short_convolution,
    token_embedding,
)
from keras_posenc.layers.structured import crf, decoders, memm, pointer
from keras_posenc.models import (
    model,
    pooling,
    similarity,
    span_logits,
)
from keras_posenc.models.generation import generator
from keras_posenc.positions import learned, padded, random, sinusoidal, stretched, structured
from keras_posenc.retrieval.late_interaction import training_model
from keras_posenc.retrieval.sparse import pooling as sparse_pooling
from keras_posenc.training import (
    adamw,
    chains,
    losses,
    matryoshka,
    mean_loss,
    multilabel_losses,
    optimizer,
    ranking,
    schedules,
    similarity_losses,
    span_losses,
)
from keras_posenc.training.stretching import feature_losses
