"""Few texts with labels: what trains best on 48 of them, on three sets, with MiniLM?

    KERAS_BACKEND=torch python -m benchmarks.long_texts.few_texts
    KERAS_BACKEND=torch python -m benchmarks.long_texts.few_texts --table  # the results as a table

Compares naive Bayes and a linear model on counts of words, a linear head on vectors of whole texts
(freeze="encoder"), fine-tuning of all weights, and the recipe of SetFit: pairs of texts with the
same label or not train the encoder on 128 tokens, then the head is fitted. The linear model on
words is scikit-learn's, by tf-idf. The texts are drawn by label. Results go to
benchmarks/results/few_texts.json.
"""

import argparse
import json
import pathlib

import numpy as np

from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.kept import markdown
from keras_posenc.text import Texts, read_texts
from keras_posenc.training import Embed, finetune

SETS = {
    "book excerpts": ("book-excerpts.tab", None),
    "Reuters": ("reuters-r8-train.tab", 4),
    "newsgroups": ("20newsgroups-train.tab", 6),
}
WORDS, HEAD, PAIRS = (
    "tf-idf, linear model",
    "frozen encoder, linear head",
    "pairs, then linear head",
)
# Arguments of `finetune`.
SHORT = {"freeze": "encoder", "max_length": 512}
HEADS = {
    HEAD: {"freeze": "encoder"},
    "the same, first 512 tokens": SHORT,
    "the same, 512 tokens of both ends": {**SHORT, "longer": "ends"},
}
TUNED = {"fine-tuning, 3 epochs": {"epochs": 3}, "fine-tuning, defaults": {}}
WAYS = (WORDS, *HEADS, *TUNED, PAIRS)
OUTPUT = pathlib.Path("benchmarks/results/few_texts.json")
PAIR_LENGTH = 128  # tokens that the recipe of pairs reads


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=48)
    parser.add_argument("--test", type=int, default=60)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--work", type=pathlib.Path, default="build/few-texts")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    results = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    done = {(row["set"], row["way"], row["seed"]) for row in results}
    for seed in [] if arguments.table else arguments.seeds:
        for name in arguments.sets:
            train, test = drawn(name, arguments.train, arguments.test, seed)
            for way in arguments.ways:
                if (name, way, seed) in done:
                    continue
                folder = arguments.work / f"{name}-{way}-{seed}".replace(" ", "_").replace(",", "")
                row = {"set": name, "seed": seed, **measured(way, train, test, folder, seed)}
                print(row, flush=True)
                results.append(row)
                lines = ",\n".join(json.dumps(each) for each in results)
                OUTPUT.write_text(f"[\n{lines}\n]\n")
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
    facts = {"way": way, "texts": [len(train), len(test)]}
    if way == WORDS:
        return facts | {"accuracy": by_words(train, test)}
    run = {"test": test, "seed": seed, "verbose": 2}
    checkpoint, seconds = MINILM, 0.0
    if way == PAIRS:
        pairs = finetune(
            MINILM,
            same_or_not(train, seed),
            folder / "pairs",
            task=Embed(loss="cosine_regression"),
            epochs=1,
            max_length=PAIR_LENGTH,
            token_budget=2048,
            optimizer="adamw:2e-5",
            seed=seed,
            verbose=2,
        )
        checkpoint, seconds = folder / "pairs", pairs["train"]["seconds"]
    given = (HEADS | TUNED).get(way, HEADS[HEAD])
    metrics = finetune(checkpoint, train, folder / "out", **given, **run)
    found = metrics["test"]
    return facts | {
        "accuracy": found["accuracy"],
        "baselines": {title: each["accuracy"] for title, each in found["baselines"].items()},
        "steps": metrics["train"]["steps"],
        "seconds": round(seconds + metrics["train"]["seconds"], 1),
    }


def by_words(train, test):
    """Accuracy of scikit-learn's logistic regression on tf-idf."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(
        TfidfVectorizer(sublinear_tf=True),
        LogisticRegressionCV(cv=3, max_iter=1000, scoring="accuracy"),
    )
    model.fit(train.texts, train.labels)
    return float(model.score(test.texts, test.labels))


def same_or_not(train, seed, times=2):
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
    """Accuracies in % over the seeds, and the seconds of training of the first one."""
    found = {}
    for row in results:
        for way, accuracy in ((row["way"], row["accuracy"]), *row.get("baselines", {}).items()):
            seconds = row.get("seconds") if way == row["way"] else None
            of_set = found.setdefault(way, {}).setdefault(row["set"], {})
            of_set[row["seed"]] = (accuracy, seconds)
    order = [way for way in found if way not in WAYS]
    lines = [[f"accuracy in % (seconds), {results[0]['texts'][0]} texts to train on", *SETS]]
    for way in [*order, *(way for way in WAYS if way in found)]:
        lines.append([way, *(_cell(found[way].get(name, {})) for name in SETS)])
    return markdown(lines)


def _cell(of_seeds):
    if not of_seeds:
        return ""
    accuracies = ", ".join(f"{100 * of_seeds[seed][0]:.0f}" for seed in sorted(of_seeds))
    seconds = of_seeds[min(of_seeds)][1]
    return accuracies + (f" ({seconds:.0f})" if seconds else "")


if __name__ == "__main__":
    main()
