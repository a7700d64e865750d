"""Labels of a whole text: one class, several classes, numbers."""

import numpy as np

from keras_posenc.files.untrusted import quote
from keras_posenc.text.labels.protocol import Labels, class_id, class_ids
from keras_posenc.text.same_texts import tokens_digest

MOST_IDS = 2**31  # of int32


class ClassLabels(Labels):
    """One class a text; what `TextBatches` makes of a plain list of labels.

    Targets are ids, (B,) int32. Every window of a text has the class of the text.

    Args:
        values: list of names, or of ids (ints) if `classes` is None; None if not known.
        classes: the names in the order of their ids; None sorts those in `values`.

    Example:

    >>> ClassLabels(["spam", "ham", "spam"]).classes
    ['ham', 'spam']
    """

    def __init__(self, values=None, classes=None):
        super().__init__(values)
        ids = class_ids(classes or ())
        self.classes, self._ids = None if classes is None else list(classes), None
        if values is None:
            return
        if classes is None:
            if all(isinstance(label, (int, np.integer, np.bool_)) for label in values):
                self._ids = _checked(values)
                return
            for number, label in enumerate(values):
                if not isinstance(label, str):
                    label = quote(label)
                    raise TypeError(
                        f"Text {number} has the label {label}: give names, or only ints, the ids "
                        "of classes, such as np.argmax(labels, axis=1) of one-hot rows. Several "
                        "names per text are MultiLabels(labels), numbers FloatLabels(labels)."
                    )
            self.classes = sorted(set(values))
            ids = class_ids(self.classes)
        self._ids = np.array([class_id(ids, n, label) for n, label in enumerate(values)], "int32")

    def encode(self, texts, rows):
        return None if self._ids is None else self._ids[[row.text for row in rows]]

    def class_counts(self, entries):
        return np.bincount(entries, minlength=len(self.classes or ()))


def _checked(values):
    if min(values, default=0) < 0:
        raise ValueError(f"A label id is {min(values)}; ids go from 0 up.")
    if max(values, default=0) >= MOST_IDS:
        raise ValueError(f"A label id is {max(values)}; ids go to {MOST_IDS - 1}.")
    return np.asarray(values, "int32")


class MultiLabels(Labels):
    """Any number of classes per text, for `keras.losses.BinaryCrossentropy`.

    Targets are 1.0 for each class that a text has, else 0.0: (B, C) float32.

    Args:
        values: list of lists of names, which may be empty; None if not known.
        classes: the names in the order of the columns; None sorts those in `values`.

    Example:

    >>> labels = MultiLabels([["politics"], [], ["sport", "politics"]])
    >>> _, targets = TextBatches([[7], [8], [9]], labels, shuffle=False)[0]
    >>> labels.classes, targets.tolist()
    (['politics', 'sport'], [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    """

    def __init__(self, values=None, classes=None):
        super().__init__(values)
        for number, names in enumerate(values or ()):
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise TypeError(
                    f"Text {number} has the labels {quote(names)}: give a list of names, which "
                    "may be empty."
                )
        if classes is None:
            classes = sorted({name for names in values or () for name in names})
        self.classes, ids = list(classes), class_ids(classes)
        self._hot = np.zeros((len(values or ()), len(ids)), "float32")
        for number, names in enumerate(values or ()):
            for name in names:
                self._hot[number, class_id(ids, number, name)] = 1

    def encode(self, texts, rows):
        return None if self.values is None else self._hot[[row.text for row in rows]]


class TextNumbers(Labels):
    """The numbers of the texts of each tuple, for losses that compare the rows of a batch.

    Targets are (B, S) int32. Texts with the same tokens have the same number in a batch. `values`:
    anything but None, which is for texts that are not compared.

    Example:

    >>> tuples = [([5], [7]), ([6], [7]), ([5], [8])]  # of token ids
    >>> rows = [tuple((ids, [0] * len(ids)) for ids in each) for each in tuples]
    >>> batches = TextBatches(rows, TextNumbers(()), apart=True, shuffle=False)
    >>> batches[0][1].tolist()
    [[0, 1], [2, 1], [0, 3]]
    """

    of_sides = True

    def check_count(self, count):
        """The numbers are those of the tokens."""

    def encode(self, texts, rows):
        if self.values is None:
            return None
        # Digests, because texts may be encoded a part at a time.
        digests = [tokens_digest(row.token_ids, row.segment_ids) for row in rows]
        return np.array(digests).reshape(len(texts), -1)

    def pad(self, entries, width):
        # Small numbers: Keras turns targets into floats.
        entries = np.array(entries)
        _, numbers = np.unique(entries, return_inverse=True)
        return numbers.reshape(entries.shape).astype("int32"), None


class FloatLabels(Labels):
    """One number per text, or several, for `keras.losses.MeanSquaredError`.

    Targets are (B, n) float32.

    Args:
        values: list of numbers, or of lists of n numbers; None if not known.

    Example:

    >>> _, targets = TextBatches([[7], [8]], FloatLabels([0.5, 3]), shuffle=False)[0]
    >>> targets.tolist()
    [[0.5], [3.0]]
    """

    def __init__(self, values=None):
        super().__init__(values)
        if values is None:
            return
        rows = [np.atleast_1d(_number(n, value)) for n, value in enumerate(values)]
        for number, row in enumerate(rows):
            if row.shape != rows[0].shape:
                raise ValueError(
                    f"Text {number} has {len(row)} numbers where text 0 has {len(rows[0])}: give "
                    "as many to each text."
                )
        self._numbers = np.stack(rows).astype("float32") if rows else np.zeros((0, 1), "float32")

    def encode(self, texts, rows):
        return None if self.values is None else self._numbers[[row.text for row in rows]]


def _number(number, value):
    try:
        numbers = np.asarray(value, "float64")
    except (TypeError, ValueError):
        numbers = np.asarray(np.nan)
    if numbers.ndim > 1 or numbers.size == 0 or not np.isfinite(numbers).all():
        raise ValueError(f"Text {number} has the label {quote(value)}: give a finite number.")
    return numbers
