"""Pictures of position encodings, from the results of `measure.py` and `observe.py`.

Colours and style are those of `plot.py`, the only file that imports Matplotlib. What is `styled`
returns a `matplotlib.figure.Figure`.
"""

import math

import numpy as np

from keras_posenc.analysis.plot import COLOURS, MARKERS, printable, styled

LINES = ("-", "--", "-.", ":")
TERMS = {
    "qk": "q'Rk: content",
    "ak": "a'Rk: bias of the query",
    "qb": "q'Rb: bias of the key",
    "ab": "a'Rb: both biases",
}


@styled
def decay_curves(figure, curves, lowest=-8.0):
    """Draws logits and weights of identical tokens by distance: one line per result of
    `decay_curve`.

    The lines are means over the heads. Logits below `lowest` are not shown, since some encodings
    decrease without bound.
    """
    left, right = figure.subplots(1, 2)
    for index, (name, curve) in enumerate(curves.items()):
        left.plot(curve["distance"], curve["logits"].mean(0), label=name, **look(index))
        weights = curve["weights"].mean(0)
        right.plot(curve["distance"], np.where(weights > 1e-7, weights, np.nan), **look(index))
    both = any(curve["distance"].min() < 0 for curve in curves.values())
    for axes in (left, right):
        axes.set_xlabel("query minus key (tokens)" if both else "distance (tokens)")
    left.set(title="Logit", ylabel="mean of the heads")
    left.set_ylim(bottom=max(left.get_ylim()[0], lowest))
    right.set(title="Weight (logarithmic)", yscale="log")
    figure.legend(loc="outside lower left", ncols=5)


@styled
def entropy_curves(figure, series):
    """Draws the entropy of attention by length, one line per result of `entropy_by_length`.

    The dashed line is ln n, the entropy of uniform attention.
    """
    axes = figure.subplots()
    for index, (name, curve) in enumerate(series.items()):
        axes.plot(
            curve["length"],
            curve["entropy"].mean(1),
            marker=MARKERS[index % len(MARKERS)],
            label=name,
            **look(index),
        )
    lengths = sorted({int(n) for curve in series.values() for n in curve["length"]})
    axes.plot(lengths, np.log(lengths), color="#767676", linestyle="--", label="uniform: ln n")
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
    axes.set(
        xlabel="length (tokens, logarithmic)",
        ylabel="entropy of the weights (nats)",
        ylim=(0, None),
    )
    figure.legend(loc="outside upper left", ncols=3)


@styled
def similarity_maps(figure, maps, positions):
    """Draws the cosine similarity of the rows of position embeddings, one map per embedding, as
    `position_similarity` returns it, at evenly spaced positions."""
    half = (positions[1] - positions[0]) / 2
    first, last = float(positions[0] - half), float(positions[-1] + half)
    grid = np.atleast_1d(figure.subplots(1, len(maps), sharey=True))
    for axes, (name, values) in zip(grid, maps.items(), strict=False):
        image = axes.imshow(
            values, extent=(first, last, last, first), cmap="RdBu_r", vmin=-1, vmax=1
        )
        axes.grid(False)
        axes.set(title=name, xlabel="position")
    grid[0].set_ylabel("position")
    bar = figure.colorbar(image, ax=list(grid), shrink=0.8)
    bar.set_label("cosine similarity")
    bar.outline.set_visible(False)


@styled
def rotary_terms(figure, terms, head=0):
    """Draws the four terms of RoPE with biases by distance, and their sum beside q'Rk alone.

    Args:
        terms: result of `rotary_terms`.
        head: int. Index of the head.
    """
    each, total = figure.subplots(1, 2, sharey=True)
    for index, (name, label) in enumerate(TERMS.items()):
        each.plot(terms["distance"], terms[name][head], label=label, **look(index))
    total.plot(terms["distance"], terms["sum"][head], label="sum of the four", color=COLOURS[4])
    total.plot(terms["distance"], terms["qk"][head], label=TERMS["qk"], **look(0))
    each.set(title="Four terms", ylabel="mean logit", xlabel="distance (tokens)")
    total.set(title="With biases and without", xlabel="distance (tokens)")
    handles, labels = each.get_legend_handles_labels()
    more, names = total.get_legend_handles_labels()
    figure.legend([*handles, more[0]], [*labels, names[0]], loc="outside lower left", ncols=3)


@styled
def contextual_positions(figure, result, tokens, head=0, text=0, query=-1):
    """Draws CoPE's gates of all queries, and the gates and positions of one query by key.

    Args:
        result: result of `contextual_positions`.
        tokens: list of str, one per token.
        head, text: int. Index of the head, and of the text in the batch.
        query: int. Index of the query in the lower picture; default the last.
    """
    gates, positions = (result[name][text, head] for name in ("gates", "positions"))
    tokens = printable(tokens)
    places, row = np.arange(len(tokens)), range(len(tokens))[query]
    shown = places[:: math.ceil(len(tokens) / 60)]
    size = max(4, min(9, 240 // len(shown)))
    every, one = figure.subplots(1, 2)
    image = every.imshow(np.where(gates > 0, gates, np.nan), cmap="viridis", vmin=0, vmax=1)
    every.grid(False)
    every.set(title="Gates", xlabel="key", ylabel="query")
    every.set_xticks(shown, [tokens[i] for i in shown], rotation=90, size=size)
    every.set_yticks(shown, [tokens[i] for i in shown], size=size)
    bar = figure.colorbar(image, ax=every, shrink=0.7)
    bar.outline.set_visible(False)
    one.bar(places, gates[row], color=COLOURS[5], label="gate")
    one.set(title=f"Query {row}: {tokens[row]}", xlabel="key", ylabel="gate", ylim=(0, 1.05))
    one.set_xticks(shown, [tokens[i] for i in shown], rotation=90, size=size)
    one.grid(False)
    steps = one.twinx()
    visible = np.where(gates[row] > 0, positions[row], np.nan)
    steps.plot(places, visible, color=COLOURS[1], marker=".", label="position")
    steps.set(ylabel="position", ylim=(0, None))
    steps.spines["right"].set_visible(True)
    steps.grid(False)
    figure.legend(loc="outside lower right", ncols=2)


@styled
def cross_attention(figure, weights, sources, targets):
    """Draws where each token of a target looks in its source, one map per head.

    Args:
        weights: (H, T, S) array, as `cross_attention` returns.
        sources, targets: lists of str: the S tokens that are read, and the T that are written.
    """
    columns = min(len(weights), 2)
    panels = figure.subplots(-(-len(weights) // columns), columns, squeeze=False).ravel()
    sources, targets = printable(sources), printable(targets)
    size = max(4, min(9, 240 // max(len(sources), len(targets))))
    for head, (axes, matrix) in enumerate(zip(panels, weights, strict=False)):
        image = axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.grid(False)
        axes.set(title=f"head {head}")
        axes.set_xticks(range(len(sources)), sources, rotation=90, size=size)
        axes.set_yticks(range(len(targets)), targets, size=size)
        axes.tick_params(length=0)
    bar = figure.colorbar(image, ax=list(panels), shrink=0.6)
    bar.set_label("weight")
    bar.outline.set_visible(False)


def look(index):
    """Colour and line style of a series; the style changes when the colours repeat."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": LINES[index // len(COLOURS) % len(LINES)],
    }
