"""The names of a head's outputs, in a config."""

from keras_posenc.files.untrusted import quote

MOST_LABELS = 2**20


def read_label_names(source):
    """The names of the logits of a task's head, from `id2label`.

    `source`: dict, the keys of a config file.
    """
    names, count = source.get("id2label"), source.get("num_labels", 2)
    if names is None:
        _check(isinstance(count, int) and 0 < count <= MOST_LABELS, count)
        return [f"LABEL_{i}" for i in range(count)]
    _check(isinstance(names, dict) and 0 < len(names) <= MOST_LABELS, names)
    names = {str(i): name for i, name in names.items()}
    wanted = [str(i) for i in range(len(names))]
    _check(all(isinstance(names.get(i), str) for i in wanted), names)
    return [names[i] for i in wanted]


def _check(sound, received):
    if not sound:
        raise ValueError(
            f"`id2label` must name the labels 0, 1, 2, ..., at most {MOST_LABELS}. "
            f"Received: {quote(received)}"
        )
