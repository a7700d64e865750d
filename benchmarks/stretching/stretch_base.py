"""What a step of stretching costs a model of BERT-base's shape: a time, not an accuracy.

    KERAS_BACKEND=torch OMP_NUM_THREADS=1 python -m benchmarks.stretching.stretch_base
    KERAS_BACKEND=torch python -m benchmarks.stretching.stretch_base --table  # the results

Random weights in the sizes of BERT-base (12 layers of 768, 30,522 tokens) and MiniLM's tokenizer:
time does not depend on what the weights say. Each pattern of layers runs in a process of its own on
book excerpts, one text of 2,048 tokens a step as `keras_posenc.stretch` takes it, the teacher's
windows included. A step is not timed until one has passed. Seconds are of processor time, with one
thread; the peak of memory is all that the process holds. Measured once, results go to
benchmarks/results/stretch_base.json.
"""

import inspect
import json
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.kept import options, read_rows, versions, write_lines
from benchmarks.steps import rows
from benchmarks.steps.step import peak_mb
from keras_posenc import Tokenizer, build_transformer_model
from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.models.config_file import read_config
from keras_posenc.training import Source, stretch
from keras_posenc.training.stretching.distillation import CorpusPieces, Distillation
from keras_posenc.training.stretching.stretch_recipe import StretchRecipe

RESULTS = rows.RESULTS / "stretch_base.json"
TEXTS = f"{CORPORA}/book-excerpts.tab"
WAYS = {
    "all layers global": {},
    "every third layer global": {"local": 256, "global_every": 3},
    "every layer local": {"local": 256},
}


def main():
    parser = options(__doc__, RESULTS, None)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--model", default="bert-base", choices=rows.MODELS)
    parser.add_argument("--alone", help="a way, here and now: prints a line of JSON")
    arguments = parser.parse_args()
    if arguments.alone:
        key = json.loads(arguments.alone)
        print(json.dumps({**key, **measured(arguments.steps, key)}))
        return
    found = read_rows(arguments.results)
    for way in () if arguments.table else arguments.ways:
        key = {"model": arguments.model, "length": arguments.length, "way": way}
        if any(key.items() <= row.items() for row in found):
            continue
        command = [sys.executable, "-m", __spec__.name, "--alone", json.dumps(key)]
        process = subprocess.run(
            [*command, "--steps", str(arguments.steps)], check=True, stdout=subprocess.PIPE
        )
        found.append(json.loads(process.stdout.splitlines()[-1]))
        write_lines(arguments.results, found)
    print(table(found))


def measured(steps, key):
    """Processor seconds of each step behind the first, and the peak of memory."""
    sizes, length = rows.MODELS[key["model"]], key["length"]
    tokenizer = Tokenizer(MINILM)
    with tempfile.TemporaryDirectory() as folder:
        model = build_transformer_model(
            {
                "vocab_size": tokenizer.vocab_size,
                "hidden_size": sizes["width"],
                "num_hidden_layers": sizes["layers"],
                "num_attention_heads": sizes["heads"],
                "intermediate_size": sizes["inner"],
                "hidden_act": "gelu",
                "max_position_embeddings": min(512, length // 2),
            }
        )
        save_checkpoint(model, folder)
        del model
        recipe = recipe_of(
            Source(folder, model="bert"), max_length=length, steps=steps, **WAYS[key["way"]]
        )
        old = read_config(folder, "bert")
        corpus = CorpusPieces(TEXTS, None, tokenizer, length)
        run = Distillation(recipe, recipe.source, old, tokenizer, corpus, {})
        times = [time.process_time()]
        for step in range(steps + 1):
            run.step(step)
            times.append(time.process_time())
    seconds = [round(after - before, 2) for before, after in zip(times, times[1:], strict=False)]
    return {"core_seconds": seconds[1:], "peak_mb": round(peak_mb()), "versions": versions()}


def recipe_of(checkpoint, **settings):
    """The `StretchRecipe` of `stretch(checkpoint, texts, **settings)`, on texts of full length."""
    defaults = {name: each.default for name, each in inspect.signature(stretch).parameters.items()}
    given = {
        **defaults,
        "train_length": settings["max_length"],
        **settings,
        "checkpoint": checkpoint,
    }
    return StretchRecipe.of(given)


def table(found):
    """Markdown: seconds of a core a step, and how many steps an hour of two cores holds at most."""
    heads = ["", "tokens", "seconds of a core per step", "steps in an hour of two cores, at most"]
    heads += ["peak memory, GB"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in found:
        seconds = statistics.fmean(row["core_seconds"])
        cells = [f"{row['model']}, {row['way']}", f"{row['length']:,}", f"{seconds:.0f}"]
        cells += [f"{2 * 3600 / seconds:.0f}", f"{row['peak_mb'] / 1000:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
