"""Processor time and memory of a fine-tuning from start to end, beside transformers' Trainer.

    pip install accelerate                          # of the Trainer
    python -m benchmarks.jobs.fine_tuning --posts 160 --turns 1
    python -m benchmarks.jobs.fine_tuning --page         # the page again, nothing measured

MiniLM learns the groups of posts of 20 Newsgroups, cut at 512 tokens, in one epoch with dropout 0.1
everywhere. Both sides sort by length, clip gradients, decay the learning rate and write the model
and the state of the optimizer. The sides run in turns, each in a process of its own with one
thread: all of it counts, imports and compiling included. `finetune` runs as from the command line,
so JAX keeps its programs: in each turn one process compiles, and the next finds them. Ratios are
medians of the turns: above 1 is slower than the Trainer. Results go to
benchmarks/results/fine_tuning.json and .md.
"""

import functools
import json
import os
import pathlib
import tempfile
import time

from benchmarks.jobs import sides
from keras_posenc.training import Optimizer

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "fine_tuning.json"
BASE = "transformers"
SIDES = [BASE, *sides.BACKENDS, "jax, second process"]
GROUPS = "comp.graphics", "rec.autos", "sci.med", "talk.politics.guns"
ROWS, TOKENS = 9, 4608  # of a batch: documents of the Trainer, tokens of this library
LENGTH, RATE, DROPOUT = 512, 1e-4, 0.1


def main():
    parser = sides.parser(__doc__, RESULTS, SIDES, turns=2)
    parser.add_argument("--posts", type=int, nargs="+", default=[160])
    sides.main(parser, lambda side: functools.partial(measured, side), run, page)


def run(arguments):
    results = arguments.results
    report = sides.known(results)
    for count in arguments.posts:
        found = {side: [] for side in arguments.sides}
        for _ in range(arguments.turns):
            with tempfile.TemporaryDirectory() as cache:
                os.environ["XDG_CACHE_HOME"] = cache  # no program of an earlier run
                for side in arguments.sides:
                    process = sides.started(__spec__.name, side)
                    found[side].append(sides.ask(process, {"count": count}))
                    process.communicate()
            report[f"{count} posts"] = sides.compared(found, BASE)
            results.write_text(json.dumps(report, indent=1) + "\n")


def measured(side, count):
    from benchmarks.steps import step

    texts, labels = posts(count)
    with tempfile.TemporaryDirectory() as folder:
        train = peer if side == BASE else ours
        line = train(texts, labels, folder)
    return {"seconds": time.process_time(), **line, "peak_mb": round(step.peak_mb())}


def posts(count):
    """Texts of the groups, as many of each, and the names of their groups."""
    from benchmarks.shared.data import CORPORA

    found = {group: [] for group in GROUPS}
    with open(f"{CORPORA}/20newsgroups-train.tab", encoding="utf-8") as file:
        for line in file:
            group, _, text = line.rstrip("\n").partition("\t")
            if group in found and len(found[group]) < count // len(GROUPS):
                found[group].append(text)
    return (
        [text for texts in found.values() for text in texts],
        [group for group, texts in found.items() for _ in texts],
    )


def ours(texts, labels, folder):
    from benchmarks.shared.data import MINILM
    from keras_posenc import backend
    from keras_posenc.training import finetune

    backend.cache_programs()  # as the commands do
    programs = sides.CompiledPrograms()
    metrics = finetune(
        MINILM,
        (texts, labels),
        folder,
        max_length=LENGTH,
        epochs=1,
        optimizer=Optimizer(learning_rate=RATE),
        token_budget=TOKENS,
        dropout_rate=DROPOUT,
        attention_dropout_rate=DROPOUT,
        verbose=0,
    )["train"]
    return {
        "updates": metrics["steps"],
        "padded_tokens": 1 / (1 - metrics["padding_share"]),
        **programs.counts(),
    }


def peer(texts, labels, folder):
    import transformers

    from benchmarks.shared.data import MINILM

    names = sorted(set(labels))
    tokenizer = transformers.AutoTokenizer.from_pretrained(MINILM)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        MINILM,
        num_labels=len(names),
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
    )
    encoded = tokenizer(texts, truncation=True, max_length=LENGTH)
    rows = [
        {"input_ids": ids, "attention_mask": mask, "labels": names.index(label)}
        for ids, mask, label in zip(
            encoded["input_ids"], encoded["attention_mask"], labels, strict=True
        )
    ]
    options = transformers.TrainingArguments(
        folder,
        num_train_epochs=1,
        per_device_train_batch_size=ROWS,
        train_sampling_strategy="group_by_length",
        learning_rate=RATE,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,
        weight_decay=0.01,
        max_grad_norm=1.0,
        save_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    collator = Counting(transformers.DataCollatorWithPadding(tokenizer))
    trainer = transformers.Trainer(
        model=model, args=options, train_dataset=rows, data_collator=collator
    )
    steps = trainer.train().global_step
    trainer.save_model(folder)
    padded = collator.computed / collator.real
    return {"updates": steps, "padded_tokens": padded}


class Counting:
    """A collator that counts the tokens of its batches, with padding and without."""

    def __init__(self, collator):
        self.collator, self.computed, self.real = collator, 0, 0

    def __call__(self, rows):
        batch = self.collator(rows)
        self.computed += batch["input_ids"].numel()
        self.real += int(batch["attention_mask"].sum())
        return batch


def page(report):
    columns = "time", "seconds", "updates", "padded tokens", "programs", "peak memory"
    text = [
        "# Fine-tuning beside transformers' Trainer",
        "",
        "Made by `python -m benchmarks.jobs.fine_tuning`: "
        "MiniLM in float32, one thread, one epoch cut",
        f"at {LENGTH} tokens. The time is processor time of the whole process, imports and",
        "compiling included, relative to the Trainer in the same turn, with the lowest and the",
        "highest turn in parentheses. Below 1 is faster. Programs are those that JAX compiled, and",
        "those that it found on disk.",
        "",
        f"| | posts | {' | '.join(columns)} |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for name, rows in report.items():
        for side, row in rows.items():
            cells = [sides.ratio_cell(row), f"{row['seconds']:.0f}", f"{row['updates']:.0f}"]
            cells.append(f"{row['padded_tokens']:.2f}x")
            cells.append(f"{row['compiled']:.0f}, {row['found']:.0f}" if "found" in row else "–")
            cells.append(f"{row['peak_mb'] / 1000:.1f} GB")
            text.append(f"| {side} | {name.split()[0]} | {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    main()
