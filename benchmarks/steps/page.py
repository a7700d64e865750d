"""The page of benchmarks/results/peers.json: tables, a picture and the targets."""

import json

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from benchmarks.steps import rows, targets

TITLES = {"forward": "Forward", "train": "Training step"}
STYLES = {
    "keras_posenc": "-",
    "keras_hub": "--",
    "transformers": ":",
    "onnxruntime": ":",
    "bert4keras": "-.",
}


def write(path):
    """Writes the .md and .png beside a results file."""
    report = json.loads(path.read_text())
    lines = report["rows"]
    picture = path.with_suffix(".png")
    draw(lines, picture)
    parts = [head(report, picture.name), limits(lines), targets.section(lines)]
    for mode in TITLES:
        for model in rows.MODELS:
            here = [line for line in lines if (line["mode"], line["model"]) == (mode, model)]
            if here:
                parts.append(table(here, mode, model))
    path.with_suffix(".md").write_text("\n\n".join(part for part in parts if part) + "\n")


def head(report, picture):
    machine = report["machine"]
    days = sorted({line["day"] for line in report["rows"] if "day" in line})
    measured = f"Measured: {' to '.join(days[:1] + days[1:][-1:])}." if days else ""
    command = "python -m benchmarks.steps.peers"
    return f"""# A step beside the peers

Made by `{command}` on {machine["processor"]}, {machine["cores"]} cores. float32,
AdamW, no padding; dropout 0.1 of hidden layers and, except in the rows called nodrop, of attention
weights. Medians of alternating processes; peak memory is all that the process holds, imports
included. The machine was shared and sometimes half as fast: compare ratios, within a column.
{measured}

`*` other programs used more than {report["quiet"]} cores while it was measured.

![time and memory by length]({picture})"""


def limits(lines):
    rates = [line for line in lines if line["mode"] == "limit" and "gflops" in line]
    if not rates:
        return ""
    note = ", ".join(
        f"{line['row'].removeprefix('matmul-')} {line['gflops']:.0f}" for line in rates
    )
    return (
        f"Largest float32 matmul rate, GFLOP/s: {note}. The share of the limit is relative\n"
        "to the largest rate when a row was measured."
    )


def table(here, mode, model):
    """A table by length: seconds, the ratio to the best of this library, memory."""
    names = [name for name in rows.NAMES if any(line["row"] == name for line in here)]
    shapes = sorted({(line["length"], line["batch"]) for line in here})
    text = [f"## {TITLES[mode]}, {model}", ""]
    text.append(
        "Seconds (times the fastest of this library; share of the limit), then peak memory."
    )
    text += ["", "| | " + " | ".join(f"{batch} x {length}" for length, batch in shapes) + " |"]
    text.append("|---" * (len(shapes) + 1) + "|")
    for name in names:
        cells = []
        for length, batch in shapes:
            found = {x["row"]: x for x in here if (x["length"], x["batch"]) == (length, batch)}
            cells.append(cell(found, name, rows.gigaflops(model, mode, batch, length)))
        text.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(text)


def cell(found, name, work):
    line = found.get(name)
    if line is None:
        return "–"
    if "failed" in line:
        return line["failed"]
    best = min(
        (x["seconds"] for x in found.values() if is_fair(x) and rows.NAMES[x["row"]].ours),
        default=None,
    )
    ratio = [f"{line['seconds'] / best:.2f}x"] if best else []
    limit = line.get("limit")
    share = [f"{work / line['seconds'] / limit:.0%}"] if limit else []
    note = f" ({'; '.join(ratio + share)})" if ratio or share else ""
    return f"{line['seconds']:.3f}{noise(line)}{note}, {line['peak_mb'] / 1000:.1f} GB"


def is_fair(line):
    return "seconds" in line and rows.NAMES[line["row"]].drops_attention


def noise(line):
    return "*" if line["others"] >= 0.1 else ""


def draw(lines, path):
    """Time and memory against length, a column of two plots for each mode that was measured."""
    # Of the usual shapes alone, where there are some: others are other amounts of work.
    lines = [line for line in lines if (line["batch"], line["length"]) in rows.SHAPES] or lines
    lines = [line for line in lines if line["model"] == "minilm" and "seconds" in line]
    modes = [mode for mode in TITLES if any(line["mode"] == mode for line in lines)] or list(TITLES)
    size = (6 * len(modes), 9)
    figure, axes = plt.subplots(2, len(modes), figsize=size, sharex="col", squeeze=False)
    for column, mode in enumerate(modes):
        here = [line for line in lines if line["mode"] == mode]
        for row in rows.ROWS:
            mine = sorted((x for x in here if x["row"] == row.name), key=lambda x: x["length"])
            if not mine:
                continue
            lengths = [line["length"] for line in mine]
            style = {"linestyle": STYLES[row.library], "marker": "o", "label": row.name}
            # Single points have no line to tell them by: a color each.
            style["color"] = plt.colormaps["tab20"](list(rows.NAMES).index(row.name))
            # Batches hold a different number of tokens: time is by token.
            time = [x["seconds"] / x["length"] / x["batch"] * 1e3 for x in mine]
            axes[0, column].plot(lengths, time, **style)
            axes[1, column].plot(lengths, [x["peak_mb"] / 1000 for x in mine], **style)
        axes[0, column].set(title=f"{TITLES[mode]}, MiniLM", ylabel="ms a token")
        axes[1, column].set(xlabel="tokens a text", ylabel="peak memory, GB")
        for axis in axes[:, column]:
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.grid(alpha=0.3)
            if axis.lines:
                axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)
