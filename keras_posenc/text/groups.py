"""Reading of texts that belong together: pairs, triples, pairs with a score."""

from keras_posenc.text.files import (
    LABEL_NAMES,
    READERS,
    Place,
    Texts,
    present,
    read_rows,
    text_in,
    usual,
    value_in,
)
from keras_posenc.text.label_columns import numbers_in
from keras_posenc.untrusted import quote, shorten

SCORE_NAMES = ("score", "similarity", "value", "rating", *LABEL_NAMES)
GROUP_NAMES = (
    ("anchor", "sentence1", "question", "query", "text1", "first"),
    ("positive", "sentence2", "answer", "text2", "second"),
    ("negative", "sentence3", "text3", "third"),
)


def read_groups(path, text, label):
    """Reads pairs or triples of texts, and the scores of pairs if there are any.

    Args:
        path: the file.
        text: the names of the two or three columns; None picks those with usual names.
        label: name of the column of scores; None picks one with a usual name, if there is one;
            False reads none.

    Returns:
        A `Texts` of tuples, with labels that are numbers, or None.
    """
    columns, rows, flagged = read_rows(path, READERS)
    if text is None:
        keys = [usual(columns, names) for names in GROUP_NAMES]
        text = tuple(name for name in keys if name)
        if len(text) < 2 or keys[0] is None or keys[1] is None:
            raise ValueError(
                f"{path}: which columns have the texts? Give text= (--text-column), two or "
                "three of "
                f"{shorten(columns)}."
            )
    if isinstance(text, str) or len(text) not in (2, 3):
        raise ValueError(
            f'Give two or three columns, text=("anchor", "positive"). Received: text={quote(text)}'
        )
    names = [present(path, name, columns) for name in text]
    if label is None:
        others = [name for name in columns if name not in names]
        label = usual(others, SCORE_NAMES)
    elif label:
        label = present(path, label, columns)
    texts = [tuple(text_in(path, n, row, name) for name in names) for n, row in rows]
    labels = None
    if label:
        labels = [
            numbers_in(Place(path, n, label), value_in(path, n, row, label))[0] for n, row in rows
        ]
    return Texts(texts, labels, [n for n, _ in rows])
