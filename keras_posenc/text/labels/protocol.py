"""The protocol of labels: from what a user writes to the targets and weights of a batch."""

import collections

import numpy as np

from keras_posenc.untrusted import quote


class Labels:
    """The labels of all texts of a `TextBatches`; a kind of labels is a subclass.

    Args:
        values: a list with one entry a text, or None where the labels are not known.

    Attributes:
        classes: the names of the classes in the order of their ids, or None.
        of_tokens: whether labels are of places in a row, and not of a text as a whole.
        needs_offsets: whether `encode` reads where in its text each token stands.

    Example:

    >>> class Lengths(Labels):  # a kind of its own: how many tokens a row has
    ...     def encode(self, texts, rows):
    ...         return [len(row.token_ids) for row in rows]
    >>> _, lengths = TextBatches([[7, 8, 9], [7]], Lengths(), shuffle=False)[0]
    >>> lengths.tolist()
    [1, 3]
    """

    of_tokens = needs_offsets = False
    classes = None

    def __init__(self, values=None):
        self.values = values

    def check_count(self, count):
        """Checks that there is a label for each of `count` texts.

        Args:
            count: number of texts.

        Raises:
            ValueError: there is not.
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
    """{name: id} of class names in the order of their ids.

    Raises:
        ValueError: if a name is there twice.
    """
    repeated = [name for name, times in collections.Counter(names).items() if times > 1]
    if repeated:
        raise ValueError(f"classes has {quote(repeated[0])} twice: each name is one class.")
    return {name: number for number, name in enumerate(names)}


def class_id(ids, number, name, what="label"):
    """The id of one class name.

    Raises:
        ValueError: names the text, the name and the classes there are.
    """
    try:
        return ids[name]
    except (KeyError, TypeError):
        known = ", ".join(map(repr, list(ids)[:10])) + (", ..." if len(ids) > 10 else "")
        raise ValueError(
            f"Text {number} has the {what} {quote(name)}, which is not one of the {len(ids)} "
            f"classes: {known}."
        ) from None
