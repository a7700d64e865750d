"""Greedy decoding beside transformers' `generate`: a GPT-2 of random weights.

    python benchmarks/generate.py

Tokens a second, by the length of the prompts and the size of the batch: processor time on one
thread, so that what else runs on the machine counts little, the reading of the prompt included;
medians of runs in processes by turns. Without a cache each new token is a pass over the whole
text. Compiled programs are timed from their second run on. Results go to
benchmarks/results/generate.json, and generate.md has the table.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

RESULTS = pathlib.Path(__file__).parent / "results" / "generate.json"
SIZES = {"layers": 6, "width": 384, "heads": 6, "vocabulary": 50257, "positions": 512}
SHAPES = [(1, 32), (1, 256), (8, 32), (8, 256)]  # batch, length of the prompts
# Row -> backend of ours, or None for transformers; whether it has a cache.
ROWS = {
    "posenc-torch": ("torch", True),
    "posenc-jax": ("jax", True),
    "posenc-tf": ("tensorflow", True),
    "transformers": (None, True),
    "posenc-torch, no cache": ("torch", False),
    "transformers, no cache": (None, False),
}
NEW, NEW_WITHOUT = 32, 4  # tokens to write with a cache and without


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", choices=ROWS, help="measure this one alone, here")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.row:
        print(json.dumps(measured(arguments.row)))
        return
    report = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    found = {}
    for _ in range(arguments.turns):
        for row in arguments.rows:
            for line in in_process(row):
                print(row, line, flush=True)
                shape = f"{line['batch']} x {line['prompt']}"
                lines = found.setdefault((row, shape), [])
                lines.append(line)
                report.setdefault(row, {})[shape] = {
                    name: round(statistics.median(line[name] for line in lines), 1)
                    for name in ("tokens_a_second", "peak_mb", "first_seconds")
                }
            arguments.results.write_text(json.dumps(report, indent=1) + "\n")
            arguments.results.with_suffix(".md").write_text(page(report))


def in_process(row):
    """What a process of its own measures: a line for each shape."""
    backend, _ = ROWS[row]
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "XLA_FLAGS": flags}
    variables |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    variables |= {"KERAS_BACKEND": backend or "torch", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, __file__, "--row", row], env=variables, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout.decode().splitlines()[-1])


def measured(row):
    import numpy as np
    import step

    backend, cached = ROWS[row]
    generate = (ours if backend else transformers_step)(cached)
    rng, lines = np.random.default_rng(0), []
    for batch, length in SHAPES:
        prompts = rng.integers(1, SIZES["vocabulary"], (batch, length))
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        began = time.process_time()
        written = generate(prompts)
        first = time.process_time() - began
        new = NEW if cached else NEW_WITHOUT
        if written.shape != (batch, new):
            raise ValueError(f"{row}: wrote {written.shape}, not {(batch, new)}.")
        seconds = []
        for _ in range(3 if cached else 1):
            began = time.process_time()
            generate(prompts)
            seconds.append(time.process_time() - began)
        line = {"batch": batch, "prompt": length, "first_seconds": first}
        line["tokens_a_second"] = batch * new / statistics.median(seconds)
        lines.append(line | {"peak_mb": step.peak_mb()})
    return lines


def ours(cached):
    import keras
    import numpy as np

    from keras_posenc import Generator, build_transformer_model

    model = build_transformer_model(
        model="gpt2",
        vocab_size=SIZES["vocabulary"],
        hidden_size=SIZES["width"],
        num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"],
        max_position=SIZES["positions"],
        with_mlm="linear",
    )
    if cached:
        generator = Generator(model, max_length=NEW)
        return lambda prompts: generator.predict(prompts, verbose=0)

    def generate(prompts):
        texts = prompts
        for _ in range(NEW_WITHOUT):
            logits = keras.ops.convert_to_numpy(model.predict_on_batch({"token_ids": texts})[:, -1])
            texts = np.concatenate([texts, logits.argmax(-1)[:, None]], axis=1)
        return texts[:, prompts.shape[1] :]

    return generate


def transformers_step(cached):
    import torch
    import transformers

    config = transformers.GPT2Config(
        vocab_size=SIZES["vocabulary"],
        n_embd=SIZES["width"],
        n_layer=SIZES["layers"],
        n_head=SIZES["heads"],
        n_positions=SIZES["positions"],
        eos_token_id=None,
        bos_token_id=None,
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    new = NEW if cached else NEW_WITHOUT

    def generate(prompts):
        ids = torch.tensor(prompts)
        with torch.no_grad():
            texts = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=new,
                use_cache=cached,
                pad_token_id=0,
            )
        return texts[:, prompts.shape[1] :].numpy()

    return generate


def page(report):
    sizes = f"{SIZES['layers']} layers of {SIZES['width']} features, {SIZES['vocabulary']:,} tokens"
    shapes = [f"{batch} x {prompt}" for batch, prompt in SHAPES]
    text = [
        "# Decoding beside transformers",
        "",
        f"Made by `python benchmarks/generate.py` on one thread: a GPT-2 of {sizes},",
        f"with random weights in float32. Decoding is greedy, {NEW} new tokens ({NEW_WITHOUT}",
        "without a cache). A cell has the new tokens per second of processor time, the reading of",
        "the prompt included, relative to transformers with a cache in parentheses, and the peak",
        "memory. Columns are prompts x their tokens.",
        "",
        "| | " + " | ".join(shapes) + " |",
        "|---" * (len(shapes) + 1) + "|",
    ]
    text += [
        f"| {row} | " + " | ".join(cell(report, row, shape) for shape in shapes) + " |"
        for row in ROWS
        if row in report
    ]
    return "\n".join(text) + "\n"


def cell(report, row, shape):
    line = report[row].get(shape)
    if line is None:
        return "–"
    peer = report.get("transformers", {}).get(shape)
    ratio = f" ({line['tokens_a_second'] / peer['tokens_a_second']:.2f}x)" if peer else ""
    return f"{line['tokens_a_second']:.1f}{ratio}, {line['peak_mb'] / 1000:.1f} GB"


if __name__ == "__main__":
    main()
