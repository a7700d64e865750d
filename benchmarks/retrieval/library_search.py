"""Searches a small library of distant_texts.py in several ways: the rows of the tables, recall by
distance as a figure, and an example with the passage that each way finds."""

import dataclasses

import numpy as np

from benchmarks.retrieval import distant_context
from benchmarks.shared.intervals import half_width
from keras_posenc.analysis.plot import COLOURS, MARKERS


@dataclasses.dataclass(frozen=True)
class Example:
    """A query, and the passage that each way finds first.

    Attributes:
        query: str.
        tokens: int. How far before the right passage its document states the name.
        opening: str. The first sentence of that document.
        found: dict, way -> (passage, whether it is the right one).
    """

    query: str
    tokens: int
    opening: str
    found: dict


def searched(tokenizer, libraries, models):
    """Searches every library in every way.

    Args:
        libraries: dict, name -> `distant_texts.Library`.
        models: dict, way of `distant_context.WAYS` -> `TextModel`. People have no title to prepend.

    Returns:
        rows for `distant_context.table`, and a dict, (name, way) -> scores (queries, passages).
    """
    rows, similar = [], {}
    for name, library in libraries.items():
        for way, model in models.items():
            key = {"library": name, "way": way, "seed": 0}
            if distant_context.makes_sense(key):
                scores = distant_context.similarities(library, way, tokenizer, lambda m=model: m)
                rows.append(key | distant_context.scores(library, scores))
                similar[name, way] = scores
        count = sum(map(len, library.spans))
        print(f"{name}: {len(library.texts)} documents, {count} passages", flush=True)
    return rows, similar


def draw_recall(axes, by_distance):
    """Draws whether the right sentence is first, by the distance back to the name it is about.

    Args:
        by_distance: as `distant_context.by_distance` returns it.
    """
    for index, (way, columns) in enumerate(by_distance.items()):
        top1 = [column["top1"] for column in columns.values()]
        axes.errorbar(
            np.arange(len(top1)) + 0.06 * (index - 2),
            list(map(np.mean, top1)),
            list(map(half_width, top1)),
            color=COLOURS[index],
            marker=MARKERS[index],
            capsize=2,
            label=way,
        )
        names = [f"{column['tokens']:,.0f}" for column in columns.values()]
    axes.set_xticks(range(len(names)), names)
    axes.set(xlabel="tokens back to the name", ylim=(0, 103))


def example(library, scores, solver, other):
    """The first query that one way answers and another does not; if there is none, the first query.

    Args:
        library: `distant_texts.Library` of people.
        scores: dict, way -> scores (queries, passages).
        solver, other: names of ways.

    Returns:
        `Example`.
    """
    passages = [
        text[start:end]
        for text, spans in zip(library.texts, library.spans, strict=True)
        for start, end in spans
    ]
    right = np.concatenate(library.right)
    first = {way: distant_context.found_first(library, each) for way, each in scores.items()}
    query = int(np.argmax((first[solver] == right) & (first[other] != right)))
    return Example(
        library.queries[query],
        library.about["distance"][query],
        library.openings[library.about["document"][query]],
        {
            way: (passages[found[query]], bool(found[query] == right[query]))
            for way, found in first.items()
        },
    )
