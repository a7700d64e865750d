import keras
import numpy as np

from keras_posenc.training.optimizer import adamw


def small_model():
    ids = keras.Input((3,), dtype="int32")
    tokens = keras.layers.Embedding(5, 4, name="Embedding-Token")(ids)
    positions = keras.layers.Embedding(5, 4, name="Embedding-Position")(ids)
    hidden = keras.layers.LayerNormalization(name="Embedding-Norm")(tokens + positions)
    return keras.Model(ids, keras.layers.Dense(2, name="Head")(hidden))


def test_decay_shrinks_the_matrices_and_nothing_else():
    model = small_model()
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape))
    optimizer = adamw(model, 0.5, weight_decay=0.1)
    zeros = [keras.ops.zeros(variable.shape) for variable in model.trainable_variables]
    optimizer.apply(zeros, model.trainable_variables)
    shrunk = {
        variable.path
        for variable in model.trainable_variables
        if not np.allclose(keras.ops.convert_to_numpy(variable), 1.0)
    }
    assert shrunk == {"Embedding-Token/embeddings", "Head/kernel"}
    np.testing.assert_allclose(model.get_layer("Head").kernel, 0.95, rtol=1e-6)


def test_gradients_are_clipped_together():
    model = small_model()
    assert adamw(model, 1e-3).global_clipnorm == 1.0
    assert adamw(model, 1e-3, clip=None).global_clipnorm is None
