"""Imports every module that registers a class, so that Keras can load the models saved with it."""

# ruff: noqa: F401

from keras_posenc import encodings
from keras_posenc.attention import gau, layer, log_n, shared_table
from keras_posenc.keras_support import nested_layers
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
from keras_posenc.losses import (
    chains,
    matryoshka,
    multilabel,
    passages,
    ranking,
    similarity,
    smoothed,
    spans,
)
from keras_posenc.metrics import mean_loss
from keras_posenc.models import model, pooling, span_logits
from keras_posenc.models import similarity as similarity_model
from keras_posenc.models.generation import generator
from keras_posenc.positions import learned, random, sinusoidal, stretched, structured
from keras_posenc.retrieval.late_interaction import training_model
from keras_posenc.retrieval.sparse import pooling as sparse_pooling
from keras_posenc.training import optimizer, schedules
from keras_posenc.training.stretching import feature_losses
