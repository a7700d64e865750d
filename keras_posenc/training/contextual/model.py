"""What is trained: a student that reads whole copies, against vectors of the frozen teacher."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.models.inputs import inputs_of

TEMPERATURE = 0.05
# Weights of the terms that keep the features of near context, and those of passages read alone.
NEAR, ALONE = 3.0, 1.0


class ContextualModel(backend.SafeTrainer, keras.Model):
    """Reads counterfactual copies of a text and compares their passages with the teacher's.

    With student vectors s_i of the passages of all copies, each read in its copy without the name,
    and teacher vectors t_i of the same passages, read alone with the name, the loss is

        (CE(s t^T / 0.05) + CE(t s^T / 0.05)) / 2 + mean(1 - cos(s_i, t_i))
        + 3 mean(1 - cos(features of the first copy, the teacher's in windows))
        + mean(1 - cos(student's vectors of its passages read alone, t_i)),

    with vectors of length 1 in the cross entropies CE. The same passage in another copy differs
    only by the distant name, and another passage of the same copy only by its content.

    `near` is the weight of the term that keeps features. It is 0 for a teacher that does not pool
    by the mean, because the means of its features are no vectors of texts. The outputs are
    `passages` (C P, D), `alone` (A, D), and `near` (T, D), the features of the first copy.

    Call arguments:
        inputs: dict of `token_ids` and, if the student has them, `position_ids`, (C, T); `members`
            (C, P, T), the weights of the mean over each passage; `alone_ids` and `alone_members`
            (A, L), some passages of the first copy with their name.
    """

    def __init__(self, student, near=NEAR, **kwargs):
        super().__init__(**kwargs)
        self.student, self.near = student, near

    def call(self, inputs):
        features = self._features(inputs["token_ids"], inputs.get("position_ids"))
        alone = self._features(inputs["alone_ids"])
        passages = ops.einsum("cpt,ctd->cpd", inputs["members"], features)
        return {
            "passages": ops.reshape(passages, (-1, features.shape[-1])),
            "alone": ops.einsum("pl,pld->pd", inputs["alone_members"], alone),
            "near": features[0],
        }

    def _features(self, tokens, positions=None):
        if positions is None:
            positions = ops.broadcast_to(ops.arange(ops.shape(tokens)[1]), ops.shape(tokens))
        inputs = {"token_ids": tokens, "segment_ids": 0 * tokens, "position_ids": positions}
        return ops.cast(self.student(inputs_of(self.student, inputs)), "float32")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        y = {name: ops.convert_to_tensor(value, "float32") for name, value in y.items()}
        target, real = _unit(y["passages"]), y["real"]
        found = _unit(y_pred["passages"])
        # A place without a passage is no candidate, and neither is a copy of the passage itself.
        place = ops.arange(ops.shape(real)[0])
        others = ops.not_equal(place[None], place[:, None])
        copies = ops.logical_and(others, ops.equal(y["same"][None], y["same"][:, None]))
        both = real[None] * real[:, None] * ops.cast(ops.logical_not(copies), "float32")
        scores = ops.matmul(found, ops.transpose(target)) / TEMPERATURE - 1e4 * (1 - both)
        entropies = (ops.logsumexp(scores, axis=1) + ops.logsumexp(scores, axis=0)) / 2
        passages = entropies - ops.diagonal(scores) + _apart(found, target)
        first = ops.shape(y_pred["alone"])[0]
        alone = _apart(_unit(y_pred["alone"]), target[:first])
        near = _apart(_unit(y_pred["near"]), _unit(y["near"]))
        return (
            _mean(passages, real)
            + ALONE * _mean(alone, real[:first])
            + self.near * _mean(near, y["kept"])
        )


def _unit(x):
    x = ops.cast(x, "float32")
    return x * ops.rsqrt(ops.maximum(ops.sum(x * x, axis=-1, keepdims=True), 1e-12))


def _apart(one, other):
    return 1 - ops.sum(one * other, axis=-1)


def _mean(values, weights):
    return ops.sum(values * weights) / ops.maximum(ops.sum(weights), 1.0)
