"""Validation and encoding of the inputs of `TextBatches`: documents to ids, labels to ids."""

import collections

import numpy as np

from keras_posenc.untrusted import quote, shorten

MOST_IDS = 2**31  # of int32


def encode_documents(texts, tokenizer, max_length):
    """Encodes documents of any accepted kind.

    Args:
        texts: a list of str, of pairs of str, of lists of ids or of `(token_ids, segment_ids)`.
        tokenizer: a `Tokenizer`; may be None for ids.
        max_length: maximum number of tokens, special tokens included, or None.

    Returns:
        `(documents, lengths)`: a list of `(token_ids, segment_ids)`, and an int array of the token
        counts before truncation.

    Raises:
        ValueError: if there are no texts, one is empty, or a tokenizer is missing.
        TypeError: if a text is none of these, or the texts are of several kinds.
    """
    if isinstance(texts, str):
        raise TypeError("Expected a list of texts, not one str.")
    if len(texts) == 0:
        raise ValueError("No texts to batch: the list is empty.")
    kinds = {_kind(number, text) for number, text in enumerate(texts)}
    if len(kinds) > 1:
        raise TypeError(f"Texts of several kinds, {' and '.join(sorted(kinds))}: give one kind.")
    if kinds == {"ids"}:
        most = MOST_IDS if tokenizer is None else tokenizer.vocab_size
        for number, text in enumerate(texts):
            _check_ids(number, *_with_segments(text), most)
        documents = [_cut(text, max_length) for text in texts]
        return documents, np.array([len(ids) for ids, _ in map(_with_segments, texts)])
    if tokenizer is None:
        raise ValueError("Texts need a tokenizer=; only lists of ids do without.")
    if kinds == {"str"}:
        first, second = tokenizer.contents(texts), [None] * len(texts)
    else:
        first, second = (tokenizer.contents(side) for side in zip(*texts, strict=True))
    special = tokenizer.special_tokens(pair=kinds == {"pair of str"})
    both = list(zip(first, second, strict=True))
    lengths = np.array([len(a) + len(b or ()) + special for a, b in both])
    return [tokenizer.assemble(a, b, max_length) for a, b in both], lengths


def encode_labels(labels, classes, count):
    """Encodes labels as ids.

    Args:
        labels: None, or a list of `count` names, or of ids (ints) if `classes` is None.
        classes: the names in the order of their ids; None sorts those in `labels`.
        count: required number of labels.

    Returns:
        `(classes, ids)`: a list, or None if the labels are ids, and an int32 array or None.

    Raises:
        ValueError: if a label is unknown or negative, or the numbers differ.
        TypeError: if a label is neither a str nor an int.
    """
    repeated = [name for name, times in collections.Counter(classes or ()).items() if times > 1]
    if repeated:
        raise ValueError(f"classes has {quote(repeated[0])} twice: each name is one class.")
    if labels is None:
        return classes, None
    if len(labels) != count:
        raise ValueError(f"{count} texts but {len(labels)} labels: give one label to each text.")
    if classes is None:
        if all(isinstance(label, (int, np.integer)) for label in labels):
            if min(labels, default=0) < 0:
                raise ValueError(f"A label id is {min(labels)}; ids go from 0 up.")
            if max(labels, default=0) >= MOST_IDS:
                raise ValueError(f"A label id is {max(labels)}; ids go to {MOST_IDS - 1}.")
            return None, np.asarray(labels, "int32")
        for number, label in enumerate(labels):
            if not isinstance(label, str):
                label = quote(label)
                raise TypeError(f"Text {number} has the label {label}: give names, or only ints.")
        classes = sorted(set(labels))
    ids = {name: number for number, name in enumerate(classes)}
    for number, label in enumerate(labels):
        if label not in ids:
            known = ", ".join(map(repr, list(classes)[:10])) + (", ..." if len(ids) > 10 else "")
            raise ValueError(
                f"Text {number} has the label {quote(label)}, which is not one of the {len(ids)} "
                f"classes: {known}."
            )
    return list(classes), np.array([ids[label] for label in labels], "int32")


def _kind(number, text):
    if isinstance(text, str):
        kind, filled = "str", bool(text.strip())
    elif isinstance(text, tuple) and len(text) == 2 and all(isinstance(t, str) for t in text):
        kind, filled = "pair of str", all(t.strip() for t in text)
    elif isinstance(text, (list, tuple, np.ndarray)):
        kind, filled = "ids", len(text) and len(_with_segments(text)[0])
    else:
        raise TypeError(
            f"Text {number} is a {type(text).__name__}; give a str, a pair of str or a list of ids."
        )
    if not filled:
        raise ValueError(f"Text {number} is empty; leave it out.")
    return kind


def _with_segments(text):
    if isinstance(text, tuple) and len(text) == 2 and np.ndim(text[0]) == 1:
        return text
    return text, [0] * len(text)


def _check_ids(number, ids, segments, most):
    """Refuses what int32 would make another id of, or what no row of the token table is for."""
    for name, values, bound in (("token id", ids, most), ("segment id", segments, MOST_IDS)):
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
    if len(ids) != len(segments):
        raise ValueError(f"Text {number} has {len(ids)} token ids but {len(segments)} segment ids.")


def _cut(text, max_length):
    """Truncates ids; the last one, [SEP], stays last."""
    ids, segments = _with_segments(text)
    if max_length is None or len(ids) <= max_length:
        return ids, segments
    return tuple([*part[: max_length - 1], part[-1]] for part in (ids, segments))
