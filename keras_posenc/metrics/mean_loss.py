"""The loss of an epoch as a mean over what counts, regardless of the batches."""

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.files.untrusted import quote
from keras_posenc.keras_support.configured import Configured


@keras.saving.register_keras_serializable(package="keras_posenc")
class MeanLoss(Configured, keras.metrics.Metric):
    """The mean of a loss over all that counts, in the place of the loss that `fit` shows.

    loss = (sum of w l) / (sum of w). The sums are over all batches of an epoch, with the weights w
    and the losses l of all texts, or of all tokens. What a Keras mask or the loss leaves out, such
    as `ignore_class`, has no weight. Keras takes a mean of the means of the batches by their
    numbers of rows. There a text of a small batch counts more if the weights differ, or if rows of
    weight 0 fill up a batch, as `TextBatches` does for several devices. Give it as one of
    `weighted_metrics`. The loss is computed again, which is little beside the model.

    Args:
        loss: `keras.losses.Loss` with `reduction="mean_with_sample_weight"`, as in `compile`.
        name: str. The default replaces the loss that `fit` and `evaluate` show.
        **kwargs: as in `keras.metrics.Metric`.

    Example:

    >>> loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
    >>> metric = MeanLoss(loss)
    >>> metric.update_state([[0.0], [0.0]], [[1.0], [5.0]], [1.0, 0.0])
    >>> metric.update_state([[0.0], [0.0]], [[2.0], [3.0]], [1.0, 1.0])
    >>> round(float(metric.result()), 4)
    4.6667
    """

    def __init__(self, loss, name="loss", **kwargs):
        super().__init__(name=name, **kwargs)
        if getattr(loss, "reduction", None) != "mean_with_sample_weight":
            raise ValueError(
                "`loss` must be an object of Keras with reduction='mean_with_sample_weight'. "
                f"Received: {quote(loss)}"
            )
        self.loss = loss
        # By no reduction, since Keras divides a reduced loss by the replicas of TensorFlow.
        self._each = type(loss).from_config({**loss.get_config(), "reduction": "none"})
        # A layer, so that the ones have the mask of the losses.
        self._ones = keras.layers.Activation(ops.ones_like, autocast=False, name="ones")
        self.total = self.add_variable((), initializer="zeros", name="total")
        self.count = self.add_variable((), initializer="zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch; the arguments are those of every metric."""
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        losses = []

        def keep(y_true, y_pred):
            losses.append(self._each.call(y_true, y_pred))
            return losses[0]

        # The loss itself weights 1, too: it knows of masks, and may change the weights.
        for total, call in ((self.total, keep), (self.count, lambda *_: self._ones(losses[0]))):
            weighted = _calling(self._each, call)(y_true, y_pred, sample_weight)
            total.assign_add(ops.sum(ops.cast(weighted, self.dtype)))

    def result(self):
        """The mean, 0 if nothing counts."""
        # Keras shows the mean of the replicas' results, but their weights may differ.
        sums = (backend.sum_over_replicas(each.value) for each in (self.total, self.count))
        return ops.divide_no_nan(*sums)

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "loss": keras.losses.deserialize(config["loss"])})


def _calling(loss, call):
    """The loss with another `call`. Replicas of TensorFlow have one metric, so each call of it
    changes a loss of its own. Keras' copies are made by serializing, this one is not."""
    other = object.__new__(type(loss))
    vars(other).update(vars(loss), call=call)
    return other
