"""Late chunking: the encoder reads the whole document, and each chunk averages its tokens."""

import dataclasses
import weakref

import keras
import numpy as np

from keras_posenc import backend
from keras_posenc.files.untrusted import quote
from keras_posenc.models.model import model_on
from keras_posenc.models.pooling import MaskedPooling
from keras_posenc.processes.replicas import fill, filled_size
from keras_posenc.retrieval.embedder import predicted
from keras_posenc.retrieval.readings import LateSpans
from keras_posenc.text.documents import check_list
from keras_posenc.training.source import separator_id
from keras_posenc.training.stretching.windows import most_central, window_starts

HEAD_ROWS = 1024  # means in a batch


@dataclasses.dataclass(frozen=True)
class ChunkVectors:
    """One vector per chunk, with the place of each chunk.

    Attributes:
        vectors: (M, D) float32 array.
        texts: (M,) int array, the index of the text that a chunk is of.
        starts, ends: (M,) int arrays, in characters of that text.

    Example:

    >>> found = ChunkVectors(np.eye(2), np.array([0, 0]), np.array([0, 4]), np.array([3, 9]))
    >>> found.of(["One. Two two."])
    ['One', ' Two ']
    """

    vectors: np.ndarray
    texts: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def __post_init__(self):
        places = [np.asarray(each) for each in (self.texts, self.starts, self.ends)]
        shapes = [each.shape for each in places]
        if np.ndim(self.vectors) != 2 or shapes != [(len(self.vectors),)] * 3:
            raise ValueError(
                "`texts`, `starts` and `ends` must have a number per vector. Received: shapes "
                f"{', '.join(map(str, shapes))} for vectors of shape {np.shape(self.vectors)}"
            )
        texts, starts, ends = places
        if any(each.dtype.kind not in "iu" for each in places):
            kinds = ", ".join(str(each.dtype) for each in places)
            raise ValueError(
                f"`texts`, `starts` and `ends` must be whole numbers. Received: {kinds}"
            )
        wrong = np.flatnonzero((texts < 0) | (starts < 0) | (ends <= starts))
        if len(wrong):
            text, start, end = (int(each[wrong[0]]) for each in places)
            raise ValueError(
                "A chunk must have the number of a text, from 0, and an end after its start. "
                f"Received: text {text}, start {start}, end {end}"
            )

    def of(self, texts):
        """The chunks themselves, cut from the list of texts.

        Args:
            texts: the list of str that was embedded.
        """
        places = zip(self.texts, self.starts, self.ends, strict=True)
        return [texts[text][start:end] for text, start, end in places]


def embed_spans(model, texts, spans, verbose="auto"):
    """Computes one vector per span of a text, with the whole text as its context.

    With late chunking, the encoder reads the whole text. The features h_t of the tokens of a span
    are averaged into its vector:

        v = head(mean of h_t over the tokens t of the span).

    Here `head` stands for the layers that the model has after its pooling, such as a normalisation.
    A span's vector depends on the rest of the text: the features of "she" reflect the name that it
    refers to. A span that is embedded alone cannot have them.

    The special tokens count for the first and the last span, and tokens of spaces alone for the
    spans that they are in or beside, so one span over a whole text gives the vector of the text. A
    text longer than `model.max_length` is read in overlapping windows of that length. Each token
    has the features of the window in which it has the most context. A model that is trained on
    passages joined by a separator, such as pplx-embed-context, reads the spans joined in this way,
    without the text between them.

    Args:
        model: `TextModel` of an embedder that pools by the mean (see `open_embedder`).
        texts: list of str.
        spans: list with one list of (start, end) per text, in characters; see `chunk_spans`.
        verbose: as in `TextModel.predict`.

    Returns:
        `ChunkVectors`, in the order of the texts and of their spans.

    Example:

    >>> model = open_embedder("all-MiniLM-L6-v2", max_length=2048)
    >>> text = "Ada is a chemist. She lives by the harbour."
    >>> embed_spans(model, [text], [[(0, 17), (18, 43)]], verbose=0).vectors.shape
    (2, 384)

    Reference: [Late chunking](https://arxiv.org/abs/2409.04701).
    """
    LateSpans(spans).check()
    return vectors_of_spans(model, texts, spans, verbose)


def vectors_of_spans(model, texts, spans, verbose):
    """As `embed_spans`, also of texts without any span, as some of many may be."""
    encoder, head = _parts(model.model)
    _check(texts, spans)
    sizes = [len(of_text) for of_text in spans]
    first_row = np.concatenate([[0], np.cumsum(sizes)])
    transformer = getattr(model.model, "transformer", None)
    separator = transformer and separator_id(model.tokenizer, transformer.config)
    if separator == model.tokenizer.pad_id:
        raise ValueError(
            "`model` must read the separator of passages, and pads with it: open the directory "
            f"with open_embedder, which takes another id. Received: pad_id={separator}"
        )
    windows = []
    for text, of_text, row in zip(texts, spans, first_row[:-1], strict=True):
        windows += _windows(model, text, of_text, row, separator) if len(of_text) else []
    sums = np.zeros((first_row[-1], encoder.output_shape[-1]))
    counts = np.zeros(first_row[-1])
    rows = [row for row, _ in windows]
    options = {"max_length": model.max_length, "token_budget": model.token_budget}
    found = predicted(encoder, rows, verbose, tokenizer=model.tokenizer, **options)
    for features, number in found if rows else ():
        for row, tokens in windows[number][1]:
            sums[row] += features[tokens].sum(axis=0, dtype="float64")
            counts[row] += len(tokens)
    _check_counts(counts, spans, first_row)
    means = (sums / counts[:, None]).astype("float32")
    vectors = means if head is None else _of_head(head, means)
    starts, ends = np.array([span for of_text in spans for span in of_text], int).reshape(-1, 2).T
    return ChunkVectors(vectors, np.repeat(np.arange(len(texts)), sizes), starts, ends)


# Of each embedder, so that a second call does not compile its programs again.
_PARTS = weakref.WeakKeyDictionary()


def _parts(model):
    """The model up to its pooling, and the model behind it, or None if nothing is behind it."""
    if model in _PARTS:
        return _PARTS[model]
    pooling = [layer for layer in model.layers if isinstance(layer, MaskedPooling)]
    if len(pooling) != 1 or pooling[0].pooling != "mean":
        kinds = " and ".join(layer.pooling for layer in pooling) or "no pooling"
        raise ValueError(
            "Late chunking needs an embedder that pools by the mean. This one has "
            f"{kinds}: build it with embedder(directory, pooling='mean')."
        )
    (pooling,) = pooling
    features = keras.tree.flatten(pooling.input)[0]
    last = pooling is model.layers[-1]
    head = None if last else _Head(pooling.output, model.output, name="head")
    _PARTS[model] = model_on(model, features, "features"), head
    return _PARTS[model]


class _Head(backend.SafeTrainer, keras.Model):
    """The layers behind the pooling."""


def _of_head(head, means):
    """What a model makes of rows (N, D), in batches that several devices can share."""
    if not len(means):
        return np.zeros((0, head.output_shape[-1]), "float32")
    found = head.predict(fill(means), batch_size=filled_size(HEAD_ROWS), verbose=0)
    return found[: len(means)]


def _joined(tokenizer, prompt, text, spans, separator):
    """Joins passages by a token: the ids, and the places of tokens and of passages in the text."""
    passages = [text[start:end] for start, end in spans]
    passages[0] = prompt + passages[0]
    ids, offsets, joined, first = [], [], [], 0
    for passage, part in zip(passages, tokenizer.contents(passages, offsets=True), strict=True):
        last = first + len(passage)
        ids += [*part[0], separator]
        offsets += [*((first + start, first + end) for start, end in part[1]), (last, last + 1)]
        joined.append((max(first - len(prompt), 0), last - len(prompt)))
        first = last + 1
    return ids[:-1], offsets[:-1], joined


def _windows(model, text, spans, first_row, separator):
    """The windows of a text: their ids and segments, and (row, tokens) of each span in them, its
    row of the result and its tokens in the window."""
    tokenizer, prompt = model.tokenizer, model.prompt
    if separator is None:
        ((ids, offsets),) = tokenizer.contents([prompt + text], offsets=True)
    else:
        ids, offsets, spans = _joined(tokenizer, prompt, text, spans, separator)
    # The prompt stands before every window and is in no span.
    taken = _in_prompt(prompt, offsets)
    prefix, ids = list(ids[:taken]), list(ids[taken:])
    offsets = np.array(offsets[taken:], int).reshape(-1, 2) - len(prompt)
    special = tokenizer.special_tokens() + taken
    size = len(ids) if model.max_length is None else model.max_length - special
    if size < 1:
        raise ValueError(
            f"max_length={model.max_length} leaves no room for text: the special tokens and the "
            f"prompt take {special}. Give a larger max_length or a shorter prompt."
        )
    starts = window_starts(len(ids), size, max(1, size - size // 4))
    chosen = most_central(len(ids), size, starts)
    before, last = tokenizer.assemble([-1])[0].index(-1) + taken, len(ids) - 1
    windows = [(tokenizer.assemble(prefix + ids[start : start + size]), []) for start in starts]
    for row, tokens in enumerate(_tokens_of(offsets, spans), first_row):
        for inside in np.split(tokens, np.flatnonzero(np.diff(chosen[tokens])) + 1):
            if not len(inside):
                continue
            index = chosen[inside[0]]
            ((token_ids, _), members), places = windows[index], inside - starts[index] + before
            # With its special tokens one span over a whole text has the vector of the text.
            opening = range(before) if inside[0] == 0 else ()
            closing = range(places[-1] + 1, len(token_ids)) if inside[-1] == last else ()
            members.append((row, np.array([*opening, *places, *closing])))
    return [(row, members) for row, members in windows if members]


def special_tokens(model):
    """The number of special tokens and of tokens of the prompt of a text."""
    ((_, offsets),) = model.tokenizer.contents([model.prompt + "a"], offsets=True)
    return model.tokenizer.special_tokens() + _in_prompt(model.prompt, offsets)


def _in_prompt(prompt, offsets):
    return sum(end <= len(prompt) for _, end in offsets) if prompt else 0


def _tokens_of(offsets, spans):
    """Yields the numbers of the tokens that lie in each span, in time linear in their number."""
    # A token of spaces alone is empty, and stands in or beside a span.
    empty = offsets[:, 0] == offsets[:, 1]
    first, last = offsets[:, 0] - empty, offsets[:, 1] + empty
    order = np.argsort(first, kind="stable")
    first, reached = first[order], np.maximum.accumulate(last[order])
    for start, end in spans:
        near = order[np.searchsorted(reached, start, "right") : np.searchsorted(first, end)]
        yield np.sort(near[last[near] > start])


def _check(texts, spans):
    check_list(texts)
    if len(texts) != len(spans):
        raise ValueError(
            "`spans` must have one list per text. "
            f"Received {len(spans)} lists for {len(texts)} texts."
        )
    for number, (text, of_text) in enumerate(zip(texts, spans, strict=True)):
        if not isinstance(text, str):
            raise TypeError(f"Text {number} must be a str. Received: {type(text).__name__}")
        for span in of_text:
            whole = isinstance(span, (list, tuple, np.ndarray)) and len(span) == 2
            whole = whole and all(type(n) is int or isinstance(n, np.integer) for n in span)
            if not whole or not 0 <= span[0] < span[1] <= len(text):
                raise ValueError(
                    f"A span of text {number} must be (start, end), lie in its {len(text)} "
                    f"characters and not be empty. Received: {quote(span)}"
                )


def _check_counts(counts, spans, first_row):
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        number = int(np.searchsorted(first_row, empty[0], side="right") - 1)
        span = spans[number][empty[0] - first_row[number]]
        raise ValueError(
            f"The span {tuple(span)} of text {number} has no token, so it has no vector: give "
            "spans with words in them."
        )
