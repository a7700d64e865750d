"""Chunks in their text, in windows of it, or alone behind their titles, and sums of these."""

import dataclasses

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import quote
from keras_posenc.metrics.scores import unit_rows
from keras_posenc.retrieval.dense.chunks import chunk_spans
from keras_posenc.retrieval.dense.late_chunking import (
    ChunkVectors,
    special_tokens,
    vectors_of_spans,
)
from keras_posenc.retrieval.readings import LateChunks
from keras_posenc.text.structure import headings_of, title_at, with_title


def chunk_vectors(model, texts, reading, verbose):
    """The `ChunkVectors` of texts, read as `LateChunks` or `Passages`, with titles or without."""
    titles = _titles(reading, texts)
    spans = [
        _spans(number, text, title, model.tokenizer, reading)
        for number, (text, title) in enumerate(zip(texts, titles, strict=True))
    ]
    in_context = isinstance(reading, LateChunks)
    if in_context:
        found = vectors_of_spans(model, texts, spans, verbose)
        if reading.windows is not None:
            near = vectors_of_spans(_in_windows(model, reading), texts, spans, verbose)
            found = dataclasses.replace(found, vectors=_sum(found.vectors, near.vectors))
        if reading.titles is None:
            return found
    passages = [
        with_title(title_at(title, start), text[start:end])
        for text, title, of_text in zip(texts, titles, spans, strict=True)
        for start, end in of_text
    ]
    alone = model.predict(passages, verbose)
    if in_context:
        return dataclasses.replace(found, vectors=_sum(found.vectors, alone))
    starts, ends = np.array([span for of_text in spans for span in of_text], int).T
    numbers = np.repeat(np.arange(len(texts)), [len(of_text) for of_text in spans])
    return ChunkVectors(alone, numbers, starts, ends)


def _sum(one, other):
    return unit_rows(unit_rows(one) + unit_rows(other))


def _in_windows(model, reading):
    tokens, taken = reading.windows, special_tokens(model)
    why = f"a window holds a chunk of {reading.size}, and {taken} special tokens and of the prompt"
    checks.whole("windows", tokens, least=reading.size + taken, why=why)
    if model.max_length is not None and tokens >= model.max_length:
        raise ValueError(
            f"`windows` must be less than max_length={model.max_length:,}, the tokens that the "
            f"embedder reads at a time: leave windows out, or give a larger max_length. Received: "
            f"windows={tokens:,}"
        )
    return dataclasses.replace(model, max_length=tokens)


def _titles(reading, texts):
    if reading.titles is None:
        return [[]] * len(texts)
    if isinstance(reading.titles, str):
        raise ValueError(
            f"titles={quote(reading.titles)} names a column of a file that `embed` reads: give a "
            "list with a title per text, or the file to `embed`."
        )
    reading.check(len(texts))
    return [headings_of(title, number) for number, title in enumerate(reading.titles)]


def _spans(number, text, headings, tokenizer, reading):
    """The chunks of a text, cut at its headings, too."""
    cuts = [0, *(start for start, _ in headings if 0 < start < len(text)), len(text)]
    spans = []
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        if last - first == len(text) or text[first:last].strip():
            try:
                found = chunk_spans(text[first:last], tokenizer, reading.size, reading.overlap)
            except ValueError as error:
                message = str(error).replace("The text", f"Text {number}", 1)
                raise ValueError(message) from None
            spans += [(first + start, first + end) for start, end in found]
    return spans
