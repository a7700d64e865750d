"""The distance of features from those of a teacher."""

import keras
import numpy as np
from keras import ops


@keras.saving.register_keras_serializable(package="keras_posenc")
class FeatureDistance(keras.losses.Loss):
    """Cosine distance plus scaled squared error of each token's features.

    loss = 1 - cos(s, t) + |s - t|^2 / mean |t|^2, the mean over all tokens of the batch.

    `y_true`: t, (B, T, D), the teacher's features. `y_pred`: s, the student's. The arguments are
    those of `keras.losses.Loss`.
    """

    def __init__(self, name="feature_distance", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        t, s = ops.cast(y_true, "float32"), ops.cast(y_pred, "float32")
        of_t, of_s = ops.sum(t * t, axis=-1), ops.sum(s * s, axis=-1)
        cosine = ops.sum(s * t, axis=-1) * ops.rsqrt(ops.maximum(of_t * of_s, 1e-12))
        return 1 - cosine + ops.sum(ops.square(s - t), axis=-1) / ops.mean(of_t)


def agreement(one, other):
    """Cosines (T,) between the features (T, D) of two readings."""
    norms = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return (one * other).sum(-1) / np.maximum(norms, 1e-12)
