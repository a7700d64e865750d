"""Draws the figures of results in docs/assets."""

import itertools
import json
import pathlib

import blocks
import numpy as np
import tables

from benchmarks.extrapolation.table import curves
from keras_posenc.analysis.plot import COLOURS, MARKERS, styled, to_svg

ROOT = pathlib.Path(__file__).resolve().parents[2]
# File of results -> title, split, and the lines: name in the results -> name in the picture.
PANELS = {
    "counting": (
        "Counting, by position encoding",
        "train",
        {"cope:npos_max=16": "CoPE", "rotary": "rotary", "sinusoidal": "sinusoidal"},
    ),
    "bucket_sort": (
        "Sorting, by position ids",
        "test",
        {"rotary sorted ids": "rotary, random ids", "rotary": "rotary, consecutive ids"},
    ),
}


# Ticks whose numbers would run into the next.
BESIDE_ANOTHER = (30, 50)


@styled
def lengths(figure):
    """Accuracy by length, one panel per task."""
    panels = figure.subplots(1, len(PANELS))
    for axes, (name, panel) in zip(panels, PANELS.items(), strict=True):
        title, split, names = panel
        found = tables.bench(name)
        lines = curves(found)[split]
        for index, (key, label) in enumerate(names.items()):
            line = {k: [100 * v for v in lines[key][k]] for k in ("mean", "best", "worst")}
            at, colour = lines[key]["length"], COLOURS[index]
            axes.plot(at, line["mean"], color=colour, marker=MARKERS[index], label=label)
            axes.fill_between(at, line["worst"], line["best"], color=colour, alpha=0.15, lw=0)
        axes.axvline(found[0]["train_lengths"][1], color="#333333", linestyle=":")
        axes.axhline(100 * found[0]["chance"], color="#767676", linestyle="--", linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_xticks(at, [str(n) if n not in BESIDE_ANOTHER else "" for n in at])
        axes.minorticks_off()
        axes.set(title=title, xlabel="length of the test texts", ylim=(0, 103))
        below(axes)
    panels[0].set_ylabel("accuracy (%; dashed: chance)")


def below(axes):
    """A legend that covers no line."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), borderaxespad=0)


# Where the name stands -> the title of a panel.
PLACES = {
    "opening": "The name is in the first sentence",
    "inside": "The name is inside the document",
}
ASKED = (
    "Query: \u201cWhat is Ada afraid of?\u201d\n"
    "Answer, far behind the name: \u201cShe is afraid of thunder.\u201d"
)


@styled
def distance(figure):
    """Whether the right sentence is found first, by the distance back to the name it is about."""
    study = blocks.benchmark("retrieval.distant_context")
    rows = json.loads((ROOT / "benchmarks" / "results" / "distant_context.json").read_text("utf-8"))
    looks = {
        study.CONTEXTUAL: ("after contextual training", COLOURS[0], "-", 3),
        study.FIRST: ("first sentence prepended", "#767676", "-", 1.2),
        study.WINDOWS: ("before: 512-token windows", COLOURS[1], "--", 2),
    }
    panels = figure.subplots(2, 1)
    for axes, (place, title) in zip(panels, PLACES.items(), strict=True):
        found = study.by_distance(rows, place, [study.FIRST, study.WINDOWS, study.CONTEXTUAL])
        for way, columns in found.items():
            label, colour, line, width = looks[way]
            at = [column["tokens"] for column in columns.values()]
            top1 = [column["top1"] for column in columns.values()]
            mean, half = (np.array(list(map(of, top1))) for of in (np.mean, study.half_width))
            axes.plot(at, mean, line, color=colour, linewidth=width, marker="o", label=label)
            low, high = np.clip(mean - half, 0, 100), np.clip(mean + half, 0, 100)
            axes.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)
        axes.axhline(100 / 16, color="#333333", linestyle=":", linewidth=1, label="chance")
        axes.set_xscale("log", base=2)
        ticks = [200, 400, 800, 1600, 3700] if place == "opening" else [200, 400, 800, 1600]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set(title=title, ylabel="right sentence first (%)", ylim=(0, 103))
    axes.set_xlabel("tokens back to the name")
    figure.suptitle(ASKED, fontsize="medium")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)


@styled
def positions(figure):
    """Whether a licence is found first, by the depth of the passage that the query is about."""
    study = blocks.benchmark("retrieval.by_position")
    rows = json.loads((ROOT / "benchmarks" / "results" / "by_position.json").read_text("utf-8"))
    kind = "MiniLM", "licences"
    found = study.by([row for row in rows if (row["model"], row["corpus"]) == kind], "depth")
    ways = [study.WORDS_CHUNKS, study.WORDS, study.CHUNKS, study.FIRST, study.DRAWN[-1]]
    axes = figure.subplots()
    for index, way in enumerate(filter(found.get, ways)):
        at, means = found[way].keys(), [values.mean() for values in found[way].values()]
        style = {"color": COLOURS[index], "marker": MARKERS[index], "label": way}
        axes.plot([100 * depth for depth in at], means, **style)
    axes.set(xlabel="depth of the passage (%)", ylabel="licence found first (%)", ylim=(0, 103))
    figure.legend(loc="outside upper left", ncols=2)


# Ways of distant_facts.json -> names in the picture.
READINGS = {
    "stretched, one pass": "stretched, full context",
    "512-token chunks, averaged": "512-token chunks",
    "first 512 tokens": "first 512 tokens",
    "naive Bayes, all words": "bag-of-words (naive Bayes)",
}
BANDS = (0, 512, 768, 1024, 1280)


@styled
def facts(figure):
    """Whether two facts agree, by the length of the text."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "distant_facts.json").read_text("utf-8"))
    rows = [row for row in rows if row["length"] == 1536]
    tokens = np.concatenate([row["tokens"] for row in rows])
    bands = np.searchsorted(BANDS, tokens, side="left") - 1
    pairs = enumerate(itertools.pairwise([*BANDS, 1536]))
    names = [f"{low + 1:,}–{high:,}\n{(bands == n).sum()} answers" for n, (low, high) in pairs]
    axes = figure.subplots()
    for index, (way, label) in enumerate(READINGS.items()):
        right = np.concatenate([row["right"][way] for row in rows])
        parts = [100 * np.asarray(right[bands == band], float) for band in range(len(BANDS))]
        means = [part.mean() for part in parts]
        halves = [1.96 * part.std() / len(part) ** 0.5 for part in parts]
        at = np.arange(len(BANDS)) + (index - 1.5) * 0.2
        axes.bar(at, means, width=0.19, color=COLOURS[index], label=label)
        ends = [np.minimum(halves, means), np.minimum(halves, 100 - np.array(means))]
        axes.errorbar(at, means, ends, fmt="none", ecolor="#333333", elinewidth=1)
    axes.axhline(50, color="#767676", linestyle="--", linewidth=1)
    axes.set_xticks(range(len(BANDS)), names)
    axes.set(xlabel="tokens of the text", ylim=(0, 103))
    axes.set_ylabel("accuracy (%; dashed: chance)")
    figure.legend(loc="outside upper left", ncols=2)


@styled
def natural(figure):
    """Passages of real documents that are found first, by collection and method."""
    study = blocks.benchmark("retrieval.natural")
    rows = json.loads((ROOT / "benchmarks" / "results" / "natural.json").read_text("utf-8"))
    drawn = {
        "BM25": "words (BM25)",
        study.WINDOWS: "windows of 512 tokens",
        study.UNTRAINED: "more positions and log-n, untrained",
        study.CONTEXTUAL: "contextual training",
        study.TITLE: "title + passage",
        study.BOTH[study.CONTEXTUAL]: "contextual and windows, summed",
        study.TITLE_CONTEXTUAL: "title and contextual, summed",
    }
    first = study.natural_texts.COLLECTIONS
    collections = [name for name in first if name not in study.WITHOUT_TITLES]
    panels = figure.subplots(1, len(collections), sharey=True)
    for axes, collection in zip(panels, collections, strict=True):
        some = [row for row in rows if row["collection"] == collection]
        for place, way in enumerate(reversed(drawn)):
            values = study.by_document([row for row in some if row["way"] == way])
            colour = COLOURS[0] if way in study.OF_TRAINING else "#999999"
            half = study.half_width(values)
            axes.barh(place, values.mean(), xerr=half, color=colour, error_kw={"elinewidth": 1})
        chance = 100 * np.mean([1 / count for count in some[0]["ranked"]])
        axes.axvline(chance, color="#333333", linestyle="--", linewidth=1)
        axes.set_yticks(range(len(drawn)), [drawn[way] for way in reversed(drawn)])
        title = collection.removesuffix(" per document").replace(", ", ",\n")
        axes.set(title=title, xlim=(0, 103))
    figure.supxlabel("right passage first (%); dashed: chance", fontsize="medium")


FIGURES = {
    "natural": (natural, (9.6, 3.6)),
    "facts": (facts, (8.6, 3.8)),
    "lengths": (lengths, (8.6, 4.0)),
    "distance": (distance, (6.2, 7.0)),
    "positions": (positions, (6.6, 4.6)),
}

if __name__ == "__main__":
    for name, (draw, size) in FIGURES.items():
        path = ROOT / "docs" / "assets" / f"{name}.svg"
        path.write_text(to_svg(draw(size=size)), "utf-8")
