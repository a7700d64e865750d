"""Draws the picture of the README, docs/assets/lengths.svg, from the files of results."""

import json
import pathlib

import numpy as np
import tables

from keras_posenc.analysis.plot import COLOURS, MARKERS, styled, to_svg
from keras_posenc.bench import curves

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


STEPS = 64
# Way and steps in stretch.json, what is read of its rows -> name in the picture.
AGREEMENT = {
    ("every third layer global", STEPS, "teacher"): "unstretched, with itself",
    ("every third layer global", STEPS, "after"): "by stretch, after minutes",
    ("as published", 0, "before"): "as published, at once",
}


@styled
def lengths(figure):
    """What a stretched BERT keeps, by position; accuracy by length, a panel a task."""
    stretching, *panels = figure.subplots(1, 1 + len(PANELS))
    agreement(stretching)
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
        axes.set_xticks(at, [str(n) for n in at])
        axes.minorticks_off()
        axes.set(title=title, xlabel="length of the test", ylim=(0, 103))
        axes.legend(loc="lower left")
    panels[0].set_ylabel("answers right (%; dashed: chance)")


def agreement(axes):
    """The mean cosine with the features of the unstretched model, by position."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "stretch.json").read_text("utf-8"))
    for index, ((way, steps, name), label) in enumerate(AGREEMENT.items()):
        own = [
            row["agreement"]
            for row in rows
            if row["way"] == way
            and (row["settings"]["length"], row["settings"]["steps"]) == (2048, steps)
        ]
        at = [(part["from"] + part["to"]) / 2 for part in own[0]]
        seeds = np.array([[part[name] for part in parts] for parts in own])
        axes.plot(at, seeds.mean(0), color=COLOURS[index], label=label)
        axes.fill_between(at, seeds.min(0), seeds.max(0), color=COLOURS[index], alpha=0.15, lw=0)
    axes.axvline(512, color="#333333", linestyle=":")
    axes.set(title="A BERT stretched to 2,048", xlabel="position", ylim=(0, 1.03))
    axes.set_ylabel("cosine with the unstretched model")
    axes.legend(loc="lower left")


if __name__ == "__main__":
    text = to_svg(lengths(size=(11.4, 3.4)))
    (ROOT / "docs" / "assets" / "lengths.svg").write_text(text, "utf-8")
