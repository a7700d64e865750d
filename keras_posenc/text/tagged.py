"""Reading of tagged texts: columns as in CoNLL, JSON lines, exports of annotation tools."""

from keras_posenc.files.untrusted import quote, read_json, shorten
from keras_posenc.text.conll import read_columns, read_conllu
from keras_posenc.text.decoding import decode, existing_text
from keras_posenc.text.documents import is_word
from keras_posenc.text.files import TEXT_NAMES, Texts, present, read_rows, text_in, usual
from keras_posenc.text.labels.tags import check_spans, check_tags
from keras_posenc.text.tables import lines_of


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
        yield number, content, [_marked(where, content, region) for region in regions]


def _regions(where, task):
    """The marked regions of a task, or None without annotation."""
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


def _marked(where, text, region):
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


OBJECTS = (".jsonl", ".parquet")
COLUMNS = (".conll", ".bio", ".iob", ".iob2", ".tsv", ".txt")
OTHERS = (".conllu", ".json")
TEXTS = ("tokens", "words", "text")
LABELS = ("tags", "ner_tags", "spans", "entities", "label", "labels")
STARTS, ENDS = ("start", "start_offset"), ("end", "end_offset")
UNUSED = ("reject", "ignore")  # answers of Prodigy's annotators


def read_tagged(path, text=None, label=None):
    """Reads texts with tags, or with spans of characters.

    In .conll, .bio, .iob, .tsv and .txt a line is a word and, in the last column, its tag. Columns
    are separated by tabs, or by ASCII spaces in a line without tabs. A blank line ends a text.
    Comments ("# sent_id = 1"), lines of -DOCSTART- and a line of column names are skipped. In
    .jsonl an object is a text, in .parquet a row: {"tokens": ["Ada", ...], "tags": ["B-PER",
    ...]}, or {"text": "Ada ...", "spans": [{"start": 0, "end": 3, "label": "PER"}, ...]}. So are
    the exports of Prodigy, without what was rejected or ignored, and of doccano. A .json is an
    export of Label Studio, a .conllu a file of Universal Dependencies.

    `path`: the file, in UTF-8. `text`: key of the words or the text; default tokens, words or text.
    `label`: key of the tags or spans; default tags, ner_tags, spans, entities, label or labels; in
    a .conllu, name of a column, default upos. False reads none: then a .txt has one text per line,
    a .conll may have one column. Returns a `Texts` of lists of words with lists of tags, or of str
    with lists of (start, end, kind).
    """
    path = existing_text(path)
    suffix = path.suffix.lower()
    if suffix in OBJECTS:
        return _read_objects(path, text, label)
    if suffix not in COLUMNS + OTHERS:
        known = ", ".join((*OBJECTS, *COLUMNS, *OTHERS))
        raise ValueError(f"{path}: {suffix!r} is not one of {known}.")
    if suffix == ".json":
        return _read_tasks(path, text, label)
    content = decode(path)
    if suffix == ".conllu":
        texts, labels, lines = read_conllu(path, content, label)
        return Texts(texts, labels if label is not False else None, lines)
    if suffix == ".txt" and label is False:
        rows = [(n, line) for n, line in lines_of(content.rstrip("\r\n"))]
        texts = [text_in(path, n, {"text": line}, "text") for n, line in rows]
        return Texts(texts, None, [n for n, _ in rows])
    texts, labels, lines = read_columns(path, content, label is not False)
    return Texts(texts, labels if label is not False else None, lines)


def _read_objects(path, text, label):
    _, rows, _ = read_rows(path, OBJECTS)
    texts, labels, lines = [], [], []
    for number, row in rows:
        if label is not False and row.get("answer") in UNUSED:
            continue
        where = f"{path}, line {number}"
        key = _key(where, row, text, TEXTS)
        if text is None and "text" in row and _are_dicts(row[key]):
            key = "text"  # Prodigy's tokens are the places of words in it
        words = row[key]
        if not isinstance(words, list):
            words = text_in(path, number, row, key)
        elif not words or not all(map(is_word, words)):
            raise ValueError(f"{where}: {quote(key)} should be a list of words without spaces.")
        texts.append(words)
        lines.append(number)
        if label is not False:
            key = _key(where, row, label, LABELS)
            labels.append(_label(where, f"on line {number} of {path}", words, key, row[key]))
    return Texts(texts, None if label is False else labels, lines)


def _read_tasks(path, text, label):
    texts, labels, lines = [], [], []
    for number, content, spans in read_label_studio(path, text, label):
        where = f"{path}, task {number}"
        texts.append(content)
        labels.append(_label(where, f"of task {number} of {path}", content, "labels", spans))
        lines.append(number)
    if not texts:
        raise ValueError(f"{path} has no {'' if label is False else 'annotated '}task.")
    return Texts(texts, None if label is False else labels, lines)


def _are_dicts(value):
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _key(where, row, named, usual):
    names = usual if named is None else (named,)
    for name in names:
        if name in row:
            return name
    raise ValueError(f"{where}: none of {shorten(', '.join(names))}, only {shorten(list(row))}.")


def _label(where, place, text, key, value):
    if not isinstance(value, list):
        raise ValueError(f"{where}: {quote(key)} should be a list.")
    if isinstance(text, list):
        if not all(isinstance(tag, str) for tag in value):
            raise ValueError(f"{where}: {quote(key)} should be a list of tags, such as B-PER.")
        return check_tags(place, value, len(text))
    return check_spans(place, text, [_span(where, span) for span in value])


def _span(where, span):
    if isinstance(span, dict):
        kind = next((span[key] for key in ("label", "kind", "type", "tag") if key in span), None)
        places = ([span[key] for key in keys if key in span] for keys in (STARTS, ENDS))
        span = [*(found[0] if found else None for found in places), kind]
    if isinstance(span, list) and len(span) == 3:
        start, end, kind = span
        if type(start) is int and type(end) is int and isinstance(kind, str) and kind:
            return start, end, kind
    raise ValueError(
        f"{where}: {quote(span)} is no span: give start, end (ints, in characters) and label."
    )
