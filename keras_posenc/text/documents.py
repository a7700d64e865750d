"""From texts of any kind to the rows of batches: encoding, truncation, windows."""

import collections.abc
import re
import typing

import numpy as np

from keras_posenc.files.untrusted import SURROGATES, quote, shorten
from keras_posenc.text.truncation import truncate

MOST_IDS = 2**31  # of int32
SEPARATORS = re.compile(r"[ \t\n\r]")


class Row(typing.NamedTuple):
    """What becomes a row of a batch: a text, or a window of one.

    Attributes:
        token_ids, segment_ids: list of int. Both have T entries.
        text: int. Number of the text.
        window: int. Number of the window in the text, from 0.
        offsets: (T, 3) ints, or None. For each token the number of its text in a pair (-1 for a
            special token), and the start and end of its characters. If texts are ids, an id counts
            as a character.
        position_ids: list of int or None. None stands for 0, 1, 2, ... If a row holds several
            documents, they start again at 0 with each.

    Example:

    >>> row = Row(token_ids=[101, 7592, 102], segment_ids=[0, 0, 0], text=0)
    >>> row.window, row.offsets
    (0, None)
    """

    token_ids: list
    segment_ids: list
    text: int
    window: int = 0
    offsets: np.ndarray | None = None
    position_ids: list | None = None


def encode_rows(texts, tokenizer, max_length, stride=None, offsets=False):
    """Encodes texts of any accepted kind.

    The arguments are those of `TextBatches`. `texts`: str, pairs of str, lists of words, lists of
    ids, `(token_ids, segment_ids)` or `(token_ids, segment_ids, position_ids)`. `offsets`: whether
    rows have the position of each token in its text. Returns a list of `Row`, and an int array of
    the token counts of the texts before truncation.
    """
    kind = kind_of_all(texts)
    if kind == "ids":
        return _encode_ids(texts, tokenizer, max_length, stride, offsets)
    if tokenizer is None:
        raise ValueError("Texts need a tokenizer=; only lists of ids do without.")
    if kind == "words":
        texts = [" ".join(words) for words in texts]
    sides = [texts] if kind != "pair of str" else list(zip(*texts, strict=True))
    if offsets:
        contents = [_with_offsets(tokenizer, side, n) for n, side in enumerate(sides)]
    else:
        contents = [tokenizer.contents(side) for side in sides]
    special = tokenizer.special_tokens(pair=len(sides) == 2)
    both = list(zip(*contents, strict=True))
    lengths = np.array([sum(map(len, parts)) + special for parts in both])
    rows = []
    for number, parts in enumerate(both):
        pieces = [parts]
        if stride is not None and lengths[number] > _limit(max_length):
            pieces = _windows(number, parts, max_length - special, stride)
        for window, piece in enumerate(pieces):
            items, segments = tokenizer.assemble(*piece, max_length=max_length)
            rows.append(_row(items, segments, number, window, offsets))
    return rows, lengths


def encode_apart(texts, tokenizer, max_length, stride=None):
    """Encodes each text of the tuples apart.

    `texts`: a list of tuples of S str each, of S pairs of str, or of S `(token_ids, segment_ids)`.
    Returns `(rows, lengths, S)`: S rows a tuple, one after the other, and an int array of the token
    counts of the tuples' longest texts before truncation.
    """
    if stride is not None:
        raise ValueError("apart=True takes no stride=: the texts of a tuple belong together.")
    for number, group in enumerate(texts):
        if not isinstance(group, tuple) or not all(map(_is_one_text, group)):
            raise TypeError(
                f"Text {number} is no tuple of str, or of pairs of str, as apart=True needs: "
                f"{quote(group)}."
            )
        parts = [part for text in group for part in ([text] if isinstance(text, str) else text)]
        filled = all(part.strip() if isinstance(part, str) else part for part in parts)
        if len(group) != len(texts[0]) or not group or not filled:
            raise ValueError(
                f"Text {number} is {quote(group)}: give tuples of as many texts each, none empty."
            )
    flat = [text for group in texts for text in group]
    rows, lengths = encode_rows(flat, tokenizer, max_length)
    sides = len(flat) // len(texts)
    rows = [row._replace(text=row.text // sides) for row in rows]
    return rows, lengths.reshape(-1, sides).max(axis=1), sides


def _is_one_text(text):
    """Whether a text of a tuple is a str, a pair of str or `(token_ids, segment_ids)`."""
    if isinstance(text, str):
        return True
    pair = isinstance(text, tuple) and len(text) == 2
    return pair and any(all(isinstance(part, kind) for part in text) for kind in (str, list))


def _row(items, segments, text, window, offsets):
    if not offsets:
        return Row(items, segments, text, window)
    # `assemble` puts special tokens, which are ints, between our tuples.
    tokens = [(item, -1, 0, 0) if isinstance(item, int) else item for item in items]
    table = np.array(tokens, int).reshape(-1, 4)
    return Row(table[:, 0].tolist(), segments, text, window, table[:, 1:])


def _limit(max_length):
    if max_length is None:
        raise ValueError("stride= makes windows of max_length tokens, which is None: give both.")
    return max_length


def _windows(number, parts, room, stride):
    """The pieces of the last part, each after all of the first."""
    *first, last = parts
    room -= (taken := sum(map(len, first)))
    if room <= 0 and not stride:
        raise ValueError(
            f"Text {number}: its first text has {taken:,} tokens, and a window or chunk has room "
            f"for {room + taken:,}, so that none is left for its second text: make them longer, or "
            "cut both texts by `max_length` in place of chunks."
        )
    if room <= stride:
        raise ValueError(
            f"Text {number}: windows of max_length tokens have room for {max(room, 0)} of it, and "
            f"are to share {stride}: raise max_length or lower stride."
        )
    starts = range(0, max(len(last) - stride, 1), room - stride)
    return [(*first, last[start : start + room]) for start in starts]


def _with_offsets(tokenizer, texts, side):
    """The tokens of texts, without special ones: lists of (id, side, start, end) in characters."""
    contents = tokenizer.contents(texts, offsets=True)
    return [[(i, side, *span) for i, span in zip(*content, strict=True)] for content in contents]


def _encode_ids(texts, tokenizer, max_length, stride, offsets):
    most = MOST_IDS if tokenizer is None else tokenizer.vocab_size
    if stride is not None:
        raise ValueError("stride= splits texts; make windows of ids with Tokenizer.windows.")
    rows = []
    for number, text in enumerate(texts):
        ids, segments, positions = parts_of(text)
        _check_ids(number, ids, segments, most, positions)
        places = np.arange(len(ids))
        if max_length is not None and len(ids) > max_length:
            if positions is not None:
                raise ValueError(
                    f"Text {number} has position ids and {len(ids)} tokens, more than max_length="
                    f"{max_length}: a row of several documents is not truncated."
                )
            # The first one, [CLS], and the last one, [SEP], stay.
            edge, side = max_length > 1, "right" if tokenizer is None else tokenizer.truncate_from
            parts = (ids, segments, places)
            inner = (
                truncate([list(part[edge:-1])], max_length - 1 - edge, side)[0] for part in parts
            )
            ids, segments, places = (
                [*part[:edge], *kept, part[-1]] for part, kept in zip(parts, inner, strict=True)
            )
        table = np.stack([np.zeros_like(places), places, np.add(places, 1)], 1) if offsets else None
        rows.append(Row(ids, segments, number, 0, table, positions))
    return rows, np.array([len(ids) for ids, *_ in map(parts_of, texts)])


def check_list(texts, name="texts"):
    """Refuses what is no list, such as one str, None, a generator, a dict or a data frame."""
    if not is_list(texts):
        raise TypeError(f"`{name}` must be a list. Received: {quote(texts)}")


def check_strs(texts, name="texts"):
    """Refuses what is no list of str."""
    check_list(texts, name)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"`{name}` must be a list of str. Received: {quote(text)} at {number}")


def check_queries(queries, name="queries"):
    """Refuses what is no list of str that a tokenizer reads."""
    check_strs(queries, name)
    if not len(queries):
        raise ValueError(f"`{name}` must have a text. Received: []")
    for number, query in enumerate(queries):
        if not query.strip() or SURROGATES.search(query):
            what = "have half a surrogate pair" if query.strip() else "be empty"
            raise ValueError(f"`{name}` must not {what}. Received: {quote(query)} at {number}")


def is_list(texts):
    """Whether texts have numbers, as those of a list, an array or a column have."""
    by_name = hasattr(texts, "keys") and getattr(texts, "ndim", 2) != 1  # a Series has one axis
    no_list = isinstance(texts, (str, bytes, collections.abc.Set)) or by_name
    return hasattr(texts, "__len__") and not no_list and getattr(texts, "ndim", 1) > 0


def texts_of(column, name="texts"):
    """The texts of a list, an array or a column as a list, or an error if one is none.

    `column`: list, array or Series. `name`: str. The name of the argument, for errors.
    """
    check_list(column, name)
    if getattr(column, "ndim", 1) != 1:
        raise TypeError(f"`{name}` must have one axis. Received: shape {column.shape}")
    texts = column.tolist() if hasattr(column, "tolist") else list(column)
    kind_of_all(texts)
    return texts


def kind_of_all(texts, first=0):
    """What texts are, "str" or another kind, or an error for one, which counts from `first`."""
    check_list(texts)
    if len(texts) == 0:
        raise ValueError("No texts to batch: the list is empty.")
    kinds = {kind_of(f"Text {number}", text) for number, text in enumerate(texts, first)}
    if len(kinds) > 1:
        raise TypeError(f"Texts of several kinds, {' and '.join(sorted(kinds))}: give one kind.")
    return kinds.pop()


def kind_of(name, text):
    """What a text is, or an error with the name that it is given."""
    if isinstance(text, str):
        kind, filled = "str", bool(text.strip())
    elif isinstance(text, tuple) and len(text) == 2 and all(isinstance(t, str) for t in text):
        kind, filled = "pair of str", all(t.strip() for t in text)
    elif isinstance(text, list) and text and all(isinstance(word, str) for word in text):
        kind, filled = "words", any(map(str.strip, text))
        for word in text:
            if not is_word(word):
                raise ValueError(
                    f"{name} has the word {quote(word)}: words are not empty and have no spaces or "
                    "line ends in them."
                )
    elif isinstance(text, (list, tuple, np.ndarray)):
        kind, filled = "ids", len(text) and len(parts_of(text)[0])
    else:
        hint = "; to_pylist() of a column of pyarrow has str" if hasattr(text, "as_py") else ""
        is_nan = isinstance(text, (float, np.floating)) and text != text
        if text is None or type(text).__name__ in ("NAType", "NaTType") or is_nan:
            hint = "; leave out the rows without a text"
        raise TypeError(
            f"{name} is a {type(text).__name__}; give a str, a pair of str or a list of ids{hint}."
        )
    if not filled:
        raise ValueError(f"{name} is empty; leave it out.")
    return kind


def is_word(word):
    """Whether a word can be joined to others by a space and be found again. Other spaces may be in
    it, such as the no-break space of 10\u00a0000."""
    return isinstance(word, str) and bool(word) and not SEPARATORS.search(word)


def parts_of(text):
    """The token ids, segment ids and position ids of a text of ids; None for no position ids."""
    if isinstance(text, tuple) and len(text) in (2, 3) and np.ndim(text[0]) == 1:
        return (*text, None)[:3]
    return text, [0] * len(text), None


def _check_ids(number, ids, segments, most, positions=None):
    """Refuses what int32 would make another id of, or what no row of the token table is for."""
    kinds = [("token id", ids, most), ("segment id", segments, MOST_IDS)]
    if positions is not None:
        kinds.append(("position id", positions, MOST_IDS))
    for name, values, bound in kinds:
        try:
            array = np.asarray(values)
        except (ValueError, OverflowError):  # lists of several lengths, or huge
            array = np.asarray(None)
        # NumPy makes floats of ints beyond 2^63, objects of larger ones.
        if array.ndim != 1 or array.dtype.kind not in "iu":
            others = [value for value in values if not isinstance(value, (int, np.integer))]
            wrong = shorten(others[0] if others else max(values))
            raise ValueError(f"Text {number} has the {name} {wrong}: give ints below {bound}.")
        if array.min() < 0 or array.max() >= bound:
            wrong = f"{name} {array.min() if array.min() < 0 else array.max()}"
            raise ValueError(f"Text {number} has the {wrong}: they go from 0 to {bound - 1}.")
        if len(ids) != len(values):
            raise ValueError(f"Text {number} has {len(ids)} token ids but {len(values)} {name}s.")
