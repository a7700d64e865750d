"""What fits TPUs and GPUs, by programs that were compiled and not run."""

import tables
from sources import results

# Su (2020): RoBERTa-base on one card of 24 GB, https://www.spaces.ac.cn/archives/7947.
PUBLISHED = {512: 22, 1024: 9, 1536: 5}
MODELS = {
    "keras_posenc": "keras_posenc",
    "keras": "`keras.layers.MultiHeadAttention`",
    "keras_hub": "KerasHub",
}
OLD = "\\*"
PLAIN = ["none", "causal"]  # without an encoding, by order
LAYERS = {"none": "no encoding", "causal": "no encoding, causal"}
LAYER_MODES = {"forward": "forward", "train with dropout": "training"}
SPLASH, DEFAULT = "†", "‡"
CASE = "case (mode, model, texts x tokens, attention dropout)"
CHIPS = {"t4": "T4", "h100": "H100"}


def batches():
    """The largest batch of BERT-base that was compiled and fits, per length and model."""
    found = results("aot_steps")
    models = [model for model in MODELS if any(p["model"] == model for p in found["programs"])]
    head = ("tokens", *map(MODELS.get, models), "MB of keras_posenc", "Su (2020), 24 GB card")
    rows = [head]
    for length in sorted({program["length"] for program in found["programs"]}):
        cells = [_cell(found, model, length) for model in models]
        ours = largest("keras_posenc", length)
        rows.append((f"{length:,}", *cells, f"{ours['mb']:,}", str(PUBLISHED.get(length, "-"))))
    old = sorted({p["revision"] for p in found["programs"] if "revision" in p})
    note = f"{OLD} compiled at commit {', '.join(old)}. " if old else ""
    return (
        f"{tables.markdown(rows)}\n\n{note}{found['device']} with {found['limit_mb']:,} MB to use; "
        f"{_versions(found)}. [aot_steps.json](../results/aot_steps.json).\n\n"
        "```\npython -m benchmarks.accelerators.aot_steps\n```"
    )


def over_chips():
    """Memory and collectives of one long text over several chips."""
    found = results("aot_chips")
    (program,) = found["programs"]
    rows = [("collectives of a step", "number", "MB of their results")]
    for kind, (number, mb) in program["collectives"].items():
        rows.append((kind, str(number), f"{mb:,.0f}"))
    return (
        f"{program['length']:,} tokens over {found['topology']}: {program['mb']:,} MB per chip, of "
        f"which {program['kept_mb']:,} are weights and moments.\n\n{tables.markdown(rows)}\n\n"
        f"{_versions(found)}. [aot_chips.json](../results/aot_chips.json).\n\n"
        "```\npython -m benchmarks.accelerators.aot_chips\n```"
    )


def layers():
    """One layer per encoding on a TPU: memory and products, relative to plain attention."""
    found = results("aot")
    case = {"chip": "v5e:2x2", "length": 8192, "dtype": "bfloat16"}
    rows = {}
    for row in found["rows"]:
        if case.items() <= row.items() and "largest_mb" in row and "padded" not in row:
            rows[row["encoding"], row["mode"]] = row
    head = ["encoding"]
    for mode in LAYER_MODES.values():
        head += [f"{mode}: MB", "MB / plain", "products / plain", "selections per cell"]
    lines = [head]
    for encoding in [*PLAIN, *sorted({encoding for encoding, _ in rows} - set(PLAIN))]:
        cells = [LAYERS.get(encoding, f"`{encoding}`")]
        for mode in LAYER_MODES:
            cells += _ratio_to_plain(rows, encoding, mode)
        if rows[encoding, "forward"]["causal"] and encoding not in PLAIN:
            cells[0] += ", causal"
        lines.append(cells)
    return (
        f"{tables.markdown(lines)}\n\n{_versions(found)}. [aot.json](../results/aot.json).\n\n"
        "```\npython -m benchmarks.accelerators.aot --encodings all "
        '--modes forward "train with dropout" --dtypes bfloat16\n```'
    )


def _ratio_to_plain(rows, encoding, mode):
    """Megabytes and products, relative to those of plain attention, and selections per cell."""
    row = rows.get((encoding, mode))
    if row is None:
        return ["-"] * 4
    plain = rows[PLAIN[row["causal"]], mode]
    traced = [f"{row['gflop'] / plain['gflop']:.2f}", f"{row['selections']:.0f}"]
    if not row.get("fits"):
        return ["-", "-", *traced]
    mb, of_plain = row["temporary_mb"], row["temporary_mb"] / plain["temporary_mb"]
    mark = SPLASH * bool(row["kernels"]) + DEFAULT * ("level" in row)
    return [f"{mb:,}{mark}", f"{of_plain:.1f}", *traced]


def gpu_layers():
    """One layer on GPUs that were not there: memory by the compiler."""
    found = results("aot")
    modes = {"forward": "forward", "train": "training", "train with dropout": "with dropout"}
    rows, written = {}, set()
    for row in found["rows"]:
        if row["chip"] in CHIPS and "fits" in row:
            attention = LAYERS.get(row["encoding"], f"`{row['encoding']}`")
            attention += ", padded" * ("padded" in row)
            key = CHIPS[row["chip"]], row["dtype"], f"{row['length']:,}", attention
            rows.setdefault(key, {})[row["mode"]] = row
            written.add(row["mode"])
    modes = {mode: name for mode, name in modes.items() if mode in written}
    lines = [["GPU", "dtype", "tokens", "attention", *modes.values()]]
    for key, of_modes in rows.items():
        cells = [of_modes.get(mode, {}).get("temporary_mb") for mode in modes]
        lines.append([*key, *("-" if mb is None else f"{mb:,}" for mb in cells)])
    return tables.markdown(lines)


def gpu_programs():
    """Whole models on JAX, compiled for a GPU that was not there, beside KerasHub."""
    found = results("aot_gpu")
    columns = {"gb": "GB moved", "kernels": "kernels", "temporary_mb": "MB", "tflop": "Tflop"}
    sides = {"posenc-jax": "keras_posenc", "kerashub-jax": "KerasHub"}
    rows = [(CASE, *(f"{side}: {word}" for side in sides.values() for word in columns.values()))]
    for case in dict.fromkeys(program["case"] for program in found["programs"]):
        cells = [case]
        for side in sides:
            one, two = (p for p in found["programs"] if (p["row"], p["case"]) == (side, case))
            cells += [_of_all_layers(case, one[key], two[key]) for key in columns]
        rows.append(cells)
    return (
        f"{tables.markdown(rows)}\n\n{_versions(found)}; {found['device']}. "
        "[aot_gpu.json](../results/aot_gpu.json).\n\n"
        "```\npython -m benchmarks.accelerators.aot_gpu\n```"
    )


def _of_all_layers(case, one, two):
    """A figure of 6 or 12 layers, on the line through those of one and two."""
    if one is None:
        return "-"
    number = one + (5 if "minilm" in case else 11) * (two - one)
    return f"{number:,.0f}" if number >= 20 else f"{number:.1f}"


def largest(model, length):
    """The program of the largest batch that was compiled with all layers and fits, or None."""
    found = results("aot_steps")
    fitting = [
        program
        for program in _programs(found, model, length)
        if program["mb"] is not None and program["mb"] <= found["limit_mb"]
    ]
    return max(fitting, key=lambda program: program["batch"], default=None)


def _programs(found, model, length):
    case = {"model": model, "length": length, "layers": 12}
    return [program for program in found["programs"] if case.items() <= program.items()]


def _cell(found, model, length):
    if program := largest(model, length):
        if "revision" in program:
            return f"{program['batch']}{OLD}"
        kept, limit = program["kept_mb"], found["limit_mb"]
        line = int(program["batch"] * (limit - kept) / (program["mb"] - kept))
        return f"{program['batch']} ({line})"
    tried = _programs(found, model, length)
    return "none" + OLD * ("revision" in tried[0]) if tried else "-"


def _versions(found):
    return ", ".join(f"{name} {version}" for name, version in found["versions"].items())
