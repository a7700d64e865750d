"""Few texts with labels: what trains best on 48 of them, on three sets, with MiniLM?

    KERAS_BACKEND=torch python -m benchmarks.long_texts.few_texts

Compares naive Bayes on token counts, a linear head on vectors of whole texts (freeze="encoder"),
fine-tuning by its defaults and with more steps, and the recipe of SetFit: pairs of texts with the
same label or not train the encoder, then the head is fitted. The texts are drawn by label.
"""

import argparse
import json
import pathlib

import numpy as np

from benchmarks.shared.data import CORPORA, MINILM
from keras_posenc.text import Texts, read_texts
from keras_posenc.training import Embed, finetune

SETS = {
    "book excerpts": ("book-excerpts.tab", None),
    "Reuters": ("reuters-r8-train.tab", 4),
    "newsgroups": ("20newsgroups-train.tab", 6),
}
WAYS = ("linear head", "fine-tuning, 3 epochs", "fine-tuning, 10 epochs", "pairs, then linear head")
OUTPUT = pathlib.Path("benchmarks/results/few_texts.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=48)
    parser.add_argument("--test", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--work", type=pathlib.Path, default="build/few-texts")
    arguments = parser.parse_args()
    results = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    done = {(row["set"], row["way"], row["seed"]) for row in results}
    for seed in range(arguments.seeds):
        for name in arguments.sets:
            train, test = drawn(name, arguments.train, arguments.test, seed)
            for way in arguments.ways:
                if (name, way, seed) in done:
                    continue
                folder = arguments.work / f"{name}-{way}-{seed}".replace(" ", "_").replace(",", "")
                results.append(
                    {"set": name, "seed": seed, **measured(way, train, test, folder, seed)}
                )
                OUTPUT.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


def drawn(name, for_training, for_test, seed):
    """Texts of each label alike to train and to test on."""
    file, most = SETS[name]
    texts = read_texts(f"{CORPORA}/{file}")
    labels = np.array(texts.labels)
    names, counts = np.unique(labels, return_counts=True)
    names = names[np.argsort(-counts, kind="stable")[:most]]
    rng, parts = np.random.default_rng(seed), ([], [])
    for label in names:
        rows = rng.permutation(np.flatnonzero(labels == label))
        first = for_training // len(names)
        parts[0].extend(rows[:first])
        parts[1].extend(rows[first : first + for_test // len(names)])
    return [
        Texts([texts.texts[n] for n in rows], labels[rows].tolist(), [n + 1 for n in rows])
        for rows in parts
    ]


def measured(way, train, test, folder, seed):
    """The row of a way: its accuracy, that of the baselines, and the seconds of training."""
    run = {"test": test, "seed": seed, "verbose": 2}
    checkpoint, seconds = MINILM, 0.0
    if way.startswith("pairs"):
        pairs = same_or_not(train, seed)
        before = finetune(
            MINILM,
            pairs,
            folder / "pairs",
            task=Embed(loss="cosine_regression"),
            epochs=1,
            optimizer="adamw:2e-5",
            seed=seed,
            verbose=2,
        )
        checkpoint, seconds = folder / "pairs", before["train"]["seconds"]
    if "head" in way:
        metrics = finetune(checkpoint, train, folder / "head", freeze="encoder", **run)
    else:
        epochs = int(way.split()[-2])
        metrics = finetune(checkpoint, train, folder / "all", epochs=epochs, **run)
    found = metrics["test"]
    return {
        "way": way,
        "texts": [len(train), len(test)],
        "accuracy": found["accuracy"],
        "baselines": {title: each["accuracy"] for title, each in found["baselines"].items()},
        "seconds": round(seconds + metrics["train"]["seconds"], 1),
    }


def same_or_not(train, seed, times=4):
    """Pairs of texts with 1 for the same label and 0 for others, as SetFit draws them."""
    rng, labels = np.random.default_rng(seed), np.array(train.labels)
    pairs, scores = [], []
    for number, text in enumerate(train.texts):
        for same in (True, False):
            others = np.flatnonzero((labels == labels[number]) == same)
            for other in rng.choice(others[others != number], times):
                pairs.append((text, train.texts[other]))
                scores.append(float(same))
    return pairs, scores


def table(results):
    """Mean accuracies in %, a line per way and a column per set."""
    sets = [name for name in SETS if any(row["set"] == name for row in results)]
    lines = [f"{'':28}" + "".join(f"{name:>16}" for name in sets)]
    rows = {way: [r for r in results if r["way"] == way] for way in WAYS}
    cells = {way: [(r["set"], r["accuracy"]) for r in part] for way, part in rows.items() if part}
    for title in next(iter(results))["baselines"] if results else ():
        cells[title] = [(r["set"], r["baselines"][title]) for r in results]
    for way, found in cells.items():
        means = [[value for name, value in found if name == each] for each in sets]
        lines.append(
            f"{way:28}" + "".join(f"{np.mean(m):16.1%}" if m else f"{'':16}" for m in means)
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
