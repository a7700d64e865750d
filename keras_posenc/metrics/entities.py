"""Entities in sequences of tags, and their F1 by the rules of conlleval and seqeval."""

from keras_posenc.metrics.scores import f1_of_counts

SAME = {"L": "E", "U": "S", "M": "I"}  # marks of BILOU and BMES


def entities(tags):
    """The entities in tags, by the rules of conlleval, which are also seqeval's default.

    An entity continues as long as its kind does and no tag begins a new one. B- and S- always begin
    an entity. I- and E- begin one after O, after E- or S-, and after another kind, so an I- without
    a B- is an entity, too. A tag without a prefix is its own kind.

    Args:
        tags: list of str. O, B-kind and I-kind (IOB1 or IOB2), and E-kind and S-kind (IOBES), or
            L-kind and U-kind, which are the same in BILOU, or M-kind for I-kind (BMES).

    Returns:
        set of (kind, start, end), where end is the index after the last tag.

    Example:

    >>> sorted(entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"]))
    [('LOC', 3, 4), ('LOC', 4, 5), ('PER', 0, 2)]

    Reference: [CoNLL-2000](https://aclanthology.org/W00-0726/), the source of conlleval.
    """
    entities, start, before, kind_before = set(), 0, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        mark, kind = _parts(tag)
        inside, was_inside = mark != "O", before != "O"
        begins = inside and (
            mark in "BS" or not was_inside or before in "ES" or kind != kind_before
        )
        ends = was_inside and (not inside or begins)
        if ends:
            entities.add((kind_before, start, place))
        if begins:
            start = place
        before, kind_before = mark, kind
    return entities


def _parts(tag):
    """B-PER -> (B, PER); O -> (O, ""); NOUN -> (I, NOUN)."""
    if tag == "O":
        return "O", ""
    mark, dash, kind = tag.partition("-")
    mark = SAME.get(mark, mark)
    return (mark, kind) if dash and mark in ("B", "I", "E", "S") else ("I", tag)


def entity_scores(true, predicted):
    """Precision, recall and F1 of entities over all texts, and of each kind.

    Args:
        true, predicted: lists of sets of (kind, start, end), one set a text.

    Returns:
        dict with `precision`, `recall`, `f1` and `support`, the number of true entities, over all
        kinds together, and `classes`, the same for each kind.

    Example:

    >>> scores = entity_scores([{("PER", 0, 2), ("LOC", 4, 5)}], [{("PER", 0, 2)}])
    >>> scores["precision"], scores["recall"], round(scores["f1"], 3)
    (1.0, 0.5, 0.667)
    """
    kinds = sorted({kind for entities in (*true, *predicted) for kind, _, _ in entities})
    counts = dict.fromkeys(kinds, (0, 0, 0))
    for one, other in zip(true, predicted, strict=True):
        for which, entities in enumerate((one & other, one, other)):
            for kind, _, _ in entities:
                counts[kind] = tuple(n + (k == which) for k, n in enumerate(counts[kind]))
    total = [sum(each) for each in zip(*counts.values(), strict=True)] or (0, 0, 0)
    classes = {kind: f1_of_counts(*counts[kind]) for kind in kinds}
    return {**f1_of_counts(*total), "classes": classes}
