"""The pictures of a benchmark, one per task."""

import pathlib

from keras_posenc.analysis import pictures
from keras_posenc.analysis.plot import has_matplotlib, to_svg
from keras_posenc.bench.settings import file_name
from keras_posenc.bench.table import curves, curves_by_place
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
            figure = pictures.accuracy_against_length(
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
