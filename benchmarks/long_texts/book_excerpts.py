"""The main job on real data: MiniLM on book excerpts, cut at 512 tokens and stretched to 1,536.

    KERAS_BACKEND=tensorflow python -m benchmarks.long_texts.book_excerpts
    KERAS_BACKEND=tensorflow python -m benchmarks.long_texts.book_excerpts --splits 3  # splits

Every one of the 140 excerpts is longer than 512 tokens. Both models train for the same epochs; the
long one spends the last of them at 1,536 tokens, under hierarchical positions. Runs, report and
results go to build/book-excerpts; a run that was interrupted goes on where it stood.
"""

import argparse
import json
import pathlib

import numpy as np

from benchmarks.shared.data import CORPORA, MINILM
from keras_posenc.analysis.report import write_report
from keras_posenc.text import Texts, read_texts
from keras_posenc.training import finetune

RECIPES = {
    "512 tokens": {"lengths": [(512, 3)]},
    "1,536 tokens": {"lengths": [(512, 2), (1536, 1)]},
}
COMMON = {"optimizer": "adamw:2e-4", "token_budget": 4096}
TEST_SHARE = 0.3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=1, help="train and test on so many splits")
    parser.add_argument("--output", type=pathlib.Path, default="build/book-excerpts")
    arguments = parser.parse_args()
    texts = read_texts(f"{CORPORA}/book-excerpts.tab")
    results = []
    for seed in range(arguments.splits):
        train, test = split(texts, seed)
        directories = {}
        for name, recipe in RECIPES.items():
            print(f"\nSplit {seed}, {name}: {len(train)} texts to train on, {len(test)} to test on")
            directory = arguments.output / f"split-{seed}-{recipe['lengths'][-1][0]}"
            metrics = finetune(
                MINILM, train, directory, test=test, seed=seed, verbose=2, **recipe, **COMMON
            )
            directories[name] = directory
            results.append(
                {
                    "split": seed,
                    "model": name,
                    "accuracy": metrics["test"]["accuracy"],
                    "seconds": round(metrics["train"]["seconds"]),
                }
            )
        report = write_report(directories, arguments.output / f"report-{seed}.html")
    (arguments.output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print_table(results)
    print(f"\nThe report of the last split, with pictures: {report}")


def split(texts, seed):
    """Train and test texts, with the same share of each label."""
    rng, labels = np.random.default_rng(seed), np.array(texts.labels)
    chosen = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        of_label = rng.permutation(np.flatnonzero(labels == label))
        chosen[of_label[: round(TEST_SHARE * len(of_label))]] = True

    def part(rows):
        columns = (texts.texts, texts.labels, texts.lines)
        return Texts(*([column[i] for i in rows] for column in columns))

    return part(np.flatnonzero(~chosen)), part(np.flatnonzero(chosen))


def print_table(results):
    print("\nmodel          test accuracy by split    mean   training seconds")
    for name in RECIPES:
        rows = [row for row in results if row["model"] == name]
        accuracies = [row["accuracy"] for row in rows]
        each = "  ".join(f"{accuracy:5.1%}" for accuracy in accuracies)
        seconds = np.mean([row["seconds"] for row in rows])
        print(f"{name:<14} {each:<24} {np.mean(accuracies):5.1%} {seconds:10.0f}")


if __name__ == "__main__":
    main()
