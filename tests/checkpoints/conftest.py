"""Layers built by hand under the library's names, and checkpoints made by those who define them."""

import keras
import numpy as np
import pytest


class Table(keras.layers.Layer):
    """Rows to look up: what the embeddings of a model have."""

    def __init__(self, rows, size, fresh=0, **kwargs):
        super().__init__(**kwargs)
        self.embeddings = self.add_weight(shape=(rows, size), name="embeddings")
        if fresh:
            self.fresh = self.add_weight(shape=(fresh, size), name="fresh")

    def rows(self, ids):
        return keras.ops.take(self.embeddings, ids, axis=0)


class Norm(keras.layers.Layer):
    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.gamma = self.add_weight(shape=(size,), name="gamma")
        self.beta = self.add_weight(shape=(size,), name="beta")


class Bias(keras.layers.Layer):
    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.bias = self.add_weight(shape=(size,), name="bias")


class FeedForward(keras.layers.Layer):
    def __init__(self, inner, size, **kwargs):
        super().__init__(**kwargs)
        self.intermediate = keras.layers.Dense(inner, name="intermediate")
        self.out = keras.layers.Dense(size, name="output")

    def build(self, shape):
        self.intermediate.build(shape)
        self.out.build((*shape[:-1], self.intermediate.units))


def build_layers(config, pooler=False, nsp=False, mlm=False, prefix="", **changes):
    """Layers of a BERT under the names that the library gives them, with random weights."""
    config = config | changes
    size, heads, rows = config["hidden_size"], config["num_attention_heads"], {}
    tables = {
        "Token": config["vocab_size"],
        "Segment": config["type_vocab_size"],
        "Position": config["max_position_embeddings"],
    }
    for name, count in tables.items():
        if count:
            rows[f"Embedding-{name}"] = Table(count, size, name=f"{prefix}Embedding-{name}")
    rows["Embedding-Norm"] = Norm(size, name=f"{prefix}Embedding-Norm")
    for i in range(config["num_hidden_layers"]):
        name = f"Transformer-{i}-MultiHeadSelfAttention"
        attention = keras.layers.MultiHeadAttention(heads, size // heads, name=prefix + name)
        attention.build((None, None, size), (None, None, size))
        feed_forward = FeedForward(
            config["intermediate_size"], size, name=f"{prefix}Transformer-{i}-FeedForward"
        )
        feed_forward.build((None, None, size))
        rows |= {
            name: attention,
            f"{name}-Norm": Norm(size, name=f"{prefix}{name}-Norm"),
            f"Transformer-{i}-FeedForward": feed_forward,
            f"Transformer-{i}-FeedForward-Norm": Norm(
                size, name=f"{prefix}Transformer-{i}-FeedForward-Norm"
            ),
        }
    denses = {"Pooler-Dense": pooler and size, "NSP-Proba": nsp and 2, "MLM-Dense": mlm and size}
    for name, units in denses.items():
        if units:
            rows[name] = keras.layers.Dense(units, name=prefix + name)
            rows[name].build((None, size))
    if mlm:
        rows["MLM-Norm"] = Norm(size, name=f"{prefix}MLM-Norm")
        rows["MLM-Bias"] = Bias(config["vocab_size"], name=f"{prefix}MLM-Bias")
    return rows


def values(layers):
    """Copies of all weights of some layers, under the library's names."""
    from keras_posenc.checkpoints import variables_of

    return {
        name: np.array(keras.ops.convert_to_numpy(variable))
        for name, variable in variables_of(layers).items()
    }


@pytest.fixture
def make_layers(tiny_config):
    """Builds the layers of the tiny BERT; keywords change its config or add heads."""
    return lambda **changes: build_layers(tiny_config, **changes)


@pytest.fixture
def values_of():
    return values
