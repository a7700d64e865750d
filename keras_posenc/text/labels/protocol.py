"""The protocol of labels: from what a user writes to the targets and weights of a batch."""

import collections

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote


class Labels:
    """The labels of all texts of a `TextBatches`; a kind of labels is a subclass.

    Args:
        values: list or None. One entry per text; None if the labels are not known.

    Attributes:
        classes: list of str or None. The names of the classes in the order of their ids.
        of_tokens: bool. Whether labels belong to positions in a row, not to a text as a whole.
        of_sides: bool. Whether `encode` reads the rows of all texts of a tuple, not only the first.
        needs_offsets: bool. Whether `encode` reads the position of each token in its text.

    Example:

    >>> class Lengths(Labels):  # a new kind: how many tokens a row has
    ...     def encode(self, texts, rows):
    ...         return [len(row.token_ids) for row in rows]
    >>> _, lengths = TextBatches([[7, 8, 9], [7]], Lengths(), shuffle=False)[0]
    >>> lengths.tolist()
    [1, 3]
    """

    of_tokens = of_sides = needs_offsets = False
    classes = None

    def __init__(self, values=None):
        self.values = values

    def check_count(self, count):
        """Checks that there is a label for each of `count` texts.

        Args:
            count: number of texts.
        """
        if self.values is not None and len(self.values) != count:
            raise ValueError(
                f"{count} texts but {len(self.values)} labels: give one label to each text."
            )

    def encode(self, texts, rows):
        """Encodes the labels, row by row.

        Args:
            texts: the texts, as `TextBatches` takes them.
            rows: list of `Row`; several of them are windows of one text, `texts[row.text]`.

        Returns:
            A list with one entry a row, of which `pad` makes batches, or None if there are no
            labels.
        """
        raise NotImplementedError

    def class_counts(self, entries):
        """Counts the classes.

        Args:
            entries: what `encode` returned.

        Returns:
            (C,) array: how many targets that count have each class; None where a target is no id of
            a class.
        """
        return None

    def pad(self, entries, width):
        """Makes the targets of a batch.

        Args:
            entries: list of what `encode` gave for the rows of the batch.
            width: T, the tokens of a row, padding included.

        Returns:
            `(targets, weights)`, arrays whose first axis is the rows; the weights are None where
            everything counts.
        """
        return np.array(entries), None


def class_ids(names):
    """{name: id} of class names in the order of their ids."""
    repeated = [name for name, times in collections.Counter(names).items() if times > 1]
    if repeated:
        raise ValueError(
            f"`classes` must have each name once. Received twice: {quote(repeated[0])}"
        )
    return {name: number for number, name in enumerate(names)}


def class_weights(weights, classes, counts=None):
    """The weight of each class, from the argument of a user.

    `weights`: maps the name or the id of a class to its weight, 1 if it is missing; "balanced"
    gives each class the same sum of weights. `classes`: their names in the order of their ids, or
    None. `counts`: (C,), how often each occurs. Returns a float32 array (C,).

    Example:

    >>> class_weights({"spam": 3}, ["ham", "spam"]).tolist()
    [1.0, 3.0]
    >>> class_weights("balanced", ["ham", "spam"], np.array([3, 1])).tolist()
    [0.6666666865348816, 2.0]
    """
    if isinstance(weights, str) and weights == "balanced" and counts is not None:
        seen = counts > 0
        return np.where(seen, counts.sum() / seen.sum() / np.maximum(counts, 1), 1).astype(
            "float32"
        )
    if not isinstance(weights, dict):
        raise TypeError(
            "`class_weight` must be a dict of a weight for each class, or 'balanced'. Received: "
            f"{quote(weights)}"
        )
    count = len(counts) if classes is None else len(classes)
    result, ids = np.ones(count, "float32"), class_ids(classes or ())
    given = set()
    for name, weight in weights.items():
        number = ids.get(name, name)
        whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        if not whole or not 0 <= number < count:
            known = ", ".join(map(quote, list(ids)[:10])) + (", ..." if len(ids) > 10 else "")
            raise ValueError(
                f"`class_weight` has {quote(name)}, which is none of the {count} classes"
                f"{known and f': {known}'}. Give their names, or ids from 0 to {count - 1}."
            )
        if number in given:
            raise ValueError(f"`class_weight` has the class {quote(name)} by its name and its id.")
        given.add(number)
        result[number] = checks.number(f"class_weight[{name!r}]", weight, least=0)
    if not result[... if counts is None else np.asarray(counts) > 0].any():
        raise ValueError(
            "`class_weight` must have a weight above 0 for a class that occurs: nothing is learned "
            f"from the others. Received: {quote(weights)}"
        )
    return result


def class_id(ids, number, name, what="label"):
    """The id of one class name."""
    try:
        return ids[name]
    except (KeyError, TypeError):
        known = ", ".join(map(repr, list(ids)[:10])) + (", ..." if len(ids) > 10 else "")
        raise ValueError(
            f"Text {number} has the {what} {quote(name)}, which is not one of the {len(ids)} "
            f"classes: {known}."
        ) from None
