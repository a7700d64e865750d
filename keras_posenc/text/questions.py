"""Reading of questions about passages, in SQuAD's form or as JSON lines."""

from keras_posenc.files.untrusted import parse_json, quote, read_bytes, shorten
from keras_posenc.text.decoding import existing_text
from keras_posenc.text.files import Texts, read_rows

MOST = 2**30  # bytes; SQuAD has 40 MB
PASSAGES = ("context", "passage", "text")


def read_questions(path, text=None, label=None):
    """Reads questions, the passages they are about, and their answers.

    A .json is SQuAD's: `data` of `paragraphs` of a `context` and `qas`. In a .jsonl an object is a
    question: {"question": "Who ...?", "context": "...", "answers": ...}. Answers are [{"text":
    "Ada", "answer_start": 0}, ...], or {"text": ["Ada", ...], "answer_start": [0, ...]}, and empty
    where the passage has none.

    `path`: the file, in UTF-8. Without answers a .tsv or .csv with two columns will do. `text`: the
    columns of questions and passages; default question and context. `label`: that of answers;
    default answers. False reads none. Returns a `Texts` of pairs (question, passage), with lists of
    (start, end) in characters; lines are those of the .jsonl, or count the questions of a .json.
    """
    path = existing_text(path)
    squad = path.suffix.lower() == ".json"
    rows, what = (_squad(path), "question") if squad else (read_rows(path)[1], "line")
    question_key, passage_key = _keys(text)
    texts, labels = [], []
    for number, row in rows:
        where = f"{path}, {what} {number}"
        passages = PASSAGES if passage_key is None else (passage_key,)
        pair = (_text(where, row, (question_key,)), _text(where, row, passages))
        texts.append(pair)
        if label is not False:
            labels.append(_answers(where, row, label or "answers", pair[1]))
    return Texts(texts, None if label is False else labels, [number for number, _ in rows])


def _keys(text):
    """The names of the two columns; None of the second stands for any usual one."""
    if text is None:
        return "question", None
    if isinstance(text, str) or len(text) != 2:
        raise ValueError(
            f'Give the columns of questions and passages, text=("question", "context"). '
            f"Received: text={quote(text)}"
        )
    return text


def _squad(path):
    """(number, row) of the questions of a file in SQuAD's form."""
    try:
        whole = parse_json(read_bytes(path, MOST))
        rows = [
            {**question, "context": paragraph["context"]}
            for article in whole["data"]
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        kind = "lacks the key " if isinstance(error, KeyError) else ""
        raise ValueError(
            f"{path} is not in SQuAD's form, data of paragraphs of a context and qas: "
            f"{kind}{shorten(error)}."
        ) from None
    if not rows:
        raise ValueError(f"{path} has no question.")
    return list(enumerate(rows, 1))


def _text(where, row, names):
    for name in names:
        if name in row:
            if isinstance(row[name], str) and row[name].strip():
                return row[name]
            raise ValueError(f"{where}: {quote(name)} should be a text that is not empty.")
    raise ValueError(f"{where}: no {shorten(' or '.join(names))}, only {shorten(list(row))}.")


def _answers(where, row, name, passage):
    if row.get("is_impossible") is True:
        return []
    if name not in row:
        raise ValueError(
            f"{where}: no {quote(name)}, only {shorten(list(row))}. A question without an answer "
            "has an empty list of them."
        )
    answers = row[name]
    if isinstance(answers, dict):
        texts, starts = answers.get("text"), answers.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise ValueError(f"{where}: `text` and `answer_start` should be lists of one length.")
        answers = [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]
    if not isinstance(answers, list):
        raise ValueError(f"{where}: {quote(name)} should be a list of answers.")
    return [_span(where, answer, passage) for answer in answers]


def _span(where, answer, passage):
    span = answer if isinstance(answer, dict) else {}
    words, start = span.get("text"), span.get("answer_start")
    if not isinstance(words, str) or not words or type(start) is not int:
        raise ValueError(
            f"{where}: {quote(answer)} is no answer: give its text and answer_start, an int."
        )
    end = start + len(words)
    if start < 0 or end > len(passage):
        raise ValueError(
            f"{where}: the answer {quote(words)} from {start} to {end} is beyond its passage of "
            f"{len(passage)} characters."
        )
    if passage[start:end] != words:
        raise ValueError(
            f"{where}: the answer is {quote(words)}, but the passage has "
            f"{quote(passage[start:end])} at {start}."
        )
    return start, end
