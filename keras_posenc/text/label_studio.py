"""Texts with spans as Label Studio exports them, in its JSON and JSON-MIN."""

from keras_posenc.files.untrusted import quote, read_json
from keras_posenc.text.files import TEXT_NAMES, present, text_in, usual


def read_label_studio(path, text, label=None):
    """Reads the tasks of an export, and the spans of each.

    Of several annotations of a task the first that was not cancelled counts. Tasks without one are
    left out, unless `label` is False, which reads the texts alone. `text`: name of the text among
    the data of a task; None takes one with a usual name. `label`: False if no spans are needed.
    Yields (number of the task from 1, text, list of spans as `tagged` reads them).
    """
    remedy = "Give an export of Label Studio, or a .jsonl file with text and spans."
    tasks = read_json(path, kind=list, remedy=remedy)
    for number, task in enumerate(tasks, 1):
        where = f"{path}, task {number}"
        if not isinstance(task, dict):
            raise ValueError(f"{where}: a {type(task).__name__}, not an object. {remedy}")
        data = task.get("data", task)
        regions = [] if label is False else _regions(where, task)
        if regions is None:
            continue
        if not isinstance(data, dict):
            raise ValueError(f"{where}: its data are {quote(data)}, not an object.")
        name = text or usual(data, TEXT_NAMES)
        if name is None:
            raise ValueError(f"{where}: which of {quote(list(data))} is the text? Give text=.")
        content = text_in(path, number, data, present(where, name, data))
        yield number, content, [_span(where, content, region) for region in regions]


def _regions(where, task):
    """The marked regions of a task, or None if nobody annotated it."""
    if "data" not in task:  # JSON-MIN: one annotation, under the name of the labelling control
        lists = [value for value in task.values() if isinstance(value, list)]
        found = [value for value in lists if value and all(map(_is_region, value))]
        return found[0] if found else ([] if lists else None)
    annotations = task.get("annotations", task.get("completions"))
    if not isinstance(annotations, list) or not all(isinstance(a, dict) for a in annotations):
        raise ValueError(f"{where}: it has no list of annotations, as Label Studio's JSON has.")
    for annotation in annotations:
        if not annotation.get("was_cancelled"):
            results = annotation.get("result")
            if not isinstance(results, list) or not all(isinstance(r, dict) for r in results):
                raise ValueError(f"{where}: an annotation has no list of results.")
            values = [result.get("value") for result in results]
            return [value for value in values if _is_region(value)]
    return None


def _is_region(value):
    """Whether it marks a part of a text, and is not a choice or a relation."""
    return isinstance(value, dict) and {"start", "end", "labels"} <= value.keys()


def _span(where, text, region):
    labels, start, end = (region[key] for key in ("labels", "start", "end"))
    if not isinstance(labels, list) or len(labels) != 1:
        raise ValueError(f"{where}: a region has the labels {quote(labels)}: give it one.")
    marked = region.get("text")
    if isinstance(marked, str) and type(start) is type(end) is int and text[start:end] != marked:
        raise ValueError(
            f"{where}: a region from {start} to {end} has the text {quote(marked)}, and there is "
            f"{quote(text[start:end])}: its places are not in characters of the text."
        )
    return [start, end, labels[0]]
