"""Answers to questions: spans of a passage of any length."""

import dataclasses
import typing

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote
from keras_posenc.losses.spans import SpanAccuracy, SpanCrossentropy
from keras_posenc.metrics.answers import answer_f1, best_spans, exact_match
from keras_posenc.metrics.scores import by_lengths, check_finite, softmax
from keras_posenc.models.heads import span_head
from keras_posenc.text import SpanLabels
from keras_posenc.text.labels.answer_span import check_span, is_pair, passage_of
from keras_posenc.text.questions import read_questions
from keras_posenc.training.finetuning.task import FinetuneTask


class AnswerPrediction(typing.NamedTuple):
    """The answer to a question.

    Attributes:
        answer: str, "" if the passage has none.
        start, end: ints, its characters in the passage.
        probability: float, among the 20 likeliest answers.
    """

    answer: str
    start: int
    end: int
    probability: float

    def columns(self):
        """The names of the cells."""
        return ["answer", "characters", "probability"]

    def cells(self):
        """The answer, its characters and its probability."""
        return self.answer, f"{self.start}-{self.end}", f"{self.probability:.4f}"


@dataclasses.dataclass(frozen=True, repr=False)
class Answer(FinetuneTask):
    """Pairs (question, passage) with the spans that answer, any of them; with none, unanswerable.

    The label names are the possible results: an answer and, if a training question has none, that.

    Args:
        stride: int. Tokens that neighbouring windows of a passage share. Default: a quarter of
            `max_length`.
        head_dropout: float. Dropout before the last layer.

    Example:

    >>> Answer(stride=128)
    Answer(stride=128)
    """

    stride: int | None = None
    head_dropout: float = 0.1

    name = "qa"
    output_per_name = False
    scores = {"f1": "F1", "exact_match": "exact match"}
    watched = ("accuracy",)
    per_token = True
    has_windows = True
    reads_chunks = False
    read_file = staticmethod(read_questions)
    loss_of_outputs = SpanCrossentropy
    metrics_of_outputs = (SpanAccuracy,)

    def __post_init__(self):
        super().__post_init__()
        if self.stride is not None:
            checks.whole("stride", self.stride, least=0)

    def stride_of(self, length):
        return length // 4 if self.stride is None else self.stride

    def check_texts(self, texts):
        for number, text in enumerate(texts):
            if not is_pair(text):
                raise ValueError(
                    f"Text {number} is {quote(text)}: questions need a passage, so give pairs "
                    "(question, passage)."
                )

    def checked(self, where, text, value):
        if not is_pair(text) or not isinstance(value, (list, tuple)):
            raise ValueError(
                f"The text {where} is {quote(text)}, answered by {quote(value)}: give a pair "
                "(question, passage), and a list of (start, end) in characters of the passage."
            )
        for span in value:
            check_span(where, passage_of(text), span)
        return [tuple(span) for span in value]

    def label_names(self, train):
        return ["answer"] if all(train.labels) else ["answer", "no answer"]

    def labels(self, label_names, values=None):
        return SpanLabels(values and [spans[0] if spans else None for spans in values])

    def model(self, encoder, label_names):
        return span_head(encoder, self.head_dropout)

    def merged(self, texts, batches, outputs, label_names, pool):
        """The likeliest `Span`s of each text."""
        best, end = [], np.cumsum(np.bincount(batches.text_of))
        for number, text in enumerate(texts):
            part = slice(end[number - 1] if number else 0, end[number])
            for logits in outputs[part]:
                check_finite(logits)
            side, may_be_none = int(is_pair(text)), len(label_names) > 1
            best.append(best_spans(batches.rows[part], outputs[part], side, may_be_none))
        return best

    def measure(self, finetuned, documents, verbose):
        results, lengths = finetuned.judged(documents.texts, verbose)
        predicted = [each.answer for each in self.predictions(documents.texts, results, None)]
        true = [
            [passage[start:end] for start, end in spans]
            for (_, passage), spans in zip(documents.texts, documents.labels, strict=True)
        ]
        f1 = np.array([answer_f1(*each) for each in zip(predicted, true, strict=True)])
        exact = np.array([exact_match(*each) for each in zip(predicted, true, strict=True)])

        def scores(chosen):
            return {"f1": float(f1[chosen].mean()), "exact_match": float(exact[chosen].mean())}

        return by_lengths(scores, lengths)

    def predictions(self, texts, results, label_names):
        return [
            _answer(passage_of(text), spans) for text, spans in zip(texts, results, strict=True)
        ]


def _answer(passage, spans):
    if not spans:
        return AnswerPrediction("", 0, 0, 1.0)
    start, end, _ = spans[0]
    shares = softmax(np.array([span.logit for span in spans]))
    answer = passage[start:end]
    start += len(answer) - len(answer.lstrip())
    return AnswerPrediction(answer.strip(), start, start + len(answer.strip()), float(shares[0]))
