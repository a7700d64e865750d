"""ModernBERT on long text, here and in transformers (sdpa), on torch.

    python -m benchmarks.steps.modernbert                       # some minutes on an idle machine
    python -m benchmarks.steps.modernbert --lengths 1024 --turns 1

ModernBERT-base's widths and its pattern (one global layer, two with a window of 128), but few
layers, random weights that transformers wrote, one text without padding. Each measurement is a
process of its own, by turns: processor seconds on one thread of a forward pass, and of one with its
backward pass, and the peak of memory over that of the loaded model. Results go to
benchmarks/results/modernbert.json, to those that are there, and modernbert.md has a table of them.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "modernbert.json"
LIBRARIES = ("keras_posenc", "transformers")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    parser.add_argument("--one", nargs=4, metavar=("LIBRARY", "FOLDER", "LENGTH", "MODE"))
    arguments = parser.parse_args()
    if arguments.one:
        library, folder, length, mode = arguments.one
        print(json.dumps(measured(library, folder, int(length), mode)))
        return
    report = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        make_checkpoint(folder, arguments.layers)
        for turn in range(arguments.turns):
            for length in arguments.lengths:
                for mode in ("forward", "train"):
                    case = f"{arguments.layers} layers, {length} tokens, {mode}"
                    lines = {
                        library: run(library, folder, length, mode)
                        for library in LIBRARIES[:: -1 if turn % 2 else 1]
                    }
                    for library, line in lines.items():
                        report.setdefault(case, {}).setdefault(library, []).append(line)
                    arguments.results.write_text(json.dumps(report, indent=1) + "\n")
                    arguments.results.with_suffix(".md").write_text(page(report))
    print(page(report))


def make_checkpoint(folder, layers):
    """A checkpoint of ModernBERT-base's widths that transformers writes."""
    import transformers

    ids = dict(zip(("pad", "bos", "eos", "cls", "sep"), range(5), strict=True))
    ids = {f"{name}_token_id": number for name, number in ids.items()}
    config = transformers.ModernBertConfig(vocab_size=1000, num_hidden_layers=layers, **ids)
    transformers.ModernBertModel(config).save_pretrained(folder)


def run(library, folder, length, mode):
    """One measurement, in a process of its own with one thread."""
    variables = {"KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", __spec__.name, "--one", library, folder, str(length), mode]
    process = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    if process.returncode:
        sys.exit(f"{library} failed:\n{process.stderr[-2000:]}")
    return json.loads(process.stdout.splitlines()[-1])


def measured(library, folder, length, mode):
    """{"cpu_seconds", "peak_mb"} of the second pass; the first one is short and warms up."""
    import torch

    torch.set_num_threads(1)
    features = globals()[f"features_of_{library}"](folder)

    def step(length):
        token_ids = torch.arange(length)[None] % 990 + 5
        with torch.set_grad_enabled(mode == "train"):
            loss = features(token_ids).square().mean()
        if mode == "train":
            loss.backward()

    step(256)
    before, began = status_mb("VmRSS"), time.process_time()
    step(length)
    seconds = time.process_time() - began
    return {"cpu_seconds": round(seconds, 2), "peak_mb": round(status_mb("VmHWM") - before)}


def features_of_keras_posenc(folder):
    from keras_posenc import build_transformer_model

    model = build_transformer_model(folder)
    training = {"training": True}  # no layer of it drops anything
    return lambda token_ids: model(token_ids, **training)


def features_of_transformers(folder):
    import transformers

    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa")
    return lambda token_ids: model(token_ids).last_hidden_state


def status_mb(field):
    """A size that Linux tells of this process: "VmHWM", the peak of "VmRSS", what it holds now."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024


def page(report):
    text = [
        "# ModernBERT here and in transformers",
        "",
        "Made by `python -m benchmarks.steps.modernbert`: "
        "widths of ModernBERT-base, few layers, one",
        "text, one thread, torch; medians of processor seconds, and of MB over the loaded model.",
        "",
        "| case | here | transformers | ratio | MB here | MB transformers |",
        "|---|---|---|---|---|---|",
    ]
    for case, lines in report.items():
        ours, reference = (median(lines[library], "cpu_seconds") for library in LIBRARIES)
        peaks = " | ".join(f"{median(lines[library], 'peak_mb'):.0f}" for library in LIBRARIES)
        text.append(f"| {case} | {ours:.2f} | {reference:.2f} | {ours / reference:.2f} | {peaks} |")
    return "\n".join([*text, ""])


def median(lines, key):
    return statistics.median(line[key] for line in lines)


if __name__ == "__main__":
    main()
