"""The pictures of a benchmark, one per task."""

import pathlib

import numpy as np

from benchmarks.extrapolation.settings import file_name
from benchmarks.extrapolation.table import curves, curves_by_place
from keras_posenc.analysis.pictures import look
from keras_posenc.analysis.plot import MARKERS, has_matplotlib, styled, to_svg
from keras_posenc.files.writing import write_text
from keras_posenc.text.truncation import LOGGER


def save_pictures(results, output):
    """Writes a picture of each task, accuracy against length, to `output`/TASK.svg.

    Language tasks get one more, `output`/TASK-by-place.svg: accuracy against the position in the
    longest test texts. Without Matplotlib nothing is drawn, which is logged.

    Args:
        results: list of dict, as `bench` or `bench_passkey` returns.
        output: path of an existing directory.

    Returns:
        list of the paths written.

    Raises:
        ImportError: if an installed Matplotlib is damaged.
        ValueError: if a folder has the name of a picture.

    Example:

    >>> run = {"task": "parity_check", "model": "transformer", "positions": "consecutive"}
    >>> run |= {"encodings": "rotary", "train_lengths": [1, 40], "chance": 0.5}
    >>> run["accuracy"] = {"test": {"41": 1.0, "50": 0.75}}
    >>> [path.name for path in save_pictures([run], ".")]
    ['parity_check.svg']
    """
    if not has_matplotlib():
        LOGGER.warning(
            "No figures are drawn, because Matplotlib is not installed: pip install matplotlib, "
            "then the same command draws them from its results."
        )
        return []
    paths = []
    for task in dict.fromkeys(result["task"] for result in results):
        of_task = [result for result in results if result["task"] == task]
        drawn = {task: (curves(of_task), "length")}
        if all("by_place" in result for result in of_task):
            drawn[f"{task}-by-place"] = (curves_by_place(of_task), "place in the text")
        for name, (lines_of, along) in drawn.items():
            panels = {
                task if split == "test" else f"{task}, {split}": lines
                for split, lines in lines_of.items()
            }
            figure = accuracy_against_length(
                panels,
                trained=of_task[0]["train_lengths"][1],
                chance=of_task[0]["chance"],
                along=along,
                of="documents found" if "scores" in of_task[0] else "places answered right",
                size=(3.2 * len(panels) + 3.2, 4.2),
            )
            paths.append(pathlib.Path(output) / f"{file_name(name)}.svg")
            write_text(paths[-1], to_svg(figure))
    return paths


@styled
def accuracy_against_length(
    figure, panels, trained, chance=None, along="length", of="places answered right"
):
    """Draws accuracy by length: one line per model, shaded from the worst to the best seed.

    Args:
        panels: dict, title -> dict, name -> result of `curves`.
        trained: int. The longest training length, a dotted line.
        chance: float or None. The accuracy of guessing, a dashed line.
        along: str. Label of the horizontal axis: the length, or the position in the text.
        of: str. What the accuracy is the share of.

    Returns:
        A `matplotlib.figure.Figure`.
    """
    row = np.atleast_1d(figure.subplots(1, len(panels), sharey=True))
    for axes, (title, lines) in zip(row, panels.items(), strict=True):
        for index, (name, line) in enumerate(lines.items()):
            mean, best, worst = ([100 * v for v in line[key]] for key in ("mean", "best", "worst"))
            shown = look(index)
            marker = MARKERS[index % len(MARKERS)]
            axes.plot(line["length"], mean, marker=marker, markersize=4, label=name, **shown)
            axes.fill_between(
                line["length"], worst, best, color=shown["color"], alpha=0.12, linewidth=0
            )
        axes.axvline(trained, color="#333333", linestyle=":", linewidth=1)
        if chance is not None:
            axes.axhline(100 * chance, color="#767676", linestyle="--", linewidth=1)
        axes.set_xscale("log", base=2)
        lengths = sorted({length for line in lines.values() for length in line["length"]})
        axes.set_xticks(lengths, [str(length) for length in lengths], rotation=45)
        axes.minorticks_off()
        axes.set(title=title, xlabel=f"{along} (dotted: longest of the training)", ylim=(0, 103))
    figure.axes[0].set_ylabel(f"{of} (%)")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3)
