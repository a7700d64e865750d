"""Draws the picture of the README, docs/assets/lengths.svg, from keras_posenc/bench/results."""

import pathlib

from keras_posenc.analysis.plot import COLOURS, MARKERS, styled, to_svg
from keras_posenc.bench import curves, published_results

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


@styled
def lengths(figure):
    """Accuracy by length, a panel a task, each with its own lines and length of training."""
    for axes, (name, panel) in zip(
        figure.subplots(1, len(PANELS), sharey=True), PANELS.items(), strict=True
    ):
        title, split, names = panel
        found = published_results(name)
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
    figure.axes[0].set_ylabel("answers right (%; dashed: chance)")


if __name__ == "__main__":
    text = to_svg(lengths(size=(8.6, 3.4)))
    (ROOT / "docs" / "assets" / "lengths.svg").write_text(text, "utf-8")
