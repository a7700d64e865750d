"""BERT-base with a classifier, by keras_posenc, by Keras' attention and by KerasHub.

For benchmarks that compile and run nothing: only the shapes of the weights matter.
"""

import keras
import numpy as np
from keras import ops

from keras_posenc import build_transformer_model
from keras_posenc.heads import classifier

WIDTH, HEADS, INNER, VOCABULARY, LAYERS, DROPOUT = 768, 12, 3072, 30522, 12, 0.1


def posenc(length, layers):
    config = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "hidden_act": "gelu",
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_dropout_prob": DROPOUT,
        "attention_probs_dropout_prob": DROPOUT,
    }
    return classifier(build_transformer_model(config, hierarchical_position=True), num_classes=2)


def plain(length, layers):
    """The same model of `keras.layers.MultiHeadAttention` and a table of positions."""
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    segment_ids = keras.Input((None,), dtype="int32", name="segment_ids")
    x = keras.layers.Embedding(VOCABULARY, WIDTH)(token_ids)
    x = x + keras.layers.Embedding(2, WIDTH)(segment_ids)
    x = x + Positions(length, WIDTH)(x)
    x = keras.layers.Dropout(DROPOUT)(keras.layers.LayerNormalization(epsilon=1e-12)(x))
    mask = NotPadding()(token_ids)
    for _ in range(layers):
        attention = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS, dropout=DROPOUT)
        y = keras.layers.Dropout(DROPOUT)(attention(x, x, attention_mask=mask))
        x = keras.layers.LayerNormalization(epsilon=1e-12)(x + y)
        y = keras.layers.Dense(WIDTH)(keras.layers.Dense(INNER, activation="gelu")(x))
        x = keras.layers.LayerNormalization(epsilon=1e-12)(x + keras.layers.Dropout(DROPOUT)(y))
    x = keras.layers.Dropout(DROPOUT)(x[:, 0])
    return keras.Model([token_ids, segment_ids], keras.layers.Dense(2, dtype="float32")(x))


def hub(length, layers):
    from keras_hub.models import BertBackbone

    backbone = BertBackbone(
        VOCABULARY, layers, HEADS, WIDTH, INNER, dropout=DROPOUT, max_sequence_length=length
    )
    x = keras.layers.Dropout(DROPOUT)(backbone.output["pooled_output"])
    return keras.Model(backbone.input, keras.layers.Dense(2, dtype="float32")(x))


MODELS = {"keras_posenc": posenc, "keras": plain, "keras_hub": hub}


class Positions(keras.layers.Layer):
    def __init__(self, length, width, **arguments):
        super().__init__(**arguments)
        self.table = self.add_weight(shape=(length, width), name="table")

    def call(self, x):
        return ops.cast(self.table, x.dtype)[None]


class NotPadding(keras.layers.Layer):
    def call(self, token_ids):
        return ops.not_equal(token_ids, 0)[:, None, :]


def draw_nothing():
    """Makes weights of zeros, which take no time."""
    for name in ("RandomNormal", "TruncatedNormal", "GlorotUniform", "RandomUniform"):
        kind = getattr(keras.initializers, name)
        kind.__call__ = lambda self, shape, dtype=None, **_: np.zeros(shape, "float32")
