"""Reading of texts that belong together: pairs, tuples with negatives, and their scores."""

import re

from keras_posenc.files.untrusted import quote, shorten
from keras_posenc.text.files import LABEL_NAMES, label_column, present, read_rows, tuples_in, usual
from keras_posenc.text.label_columns import numbers_in

SCORE_NAMES = ("score", "scores", "similarity", "value", "rating", "margin", *LABEL_NAMES)
GROUP_NAMES = (
    ("anchor", "sentence1", "question", "query", "text1", "first"),
    ("positive", "sentence2", "answer", "text2", "second"),
    ("negative", "sentence3", "text3", "third"),
)
_NUMBERED = re.compile(r"negative_[0-9]{1,3}", re.IGNORECASE)  # of several


def read_groups(path, text, label):
    """Reads tuples of two texts or more, and their scores if there are any.

    `text`: the names of the columns; None picks those with usual names, and all that are called
    negative_1, negative_2 and so on. `label`: name of the column of scores; None picks one with a
    usual name, False none. Returns a `Texts` of tuples, with labels that are numbers or lists of
    several, or None.
    """
    columns, rows, _ = read_rows(path)
    if text is None:
        keys = [usual(columns, names) for names in GROUP_NAMES]
        numbered = [name for name in columns if _NUMBERED.fullmatch(name)]
        numbered.sort(key=lambda name: int(name.partition("_")[2]))
        text = tuple(name for name in (*keys, *numbered) if name)
        if len(text) < 2 or keys[0] is None or keys[1] is None:
            raise ValueError(
                f"{path}: which columns have the texts? Give text= (--text-column), two or more of "
                f"{shorten(columns)}."
            )
    if isinstance(text, str) or len(text) < 2:
        raise ValueError(
            f'Give two columns or more, text=("anchor", "positive"). Received: text={quote(text)}'
        )
    names = [present(path, name, columns, "text= (--text-column)") for name in text]
    label = label_column(path, label, columns, tuple(names), SCORE_NAMES)
    return tuples_in(path, rows, names, label, _score)


def _score(where, cell):
    numbers = numbers_in(where, cell)
    return numbers[0] if len(numbers) == 1 else numbers
