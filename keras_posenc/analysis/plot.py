"""Pictures of a training and its results: from plain numbers to a Matplotlib figure, no window.

This is the only file that imports Matplotlib. The colours are Okabe and Ito's, which colour-blind
readers can distinguish; every series also has its own marker or hatch. What is `styled` returns a
`matplotlib.figure.Figure`.
"""

import functools
import importlib.util
import io
import math
import warnings

from keras_posenc.files.untrusted import shorten
from keras_posenc.text.truncation import LOGGER

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vP"
HATCHES = ("", "//", "..", "xx", "--", "\\\\")
MOST_NAME = 40  # characters
_STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "keras_posenc",
    "text.parse_math": False,  # "$" in a class or a token is a letter
}


def require_matplotlib():
    """Returns the module `matplotlib`; the error has the command that installs it.

    Raises:
        ImportError: if Matplotlib is not installed.

    Example:

    >>> require_matplotlib().__name__
    'matplotlib'
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "Figures need Matplotlib: pip install matplotlib, or do without them."
        ) from error
    return matplotlib


def has_matplotlib():
    """Whether figures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def warn_without_matplotlib(path, function):
    """Logs, where Matplotlib is missing, that a page has no figures, and what adds them."""
    if not has_matplotlib():
        LOGGER.warning(
            f"{path} has no figures, because Matplotlib is not installed. To add them: pip install "
            f"matplotlib, then give the same command again, or call {function} of "
            "keras_posenc.analysis."
        )


def printable(names):
    """Names of classes or tokens as a figure shows them: a font has no control characters."""
    return [shorten(name, MOST_NAME) for name in names]


def styled(draw):
    """Decorator: gives `draw(figure, ...)` a new figure in the style of this file."""

    @functools.wraps(draw)
    def drawn(*args, size=(6.4, 3.6), **kwargs):
        matplotlib = require_matplotlib()
        from matplotlib.figure import Figure

        with matplotlib.rc_context(_STYLE):
            figure = Figure(figsize=size, layout="constrained")
            draw(figure, *args, **kwargs)
            _write_powers_plainly(figure)
            return figure

    return drawn


def _write_powers_plainly(figure):
    """Labels ticks of logarithmic axes as 0.0205: Matplotlib's own labels are TeX, and those
    without TeX have one digit, so that all ticks of a narrow axis would be 2e-02."""
    from matplotlib.ticker import LogFormatter, LogFormatterMathtext

    class Plain(LogFormatter):
        def __call__(self, x, pos=None):
            if not super().__call__(x, pos):
                return ""
            if x == round(x) and x < 1e6:
                return f"{x:.0f}"
            low, high = sorted(self.axis.get_view_interval())
            digits = 2 + math.ceil(-math.log10(1 - low / high))
            return self.fix_minus(f"{x:.{min(max(4, digits), 12)}g}")

    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        for ticks in (axis.major, axis.minor):
            if isinstance(ticks.formatter, LogFormatterMathtext):
                is_minor, base = ticks is axis.minor, axis.get_transform().base
                set_formatter = axis.set_minor_formatter if is_minor else axis.set_major_formatter
                set_formatter(Plain(base, ticks.formatter.labelOnlyBase))


def to_svg(figure):
    """Returns the figure as SVG, with letters as paths; the same figure gives the same text.

    Where Matplotlib's font lacks a letter, as of Chinese, letters are drawn by the browser.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Glyph .* missing")
        try:
            return _svg(figure, "path")
        except UserWarning:
            warnings.filterwarnings("ignore", "Glyph .* missing")
            return _svg(figure, "none")


def _svg(figure, letters):
    matplotlib, text = require_matplotlib(), io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": _STYLE["svg.hashsalt"], "svg.fonttype": letters}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


@styled
def learning_curves(figure, history, steps=(), score="accuracy", title="accuracy"):
    """Draws loss and a score over the epochs, and the running loss of the steps.

    `history` has a dict per epoch, with `epoch`, `loss` and, where they exist, the score,
    `val_loss` and the score of the validation. A `max_length` marks the stages of growing length.
    `steps` have `epoch`, a fraction such as 1.25, and `loss`, the mean since the epoch began.
    """
    is_share = score == "accuracy"
    loss, accuracy = figure.subplots(1, 2)
    epochs = [row["epoch"] for row in history]
    for start in sorted({int(row["epoch"] - 1e-9) for row in steps}):
        part = [row for row in steps if start < row["epoch"] <= start + 1]
        loss.plot(
            [row["epoch"] for row in part],
            [row["loss"] for row in part],
            color=COLOURS[0],
            alpha=0.45,
            linewidth=1,
            label="training, within the epoch (running mean)" if start == 0 else None,
        )
    for axes, name in ((loss, "loss"), (accuracy, score)):
        for index, (key, label) in enumerate(((name, "training"), (f"val_{name}", "validation"))):
            if all(key in row for row in history):
                values = [row[key] * (100 if name == "accuracy" else 1) for row in history]
                axes.plot(epochs, values, marker=MARKERS[index], color=COLOURS[index], label=label)
        axes.set_xlabel("epochs")
        axes.set_xticks(_ticks(epochs[-1]))
        axes.set_xlim(0, epochs[-1] * 1.04)
        _mark_stages(axes, history, "top" if axes is loss else "bottom")
    loss.set(title="Loss", ylabel="cross-entropy (nats)" if is_share else "loss", ylim=(0, None))
    accuracy.set(title=title[0].upper() + title[1:], ylabel=f"{title} (%)" if is_share else title)
    handles, labels = loss.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3)


def _ticks(last, most=8):
    step = -(-int(last) // most)
    return range(0, int(last) + 1, step)


def _mark_stages(axes, history, place):
    """Draws a dotted line, with the new length, where a stage begins. The `place`, "top" or
    "bottom", is where the curve is not: losses fall, scores rise."""
    for before, after in zip(history, history[1:], strict=False):
        if before.get("max_length") != after.get("max_length"):
            axes.axvline(before["epoch"], color="#767676", linestyle=":", linewidth=1)
            axes.annotate(
                f"{after['max_length']:,.0f} tokens",
                (before["epoch"], 0.98 if place == "top" else 0.02),
                xycoords=("data", "axes fraction"),
                xytext=(2, 0),
                textcoords="offset points",
                rotation=90,
                va=place,
                fontsize=8,
                color="#595959",
            )


@styled
def confusion_matrix(figure, matrix, names):
    """Draws a confusion matrix: the colour is the share of the true class, the number a count."""
    axes, names = figure.subplots(), printable(names)
    shares = [[100 * count / max(sum(row), 1) for count in row] for row in matrix]
    mesh = axes.pcolormesh(shares, cmap="Blues", vmin=0, vmax=100)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.grid(False)
    count = len(names)
    if count <= 25:
        fontsize = 10 if count <= 6 else 8 if count <= 12 else 6
        for row, (numbers, parts) in enumerate(zip(matrix, shares, strict=True)):
            for column, (number, part) in enumerate(zip(numbers, parts, strict=True)):
                if number:
                    axes.text(
                        column + 0.5,
                        row + 0.5,
                        number,
                        ha="center",
                        va="center",
                        fontsize=fontsize,
                        color="black" if part < 55 else "white",
                    )
    centres = [index + 0.5 for index in range(count)]
    if count <= 60:
        size = 9 if count <= 12 else 7
        axes.set_xticks(centres, names, rotation=45, ha="right", rotation_mode="anchor", size=size)
        axes.set_yticks(centres, names, size=size)
    axes.tick_params(length=0)
    axes.set(xlabel="predicted class", ylabel="true class")
    bar = figure.colorbar(mesh, ax=axes, shrink=0.8)
    bar.set_label("share of the true class (%)")
    bar.outline.set_visible(False)


@styled
def score_by_length(figure, series, score="accuracy", title="accuracy"):
    """Draws a score by document length, with the number of documents, and intervals of shares.

    `series` are results of `by_lengths` by name. Shares, drawn in percent, have an "interval".
    """
    axes = figure.subplots()
    bins = sorted({(group["more_than"], group["up_to"]) for groups in series.values()
                   for group in groups}, key=lambda pair: pair[0])  # fmt: skip
    is_share = all("interval" in group for groups in series.values() for group in groups)
    factor = 100 if is_share else 1
    width = 0.8 / len(series)
    lowest = min((group[score] for groups in series.values() for group in groups), default=0)
    for index, (name, groups) in enumerate(series.items()):
        for group in groups:
            place = bins.index((group["more_than"], group["up_to"]))
            x = place + (index - (len(series) - 1) / 2) * width
            value = factor * group[score]
            axes.bar(
                x,
                value,
                width * 0.92,
                color=COLOURS[index % len(COLOURS)],
                hatch=HATCHES[index % len(HATCHES)],
                edgecolor="white",
                label=name if group is groups[0] else None,
            )
            if "interval" in group:
                low, high = (factor * bound for bound in group["interval"])
                axes.errorbar(
                    x,
                    value,
                    [[max(value - low, 0)], [max(high - value, 0)]],
                    color="#333333",
                    linewidth=1,
                    capsize=2,
                )
            axes.text(
                x, 0.02, f"{group['documents']:,}", ha="center", fontsize=8, color="white",
                transform=axes.get_xaxis_transform(),
                bbox={"facecolor": "#333333", "edgecolor": "none", "pad": 1.5},
            )  # fmt: skip
    axes.set_xticks(range(len(bins)), [_range(*pair) for pair in bins], size=8)
    axes.set_xlim(-0.6, max(len(bins), 4) - 0.4)
    axes.grid(axis="x", visible=False)
    axes.set(
        xlabel="document length (tokens, before any truncation)",
        ylabel=f"{title} (%)" if is_share else title,
        ylim=(min(1.04 * lowest, 0), 104 if is_share else None),
    )
    if len(series) > 1:
        figure.legend(loc="outside upper left", ncols=3)


@styled
def agreement_by_position(figure, rows, old_length):
    """Cosine of a stretched encoder's features with the unstretched one's, along the text:
    `agreement` in the report of `training.stretch`, with a line at the old length."""
    axes = figure.subplots()
    middle = [(row["from"] + row["to"]) / 2 for row in rows]
    looks = {
        "teacher": ("the unstretched with itself", {"color": "#767676", "linestyle": "--"}),
        "before": ("stretched, at once", {"color": COLOURS[1], "marker": MARKERS[1]}),
        "after": ("stretched, after training", {"color": COLOURS[0], "marker": MARKERS[0]}),
    }
    for name, (label, look) in looks.items():
        axes.plot(middle, [row[name] for row in rows], label=label, markersize=4, **look)
    axes.axvline(old_length, color="#333333", linewidth=1, linestyle=":")
    axes.set(xlabel="position (tokens)", ylabel="cosine of features", ylim=(None, 1.0))
    axes.set_xlim(0, rows[-1]["to"])
    axes.legend()


@styled
def found_by_distance(figure, rows, ways, chance):
    """Fraction of passages found first, by the distance back to the name that is asked for: `found`
    in the report of `training.contextualize`. `ways` are keys of a row -> label; chance is drawn as
    a line."""
    axes = figure.subplots()
    tokens = [row["tokens"] for row in rows]
    for number, (way, label) in enumerate(ways.items()):
        look = {"color": COLOURS[number], "marker": MARKERS[number]}
        axes.plot(tokens, [row[way] for row in rows], label=label, **look)
    axes.axhline(chance, color="#333333", linewidth=1, linestyle=":", label="chance")
    axes.set(xlabel="tokens back to the name", ylabel="found first", ylim=(0, 1.03))
    axes.set_xlim(0, None)
    axes.legend()


@styled
def losses(figure, values):
    """The loss of each step."""
    axes = figure.subplots()
    marker = MARKERS[0] if len(values) == 1 else None  # one point has no line
    axes.plot(range(1, len(values) + 1), values, color=COLOURS[0], linewidth=1, marker=marker)
    axes.set(xlabel="step", ylabel="loss", ylim=(0, None))


def _range(more_than, up_to):
    return f"over {more_than:,}" if up_to is None else f"{more_than + 1:,}–{up_to:,}"


@styled
def length_histogram(figure, series, marks=()):
    """Draws results of `length_histogram` by name, with lines where texts are truncated."""
    axes = figure.subplots()
    for index, (name, histogram) in enumerate(series.items()):
        axes.stairs(
            histogram["counts"],
            histogram["edges"],
            fill=index == 0,
            color=COLOURS[index % len(COLOURS)],
            alpha=0.55 if index == 0 else 1,
            linewidth=1.6,
            label=f"{name} ({sum(histogram['counts']):,} documents)",
        )
    for mark in marks:
        axes.axvline(mark, color="#333333", linestyle="--", linewidth=1)
        axes.annotate(
            f"cut at {mark:,}",
            (mark, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-3, -2),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="top",
            fontsize=8,
        )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set(xlabel="document length (tokens, logarithmic)", ylabel="documents", ylim=(0, None))
    axes.grid(axis="x", visible=False)
    figure.legend(loc="outside upper left", ncols=2)
