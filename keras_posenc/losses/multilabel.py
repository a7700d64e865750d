"""The cross-entropy of several labels together, and a score of the spans that are found."""

import keras
from keras import ops

from keras_posenc.backend.weighing import CLOSED
from keras_posenc.keras_support.configured import Configured
from keras_posenc.layers.structured.label_range import check_labels, mark_missing_labels

AXES = (-1, (-2, -1))
REMEDY = "Negative ones are padding."


@keras.saving.register_keras_serializable(package="keras_posenc")
class MultilabelCategoricalCrossentropy(Configured, keras.losses.Loss):
    """Cross-entropy of scores where several classes are right, or none.

        loss = log(1 + sum over wrong classes exp(s)) + log(1 + sum over right classes exp(-s)).

    It pushes right classes above 0 and wrong ones below. Unlike in a sum of binary cross-entropies,
    few right classes are not drowned out by very many wrong ones.

    Args:
        axis: -1, or (-2, -1) where the classes are the spans of a `GlobalPointer`.
        reduction: as in `keras.losses.Loss`.
        name: str.
        dtype: dtype of the result. The sums are float32.

    Call arguments:
        y_true: (..., C) or (..., T, T). 1 for right classes and 0 for wrong ones; a number in
            between is the probability of the class.
        y_pred: Scores (logits) of the shape of `y_true`. Scores below -1e8 are masked.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> loss, scores = MultilabelCategoricalCrossentropy(), np.array([[4.0, 5.0, -6.0]])
    >>> round(float(loss(np.array([[1, 1, 0]]), scores)), 4)
    0.0272
    >>> round(float(loss(np.array([[1, 0, 0]]), scores)), 4)
    5.0249

    Reference: Su Jianlin, [Softmax cross-entropy for several
    labels](https://kexue.fm/archives/7359), 2020. Su et al.,
    [ZLPR](https://arxiv.org/abs/2208.02955), 2022.
    """

    def __init__(
        self,
        axis=-1,
        reduction="sum_over_batch_size",
        name="multilabel_categorical_crossentropy",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.axis = tuple(axis) if isinstance(axis, (list, tuple)) else axis
        if self.axis not in AXES:
            raise ValueError(f"`axis` must be one of {AXES}. Received: {axis!r}")

    def call(self, y_true, y_pred):
        _check_shapes(y_true.shape, y_pred.shape)
        return self.between(ops.cast(y_true, "float32"), ops.cast(y_pred, "float32"))

    def between(self, right, scores):
        """The losses of scores; `right` marks the right classes, both are float32."""
        is_open = scores > CLOSED / 10
        wrong = ops.where(is_open & (right < 1), scores + _log(1 - right), CLOSED)
        right = ops.where(is_open & (right > 0), _log(right) - scores, CLOSED)
        sums = [ops.logsumexp(each, axis=self.axis) for each in (wrong, right)]
        return ops.softplus(sums[0]) + ops.softplus(sums[1])


@keras.saving.register_keras_serializable(package="keras_posenc")
class SparseMultilabelCategoricalCrossentropy(MultilabelCategoricalCrossentropy):
    """`MultilabelCategoricalCrossentropy` of right classes that are listed by their numbers.

    Args:
        axis: -1, or (-2, -1) where the classes are the spans of a `GlobalPointer`.
        reduction: as in `keras.losses.Loss`.
        name: str.
        dtype: dtype of the result. The sums are float32.

    Call arguments:
        y_true: (..., P) integers, the right classes, padded with -1; or (..., P, 2), the first and
            the last token of each right span.
        y_pred: (..., C) or (..., T, T), scores (logits). What is closed, below -1e8, does not
            count.

    Returns:
        The reduced loss, a scalar by default.

    Example:

    >>> loss = SparseMultilabelCategoricalCrossentropy()
    >>> round(float(loss(np.array([[1, 0, -1]]), np.array([[4.0, 5.0, -6.0]]))), 4)
    0.0272

    Reference: Su Jianlin, [Softmax cross-entropy for several labels, its sparse
    form](https://kexue.fm/archives/8373), 2021. Here the listed classes are taken out of the sum of
    the wrong ones, not subtracted from it, so nothing cancels.
    """

    def __init__(
        self,
        axis=-1,
        reduction="sum_over_batch_size",
        name="sparse_multilabel_categorical_crossentropy",
        dtype=None,
    ):
        super().__init__(axis, reduction, name, dtype)

    def call(self, y_true, y_pred):
        labels = ops.cast(y_true, "int32")
        right = from_list(labels, y_pred, 1 if self.axis == -1 else 2)
        losses = self.between(right, ops.cast(y_pred, "float32"))
        return mark_missing_labels(losses, labels, ops.shape(y_pred)[-1])


@keras.saving.register_keras_serializable(package="keras_posenc")
class SpanF1(Configured, keras.metrics.Metric):
    """Precision and recall of the spans that a `GlobalPointer` finds, as F1 over all texts.

    F1 = 2 both / (predicted + right), counted over all texts and kinds; a span is predicted
    where its score is above the threshold.

    Args:
        sparse: bool. Whether `y_true` lists spans, as for
            `SparseMultilabelCategoricalCrossentropy`.
        threshold: float.
        name: str.
        dtype: dtype of the result.

    Example:

    >>> metric = SpanF1(sparse=True)
    >>> scores = np.full((1, 1, 3, 3), -2.0)
    >>> scores[0, 0, 0, 1] = scores[0, 0, 2, 2] = 2.0
    >>> metric.update_state(np.array([[[[0, 1], [1, 1]]]]), scores)
    >>> float(metric.result())
    0.5
    """

    def __init__(self, sparse=False, threshold=0.0, name="span_f1", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.sparse, self.threshold = sparse, threshold
        self.both, self.predicted, self.right = (
            self.add_variable((), "zeros", name=name) for name in ("both", "predicted", "right")
        )

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
            y_true: (B, H, T, T), 1 for spans and 0 for the rest; (B, H, P, 2) if `sparse`.
            y_pred: (B, H, T, T), scores.
            sample_weight: (B,), or None.
        """
        y_pred = ops.convert_to_tensor(y_pred)
        if self.sparse:
            right = from_list(ops.cast(y_true, "int32"), y_pred, 2) > 0
        else:
            _check_shapes(y_true.shape, y_pred.shape)
            right = ops.cast(y_true, "float32") > 0.5
        right = right & (y_pred > CLOSED / 10)
        predicted = y_pred > self.threshold
        for total, cells in (
            (self.both, predicted & right),
            (self.predicted, predicted),
            (self.right, right),
        ):
            counts = ops.sum(ops.cast(cells, "float32"), axis=(1, 2, 3))
            if sample_weight is not None:
                counts = counts * ops.cast(sample_weight, "float32")
            total.assign_add(ops.cast(ops.sum(counts), total.dtype))

    def result(self):
        """2 both / (predicted + right); 0 where there are no spans at all."""
        spans = self.predicted + self.right
        return ops.divide_no_nan(2 * self.both, spans)


def from_list(labels, scores, axes):
    """1.0 for the classes that are listed, else 0.0, in the shape of the scores.

    `labels`: int32 (..., P), or (..., P, 2) for two axes of classes; negative ones are padding.
    `scores`: (..., C) or (..., T, T). `axes`: 1 or 2.
    """
    received, wanted = tuple(labels.shape), tuple(scores.shape)
    leading = list(zip(received[:-axes], wanted[:-axes], strict=False))
    if (
        len(received) != len(wanted)
        or (axes == 2 and received[-1] != 2)
        or any(None not in pair and pair[0] != pair[1] for pair in leading)
    ):
        what = "classes have the shape (..., P)" if axes == 1 else "spans the shape (..., P, 2)"
        raise ValueError(
            f"Lists of right {what}, the other axes those of the scores {wanted}. "
            f"Received: {received}"
        )
    what = "Class" if axes == 1 else "A span's token"
    labels = check_labels(labels, wanted[-1], what, REMEDY)
    shape = ops.shape(scores)
    size = shape[-1]
    if axes == 2:
        is_one = ops.all(labels >= 0, axis=-1)
        labels = labels[..., 0] * size + labels[..., 1]
        size = size * size
    else:
        is_one = labels >= 0
    listed = ops.shape(labels)[-1]
    rows = ops.arange(0, _product(shape[:-axes]), dtype="int32")
    labels = ops.reshape(ops.where(is_one, labels, 0), (-1, listed))
    cells = ops.stack([rows[:, None] + ops.zeros_like(labels), labels], axis=-1)
    ones = ops.reshape(ops.cast(is_one, "float32"), (-1,))
    counts = ops.scatter(ops.reshape(cells, (-1, 2)), ones, (_product(shape[:-axes]), size))
    return ops.cast(ops.reshape(counts, shape) > 0, "float32")


def _product(sizes):
    total = 1
    for size in sizes:
        total = total * size
    return total


def _log(x):
    # x = 0 is replaced by another number, because the gradient would be NaN.
    return ops.log(ops.where(x > 0, x, 1.0))


def _check_shapes(received, wanted):
    if len(received) != len(wanted) or any(
        None not in pair and pair[0] != pair[1] for pair in zip(received, wanted, strict=True)
    ):
        raise ValueError(
            f"Each class needs a label: 0 or 1 in the shape of the scores, {tuple(wanted)}. "
            f"Received: {tuple(received)}"
        )
